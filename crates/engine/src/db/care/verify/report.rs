//! What a check of a database says.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::base::error::Error;
use crate::format::filename::FileName;

/// What [`verify`](crate::verify) found, file by file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Every file of the database: logs, tables, manifest, CURRENT.
    pub files: Vec<VerifiedFile>,
}

/// One file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerifiedFile {
    /// Where it is, or should be.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Its length; 0 if it is missing.
    pub bytes: u64,
    /// Entries of a table, updates of a log, edits of a manifest.
    pub entries: u64,
    /// Bytes at its end that are no whole record, as a crash leaves them. Recovery cuts them off.
    pub torn_bytes: u64,
    /// Whether it is sound.
    pub verdict: Verdict,
}

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A write-ahead log.
    Wal,
    /// A table.
    Table,
    /// A manifest.
    Manifest,
    /// CURRENT.
    Current,
    /// Any other file of the engine's.
    Other,
}

/// What a check thinks of a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// It is as it should be.
    Ok,
    /// The database does not need it; the next open removes it. Beside a live writer it may be a
    /// file in the making. It was not looked into.
    Orphan,
    /// It is missing or damaged: the first thing found, with its offset. A file that is missing is
    /// [`ErrorKind::NotFound`](crate::ErrorKind).
    Damaged(Error),
}

/// How far a check has come.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct VerifyProgress<'a> {
    /// The file that is next; the folder when all is done.
    pub file: &'a Path,
    /// Files done.
    pub files_done: u64,
    /// Their bytes.
    pub bytes_done: u64,
    /// About how many bytes there are.
    pub bytes_total: u64,
}

impl VerifyReport {
    /// True if nothing is missing or damaged.
    pub fn is_ok(&self) -> bool {
        self.problems().next().is_none()
    }

    /// What is missing or damaged, at most one of each file.
    pub fn problems(&self) -> impl Iterator<Item = &Error> {
        self.files.iter().filter_map(|file| match &file.verdict {
            Verdict::Damaged(error) => Some(error),
            Verdict::Ok | Verdict::Orphan => None,
        })
    }

    /// Bytes of the files that were looked into.
    pub fn bytes(&self) -> u64 {
        let looked_into = |file: &&VerifiedFile| !matches!(file.verdict, Verdict::Orphan);
        self.files.iter().filter(looked_into).map(|file| file.bytes).sum()
    }
}

/// The problems, one a line, and a last line that counts.
impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut problems = 0;
        for problem in self.problems() {
            problems += 1;
            writeln!(f, "{problem}")?;
        }
        write!(f, "{} files, {} bytes, {problems} problems", self.files.len(), self.bytes())
    }
}

impl FileKind {
    pub(crate) fn of(name: FileName) -> Self {
        match name {
            FileName::Wal(_) => FileKind::Wal,
            FileName::Table(_) | FileName::OldTable(_) => FileKind::Table,
            FileName::Manifest(_) => FileKind::Manifest,
            FileName::Current => FileKind::Current,
            FileName::Temp(_) | FileName::Lock | FileName::InfoLog | FileName::OldInfoLog => {
                FileKind::Other
            }
        }
    }
}
