//! siltstone behind the common interface.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use siltstone::{
    BloomFilter, Comparator, Compression, Db, DbIterator, FilterPolicy, Options, ReadOptions,
    Snapshot, WriteBatch, WriteOptions,
};

use super::{
    BACKWARDS_NAME, Change, Cursor, Database, Durability, Entry, OpenError, Order, Settings, Step,
    View, backwards,
};

pub(super) fn open(path: &Path, settings: &Settings) -> Result<Box<dyn Database>, OpenError> {
    let db = Db::open(path, options(settings))
        .map_err(|error| OpenError { is_locked: error.is_locked(), text: error.to_string() })?;
    Ok(Box::new(Opened { db, verify_checksums: settings.paranoid }))
}

fn options(settings: &Settings) -> Options {
    let filter = |bits| match settings.wide_filters {
        true => BloomFilter::wide(bits),
        false => BloomFilter::new(bits),
    };
    Options {
        create_if_missing: true,
        paranoid_checks: settings.paranoid,
        write_buffer_size: settings.write_buffer_bytes,
        max_file_size: settings.table_bytes,
        block_size: settings.block_bytes,
        block_restart_interval: settings.restart_interval,
        compression: if settings.snappy { Compression::Snappy } else { Compression::None },
        reuse_logs: settings.reuse_logs,
        filter_policy: settings
            .bloom_bits
            .map(|bits| Arc::new(filter(bits)) as Arc<dyn FilterPolicy>),
        comparator: match settings.order {
            Order::Bytewise => None,
            Order::Backwards => Some(Arc::new(Backwards)),
        },
        ..Options::default()
    }
}

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        BACKWARDS_NAME
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        backwards(a, b)
    }
}

struct Opened {
    db: Db,
    verify_checksums: bool,
}

impl Database for Opened {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.db.put(key, value).expect("siltstone puts");
    }

    fn delete(&self, key: &[u8]) {
        self.db.delete(key).expect("siltstone deletes");
    }

    fn write(&self, changes: &[Change], durability: Durability) {
        let mut batch = WriteBatch::new();
        for change in changes {
            match change {
                Change::Put(key, value) => batch.put(key, value),
                Change::Delete(key) => batch.delete(key),
            }
        }
        let options = WriteOptions { sync: durability == Durability::Synced };
        self.db.write(&batch, options).expect("siltstone writes");
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.db.get(key).expect("siltstone gets")
    }

    fn now(&self) -> Box<dyn View<'_> + '_> {
        Box::new(State { opened: self, snapshot: None })
    }

    fn snapshot(&self) -> Box<dyn View<'_> + '_> {
        Box::new(State { opened: self, snapshot: Some(self.db.snapshot()) })
    }

    fn compact(&self, start: Option<&[u8]>, limit: Option<&[u8]>) {
        self.db.compact_range(start, limit).expect("siltstone compacts");
    }

    fn property(&self, name: &str) -> Option<String> {
        self.db.property(name)
    }

    fn approximate_size(&self, start: &[u8], limit: &[u8]) -> u64 {
        self.db.approximate_sizes(&[(start, limit)]).expect("siltstone estimates")[0]
    }

    fn close(self: Box<Self>) {
        self.db.close().expect("siltstone closes");
    }
}

struct State<'db> {
    opened: &'db Opened,
    snapshot: Option<Snapshot>,
}

impl State<'_> {
    fn options(&self) -> ReadOptions {
        ReadOptions {
            verify_checksums: self.opened.verify_checksums,
            snapshot: self.snapshot.clone(),
            ..ReadOptions::default()
        }
    }
}

impl<'db> View<'db> for State<'db> {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.opened.db.get_with(key, &self.options()).expect("siltstone gets")
    }

    fn cursor(&self) -> Box<dyn Cursor + 'db> {
        let cursor = self.opened.db.iter_with(&self.options());
        Box::new(Place(cursor.expect("siltstone iterates")))
    }
}

struct Place(DbIterator);

impl Cursor for Place {
    fn step(&mut self, step: &Step) {
        let moved = match step {
            Step::First => self.0.seek_to_first(),
            Step::Last => self.0.seek_to_last(),
            Step::Seek(key) => self.0.seek(key),
            Step::Next => self.0.next(),
            Step::Prev => self.0.prev(),
        };
        moved.expect("siltstone iterates");
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.0.valid().then(|| (self.0.key(), self.0.value()))
    }
}
