//! Names of databases, workers and objects. All of them are checked when they are made: no name leads out of the place
//! it is looked up in, and none can do harm in a log.

use std::fmt;
use std::sync::Arc;

use crate::job::id::Attempt;

const ID_BYTES_MAX: usize = 128;
const OBJECT_BYTES_MAX: usize = 1_024;
const SUFFIX: &str = "ldb";

/// A name that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadName {
    what: &'static str,
    wants: &'static str,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the name itself: it may be long, or made for terminals.
        write!(f, "the name of {} must be {}", self.what, self.wants)
    }
}

impl std::error::Error for BadName {}

const WANTS_ID: &str =
    "1 to 128 bytes of letters, digits, `-`, `_` and `.`, and no dot at its start";
const WANTS_PATH: &str = "1 to 1024 bytes: parts of letters, digits, `-`, `_`, `.` and `=` between slashes, none empty, none with a dot at its start";

fn is_part(part: &str, extra: &[u8]) -> bool {
    let is_fine =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) || extra.contains(&byte);
    !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_fine)
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a name.
            ///
            /// # Errors
            ///
            /// `BadName` says what it must be.
            pub fn new(name: &str) -> Result<Self, BadName> {
                if name.len() > ID_BYTES_MAX || !is_part(name, b"") {
                    return Err(BadName { what: $what, wants: WANTS_ID });
                }
                Ok($name(name.into()))
            }

            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id! {
    /// A database, as its broker and its workers call it.
    DbId, "a database"
}
id! {
    /// A worker. Two that run at once have two names.
    WorkerId, "a worker"
}

/// An object's name in the bucket, or a prefix of some: relative, and without any step out of where it begins.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(Arc<str>);

impl ObjectName {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// `BadName` says what it must be.
    pub fn new(name: &str) -> Result<Self, BadName> {
        if name.len() > OBJECT_BYTES_MAX || !name.split('/').all(|part| is_part(part, b"=")) {
            return Err(BadName { what: "an object", wants: WANTS_PATH });
        }
        Ok(ObjectName(name.into()))
    }

    /// Where the output number `ordinal` of an attempt at a job goes, below the job's place. Attempts never share
    /// a name, so none can overwrite what another one wrote.
    pub fn output(place: &ObjectName, attempt: Attempt, ordinal: usize) -> Self {
        ObjectName(format!("{place}/{attempt}/{ordinal:06}.{SUFFIX}").into())
    }

    /// Which attempt put its output number `ordinal` here; `None` if no attempt at the job of this place would have.
    pub(crate) fn attempt_of_output(&self, place: &ObjectName, ordinal: usize) -> Option<Attempt> {
        let inside = self.0.strip_prefix(&format!("{place}/"))?;
        let (attempt, _) = inside.split_once('/')?;
        let (term, count) = attempt.split_once('-')?;
        let attempt = Attempt::new(term.parse().ok()?, count.parse().ok()?);
        // Numbers can be written in several ways, names cannot.
        (*self == ObjectName::output(place, attempt, ordinal)).then_some(attempt)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let long = "a".repeat(1_025);
        for name in [
            "",
            "/",
            "/etc/passwd",
            "a/",
            "a//b",
            ".",
            "..",
            "../a",
            "a/../b",
            "a/./b",
            "a\\b",
            "a\0b",
            "a\nb",
            "%2e%2e/a",
            "a b",
            "a/\u{202e}b",
            "~/a",
            ".hidden",
            "a/.b",
            "c:a",
            "s3:a/b",
            "a?b",
            "a#b",
            &long,
        ] {
            assert!(ObjectName::new(name).is_err(), "{name:?}");
        }
        for name in ["a", "db/s/0f/epoch=3/000012.ldb", "a..b", "A-1_2.3"] {
            assert_eq!(ObjectName::new(name).unwrap().as_str(), name);
        }
        for name in ["", "a/b", ".a", "a b", "a=b", &"a".repeat(129)] {
            assert!(DbId::new(name).is_err() && WorkerId::new(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_error_does_not_repeat_what_it_refuses() {
        let error = DbId::new("\u{1b}[31m").unwrap_err();
        assert!(error.to_string().is_ascii() && !error.to_string().contains('\u{1b}'));
    }

    #[test]
    fn outputs_of_two_attempts_have_two_names() {
        let place = ObjectName::new("db/jobs/3-7").unwrap();
        let name = |count, ordinal| ObjectName::output(&place, Attempt::new(1, count), ordinal);
        assert_eq!(name(2, 3).as_str(), "db/jobs/3-7/1-2/000003.ldb");
        assert_ne!(name(2, 3), name(3, 3));
        assert_eq!(ObjectName::new(name(2, 3).as_str()).unwrap(), name(2, 3));
        assert_eq!(name(2, 3).attempt_of_output(&place, 3), Some(Attempt::new(1, 2)));
        assert_eq!(name(2, 3).attempt_of_output(&place, 4), None);
        let elsewhere = ObjectName::new("db/jobs/3-8").unwrap();
        assert_eq!(name(2, 3).attempt_of_output(&elsewhere, 3), None);
        let odd = ObjectName::new(&name(2, 3).as_str().replace("1-2", "1-02")).unwrap();
        assert_eq!(odd.attempt_of_output(&place, 3), None);
    }
}
