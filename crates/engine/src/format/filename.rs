//! The names of a database's files. Opening, recovery, removal and the tools ask here which file
//! is which.
//!
//! **Layout**
//!
//! ```text
//! 000003.log        write-ahead log        CURRENT    names the live manifest
//! 000005.ldb        table                  LOCK       held while open
//! 000005.sst        table, older name      LOG        info log of this run
//! MANIFEST-000002   manifest               LOG.old    info log of the run before
//! 000002.dbtmp      CURRENT in the making
//! ```
//!
//! Numbers are written with at least six digits and read with any; one sequence serves all files.
//! Names that are none of these belong to someone else and are left alone.

use std::fmt;
use std::path::{Path, PathBuf};

/// The number in a file's name. Later files have greater ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u64);

impl FileNumber {
    /// No database gets as far as this. Files of greater numbers are taken for strangers', and a
    /// manifest that names one for damaged: counting on from there would overflow.
    pub(crate) const MAX: FileNumber = FileNumber(u64::MAX >> 1);
}

impl fmt::Display for FileNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A name that the engine owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileName {
    /// A write-ahead log.
    Wal(FileNumber),
    /// A table.
    Table(FileNumber),
    /// A table under the extension used before LevelDB 1.14: read, never made.
    OldTable(FileNumber),
    Manifest(FileNumber),
    /// A file that is renamed once it is whole.
    Temp(FileNumber),
    Current,
    Lock,
    InfoLog,
    OldInfoLog,
}

const MANIFEST_PREFIX: &str = "MANIFEST-";

impl FileName {
    /// Stands for CURRENT in a database that is being destroyed, so that what is left of it is not
    /// taken for a database that was damaged. LevelDB removes it as it does any temporary file.
    pub(crate) const DESTROYED: FileName = FileName::Temp(FileNumber(0));

    /// The file that a name in a database's folder stands for; `None` if it is not ours.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "CURRENT" => return Some(FileName::Current),
            "LOCK" => return Some(FileName::Lock),
            "LOG" => return Some(FileName::InfoLog),
            "LOG.old" => return Some(FileName::OldInfoLog),
            _ => {}
        }
        if let Some(digits) = name.strip_prefix(MANIFEST_PREFIX) {
            return parse_number(digits).map(FileName::Manifest);
        }
        let (digits, extension) = name.split_once('.')?;
        let number = parse_number(digits)?;
        match extension {
            "log" => Some(FileName::Wal(number)),
            "ldb" => Some(FileName::Table(number)),
            "sst" => Some(FileName::OldTable(number)),
            "dbtmp" => Some(FileName::Temp(number)),
            _ => None,
        }
    }

    /// The number in the name; `None` for the names that have none.
    pub(crate) fn number(self) -> Option<FileNumber> {
        match self {
            FileName::Wal(number)
            | FileName::Table(number)
            | FileName::OldTable(number)
            | FileName::Manifest(number)
            | FileName::Temp(number) => Some(number),
            FileName::Current | FileName::Lock | FileName::InfoLog | FileName::OldInfoLog => None,
        }
    }

    pub(crate) fn in_dir(&self, dir: &Path) -> PathBuf {
        dir.join(self.to_string())
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Wal(number) => write!(f, "{:06}.log", number.0),
            FileName::Table(number) => write!(f, "{:06}.ldb", number.0),
            FileName::OldTable(number) => write!(f, "{:06}.sst", number.0),
            FileName::Manifest(number) => write!(f, "{MANIFEST_PREFIX}{:06}", number.0),
            FileName::Temp(number) => write!(f, "{:06}.dbtmp", number.0),
            FileName::Current => f.write_str("CURRENT"),
            FileName::Lock => f.write_str("LOCK"),
            FileName::InfoLog => f.write_str("LOG"),
            FileName::OldInfoLog => f.write_str("LOG.old"),
        }
    }
}

/// Digits only: the standard parser would also take a leading plus sign.
fn parse_number(digits: &str) -> Option<FileNumber> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(FileNumber)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_names_parse() {
        let number = FileNumber;
        for (name, expected) in [
            ("100.log", FileName::Wal(number(100))),
            ("0.log", FileName::Wal(number(0))),
            ("0.sst", FileName::OldTable(number(0))),
            ("0.ldb", FileName::Table(number(0))),
            ("000007.dbtmp", FileName::Temp(number(7))),
            ("CURRENT", FileName::Current),
            ("LOCK", FileName::Lock),
            ("MANIFEST-2", FileName::Manifest(number(2))),
            ("MANIFEST-7", FileName::Manifest(number(7))),
            ("LOG", FileName::InfoLog),
            ("LOG.old", FileName::OldInfoLog),
            ("18446744073709551615.log", FileName::Wal(number(u64::MAX))),
        ] {
            assert_eq!(FileName::parse(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn other_names_do_not() {
        for name in [
            "",
            "foo",
            "foo-dx-100.log",
            ".log",
            "manifest",
            "CURREN",
            "CURRENTX",
            "MANIFES",
            "MANIFEST",
            "MANIFEST-",
            "XMANIFEST-3",
            "MANIFEST-3x",
            "MANIFEST-+3",
            "LOC",
            "LOCKx",
            "LO",
            "LOGx",
            "18446744073709551616.log",
            "184467440737095516150.log",
            "100",
            "100.",
            "100.lop",
            "+100.log",
            "100.log.bak",
            "100.ldb/",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn names_are_built_with_six_digits_and_parse_back() {
        let number = FileNumber(192);
        for (name, expected) in [
            (FileName::Current, "foo/CURRENT"),
            (FileName::Lock, "foo/LOCK"),
            (FileName::Wal(number), "foo/000192.log"),
            (FileName::Table(number), "foo/000192.ldb"),
            (FileName::OldTable(number), "foo/000192.sst"),
            (FileName::Manifest(number), "foo/MANIFEST-000192"),
            (FileName::Temp(number), "foo/000192.dbtmp"),
            (FileName::Wal(FileNumber(12_345_678)), "foo/12345678.log"),
            (FileName::InfoLog, "foo/LOG"),
            (FileName::OldInfoLog, "foo/LOG.old"),
        ] {
            assert_eq!(name.in_dir(Path::new("foo")), Path::new(expected));
            assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }
    }
}
