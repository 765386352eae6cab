//! Body: operations on a database beside a model, with calls that fail, crashes and reopens.

use siltstone::{
    Db, Options, ReadOptions, Result, Site, Snapshot, WriteBatch, WriteOptions, verify,
};
use siltstone_sim::{Fault, World};

use crate::input::Input;
use crate::model::{Model, Update};
use crate::reading::{DIR, Pairs, after_death, contents, options, world};

/// Each byte picks an operation; those that need more take the bytes behind.
pub(crate) fn operations(input: &[u8]) {
    let mut input = Input(input);
    let mut run = Run::new(input.byte());
    while !input.is_empty() {
        run.step(&mut input);
    }
    run.end();
}

/// A database under way.
pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) model: Model,
    db: Option<Db>,
    snapshots: Vec<(Snapshot, Pairs)>,
    /// Calls that had failed when the database was opened.
    failed_before: u64,
    reads_fail: bool,
    reuse_logs: bool,
    /// Checks the files at the end.
    verifies: bool,
}

/// Keys of every length and of shared beginnings.
pub(crate) fn key(input: &mut Input<'_>) -> Vec<u8> {
    let number = input.below(24);
    match number % 3 {
        0 => vec![b'a' + number as u8],
        1 => format!("prefix/{number:02}").into_bytes(),
        _ => vec![0xff; number],
    }
}

impl Run {
    pub(crate) fn new(mode: u8) -> Self {
        let mut run = Run {
            world: world(&[]),
            model: Model::default(),
            db: None,
            snapshots: Vec::new(),
            failed_before: 0,
            reads_fail: false,
            reuse_logs: mode & 1 == 1,
            verifies: mode & 6 == 0,
        };
        let made = Db::open(DIR, Options { create_if_missing: true, ..run.options() });
        run.db = Some(made.expect("nothing keeps it from being made"));
        run
    }

    pub(crate) fn options(&self) -> Options {
        Options { reuse_logs: self.reuse_logs, ..options(&self.world.env) }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 22 {
            0..=15 => self.harmless_step(input),
            16 | 17 => self.fail_a_call(input),
            18 => {
                let part = [".ldb", ".log", "MANIFEST", "CURRENT"][input.below(4)];
                self.world.faults.fail_reads(part);
                self.reads_fail = true;
            }
            19 => self.heal(),
            20 => self.reopen(),
            _ => self.crash(),
        }
    }

