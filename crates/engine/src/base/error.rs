//! The one public error: what went wrong, where, and what the caller can do about it.
//! Every fallible function of the engine returns it.
//!
//! The texts begin as LevelDB's do (`Corruption: ..`, `IO error: ..`), because programs written
//! for LevelDB match on them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The engine's result type.
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or folder is not there: check the path. (To open a database that is not there is
    /// `InvalidArgument`, as in LevelDB.)
    NotFound,
    /// The call itself is wrong: mend the arguments or options.
    InvalidArgument,
    /// Bytes on disk are not what was written: verify, repair, or restore a copy.
    Corruption,
    /// The operating system refused: look at the cause, mend it, try again.
    Io,
    /// The disk or a quota is full: free space; writes resume by themselves.
    NoSpace,
    /// Another handle or process has the database open: close it, or open read-only.
    Locked,
    /// The database needs something this build or these options lack (a comparator, a codec).
    Incompatible,
    /// The database takes no writes: it was opened read-only, or an earlier failure (the error's
    /// source) made it so. Reopen it.
    ReadOnly,
    /// The database was closed.
    Closed,
    /// Somebody else owns the database by now, as with one whose tables lie in a bucket: what was acknowledged here since
    /// may be known here only. Final; open it again to take it back.
    Fenced,
}

/// An engine error. Cheap to clone: a background failure is kept and handed to every later writer.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    file: Option<PathBuf>,
    offset: Option<u64>,
    source: Option<Source>,
}

enum Source {
    Io(io::Error),
    Engine(Error),
}

impl Error {
    /// An error of `kind` with a message that says what was expected and what was found.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error::build(kind, message.into(), None, None, None)
    }

    /// Bytes that are not what was written.
    pub fn corruption(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Corruption, message)
    }

    /// A wrong argument or option.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// A failed call to the operating system on `file`; the kind follows the cause.
    pub fn io(action: &str, file: &Path, cause: io::Error) -> Self {
        let kind = match cause.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => ErrorKind::NoSpace,
            _ => ErrorKind::Io,
        };
        let message = format!("{action}: {cause}");
        Error::build(kind, message, Some(file.to_owned()), None, Some(Source::Io(cause)))
    }

    fn build(
        kind: ErrorKind,
        message: String,
        file: Option<PathBuf>,
        offset: Option<u64>,
        source: Option<Source>,
    ) -> Self {
        Error(Arc::new(Inner { kind, message, file, offset, source }))
    }

    /// The same error, naming `file` unless it names one already.
    #[must_use]
    pub fn in_file(self, file: &Path) -> Self {
        if self.0.file.is_some() {
            return self;
        }
        self.rebuild(|inner| inner.file = Some(file.to_owned()))
    }

    /// The same error, naming the byte `offset` in its file unless it names one already.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        if self.0.offset.is_some() {
            return self;
        }
        self.rebuild(|inner| inner.offset = Some(offset))
    }

    /// An error of another kind that keeps this one as its source.
    #[must_use]
    pub fn because(self, kind: ErrorKind, message: impl Into<String>) -> Self {
        let file = self.0.file.clone();
        Error::build(kind, message.into(), file, None, Some(Source::Engine(self)))
    }

    fn rebuild(self, change: impl FnOnce(&mut Inner)) -> Self {
        // Sharing is rare on this path: an error gets its place named before it is handed around.
        let mut inner = match Arc::try_unwrap(self.0) {
            Ok(inner) => inner,
            Err(shared) => Inner {
                kind: shared.kind,
                message: shared.message.clone(),
                file: shared.file.clone(),
                offset: shared.offset,
                source: Some(Source::Engine(Error(shared))),
            },
        };
        change(&mut inner);
        Error(Arc::new(inner))
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message alone, without prefix and place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file concerned, where known.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The byte offset in [`file`](Self::file), where known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// True for [`ErrorKind::NotFound`].
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound
    }

    /// True for [`ErrorKind::Corruption`].
    pub fn is_corruption(&self) -> bool {
        self.0.kind == ErrorKind::Corruption
    }

    /// True for [`ErrorKind::Locked`].
    pub fn is_locked(&self) -> bool {
        self.0.kind == ErrorKind::Locked
    }

    /// True for [`ErrorKind::NoSpace`].
    pub fn is_no_space(&self) -> bool {
        self.0.kind == ErrorKind::NoSpace
    }
}

/// LevelDB's prefix for errors of this kind.
fn prefix(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "NotFound: ",
        ErrorKind::Corruption => "Corruption: ",
        ErrorKind::InvalidArgument => "Invalid argument: ",
        ErrorKind::Incompatible => "Invalid argument: ",
        ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::Locked => "IO error: ",
        ErrorKind::ReadOnly | ErrorKind::Closed | ErrorKind::Fenced => "IO error: ",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        f.write_str(prefix(inner.kind))?;
        if let Some(file) = &inner.file {
            write!(f, "{}", file.display())?;
            if let Some(offset) = inner.offset {
                write!(f, " at byte {offset}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(Source::Io(cause)) => Some(cause),
            Some(Source::Engine(cause)) => Some(cause),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_file_and_offset_once() {
        let error = Error::corruption("block checksum mismatch")
            .at(4096)
            .in_file(Path::new("db/000005.ldb"))
            .at(7)
            .in_file(Path::new("other"));
        assert_eq!(
            error.to_string(),
            "Corruption: db/000005.ldb at byte 4096: block checksum mismatch"
        );
    }

    #[test]
    fn full_disk_is_told_from_other_io_errors() {
        let path = Path::new("000003.log");
        let full = Error::io("append", path, io::Error::from(io::ErrorKind::StorageFull));
        let other = Error::io("append", path, io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(full.is_no_space());
        assert_eq!(other.kind(), ErrorKind::Io);
    }
}
