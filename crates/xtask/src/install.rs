//! `cargo xtask install-capi`: the C library, its headers, and what build systems ask for, below a
//! prefix. Linux only: elsewhere shared libraries are named otherwise.
//!
//! ```text
//! lib/libsiltstone_c.so.0.1.0   the library; libsiltstone_c.so.0 and libsiltstone_c.so are links to it
//! lib/libsiltstone_c.a          the static one
//! lib/pkgconfig, lib/cmake      for pkg-config and CMake
//! lib/siltstone/libleveldb.so*  links, so that LD_LIBRARY_PATH puts it in LevelDB's place
//! include/siltstone             leveldb/c.h and siltstone/c.h, in no way of LevelDB's own
//! ```

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const USAGE: &str = "  \
  install-capi --prefix DIR [--leveldb-names] [--profile NAME]
            build the C library and install it with its headers below DIR; with LevelDB's names
            beside, in DIR/lib/siltstone, for LD_LIBRARY_PATH";

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// As `crates/capi/build.rs` writes it into the library.
const SONAME: &str = "libsiltstone_c.so.0";
/// What programs ask the loader for: Debian's name, LevelDB's own, and the linker's.
const LEVELDB_NAMES: [&str; 3] = ["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"];

#[derive(Debug, PartialEq)]
struct Request {
    prefix: PathBuf,
    leveldb_names: bool,
    profile: String,
}

/// Installs; what cannot be done is told.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let request = parse(arguments)?;
    if !cfg!(target_os = "linux") {
        return Err("only Linux is known here; build the crate siltstone-capi and copy it".into());
    }
    let built = build(root, &request.profile)?;
    let installed = install(&root.join("crates/capi"), &built, &request);
    installed.map_err(|error| format!("{}: {error}", request.prefix.display()))?;
    println!("installed siltstone {VERSION} in {}", request.prefix.display());
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Request, String> {
    let (mut prefix, mut leveldb_names, mut profile) = (None, false, "release".to_owned());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--prefix" => prefix = Some(PathBuf::from(value()?)),
            "--profile" => profile = value()?.clone(),
            "--leveldb-names" => leveldb_names = true,
            _ => return Err(format!("{argument} is no option\n{USAGE}")),
        }
    }
    let prefix = prefix.ok_or_else(|| format!("--prefix is missing\n{USAGE}"))?;
    Ok(Request { prefix, leveldb_names, profile })
}

/// Builds the libraries, and returns their folder.
fn build(root: &Path, profile: &str) -> Result<PathBuf, String> {
    let status = Command::new("cargo")
        .args(["build", "--locked", "--package", "siltstone-capi", "--profile", profile])
        .current_dir(root)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err("the library could not be built".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(root.join(target).join(folder))
}

fn install(capi: &Path, built: &Path, request: &Request) -> io::Result<()> {
    let lib = request.prefix.join("lib");
    let file = format!("libsiltstone_c.so.{VERSION}");
    copy(&built.join("libsiltstone_c.so"), &lib.join(&file))?;
    link(&file, &lib.join(SONAME))?;
    link(SONAME, &lib.join("libsiltstone_c.so"))?;
    copy(&built.join("libsiltstone_c.a"), &lib.join("libsiltstone_c.a"))?;
    for header in ["leveldb/c.h", "siltstone/c.h"] {
        let to = request.prefix.join("include/siltstone").join(header);
        copy(&capi.join("include").join(header), &to)?;
    }
    let templates = [
        ("siltstone.pc", "pkgconfig"),
        ("siltstone-config.cmake", "cmake/siltstone"),
        ("siltstone-config-version.cmake", "cmake/siltstone"),
    ];
    for (name, folder) in templates {
        let text = std::fs::read_to_string(capi.join(format!("package/{name}.in")))?;
        let text = text.replace("@VERSION@", VERSION).replace("@SONAME@", SONAME);
        std::fs::write(free(&lib.join(folder).join(name))?, text)?;
    }
    if request.leveldb_names {
        for name in LEVELDB_NAMES {
            link(&format!("../{SONAME}"), &lib.join("siltstone").join(name))?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::copy(from, free(to)?).map(drop)
}

fn link(to: &str, from: &Path) -> io::Result<()> {
    symlink(to, free(from)?)
}

/// Makes the folder of `path`, and removes what has its name: to write into a library would harm the
/// programs that have it loaded.
fn free(path: &Path) -> io::Result<&Path> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Request, String> {
        parse(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_prefix_is_asked_for() {
        let request = parsed(&["--leveldb-names", "--prefix", "/opt/s"]).unwrap();
        assert_eq!((request.prefix.as_path(), request.leveldb_names), (Path::new("/opt/s"), true));
        assert_eq!(request.profile, "release");
        for wrong in [&[][..], &["--prefix"], &["--prefix", "/opt/s", "--names"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
