//! One interface to both engines, so that a test is written once and run against either. Used by
//! the tests and measurements of this crate.
//!
//! Only opening can fail. Any other error ends the test: the interface has no damaged databases
//! in mind.

mod leveldb;
mod siltstone;

use std::cmp::Ordering;
use std::fmt;
use std::path::Path;

use crate::leveldb::LevelDb;

/// One of the two engines.
#[derive(Clone, Copy, Debug)]
pub enum Engine {
    /// The real LevelDB.
    LevelDb(LevelDb),
    /// Ours.
    Siltstone,
}

impl Engine {
    /// The engine's name, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Engine::LevelDb(_) => "LevelDB",
            Engine::Siltstone => "siltstone",
        }
    }

    /// Opens the database in the folder `path`, making it if it is not there.
    pub fn open(self, path: &Path, settings: &Settings) -> Result<Box<dyn Database>, OpenError> {
        match self {
            Engine::LevelDb(leveldb) => leveldb::open(leveldb, path, settings),
            Engine::Siltstone => siltstone::open(path, settings),
        }
    }
}

/// Why a database did not open.
#[derive(Clone, Debug)]
pub struct OpenError {
    /// Someone else has it open.
    pub is_locked: bool,
    /// The engine's own words.
    pub text: String,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The options that both engines know, but for one. The defaults are LevelDB's.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Open with `paranoid_checks`, and verify checksums on every read.
    pub paranoid: bool,
    /// LevelDB's `write_buffer_size`.
    pub write_buffer_bytes: usize,
    /// LevelDB's `max_file_size`.
    pub table_bytes: usize,
    /// LevelDB's `block_size`.
    pub block_bytes: usize,
    /// LevelDB's `block_restart_interval`.
    pub restart_interval: usize,
    /// Compress blocks with Snappy, or not at all.
    pub snappy: bool,
    /// Write Bloom filters of so many bits per key, or none.
    pub bloom_bits: Option<usize>,
    /// Of siltstone's kind, which LevelDB takes for no filter.
    pub wide_filters: bool,
    /// siltstone's `reuse_logs`. LevelDB's is not to be had: the C API hides it.
    pub reuse_logs: bool,
    /// The order of keys, which a database keeps for life.
    pub order: Order,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            paranoid: false,
            write_buffer_bytes: 4 << 20,
            table_bytes: 2 << 20,
            block_bytes: 4 << 10,
            restart_interval: 16,
            snappy: true,
            bloom_bits: None,
            wide_filters: false,
            reuse_logs: false,
            order: Order::Bytewise,
        }
    }
}

/// An order of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// LevelDB's default.
    #[default]
    Bytewise,
    /// Its reverse, as a custom comparator.
    Backwards,
}

/// What databases of the order [`Order::Backwards`] record.
const BACKWARDS_NAME: &str = "siltstone.interop.Backwards";

fn backwards(a: &[u8], b: &[u8]) -> Ordering {
    b.cmp(a)
}

/// A change of one key.
#[derive(Clone, Debug)]
pub enum Change {
    /// Set the key to the value.
    Put(Vec<u8>, Vec<u8>),
    /// Remove the key.
    Delete(Vec<u8>),
}

/// Whether a write waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It survives the process.
    Buffered,
    /// It survives the machine.
    Synced,
}

/// A key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// An open database.
pub trait Database {
    /// Sets `key` to `value`, by the engine's own call for that.
    fn put(&self, key: &[u8], value: &[u8]);
    /// Removes `key`, by the engine's own call for that.
    fn delete(&self, key: &[u8]);
    /// Makes the changes as one batch.
    fn write(&self, changes: &[Change], durability: Durability);
    /// The value of `key` now.
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    /// The database as it is whenever it is asked.
    fn now(&self) -> Box<dyn View<'_> + '_>;
    /// The database as it is at this moment.
    fn snapshot(&self) -> Box<dyn View<'_> + '_>;
    /// Compacts a range of keys, `None` being an open end.
    fn compact(&self, start: Option<&[u8]>, limit: Option<&[u8]>);
    /// A property by its name in LevelDB.
    fn property(&self, name: &str) -> Option<String>;
    /// About how many bytes of tables the keys from the one up to the other take.
    fn approximate_size(&self, start: &[u8], limit: &[u8]) -> u64;
    /// Closes the database.
    fn close(self: Box<Self>);
}

/// A state of a database that lives for `'db`.
pub trait View<'db> {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
    /// A cursor over the state, standing nowhere yet. It may outlive the view.
    fn cursor(&self) -> Box<dyn Cursor + 'db>;
}

/// A place in a view.
pub trait Cursor {
    /// Moves. From nowhere, only the first three steps are allowed.
    fn step(&mut self, step: &Step);
    /// The entry here, or none before the first step and past either end.
    fn entry(&self) -> Option<Entry<'_>>;
}

/// A movement of a cursor.
#[derive(Clone, Debug)]
pub enum Step {
    /// To the first entry.
    First,
    /// To the last entry.
    Last,
    /// To the first entry not before the key.
    Seek(Vec<u8>),
    /// To the entry after this one.
    Next,
    /// To the entry before this one.
    Prev,
}
