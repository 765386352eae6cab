//! What can go wrong with a database in a bucket, and what its user can do about it.

use std::fmt;

use crate::bucket::{BucketError, Failure};

/// What calls on a database in a bucket return.
pub(crate) type Outcome<T> = Result<T, Error>;

/// What to do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Another writer owns the database. Final: open it again to take it back. Whether the last commit went through is
    /// not known here; the log knows.
    Fenced,
    /// Too many wanted the same thing at once, and nothing was done. Try again later.
    Contended,
    /// Nobody knows yet whether it is done. Settle it before anything else.
    Undecided,
    /// The bucket cannot be reached, or has too much to do. Nothing was done; try again later.
    Unavailable,
    /// What was asked for has been collected, or never was. Start from the newest version.
    Gone,
    /// The name is taken. Choose another.
    Exists,
    /// An object does not hold what it must. Restore it, or open a checkpoint.
    Damaged,
    /// The bucket does not let us. Mend the credentials.
    Denied,
    /// The call makes no sense. Mend the caller.
    Misuse,
}

/// What went wrong, on which object.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    name: String,
    message: String,
    source: Option<BucketError>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, name: &str, message: impl Into<String>) -> Self {
        Error { kind, name: name.to_owned(), message: message.into(), source: None }
    }

    pub(crate) fn damaged(name: &str, message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Damaged, name, message)
    }

    /// The same failure, known to be of another kind.
    pub(crate) fn of_kind(self, kind: ErrorKind) -> Self {
        Error { kind, ..self }
    }

    /// True if the object itself is not as it should be; false if it did not get here whole, or not at all.
    pub(crate) fn is_of_object(&self) -> bool {
        self.kind == ErrorKind::Damaged && self.source.is_none()
    }

    /// True if to try again later may help.
    pub(crate) fn may_pass(&self) -> bool {
        match self.kind {
            ErrorKind::Undecided
            | ErrorKind::Unavailable
            | ErrorKind::Contended
            | ErrorKind::Denied => true,
            ErrorKind::Damaged => !self.is_of_object(),
            _ => false,
        }
    }

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What happened, without the object's name.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The object it is about.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl From<BucketError> for Error {
    fn from(source: BucketError) -> Self {
        let kind = match source.failure {
            Failure::Missing => ErrorKind::Gone,
            Failure::Refused => ErrorKind::Contended,
            Failure::Unsure => ErrorKind::Undecided,
            Failure::Unavailable => ErrorKind::Unavailable,
            Failure::Denied => ErrorKind::Denied,
            Failure::Damaged => ErrorKind::Damaged,
            Failure::Wrong => ErrorKind::Misuse,
        };
        let (name, message) = (source.name.clone(), source.message.clone());
        Error { kind, name, message, source: Some(source) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
