//! What was asked of a database and what it answered: the promises that hold whatever fails.

use std::collections::BTreeMap;

use siltstone::{Db, Result};

use crate::support::{World, contents, synced, unsynced};

/// What was asked of a database, and what it answered.
#[derive(Default)]
pub(crate) struct Promises {
    acknowledged: BTreeMap<String, String>,
    /// Writes that failed. They are not visible, but a reopen may show them.
    refused: BTreeMap<String, String>,
    next: usize,
}

impl Promises {
    /// One write of a key of its own; every third is synced.
    pub(crate) fn write(&mut self, db: &Db) -> Result<()> {
        let number = self.next;
        self.next += 1;
        let key = format!("key{:04}", number * 389 % 1009); // Scattered, so that tables overlap.
        let value = format!("{number}-").repeat(60);
        let written = if number.is_multiple_of(3) {
            synced(db, &key, &value)
        } else {
            unsynced(db, &key, &value)
        };
        let answers = if written.is_ok() { &mut self.acknowledged } else { &mut self.refused };
        answers.insert(key, value);
        written
    }

    /// All that was acknowledged is there, and nothing else.
    #[track_caller]
    pub(crate) fn check(&self, db: &Db, when: &str) {
        assert_eq!(contents(db), self.acknowledged, "{when}");
    }

    /// All that was acknowledged is there; else only writes whose failure left it open.
    #[track_caller]
    pub(crate) fn check_after_reopen(&self, db: &Db, when: &str) {
        let mut found = contents(db);
        for (key, value) in &self.acknowledged {
            assert_eq!(found.remove(key).as_ref(), Some(value), "{when}: {key} was acknowledged");
        }
        for (key, value) in found {
            assert_eq!(self.refused.get(&key), Some(&value), "{when}: {key} was never written");
        }
    }

    /// Opens what a dead process would leave, and what is there after a close.
    #[track_caller]
    pub(crate) fn check_both_reopens(&self, world: &World, db: Db, when: &str) {
        let crashed = world.after_crash();
        self.check_after_reopen(&crashed.open(), &format!("{when}: after a crash"));
        let _ = db.close(); // It may tell of the failure again.
        self.check_after_reopen(&world.open(), &format!("{when}: after closing"));
    }
}

pub(crate) fn open(world: &World) -> Result<Db> {
    world.try_open_with(|options| {
        options.write_buffer_size = 1 << 10;
        options.max_file_size = 2 << 10;
        options.level1_bytes = 8 << 10;
        options.level0.compact = 2;
    })
}
