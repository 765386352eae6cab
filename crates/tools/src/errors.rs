//! Failures as the user meets them: what went wrong, where, what to do next, and an exit code a
//! script can branch on. Every verb returns [`Failure`]; `main` prints it and exits.

use std::io::{self, Write};
use std::path::Path;

use serde_json::json;
use siltstone::ErrorKind;

/// The exit codes, a promise to scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Ok = 0,
    /// Not found, or found to differ.
    Absent = 1,
    Usage = 2,
    Corruption = 3,
    Locked = 4,
    Io = 5,
    Incompatible = 6,
    Interrupted = 130,
}

/// What a verb returns.
pub(crate) type Outcome = Result<Exit, Failure>;

/// An error with its next steps.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// A stable word for scripts and search engines, as in `E-LOCKED`.
    tag: &'static str,
    headline: String,
    details: Vec<String>,
    /// What to do, and the command that does it.
    steps: Vec<(String, String)>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, tag: &'static str, headline: impl Into<String>) -> Failure {
        Failure { exit, tag, headline: headline.into(), details: Vec::new(), steps: Vec::new() }
    }

    /// A wrong call.
    pub(crate) fn usage(headline: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, "E-USAGE", headline)
    }

    /// A failed call to the operating system on a named file.
    pub(crate) fn file(action: &str, path: &Path, cause: &io::Error) -> Failure {
        let failure =
            Failure::new(Exit::Io, "E-IO", format!("{action} {}: {cause}", path.display()));
        match cause.kind() {
            io::ErrorKind::NotFound => Failure { exit: Exit::Usage, tag: "E-NO-FILE", ..failure },
            io::ErrorKind::BrokenPipe => Failure { tag: BROKEN_PIPE, ..failure },
            _ => failure,
        }
    }

    /// An engine error, with the next steps for the database `db`.
    pub(crate) fn engine(error: &siltstone::Error, db: Option<&Path>) -> Failure {
        let (exit, tag) = match error.kind() {
            ErrorKind::NotFound => (Exit::Absent, "E-NOT-FOUND"),
            ErrorKind::Corruption => (Exit::Corruption, "E-CORRUPT"),
            ErrorKind::Locked => (Exit::Locked, "E-LOCKED"),
            ErrorKind::Incompatible => (Exit::Incompatible, "E-INCOMPATIBLE"),
            ErrorKind::InvalidArgument => (Exit::Usage, "E-USAGE"),
            ErrorKind::NoSpace => (Exit::Io, "E-NO-SPACE"),
            ErrorKind::ReadOnly => (Exit::Io, "E-READ-ONLY"),
            ErrorKind::Fenced => (Exit::Locked, "E-FENCED"),
            _ => (Exit::Io, "E-IO"),
        };
        let failure = Failure::new(exit, tag, error.to_string());
        let shown = db.map_or("DB".into(), |db| db.display().to_string());
        match error.kind() {
            ErrorKind::Locked => failure
                .detail(format!("{shown} is open for writing, here or in another process"))
                .step("read it anyway", format!("siltstone -r {shown}"))
                .step("copy it", format!("siltstone checkpoint {shown} {shown}-copy")),
            ErrorKind::Corruption => failure
                .detail("nothing was changed")
                .step("see what is damaged", format!("siltstone verify {shown}"))
                .step("see what can be saved", format!("siltstone repair {shown}")),
            ErrorKind::Incompatible => failure.detail(
                "the files are not damaged; this program lacks what they were written with",
            ),
            ErrorKind::NoSpace => {
                failure.step("free some space, then", format!("siltstone verify {shown}"))
            }
            ErrorKind::ReadOnly => {
                failure.detail("it was opened for reading, or an earlier write failed")
            }
            _ => failure,
        }
    }

    pub(crate) fn detail(mut self, line: impl Into<String>) -> Failure {
        self.details.push(line.into());
        self
    }

    pub(crate) fn step(mut self, what: impl Into<String>, command: impl Into<String>) -> Failure {
        self.steps.push((what.into(), command.into()));
        self
    }

    /// The reader of our output went away (`siltstone scan db | head`): nothing to complain about.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.tag == BROKEN_PIPE
    }

    /// Writes the failure to stderr, as JSON if the user asked for JSON.
    pub(crate) fn print(&self, as_json: bool) {
        let code = self.exit as u8;
        let text = if as_json {
            let steps: Vec<_> =
                self.steps.iter().map(|(what, run)| json!({"what": what, "run": run})).collect();
            let body = json!({
                "error": {
                    "tag": self.tag,
                    "exit": code,
                    "message": self.headline,
                    "details": self.details,
                    "next": steps,
                }
            });
            format!("{body}\n")
        } else {
            self.text(code)
        };
        // Nobody is left to tell if stderr is gone as well.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn text(&self, code: u8) -> String {
        let mut text = format!("error: {}  [{}, exit {code}]\n", self.headline, self.tag);
        for line in &self.details {
            text.push_str(&format!("  {line}\n"));
        }
        let width = self.steps.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
        for (what, command) in &self.steps {
            text.push_str(&format!("  {what}:{:pad$}  {command}\n", "", pad = width - what.len()));
        }
        text
    }
}

const BROKEN_PIPE: &str = "E-PIPE";

/// An engine error that names its file knows its database too: the folder the file is in.
impl From<siltstone::Error> for Failure {
    fn from(error: siltstone::Error) -> Failure {
        let folder = error.file().and_then(Path::parent).map(Path::to_owned);
        Failure::engine(&error, folder.as_deref())
    }
}

/// Writing our own output failed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::file("write", Path::new("the output"), &error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        io::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_its_code_and_lines_up_its_steps() {
        let failure = Failure::new(Exit::Locked, "E-LOCKED", "database is locked")
            .detail("./orders is open in another process")
            .step("read it anyway", "siltstone -r ./orders")
            .step("copy it", "siltstone checkpoint ./orders ./copy");
        assert_eq!(
            failure.text(4),
            "error: database is locked  [E-LOCKED, exit 4]\n  \
             ./orders is open in another process\n  \
             read it anyway:  siltstone -r ./orders\n  \
             copy it:         siltstone checkpoint ./orders ./copy\n"
        );
    }

    #[test]
    fn engine_errors_keep_their_exit_codes() {
        for (kind, exit) in [
            (ErrorKind::Corruption, Exit::Corruption),
            (ErrorKind::Locked, Exit::Locked),
            (ErrorKind::Io, Exit::Io),
            (ErrorKind::NoSpace, Exit::Io),
            (ErrorKind::Incompatible, Exit::Incompatible),
            (ErrorKind::InvalidArgument, Exit::Usage),
        ] {
            assert_eq!(Failure::from(siltstone::Error::new(kind, "x")).exit, exit, "{kind:?}");
        }
    }

    #[test]
    fn damage_is_traced_to_its_database() {
        let error = siltstone::Error::corruption("x").in_file(Path::new("db/000005.ldb"));
        let failure = Failure::from(error);
        assert!(failure.text(3).contains("siltstone repair db\n"), "{}", failure.text(3));
    }

    #[test]
    fn a_closed_pipe_is_recognised() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(failure.is_broken_pipe());
    }
}
