//! Rules R1 to R4, read off the order of the calls.

use siltstone::{Db, Site};

use crate::support::{World, synced, unsynced};

/// The sites of the calls since the last look.
fn sites(world: &World) -> Vec<Site> {
    world.faults.take_trace().into_iter().map(|(site, _)| site).collect()
}

/// Checks that calls from all of `wanted` came, and in that order: the last call from each before
/// the first one from the next.
#[track_caller]
fn assert_order(trace: &[Site], wanted: &[Site]) {
    for pair in wanted.windows(2) {
        let last = trace.iter().rposition(|site| *site == pair[0]);
        let first = trace.iter().position(|site| *site == pair[1]);
        let (Some(last), Some(first)) = (last, first) else {
            panic!("{pair:?}: one of the two is missing in {trace:?}");
        };
        assert!(last < first, "{pair:?}: the other way round in {trace:?}");
    }
}

fn work_off(db: &Db) {
    while db.run_background_step().unwrap() {}
}

/// CURRENT takes its new content: rule R4 without what follows.
const SWITCH: [Site; 8] = [
    Site::ManifestSync,
    Site::ManifestDirSync,
    Site::CurrentCreate,
    Site::CurrentAppend,
    Site::CurrentSync,
    Site::CurrentClose,
    Site::CurrentRename,
    Site::CurrentDirSync,
];

/// A table comes in: rule R1 without what follows.
const ADD_TABLE: [Site; 5] = [
    Site::TableAppend,
    Site::TableSync,
    Site::TableDirSync,
    Site::ManifestAppend,
    Site::ManifestSync,
];

#[test]
fn r1_a_flushed_table_and_its_name_are_durable_before_the_edit() {
    let world = World::new();
    let db = world.open();
    db.put("a", "1").unwrap();
    world.faults.take_trace();
    db.flush().unwrap();
    work_off(&db);
    assert_order(&sites(&world), &[&ADD_TABLE[..], &[Site::WalRemove]].concat());
}

#[test]
fn r1_compacted_tables_are_durable_before_the_edit_and_inputs_go_after_it() {
    let world = World::new();
    let db = world.open();
    for value in ["old", "new"] {
        db.put("a", value).unwrap();
        db.put("z", value).unwrap();
        db.flush().unwrap();
    }
    work_off(&db);
    world.faults.take_trace();
    db.compact_range(None, None).unwrap();
    work_off(&db);
    assert_order(&sites(&world), &[&ADD_TABLE[..], &[Site::TableRemove]].concat());
}

#[test]
fn r2_a_logs_name_is_durable_before_the_first_synced_write_returns() {
    let world = World::new();
    let db = world.open();
    world.faults.take_trace();
    unsynced(&db, "a", "1").unwrap();
    assert_eq!(sites(&world), [Site::WalAppend]);
    synced(&db, "b", "2").unwrap();
    assert_eq!(sites(&world), [Site::WalAppend, Site::WalDirSync, Site::WalSync]);
    synced(&db, "c", "3").unwrap();
    // A sync mark goes ahead, by itself: a process that dies within it leaves no whole record behind.
    assert_eq!(sites(&world), [Site::WalAppend, Site::WalAppend, Site::WalSync]);
}

#[test]
fn r3_older_logs_are_synced_before_a_newer_one() {
    let world = World::new();
    let db = world.open();
    let value = vec![b'v'; 60 << 10];
    for key in ["a", "b", "c"] {
        unsynced(&db, key, &value).unwrap();
    }
    let logs = world.folder.wals();
    assert_eq!(logs.len(), 3, "two memtables wait, each with a log of its own");
    world.faults.take_trace();
    synced(&db, "e", "5").unwrap();
    let trace = world.faults.take_trace();
    let syncs: Vec<_> = trace
        .into_iter()
        .filter(|(site, _)| matches!(site, Site::WalSync | Site::WalSyncOlder | Site::WalDirSync))
        .collect();
    let expected = [
        (Site::WalDirSync, "db".to_owned()),
        (Site::WalSyncOlder, logs[0].clone()),
        (Site::WalDirSync, "db".to_owned()),
        (Site::WalSyncOlder, logs[1].clone()),
        (Site::WalDirSync, "db".to_owned()),
        (Site::WalSync, logs[2].clone()),
    ];
    assert_eq!(syncs, expected);
}

/// An empty batch asks for nothing but what was written before it.
#[test]
fn r3_an_empty_synced_batch_makes_what_came_before_it_durable() {
    let world = World::new();
    let db = world.open();
    unsynced(&db, "a", "1").unwrap();
    world.faults.take_trace();
    db.write(&siltstone::WriteBatch::new(), siltstone::WriteOptions { sync: true }).unwrap();
    assert_eq!(sites(&world), [Site::WalDirSync, Site::WalSync]);
}

#[test]
fn r4_a_new_database_is_named_when_it_is_whole() {
    let world = World::new();
    let db = world.open();
    let trace = sites(&world);
    assert_order(&trace, &[Site::DbDirCreate, Site::LockCreate, Site::DbParentSync]);
    assert_order(&trace, &[Site::DbParentSync, Site::ManifestCreate, Site::ManifestSnapshot]);
    assert_order(&trace, &SWITCH);
    drop(db);
}

#[test]
fn r4_and_r7_what_recovery_shows_is_durable_and_named_before_anything_goes() {
    let world = World::new();
    let db = world.open();
    db.put("a", "1").unwrap();
    drop(db);
    world.faults.take_trace();
    let db = world.open();
    work_off(&db);
    let trace = sites(&world);
    assert_order(&trace, &[Site::TableSync, Site::TableDirSync, Site::ManifestSnapshot]);
    assert_order(&trace, &SWITCH);
    for removal in [Site::WalRemove, Site::ManifestRemove] {
        assert_order(&trace, &[Site::CurrentDirSync, removal]);
    }
}

#[test]
fn r4_holds_for_a_manifest_that_takes_over_from_a_failed_one() {
    let world = World::new();
    let db = world.open();
    db.put("a", "1").unwrap();
    world.faults.fail_nth(Site::ManifestAppend, 1, crate::support::Fault::Full(9));
    db.flush().unwrap_err();
    world.faults.take_trace();
    db.run_background_step().unwrap();
    work_off(&db);
    let trace = sites(&world);
    assert!(!trace.contains(&Site::ManifestAppend), "the failed one takes no more");
    assert_order(&trace, &SWITCH);
    for removal in [Site::WalRemove, Site::ManifestRemove] {
        assert_order(&trace, &[Site::CurrentDirSync, removal]);
    }
}

/// R6 as far as order goes: a log that takes over is whole and durable before it has its name.
#[test]
fn r6_a_log_that_takes_over_is_durable_before_it_is_named() {
    let world = World::new();
    let db = world.open();
    db.put("a", "1").unwrap();
    world.faults.fail_nth(Site::WalAppend, 1, crate::support::Fault::Full(9));
    db.put("b", "2").unwrap_err();
    world.faults.take_trace();
    db.put("c", "3").unwrap();
    work_off(&db);
    let order = [Site::WalCreate, Site::WalSyncRelog, Site::WalRename, Site::WalDirSync];
    assert_order(&sites(&world), &order);
}
