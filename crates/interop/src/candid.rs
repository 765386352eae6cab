//! Both engines with nothing hidden: every call tells its error, as text. Used by tests in which
//! calls fail, or succeed where they should not.
//!
//! All writes are synced, unless the caller chooses: what is acknowledged here is promised.

use std::path::Path;

use crate::leveldb;
use crate::peer::{Change, Durability, Engine};

/// The engine's own words.
pub type Result<T> = std::result::Result<T, String>;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// How a database is opened. All else is the engine's default.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Make the database if it is not there.
    pub create: bool,
    /// Open with `paranoid_checks`.
    pub paranoid: bool,
}

impl Default for Choice {
    fn default() -> Choice {
        Choice { create: true, paranoid: false }
    }
}

/// An open database.
pub enum Candid {
    /// The real LevelDB's.
    LevelDb(leveldb::Db),
    /// Ours.
    Siltstone(Box<siltstone::Db>),
}

impl Candid {
    /// Opens the database in the folder `path`.
    pub fn open(engine: Engine, path: &Path, choice: Choice) -> Result<Candid> {
        match engine {
            Engine::LevelDb(leveldb) => {
                let options = leveldb::Options {
                    create_if_missing: choice.create,
                    paranoid_checks: choice.paranoid,
                    ..leveldb::Options::default()
                };
                leveldb.open(path, &options).map(Candid::LevelDb).map_err(text)
            }
            Engine::Siltstone => {
                let options = siltstone::Options {
                    create_if_missing: choice.create,
                    paranoid_checks: choice.paranoid,
                    ..siltstone::Options::default()
                };
                let db = siltstone::Db::open(path, options).map_err(text)?;
                Ok(Candid::Siltstone(Box::new(db)))
            }
        }
    }

    /// Sets `key` to `value`, synced.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Candid::LevelDb(db) => {
                db.put_with(leveldb::WriteOptions { sync: true }, key, value).map_err(text)
            }
            Candid::Siltstone(db) => {
                let mut batch = siltstone::WriteBatch::new();
                batch.put(key, value);
                db.write(&batch, siltstone::WriteOptions { sync: true }).map_err(text)
            }
        }
    }

    /// Removes `key`, synced.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        match self {
            Candid::LevelDb(db) => {
                db.delete_with(leveldb::WriteOptions { sync: true }, key).map_err(text)
            }
            Candid::Siltstone(db) => {
                let mut batch = siltstone::WriteBatch::new();
                batch.delete(key);
                db.write(&batch, siltstone::WriteOptions { sync: true }).map_err(text)
            }
        }
    }

    /// Makes the changes as one batch.
    pub fn write(&self, changes: &[Change], durability: Durability) -> Result<()> {
        let sync = durability == Durability::Synced;
        match self {
            Candid::LevelDb(db) => {
                let mut batch = db.batch();
                for change in changes {
                    match change {
                        Change::Put(key, value) => batch.put(key, value),
                        Change::Delete(key) => batch.delete(key),
                    }
                }
                db.write(&mut batch, leveldb::WriteOptions { sync }).map_err(text)
            }
            Candid::Siltstone(db) => {
                let mut batch = siltstone::WriteBatch::new();
                for change in changes {
                    match change {
                        Change::Put(key, value) => batch.put(key, value),
                        Change::Delete(key) => batch.delete(key),
                    }
                }
                db.write(&batch, siltstone::WriteOptions { sync }).map_err(text)
            }
        }
    }

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Candid::LevelDb(db) => db.get(key).map_err(text),
            Candid::Siltstone(db) => db.get(key).map_err(text),
        }
    }

    /// What a scan shows, and how it ends.
    pub fn scan(&self) -> (Vec<Pair>, Result<()>) {
        let mut pairs = Vec::new();
        let end = match self {
            Candid::LevelDb(db) => {
                let mut iter = db.iter();
                iter.seek_to_first();
                while iter.valid() {
                    pairs.push((iter.key().to_vec(), iter.value().to_vec()));
                    iter.next();
                }
                iter.status().map_err(text)
            }
            Candid::Siltstone(db) => scan_ours(db, &mut pairs).map_err(text),
        };
        (pairs, end)
    }

    /// Closes the database. LevelDB's C API does not tell whether it could.
    pub fn close(self) -> Result<()> {
        match self {
            Candid::LevelDb(db) => {
                db.close();
                Ok(())
            }
            Candid::Siltstone(db) => db.close().map_err(text),
        }
    }

    /// Compacts the keys from the one to the other. LevelDB's C API does not tell whether it could.
    pub fn compact(&self, start: &[u8], end: &[u8]) -> Result<()> {
        match self {
            Candid::LevelDb(db) => {
                db.compact_range(Some(start), Some(end));
                Ok(())
            }
            Candid::Siltstone(db) => db.compact_range(Some(start), Some(end)).map_err(text),
        }
    }
}

fn scan_ours(db: &siltstone::Db, pairs: &mut Vec<Pair>) -> siltstone::Result<()> {
    let mut iter = db.iter()?;
    iter.seek_to_first()?;
    while iter.valid() {
        pairs.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next()?;
    }
    Ok(())
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}
