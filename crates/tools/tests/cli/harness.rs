//! A scratch folder and the program run in it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static SCRATCHES: AtomicU32 = AtomicU32::new(0);

/// A folder of its own for each test, removed with it.
pub(crate) struct Scratch(PathBuf);

/// How a run ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        let number = SCRATCHES.fetch_add(1, Ordering::Relaxed);
        let name = format!("siltstone-cli-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), text).unwrap();
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone"));
        command.current_dir(&self.0).env("XDG_STATE_HOME", &self.0).env_remove("NO_COLOR");
        command
    }

    /// Runs the words of `line`, with nothing on stdin.
    pub(crate) fn run(&self, line: &str) -> Ran {
        self.feed(line, b"")
    }

    /// Runs the words of `line` with `input` on stdin.
    pub(crate) fn feed(&self, line: &str, input: &[u8]) -> Ran {
        let mut command = self.command();
        command.args(line.split_whitespace());
        finish(spawn(command), input)
    }

    /// Runs and expects success; the output as text.
    pub(crate) fn ok(&self, line: &str) -> String {
        let ran = self.run(line);
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        ran.text()
    }

    /// A database with a few keys of text, numbers and bytes.
    pub(crate) fn with_database() -> Scratch {
        let scratch = Scratch::new();
        let text =
            "{\"user/1\": \"Ravi\", \"user/2\": {\"name\": \"Mina\", \"n\": 1.50}, \"v\": 7}";
        scratch.file("small.json", text);
        scratch.ok("load db small.json");
        scratch.ok("put db --key hex --value hex 00ff fe0a");
        scratch
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn spawn(mut command: Command) -> Child {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().unwrap()
}

pub(crate) fn finish(mut child: Child, input: &[u8]) -> Ran {
    // The program may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!err.contains("panicked"), "{err}");
    Ran { code: status.code().unwrap_or(-1), out: stdout, err }
}

impl Ran {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }
}
