//! `cargo xtask install-capi`, and projects that use what it has installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::{Scratch, cargo, has, run, source, text};

/// Libraries that the static one needs, as its pkg-config file has them.
const NATIVE: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

fn installed(scratch: &Scratch) -> PathBuf {
    let prefix = scratch.path("prefix");
    let mut xtask = cargo();
    xtask.args(["run", "--quiet", "--locked", "--package", "xtask", "--", "install-capi"]);
    run(xtask.arg("--prefix").arg(&prefix).args(["--leveldb-names", "--profile", "dev"]));
    prefix
}

/// Runs the phases; `lib` is where the loader looks.
#[track_caller]
fn passes(scratch: &Scratch, program: &Path, lib: Option<&Path>) {
    let mut command = scratch.command(program);
    let output = run(command.envs(lib.map(|lib| ("LD_LIBRARY_PATH", lib))));
    assert!(text(&output.stdout).ends_with("passed\n"), "{output:?}");
    fs::remove_dir_all(scratch.path("data")).unwrap();
}

#[track_caller]
fn needed(program: &Path) -> String {
    text(&run(Command::new("readelf").arg("-d").arg(program)).stdout)
}

#[test]
fn what_is_installed_serves() {
    let scratch = Scratch::new("install");
    let prefix = installed(&scratch);
    let lib = prefix.join("lib");
    for name in ["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"] {
        assert!(lib.join("siltstone").join(name).exists(), "{name}");
    }
    assert!(needed(&lib.join("libsiltstone_c.so")).contains("soname: [libsiltstone_c.so.0]"));
    assert!(lib.join("libsiltstone_c.so.0").exists());

    by_hand(&scratch, &prefix);
    by_pkg_config(&scratch, &lib);
    by_cmake(&scratch, &prefix);
    // A second time over the first.
    installed(&scratch);
}

/// The static library, and no other.
fn by_hand(scratch: &Scratch, prefix: &Path) {
    let include = format!("-I{}", prefix.join("include/siltstone").display());
    let archive = prefix.join("lib/libsiltstone_c.a").display().to_string();
    let flags = [&include[..], &archive].into_iter().chain(NATIVE);
    let program = scratch.compile("phases", flags);
    assert!(!needed(&program).contains("siltstone"));
    passes(scratch, &program, None);
}

fn by_pkg_config(scratch: &Scratch, lib: &Path) {
    if !has("pkg-config") {
        println!("SKIPPED (pkg-config not found)");
        return;
    }
    let asked = |what: &str| {
        let mut command = Command::new("pkg-config");
        let output =
            command.args([what, "siltstone"]).env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
        let flags = text(&run(output).stdout);
        flags.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(asked("--modversion"), [env!("CARGO_PKG_VERSION")]);
    let flags = [asked("--cflags"), asked("--libs")].concat();
    let program = scratch.compile("phases", flags);
    assert!(needed(&program).contains("Shared library: [libsiltstone_c.so.0]"));
    passes(scratch, &program, Some(lib));
}

fn by_cmake(scratch: &Scratch, prefix: &Path) {
    if !has("cmake") {
        println!("SKIPPED (cmake not found)");
        return;
    }
    let build = scratch.path("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source("consumer")).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    run(configure.arg(format!("-DPROGRAM={}", source("programs/phases.c").display())));
    run(Command::new("cmake").arg("--build").arg(&build));
    // CMake tells the loader where the library is.
    passes(scratch, &build.join("consumer"), None);
    passes(scratch, &build.join("consumer-static"), None);
}
