//! What the tests need of the world: the library, a C compiler, a folder, programs that run.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Where the tests' programs and data lie.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/capi").join(name)
}

/// Our headers.
pub(crate) fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// Cargo's target folder, in which this test was built.
pub(crate) fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}

/// Cargo, building into the same folder.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap());
    cargo.env("CARGO_TARGET_DIR", target()).current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo
}

/// The folder with the libraries. Cargo builds them for no test by itself, as none is a Rust library.
pub(crate) fn libraries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        run(cargo().args(["build", "--locked", "--package", "siltstone-capi"]));
        target().join("debug")
    })
}

/// A folder for one test, gone at its end unless it fails.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(test: &str) -> Self {
        let name = format!("capi-{test}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A new folder in it.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// A folder with the shared library under these names, for the loader.
    pub(crate) fn libraries_as(&self, names: &[&str]) -> PathBuf {
        let folder = self.folder("lib");
        for name in names {
            symlink(libraries().join("libsiltstone_c.so"), folder.join(name)).unwrap();
        }
        folder
    }

    /// Compiles `programs/NAME.c`; `flags` come behind it.
    pub(crate) fn compile<I: IntoIterator<Item: AsRef<OsStr>>>(
        &self,
        name: &str,
        flags: I,
    ) -> PathBuf {
        let program = self.path(name);
        run(cc().arg(source(&format!("programs/{name}.c"))).arg("-o").arg(&program).args(flags));
        program
    }

    /// A command that runs `program` on a folder of its own.
    pub(crate) fn command(&self, program: &Path) -> Command {
        self.command_under(None, program)
    }

    /// The same, run by another program, if so.
    pub(crate) fn command_under(&self, runner: Option<&str>, program: &Path) -> Command {
        let data = self.folder("data");
        let mut command = Command::new(runner.map_or(program, Path::new));
        command.args(runner.map(|_| program));
        command.env("TEST_TMPDIR", &data).arg(data);
        command
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }
}

/// The C compiler, strict.
pub(crate) fn cc() -> Command {
    let mut cc = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]);
    cc
}

/// Flags that link with the shared library as it was built.
pub(crate) fn linked() -> Vec<String> {
    let (include, lib) = (include(), libraries());
    vec![
        format!("-I{}", include.display()),
        format!("-L{}", lib.display()),
        "-lsiltstone_c".to_owned(),
    ]
}

/// Runs a command that must end well.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    output
}

/// True if there is such a program.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
