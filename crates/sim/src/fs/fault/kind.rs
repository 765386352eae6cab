//! What may go wrong with a call: kinds of calls, kinds of faults, and which fault suits which call.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use siltstone::Error;

/// A kind of call to the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    Create,
    Open,
    Metadata,
    List,
    CreateDir,
    RemoveDir,
    RemoveFile,
    Rename,
    HardLink,
    SyncDir,
    Lock,
    Append,
    Sync,
    Close,
    Read,
}

impl Op {
    /// As the operating system's files name it in their errors.
    fn action(self) -> &'static str {
        match self {
            Op::Create => "create",
            Op::Open => "open",
            Op::Metadata => "stat",
            Op::List => "list",
            Op::CreateDir => "create folder",
            Op::RemoveDir => "remove folder",
            Op::RemoveFile => "remove",
            Op::Rename => "rename",
            Op::HardLink => "link",
            Op::SyncDir => "sync folder",
            Op::Lock => "lock",
            Op::Append => "append",
            Op::Sync => "sync",
            Op::Close => "close",
            Op::Read => "read",
        }
    }

    fn changes_the_disk(self) -> bool {
        !matches!(self, Op::Open | Op::Metadata | Op::List | Op::Read)
    }

    fn takes_a_path(self) -> bool {
        !matches!(self, Op::Append | Op::Sync | Op::Close | Op::Read)
    }

    fn opens_a_file(self) -> bool {
        matches!(self, Op::Create | Op::Open | Op::List | Op::SyncDir | Op::Lock)
    }
}

/// How a call fails. Unless said otherwise nothing is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// EIO.
    Io,
    /// ENOSPC.
    NoSpace,
    /// EDQUOT.
    Quota,
    /// EINTR. Should never come up here, but then it is an error like any other.
    Interrupted,
    /// EMFILE.
    TooManyFiles,
    /// EACCES.
    Denied,
    /// EROFS.
    ReadOnlyDisk,
    /// An append writes its first so many bytes, then EIO. Of other calls nothing is done.
    Torn(usize),
    /// An append writes half of its bytes, then EIO.
    TornHalf,
    /// An append writes all but its last so many bytes, then EIO.
    TornBefore(usize),
    /// As `Torn`, but ENOSPC.
    Full(usize),
    /// As `TornHalf`, but ENOSPC.
    FullHalf,
    /// As `TornBefore`, but ENOSPC.
    FullBefore(usize),
    /// A read gives half of what there is, as if the file ended there, and no error.
    ShortRead,
    /// A sync fails with EIO. All later ones of the same open file are said to succeed and do
    /// nothing: the system has marked its pages as clean.
    LostSync,
    /// As `LostSync`, but ENOSPC.
    LostSyncFull,
    /// The call is done, and yet EIO is told: an answer that was lost.
    DoneUntold,
}

/// The faults of a sweep, by the names that its commands use.
pub const NAMED: [(&str, Fault); 17] = [
    ("eio", Fault::Io),
    ("enospc", Fault::NoSpace),
    ("edquot", Fault::Quota),
    ("eintr", Fault::Interrupted),
    ("emfile", Fault::TooManyFiles),
    ("eacces", Fault::Denied),
    ("erofs", Fault::ReadOnlyDisk),
    ("torn-1", Fault::Torn(1)),
    ("torn-half", Fault::TornHalf),
    ("torn-last", Fault::TornBefore(1)),
    ("full-1", Fault::Full(1)),
    ("full-half", Fault::FullHalf),
    ("full-last", Fault::FullBefore(1)),
    ("short-read", Fault::ShortRead),
    ("lost-sync", Fault::LostSync),
    ("lost-sync-full", Fault::LostSyncFull),
    ("done-untold", Fault::DoneUntold),
];

impl Fault {
    /// Whether a real file system may do this to a call of that kind.
    pub fn suits(self, op: Op) -> bool {
        use Fault::*;
        match self {
            Io | Interrupted => true,
            NoSpace | Quota | ReadOnlyDisk => op.changes_the_disk(),
            TooManyFiles => op.opens_a_file(),
            Denied => op.takes_a_path(),
            Torn(_) | TornHalf | TornBefore(_) | Full(_) | FullHalf | FullBefore(_) => {
                op == Op::Append
            }
            ShortRead => op == Op::Read,
            LostSync | LostSyncFull => op == Op::Sync,
            DoneUntold => op.changes_the_disk() && op != Op::Lock,
        }
    }

    /// Lack of space, in one of its forms: the engine must get over it by itself.
    pub fn is_full(self) -> bool {
        self.errno() == Errno::NOSPC || self.errno() == Errno::DQUOT
    }

    fn errno(self) -> Errno {
        use Fault::*;
        match self {
            Io | Torn(_) | TornHalf | TornBefore(_) | LostSync | DoneUntold | ShortRead => {
                Errno::IO
            }
            NoSpace | Full(_) | FullHalf | FullBefore(_) | LostSyncFull => Errno::NOSPC,
            Quota => Errno::DQUOT,
            Interrupted => Errno::INTR,
            TooManyFiles => Errno::MFILE,
            Denied => Errno::ACCESS,
            ReadOnlyDisk => Errno::ROFS,
        }
    }

    /// How many of the `len` bytes of an append are written before it fails.
    pub(super) fn bytes_written(self, len: usize) -> usize {
        match self {
            Fault::Torn(bytes) | Fault::Full(bytes) => bytes.min(len),
            Fault::TornHalf | Fault::FullHalf => len / 2,
            Fault::TornBefore(bytes) | Fault::FullBefore(bytes) => len.saturating_sub(bytes),
            Fault::DoneUntold => len,
            _ => 0,
        }
    }

    /// The error, as the operating system's files would build it.
    pub(super) fn error(self, op: Op, path: &Path) -> Error {
        Error::io(op.action(), path, io::Error::from(self.errno()))
    }
}
