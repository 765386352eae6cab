//! Logs beside the levels: what they hold is read, kept, drained and repaired as anything else is.

use std::collections::BTreeMap;

use siltstone::{Area, Background, Compaction, Db, Env, Level, Options, RepairOptions};

use crate::work_off;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u32 = 3_000;
const WITH_LOGS: [Compaction; 2] = [Compaction::Sliced, Compaction::L2sm];

fn options(env: &Env, compaction: Compaction) -> Options {
    Options {
        create_if_missing: true,
        env: env.clone(),
        info_log: false,
        write_buffer_size: 8 << 10,
        max_file_size: 2 << 10,
        level1_bytes: 8 << 10,
        background: Background::ByHand,
        unclamped: true,
        compaction,
        ..Default::default()
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("{:05}", number.wrapping_mul(2_654_435_761) % KEYS).into_bytes()
}

/// Bytes that do not compress.
fn value(number: u32) -> Vec<u8> {
    let mut word = u64::from(number) + 1;
    let words = (0..8).flat_map(|_| {
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        word.to_le_bytes()
    });
    words.collect()
}

/// Random updates and deletions, and what is there then.
fn fill(db: &Db, model: &mut Map, writes: std::ops::Range<u32>) {
    for number in writes {
        let (key, value) = (key(number), value(number));
        if number % 5 == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    work_off(db);
}

fn filled(env: &Env, compaction: Compaction) -> (Db, Map) {
    let db = Db::open("db", options(env, compaction)).unwrap();
    let mut model = Map::new();
    fill(&db, &mut model, 0..20_000);
    assert!(logged(&db) > 0, "{compaction:?}");
    (db, model)
}

fn logged(db: &Db) -> usize {
    db.levels().iter().filter(|part| part.area == Area::SstLog).map(|part| part.tables.len()).sum()
}

/// By gets, and by scans both ways.
fn check(db: &Db, model: &Map) {
    for number in 0..KEYS {
        let key = format!("{number:05}").into_bytes();
        assert_eq!(db.get(&key).unwrap(), model.get(&key).cloned(), "{number}");
    }
    let forward: Map = db.iter().unwrap().entries().unwrap().map(Result::unwrap).collect();
    assert!(forward == *model);
    let mut iter = db.iter().unwrap();
    iter.seek_to_last().unwrap();
    for (key, value) in model.iter().rev() {
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
        iter.prev().unwrap();
    }
    assert!(!iter.valid());
}

#[test]
fn what_logs_hold_is_read_and_survives() {
    for compaction in WITH_LOGS {
        let env = Env::memory();
        let (db, mut model) = filled(&env, compaction);
        check(&db, &model);
        let snapshot = db.snapshot();
        let before = model.clone();
        fill(&db, &mut model, 20_000..30_000);
        check(&db, &model);
        let read = siltstone::ReadOptions { snapshot: Some(snapshot), ..Default::default() };
        for (key, value) in before {
            assert_eq!(db.get_with(&key, &read).unwrap(), Some(value));
        }
        drop((db, read));
        let db = Db::open("db", options(&env, compaction)).unwrap();
        assert!(logged(&db) > 0, "{compaction:?}");
        check(&db, &model);
        let read_only = options(&env, compaction);
        check(&Db::open_read_only("db", read_only).unwrap(), &model);
    }
}

/// Scans and gets pay for each table of a log that they go through. When they have paid what it costs to merge some of it,
/// that is done, until there is none.
#[test]
fn logs_are_merged_for_those_who_read() {
    for wanted in [true, false] {
        let env = Env::memory();
        let options = Options { scan_compaction: wanted, ..options(&env, Compaction::Sliced) };
        let db = Db::open("db", options).unwrap();
        let mut model = Map::new();
        fill(&db, &mut model, 0..20_000);
        let gets = || (0..KEYS * 40).for_each(|number| drop(db.get(key(number)).unwrap()));
        let scans = || (0..2_000).for_each(|number| db.iter().unwrap().seek(key(number)).unwrap());
        // How often reads had to come until something was merged.
        let merges_after = |reads: &dyn Fn()| {
            let merged = || db.metrics().compaction_bytes_written;
            let before = merged();
            (1..=20).find(|_| {
                reads();
                work_off(&db);
                merged() > before
            })
        };
        assert_eq!(merges_after(&gets).is_some(), wanted);
        assert_eq!(merges_after(&scans).is_some(), wanted);
        while wanted && merges_after(&scans).is_some() {}
        assert_eq!(logged(&db) == 0, wanted);
        assert_eq!(merges_after(&gets), None, "nothing is left to pay for");
        check(&db, &model);
    }
}

/// Another policy at each open: each goes on with what the others have left.
#[test]
fn policies_take_turns_on_one_database() {
    let env = Env::memory();
    let mut model = Map::new();
    for turn in 0..12 {
        let compaction = Compaction::ALL[turn % Compaction::ALL.len()];
        let db = Db::open("db", options(&env, compaction)).unwrap();
        let from = 7_000 * turn as u32;
        fill(&db, &mut model, from..from + 7_000);
        check(&db, &model);
        if !WITH_LOGS.contains(&compaction) {
            assert_eq!(logged(&db), 0, "{compaction:?} drains what others left");
        }
    }
}

#[test]
fn drained_logs_are_gone_and_stay_so() {
    for compaction in WITH_LOGS {
        let env = Env::memory();
        let (db, mut model) = filled(&env, compaction);
        db.drain_logs().unwrap();
        assert_eq!(logged(&db), 0);
        check(&db, &model);
        fill(&db, &mut model, 20_000..25_000);
        assert_eq!(logged(&db), 0, "until the next open");
        check(&db, &model);
        let reader = Db::open_read_only("db", options(&env, compaction)).unwrap();
        assert_eq!(reader.drain_logs().unwrap_err().kind(), siltstone::ErrorKind::ReadOnly);
    }
}

#[test]
fn compacted_ranges_leave_nothing_in_logs() {
    for compaction in WITH_LOGS {
        let env = Env::memory();
        let (db, model) = filled(&env, compaction);
        db.compact_range(None, None).unwrap();
        work_off(&db);
        assert_eq!(logged(&db), 0, "{compaction:?}");
        check(&db, &model);
        let deepest = db.levels().into_iter().next_back().unwrap();
        let entries: u64 =
            deepest.tables.iter().filter_map(|table| table.entries).map(|(all, _)| all).sum();
        assert_eq!(entries, model.len() as u64, "no deletion is left");
    }
}

/// A flush goes to level 0, however empty the levels below look.
#[test]
fn new_data_lies_above_what_logs_hold() {
    let env = Env::memory();
    let (db, mut model) = filled(&env, Compaction::Sliced);
    let low = model.keys().next().unwrap().clone();
    db.put(&low, "newest").unwrap();
    model.insert(low, b"newest".to_vec());
    db.flush().unwrap();
    let first = db.levels().into_iter().next().unwrap();
    assert_eq!((first.level, first.tables.len()), (Level::new(0).unwrap(), 1));
    check(&db, &model);
}

#[test]
fn checkpoints_have_the_logs_too() {
    for compaction in WITH_LOGS {
        let env = Env::memory();
        let (db, model) = filled(&env, compaction);
        db.checkpoint("copy").unwrap();
        drop(db);
        let copy = Db::open("copy", options(&env, compaction)).unwrap();
        assert!(logged(&copy) > 0);
        check(&copy, &model);
    }
}

#[test]
fn verify_finds_nothing_wrong() {
    let env = Env::memory();
    let (db, _) = filled(&env, Compaction::Sliced);
    drop(db);
    let report = siltstone::verify("db", &options(&env, Compaction::Sliced)).unwrap();
    assert_eq!(report.problems().count(), 0);
}

/// What a slice has taken out of a table is not brought back, though its bytes are still there. Keys are deleted and their
/// deletions merged until nothing else knows of them, while the tables that held them still count elsewhere.
#[test]
fn repair_leaves_out_what_does_not_count_any_more() {
    let env = Env::memory();
    let (db, mut model) = filled(&env, Compaction::Sliced);
    for round in 0..30 {
        for number in 0..400 {
            let key = key(1_000 * round + number);
            db.delete(&key).unwrap();
            model.remove(&key);
        }
        db.flush().unwrap();
        work_off(&db);
        db.checkpoint(format!("copy{round}")).unwrap();
        let (from, to) = (format!("copy{round}"), format!("saved{round}"));
        let options = options(&env, Compaction::Sliced);
        siltstone::repair_with(&from, &to, &options, &RepairOptions::default()).unwrap();
        check(&Db::open(&to, options).unwrap(), &model);
        fill(&db, &mut model, 1_000 * round..1_000 * round + 700);
    }
}

#[test]
fn approximate_sizes_count_logs() {
    let env = Env::memory();
    let (db, _) = filled(&env, Compaction::Sliced);
    let stored: u64 = db.levels().iter().map(siltstone::LevelInfo::bytes).sum();
    let size = db.approximate_sizes(&[(b"0", b"99999")]).unwrap()[0];
    assert!(size > stored * 8 / 10 && size <= stored, "{size} of {stored}");
}
