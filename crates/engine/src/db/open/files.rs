//! What lies in a database folder, sorted by what it is.

use std::collections::HashSet;
use std::path::Path;

use crate::base::error::{Error, Result};
use crate::db::open::wal_replay::one_takes_over;
use crate::env::fs::FileSystem;
use crate::format::filename::{FileName, FileNumber};
use crate::store::TableStore;
use crate::version::Version;
use crate::version::recover::{NUMBERS_LEFT_MIN, Recovered};

/// Files with greater numbers were planted: new files would get numbers that no manifest may name.
const GREATEST: FileNumber = FileNumber(FileNumber::MAX.0 - (1 << 41));

/// The names in a folder that are ours. Others are never touched.
pub(crate) struct Files {
    names: Vec<FileName>,
}

impl Files {
    pub(crate) fn list(fs: &dyn FileSystem, dir: &Path) -> Result<Self> {
        let names = fs.list(dir)?;
        let usable = |name: &FileName| name.number().is_none_or(|number| number <= GREATEST);
        let names = names.iter().filter_map(|name| FileName::parse(name)).filter(usable);
        Ok(Files { names: names.collect() })
    }

    /// The same, with the tables of a store of the user's in place of those in the folder.
    pub(crate) fn with_tables_of(mut self, store: Option<&dyn TableStore>) -> Result<Self> {
        if let Some(store) = store {
            let is_table =
                |name: &FileName| matches!(name, FileName::Table(_) | FileName::OldTable(_));
            self.names.retain(|name| !is_table(name));
            let usable = store.list()?.into_iter().filter(|number| *number <= GREATEST);
            self.names.extend(usable.map(FileName::Table));
        }
        Ok(self)
    }

    /// Fails if nothing in the folder is ours.
    pub(crate) fn check_any(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
        if fs.list(dir)?.iter().any(|name| FileName::parse(name).is_some()) {
            return Ok(());
        }
        Err(Error::invalid_argument("holds no database").in_file(dir))
    }

    /// Fails if a database without CURRENT is there: its tables and logs may be all that is left of
    /// somebody's data, and a new database would sweep them away. A creation that was cut short
    /// leaves no data, and a destruction leaves its mark.
    pub(crate) fn check_no_remains(&self, fs: &dyn FileSystem, dir: &Path) -> Result<()> {
        if self.names.contains(&FileName::DESTROYED) {
            return Ok(());
        }
        for name in &self.names {
            let holds_data = match name {
                FileName::Table(_) | FileName::OldTable(_) => true,
                FileName::Wal(_) => fs.metadata(&name.in_dir(dir))?.len > 0,
                _ => false,
            };
            if holds_data {
                let message = format!(
                    "is missing, but {name} is there; restore it, see what repair can save, or destroy \
                     what is left"
                );
                return Err(Error::corruption(message).in_file(&FileName::Current.in_dir(dir)));
            }
        }
        Ok(())
    }

    /// Logs, oldest first.
    pub(crate) fn wals(&self) -> Vec<FileNumber> {
        self.numbers_of(FileName::Wal)
    }

    /// Manifests, oldest first.
    pub(crate) fn manifests(&self) -> Vec<FileNumber> {
        self.numbers_of(FileName::Manifest)
    }

    /// The numbers of the files of one kind, ascending.
    fn numbers_of(&self, kind: fn(FileNumber) -> FileName) -> Vec<FileNumber> {
        let number = |name: &FileName| name.number().filter(|number| kind(*number) == *name);
        let mut numbers: Vec<FileNumber> = self.names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The number of the next file of a database that names none from `named` on. It is greater than
    /// any that is there: an orphan must not share its number with a file that is needed. Fails if one
    /// is so great that the numbers of our own files would soon pass for planted ones.
    pub(crate) fn next_number(&self, dir: &Path, named: FileNumber) -> Result<u64> {
        let numbered = self.names.iter().filter_map(|name| Some((name.number()?, name)));
        let Some((number, name)) = numbered.max_by_key(|(number, _)| *number) else {
            return Ok(named.0);
        };
        if number.0 >= GREATEST.0 - NUMBERS_LEFT_MIN {
            let message = "its number leaves none for new files: file numbers are used up; move it away \
                           if it was planted, or see what repair can save";
            return Err(Error::corruption(message).in_file(&name.in_dir(dir)));
        }
        Ok(named.0.max(number.0 + 1))
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = FileNumber> {
        self.names.iter().filter_map(|name| match name {
            FileName::Table(number) | FileName::OldTable(number) => Some(*number),
            _ => None,
        })
    }

    /// Files that a database of this version, oldest log and manifest does not need.
    pub(crate) fn orphans(
        &self,
        version: &Version,
        wal_floor: FileNumber,
        manifest: FileNumber,
    ) -> impl Iterator<Item = FileName> {
        let live: HashSet<FileNumber> = version.tables().map(|(_, table)| table.number).collect();
        self.names.iter().copied().filter(move |name| match name {
            FileName::Wal(number) => *number < wal_floor,
            FileName::Table(number) | FileName::OldTable(number) => !live.contains(number),
            FileName::Manifest(number) => *number < manifest,
            FileName::Temp(_) => true,
            _ => false,
        })
    }
}

/// Fails if the log that the manifest names is gone, and none took over from it. Its name is durable
/// before the manifest says that it is needed, and it is removed after a newer edit says that it is
/// not: either a crash did not do that, or it was in force an edit that is bad by now.
pub(crate) fn check_logs(
    fs: &dyn FileSystem,
    dir: &Path,
    recovered: &Recovered,
    wals: &[FileNumber],
) -> Result<()> {
    let needed = recovered.log_number;
    if needed == FileNumber(0) || wals.contains(&needed) {
        return Ok(());
    }
    let later: Vec<_> = wals.iter().copied().filter(|wal| *wal > needed).collect();
    if one_takes_over(fs, dir, &later, recovered.last_seqno.plus(1))? {
        return Ok(());
    }
    let manifest = FileName::Manifest(recovered.manifest);
    let why = if recovered.torn { ", whose last edit is damaged," } else { "" };
    let message = format!(
        "is missing, and {manifest}{why} needs it; restore it, or see what repair can save"
    );
    Err(Error::corruption(message).in_file(&FileName::Wal(needed).in_dir(dir)))
}

/// Fails if a table of the version is not among those `present`.
pub(crate) fn check_tables(
    present: impl IntoIterator<Item = FileNumber>,
    dir: &Path,
    version: &Version,
) -> Result<()> {
    let present: HashSet<FileNumber> = present.into_iter().collect();
    let missing: Vec<_> =
        version.tables().filter(|(_, table)| !present.contains(&table.number)).collect();
    let Some((slot, table)) = missing.first() else { return Ok(()) };
    let name = FileName::Table(table.number).in_dir(dir);
    let message = format!(
        "{} missing files; e.g.: {} ({slot}, {} bytes, keys {} .. {}); restore them, or see \
         what repair can save",
        missing.len(),
        name.display(),
        table.size,
        table.smallest,
        table.largest,
    );
    Err(Error::corruption(message).in_file(&name))
}
