//! The file `CLOUD` in a database's folder: which database in which bucket the folder is a part of, and by which ownership
//! it came to be so. It tells a folder that may go on from one that others have overtaken.
//!
//! I1: it is on disk before the ownership that it announces is claimed, so that whatever becomes of the claim, the folder
//! knows its own.
//! I2: while it says that the folder is being filled, nothing in the folder counts.
//!
//! | field | encoding |
//! | --- | --- |
//! | frame, `slcf` | [`coding`](crate::coding) |
//! | state | 1: whole, 2: being filled |
//! | root | text |
//! | epoch, token | u64, 16 bytes: the last ownership under which the folder was whole |
//! | next token | 16 bytes: of the ownership that was claimed since, if it was |

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use siltstone::{ErrorKind, FileSystem, Result, Site};

use super::notes;
use crate::coding::{Reader, Writer};
use crate::error::{Error, Outcome};
use crate::log::owner::Owner;
use crate::names::{Epoch, Token};

const MAGIC: [u8; 4] = *b"slcf";
const NAME: &str = "CLOUD";
/// Of files that are not whole yet.
const NEW: &str = ".new";
const BYTES_MAX: u64 = 4 << 10;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) is_whole: bool,
    pub(super) root: String,
    pub(super) epoch: Epoch,
    pub(super) token: Token,
    pub(super) next: Token,
}

impl Mark {
    /// True if the folder holds what the owner of the database has written last.
    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        let last = owner.epoch == self.epoch && owner.token == self.token;
        // Of an opening that got no further.
        let next = owner.epoch.0 == self.epoch.0.wrapping_add(1) && owner.token == self.next;
        last || next
    }

    fn encode(&self) -> Bytes {
        let mut writer = Writer::new(MAGIC);
        writer.u8(if self.is_whole { 1 } else { 2 });
        writer.text(&self.root);
        writer.u64(self.epoch.0);
        writer.token(self.token);
        writer.token(self.next);
        writer.finish()
    }

    fn decode(name: &str, bytes: &Bytes) -> Outcome<Self> {
        let mut reader = Reader::new(name, MAGIC, bytes)?;
        let is_whole = match reader.u8()? {
            1 => true,
            2 => false,
            other => return Err(reader.wrong(format!("state {other}"))),
        };
        let mark = Mark {
            is_whole,
            root: reader.text()?,
            epoch: Epoch(reader.u64()?),
            token: reader.token()?,
            next: reader.token()?,
        };
        reader.end()?;
        Ok(mark)
    }
}

/// A database's folder.
pub(super) struct Folder {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
}

