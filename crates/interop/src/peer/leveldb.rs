//! LevelDB behind the common interface.

use std::path::Path;

use super::{
    BACKWARDS_NAME, Change, Cursor, Database, Durability, Entry, OpenError, Order, Settings, Step,
    View, backwards,
};
use crate::leveldb::{
    Comparator, Compression, Db, Iter, LevelDb, Options, ReadOptions, Snapshot, WriteOptions,
};

pub(super) fn open(
    leveldb: LevelDb,
    path: &Path,
    settings: &Settings,
) -> Result<Box<dyn Database>, OpenError> {
    let db = leveldb
        .open(path, &options(settings))
        .map_err(|error| OpenError { is_locked: error.is_locked(), text: error.to_string() })?;
    Ok(Box::new(Opened { leveldb, db, verify_checksums: settings.paranoid }))
}

fn options(settings: &Settings) -> Options {
    let name = c"siltstone.interop.Backwards";
    debug_assert_eq!(name.to_bytes(), BACKWARDS_NAME.as_bytes());
    Options {
        create_if_missing: true,
        paranoid_checks: settings.paranoid,
        write_buffer_size: settings.write_buffer_bytes,
        max_file_size: settings.table_bytes,
        block_size: settings.block_bytes,
        block_restart_interval: settings.restart_interval as i32,
        compression: if settings.snappy { Compression::Snappy } else { Compression::None },
        bloom_bits_per_key: settings.bloom_bits.map(|bits| bits as i32),
        comparator: match settings.order {
            Order::Bytewise => None,
            Order::Backwards => Some(Comparator { name, compare: backwards }),
        },
        ..Options::default()
    }
}

struct Opened {
    leveldb: LevelDb,
    db: Db,
    verify_checksums: bool,
}

impl Database for Opened {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.db.put(key, value).expect("LevelDB puts");
    }

    fn delete(&self, key: &[u8]) {
        self.db.delete(key).expect("LevelDB deletes");
    }

    fn write(&self, changes: &[Change], durability: Durability) {
        let mut batch = self.leveldb.batch();
        for change in changes {
            match change {
                Change::Put(key, value) => batch.put(key, value),
                Change::Delete(key) => batch.delete(key),
            }
        }
        let options = WriteOptions { sync: durability == Durability::Synced };
        self.db.write(&mut batch, options).expect("LevelDB writes");
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.db.get(key).expect("LevelDB gets")
    }

    fn now(&self) -> Box<dyn View<'_> + '_> {
        Box::new(State { opened: self, snapshot: None })
    }

    fn snapshot(&self) -> Box<dyn View<'_> + '_> {
        Box::new(State { opened: self, snapshot: Some(self.db.snapshot()) })
    }

    fn compact(&self, start: Option<&[u8]>, limit: Option<&[u8]>) {
        self.db.compact_range(start, limit);
    }

    fn property(&self, name: &str) -> Option<String> {
        self.db.property(name)
    }

    fn approximate_size(&self, start: &[u8], limit: &[u8]) -> u64 {
        self.db.approximate_sizes(&[(start, limit)])[0]
    }

    fn close(self: Box<Self>) {
        self.db.close();
    }
}

struct State<'db> {
    opened: &'db Opened,
    snapshot: Option<Snapshot<'db>>,
}

impl State<'_> {
    fn options(&self) -> ReadOptions<'_> {
        ReadOptions {
            verify_checksums: self.opened.verify_checksums,
            snapshot: self.snapshot.as_ref(),
            ..ReadOptions::default()
        }
    }
}

impl<'db> View<'db> for State<'db> {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.opened.db.get_with(&self.options(), key).expect("LevelDB gets")
    }

    fn cursor(&self) -> Box<dyn Cursor + 'db> {
        Box::new(Place(self.opened.db.iter_with(&self.options())))
    }
}

struct Place<'db>(Iter<'db>);

impl Cursor for Place<'_> {
    fn step(&mut self, step: &Step) {
        match step {
            Step::First => self.0.seek_to_first(),
            Step::Last => self.0.seek_to_last(),
            Step::Seek(key) => self.0.seek(key),
            Step::Next => self.0.next(),
            Step::Prev => self.0.prev(),
        }
        self.0.status().expect("LevelDB iterates");
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.0.valid().then(|| (self.0.key(), self.0.value()))
    }
}
