//! One workload, failed at every call it makes, in every way; and the promises that hold whatever
//! fails. The other modules let single sites fail for as long as they like.

use std::collections::BTreeMap;

use siltstone::{Db, Result, Site};

use crate::support::{Fault, World, contents, synced, unsynced};

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

    /// After a reopen: what it shows stays.
    fn adopt(&mut self, db: &Db) {
        self.check_after_reopen(db, "reopened in between");
        self.acknowledged.extend(contents(db));
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

/// Writes, flushes, compactions and a reopen. Failures are noted and worked past, as a patient
/// user would.
fn workload(world: &World, db: &mut Option<Db>, promises: &mut Promises) {
    for round in 0..30 {
        let Some(open_db) = db.as_ref() else { break };
        let _ = promises.write(open_db);
        if round % 8 == 5 {
            let _ = open_db.flush();
        }
        if round % 5 == 4 {
            let _ = open_db.run_background_step();
        }
        if round == 20 {
            let _ = db.take().unwrap().close();
            *db = open(world).ok();
            db.iter().for_each(|db| promises.adopt(db));
        }
    }
    for _ in 0..40 {
        let _ = db.as_ref().map(Db::run_background_step);
    }
}

const FAULTS: [Fault; 5] =
    [Fault::Io, Fault::NoSpace, Fault::Torn(9), Fault::Full(9), Fault::DoneUntold];

/// Runs the workload with the `n`-th call from `site` failing.
fn run(site: Site, n: u64, fault: Fault) {
    let when = format!("{fault:?} at call {n} of {}", site.name());
    let world = World::new();
    world.faults.fail_nth(site, n, fault);
    let mut promises = Promises::default();
    let mut db = open(&world).ok();
    workload(&world, &mut db, &mut promises);
    assert_eq!(world.faults.fired(), 1, "{when}: the workload comes by there");
    if let Some(db) = &db {
        promises.check(db, &when);
    }
    let db = db.unwrap_or_else(|| open(&world).unwrap());
    promises.check_both_reopens(&world, db, &when);
}

/// The calls of a run in which nothing fails.
fn calls() -> BTreeMap<Site, u64> {
    let world = World::new();
    let mut promises = Promises::default();
    let mut db = Some(open(&world).unwrap());
    workload(&world, &mut db, &mut promises);
    promises.check(db.as_ref().unwrap(), "nothing fails");
    world.faults.sites_reached().into_iter().map(|site| (site, world.faults.calls(site))).collect()
}

#[test]
fn any_call_may_fail_once() {
    let calls = calls();
    for site in [Site::WalSyncOlder, Site::TableRemove, Site::WalRemove, Site::ManifestRemove] {
        assert!(calls.contains_key(&site), "the workload reaches {}", site.name());
    }
    for (site, count) in calls {
        for n in 1..=count {
            for fault in FAULTS {
                run(site, n, fault);
            }
        }
    }
}

/// A crash while recovering from a crash: whatever call of an open fails, the next one succeeds.
#[test]
fn any_call_of_an_open_may_fail() {
    let world = World::new();
    let mut promises = Promises::default();
    let db = open(&world).unwrap();
    for _ in 0..40 {
        promises.write(&db).unwrap();
    }
    let image = world.folder.files();
    let trace = {
        let world = World::with_files(&image);
        drop(open(&world).unwrap());
        world.faults.take_trace()
    };
    let mut counts: BTreeMap<Site, u64> = BTreeMap::new();
    for (site, _) in trace {
        let n = *counts.entry(site).and_modify(|n| *n += 1).or_insert(1);
        for fault in FAULTS {
            let when = format!("{fault:?} at call {n} of {}", site.name());
            let world = World::with_files(&image);
            world.faults.fail_nth(site, n, fault);
            let opened = open(&world);
            if let Ok(db) = &opened {
                promises.check(db, &when);
            }
            drop(opened);
            let crashed = world.after_crash();
            promises.check(&open(&crashed).unwrap(), &format!("{when}: after a crash"));
            promises.check(&open(&world).unwrap(), &format!("{when}: opened again"));
        }
    }
}