impl Folder {
    pub(super) fn new(fs: &Arc<dyn FileSystem>, path: &Path) -> Self {
        Folder { fs: Arc::clone(fs), path: path.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What its mark says; `None` if it has none.
    pub(super) fn mark(&self) -> Result<Option<Mark>> {
        let path = self.path.join(NAME);
        let file = match self.fs.open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = vec![0; file.len().min(BYTES_MAX) as usize];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        let mark = Mark::decode(&path.display().to_string(), &Bytes::from(bytes));
        mark.map(Some).map_err(|error: Error| error.into())
    }

    /// Marks it, durably.
    pub(super) fn set_mark(&self, mark: &Mark) -> Result<()> {
        write_small(&*self.fs, &self.path, NAME, &mark.encode())
    }

    /// True if a database is in it.
    pub(super) fn has_database(&self) -> Result<bool> {
        match self.fs.metadata(&self.path.join("CURRENT")) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Fails if tables or logs are in it without a CURRENT: they may be all that is left of somebody's data. Not of a folder
    /// that is being filled.
    pub(super) fn check_no_remains(&self) -> Result<()> {
        for name in self.fs.list(&self.path)? {
            let numbered = |suffix: &str| name.strip_suffix(suffix).is_some_and(is_number);
            let is_table = numbered(".ldb") || numbered(".sst");
            let path = self.path.join(&name);
            if is_table || (numbered(".log") && self.fs.metadata(&path)?.len > 0) {
                let message = "is here, and CURRENT is not: restore it, see what repair can save, or give an \
                               empty folder";
                return Err(siltstone::Error::corruption(message).in_file(&path));
            }
        }
        Ok(())
    }

    /// Removes the database's files, CURRENT first. Only of a folder whose mark says that nothing in it counts (I2).
    pub(super) fn clear(&self) -> Result<()> {
        let mut names = self.fs.list(&self.path)?;
        names.retain(|name| is_of_database(name));
        names.sort_by_key(|name| name != "CURRENT");
        for name in names {
            self.fs.remove_file(&self.path.join(&name), Site::TempRemove)?;
            if name == "CURRENT" {
                self.fs.sync_dir(&self.path, Site::CurrentDirSync)?;
            }
        }
        Ok(())
    }
}

/// Writes a small file, whole or not at all, and durably.
pub(super) fn write_small(
    fs: &dyn FileSystem,
    folder: &Path,
    name: &str,
    body: &[u8],
) -> Result<()> {
    let new = folder.join(format!("{name}{NEW}"));
    let mut file = fs.create(&new, Site::CurrentCreate)?;
    file.append(body, Site::CurrentAppend)?;
    file.sync(Site::CurrentSync)?;
    file.close(Site::CurrentClose)?;
    fs.rename(&new, &folder.join(name), Site::CurrentRename)?;
    fs.sync_dir(folder, Site::CurrentDirSync)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_of_database(name: &str) -> bool {
    let numbered = |suffix: &str| name.strip_suffix(suffix).is_some_and(is_number);
    let suffixes = [".ldb", ".sst", ".log", ".dbtmp", notes::SUFFIX];
    name == "CURRENT"
        || suffixes.iter().any(|suffix| numbered(suffix))
        || name.strip_prefix("MANIFEST-").is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use siltstone::Env;

    use super::*;

    fn mark() -> Mark {
        Mark {
            is_whole: true,
            root: "shop/orders/".to_owned(),
            epoch: Epoch(7),
            token: Token(1),
            next: Token(2),
        }
    }

    fn folder() -> Folder {
        let fs = Env::memory().file_system;
        fs.create_dir("db".as_ref(), Site::DbDirCreate).unwrap();
        Folder::new(&fs, "db".as_ref())
    }

    fn touch(folder: &Folder, name: &str) {
        let mut file = folder.fs.create(&folder.path.join(name), Site::TableCreate).unwrap();
        file.append(b"x", Site::TableAppend).unwrap();
        file.close(Site::TableClose).unwrap();
    }

    #[test]
    fn a_mark_is_read_back_and_damage_is_found() {
        let folder = folder();
        assert_eq!(folder.mark().unwrap(), None);
        for mark in [mark(), Mark { is_whole: false, ..mark() }] {
            folder.set_mark(&mark).unwrap();
            assert_eq!(folder.mark().unwrap(), Some(mark));
        }
        touch(&folder, NAME);
        let error = folder.mark().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("CLOUD"), "{error}");
    }

    #[test]
    fn a_folder_knows_its_own_ownership_and_no_other() {
        let owner = |epoch, token| Owner {
            epoch: Epoch(epoch),
            token: Token(token),
            lease: Duration::ZERO,
            address: String::new(),
        };
        for (epoch, token, own) in
            [(7, 1, true), (8, 2, true), (8, 1, false), (9, 2, false), (7, 2, false), (8, 3, false)]
        {
            assert_eq!(mark().is_of(&owner(epoch, token)), own, "{epoch} {token}");
        }
    }

    #[test]
    fn only_the_databases_files_are_cleared() {
        let folder = folder();
        let files = ["CURRENT", "000005.ldb", "4.sst", "000006.log", "MANIFEST-000002", "7.dbtmp"];
        let others = ["CLOUD", "LOCK", "notes.log", "MANIFEST-", "x.ldb", "photo.jpg"];
        files.iter().chain(&others).for_each(|name| touch(&folder, name));
        assert!(folder.has_database().unwrap());
        folder.clear().unwrap();
        let mut left = folder.fs.list(&folder.path).unwrap();
        left.sort();
        let mut others: Vec<&str> = others.to_vec();
        others.sort_unstable();
        assert_eq!(left, others);
    }
}