    /// Anything but faults and crashes.
    pub(crate) fn harmless_step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0..=3 => self.write(input, 1),
            4 => {
                let updates = 1 + input.below(6);
                self.write(input, updates);
            }
            5 | 6 => self.get(input),
            7 => self.scan(),
            8 => self.with(|db| db.flush()),
            9 => {
                let (from, to) = (key(input), key(input));
                self.with(|db| db.compact_range(Some(&from), Some(&to)));
            }
            10 => self.with(|db| db.compact_range(None, None)),
            11 | 12 => self.with(|db| db.run_background_step().map(drop)),
            13 => self.take_snapshot(),
            14 => self.check_snapshot(input),
            _ => self.close_and_reopen(),
        }
    }

    /// Does something that fails only if a call has.
    fn with(&mut self, action: impl FnOnce(&Db) -> Result<()>) {
        let Some(db) = &self.db else { return };
        let result = action(db);
        self.may_fail(result);
    }

    fn may_fail<T>(&self, result: Result<T>) -> Option<T> {
        let disturbed = self.reads_fail || self.world.faults.fired() > self.failed_before;
        match result {
            Err(error) if !disturbed => panic!("no call has failed: {error}"),
            result => result.ok(),
        }
    }

    fn write(&mut self, input: &mut Input<'_>, updates: usize) {
        if self.db.is_none() || !self.model.can_tell() {
            return;
        }
        let updates: Vec<Update> = (0..updates).map(|_| self.update(input)).collect();
        let sync = input.byte() & 3 == 0;
        let mut batch = WriteBatch::new();
        for (key, value) in &updates {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        let written = self.db.as_ref().map(|db| db.write(&batch, WriteOptions { sync }));
        let acknowledged = written.and_then(|written| self.may_fail(written)).is_some();
        self.model.wrote(updates, acknowledged);
    }

    fn update(&mut self, input: &mut Input<'_>) -> Update {
        let key = key(input);
        let value = match input.byte() {
            0..0x40 => None,
            len => Some(self.model.new_value(&key, usize::from(len - 0x40) * 2)),
        };
        (key, value)
    }

    fn get(&mut self, input: &mut Input<'_>) {
        let key = key(input);
        let Some(db) = &self.db else { return };
        if let Some(found) = self.may_fail(db.get(&key)) {
            assert_eq!(found.as_ref(), self.model.get(&key), "get of {}", key.escape_ascii());
        }
    }

    fn scan(&mut self) {
        let Some(db) = &self.db else { return };
        if let Some(found) = self.may_fail(contents(db)) {
            assert_eq!(found, self.model.now());
        }
    }

    fn take_snapshot(&mut self) {
        let Some(db) = &self.db else { return };
        self.snapshots.truncate(2);
        self.snapshots.insert(0, (db.snapshot(), self.model.now()));
    }

    fn check_snapshot(&mut self, input: &mut Input<'_>) {
        let (Some(db), Some((snapshot, seen))) = (&self.db, self.snapshots.last()) else { return };
        let key = key(input);
        let reading = ReadOptions { snapshot: Some(snapshot.clone()), ..Default::default() };
        if let Some(found) = self.may_fail(db.get_with(&key, &reading)) {
            let expected = seen.iter().find(|(known, _)| *known == key).map(|(_, value)| value);
            assert_eq!(found.as_ref(), expected, "get of {} as of then", key.escape_ascii());
        }
    }

    fn fail_a_call(&mut self, input: &mut Input<'_>) {
        let what = usize::from(input.byte());
        let how = input.byte();
        let bytes = usize::from(how >> 3);
        let faults =
            [Fault::Io, Fault::NoSpace, Fault::Torn(bytes), Fault::Full(bytes), Fault::DoneUntold];
        let (fault, nth) = (faults[usize::from(how) % 5], u64::from(how >> 6) + 1);
        let faults = &self.world.faults;
        match (Site::ALL.get(what), how & 0x20 == 0) {
            (Some(site), true) => faults.fail_nth(*site, nth, fault),
            (Some(site), false) => faults.fail_from(*site, nth, fault),
            // Past the sites: calls of any kind, reads among them.
            (None, true) => faults.fail_call(nth * 16 - (what as u64) % 16, fault),
            (None, false) => faults.fail_calls_from(nth * 16 - (what as u64) % 16, fault),
        }
    }

    fn heal(&mut self) {
        self.world.faults.heal();
        self.reads_fail = false;
    }

    fn close(&mut self) {
        self.snapshots.clear();
        if let Some(db) = self.db.take() {
            self.may_fail(db.close());
        }
    }

    fn close_and_reopen(&mut self) {
        self.close();
        self.open();
    }

    /// As a careless user: the handle is dropped.
    fn reopen(&mut self) {
        self.snapshots.clear();
        self.db = None;
        self.open();
    }

    /// Goes on with what a dead process leaves.
    fn crash(&mut self) {
        self.snapshots.clear();
        let after = after_death(&self.world);
        self.db = None;
        self.world = after;
        (self.reads_fail, self.failed_before) = (false, 0);
        self.open();
    }

    /// If calls fail, so may this, but not once they no longer do.
    fn open(&mut self) {
        self.failed_before = self.world.faults.fired();
        let opened = Db::open(DIR, self.options());
        let opened = self.may_fail(opened).unwrap_or_else(|| {
            self.heal();
            self.failed_before = self.world.faults.fired();
            Db::open(DIR, self.options()).expect("nothing keeps it from opening any more")
        });
        let found = self.world.faults.aside(|| contents(&opened));
        self.model.adopt(found.expect("nothing keeps it from being read"));
        self.db = Some(opened);
    }

    fn end(mut self) {
        self.heal();
        self.crash();
        self.close();
        if !self.verifies {
            return;
        }
        let report = verify(DIR, &self.options()).expect("there is a database");
        assert!(report.is_ok(), "{report}");
    }

    /// Leaves the files to their fate.
    pub(crate) fn leave(mut self, crashed: bool) -> (World, Model) {
        if !crashed {
            self.close();
            return (self.world, self.model);
        }
        let after = after_death(&self.world);
        self.snapshots.clear();
        self.db = None;
        (after, self.model)
    }
}
