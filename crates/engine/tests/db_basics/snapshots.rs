//! Snapshots.

use std::collections::BTreeMap;

use siltstone::{ErrorKind, ReadOptions, Snapshot};

use crate::support::{Dice, World, contents, contents_at, put_all, scan};

fn at(snapshot: &Snapshot) -> ReadOptions {
    ReadOptions { snapshot: Some(snapshot.clone()), ..Default::default() }
}

/// LevelDB's `Snapshot` and `GetSnapshot`: each shows its moment, from memory and from tables.
#[test]
fn each_snapshot_shows_its_moment() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("foo", "v1")]);
    let first = db.snapshot();
    put_all(&db, &[("foo", "v2")]);
    let second = db.snapshot();
    db.delete("foo").unwrap();
    let third = db.snapshot();
    put_all(&db, &[("foo", "v4")]);
    for step in 0..3 {
        let get = |snapshot: &Snapshot| db.get_with("foo", &at(snapshot)).unwrap();
        assert_eq!(get(&first).unwrap(), b"v1", "step {step}");
        assert_eq!(get(&second).unwrap(), b"v2", "step {step}");
        assert_eq!(get(&third), None, "step {step}");
        assert_eq!(db.get("foo").unwrap().unwrap(), b"v4", "step {step}");
        assert_eq!(contents_at(&db, Some(&first))["foo"], "v1");
        assert!(contents_at(&db, Some(&third)).is_empty());
        match step {
            0 => db.flush().unwrap(),
            _ => db.compact_range(None, None).unwrap(),
        }
    }
    drop(first);
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get_with("foo", &at(&second)).unwrap().unwrap(), b"v2");
}

/// LevelDB's `GetIdenticalSnapshots`: what one of them pins stays until the last is gone.
#[test]
fn snapshots_of_one_moment_are_released_one_by_one() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("foo", "v1")]);
    let mut same = vec![db.snapshot(), db.snapshot(), db.snapshot()];
    same.push(same[0].clone());
    put_all(&db, &[("foo", "v2")]);
    while let Some(snapshot) = same.pop() {
        db.compact_range(None, None).unwrap();
        assert_eq!(db.get_with("foo", &at(&snapshot)).unwrap().unwrap(), b"v1");
    }
    let dropped = db.metrics().entries_dropped;
    put_all(&db, &[("foo", "v3")]);
    db.compact_range(None, None).unwrap();
    assert_eq!(db.metrics().entries_dropped, dropped + 2, "both older versions go");
}

/// LevelDB's `IterateOverEmptySnapshot`.
#[test]
fn a_snapshot_from_before_anything_shows_nothing() {
    let world = World::new();
    let db = world.open();
    let empty = db.snapshot();
    put_all(&db, &[("foo", "v1"), ("foo", "v2")]);
    assert!(scan(&mut db.iter_with(&at(&empty)).unwrap()).unwrap().is_empty());
    db.flush().unwrap();
    assert!(contents_at(&db, Some(&empty)).is_empty());
}

#[test]
fn a_snapshot_of_another_database_is_refused() {
    let (one, two) = (World::new(), World::new());
    let (one, two) = (one.open(), two.open());
    let foreign = one.snapshot();
    let refused = two.get_with("a", &at(&foreign)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(two.iter_with(&at(&foreign)).is_err());
}

/// leveldb issue 320: random puts, deletions and snapshots over a few hundred keys, with tables so
/// small that versions of a key are compacted apart; a snapshot's value must never change.
#[test]
fn issue_320_snapshots_do_not_change() {
    let world = World::new();
    let db = world.open_with(|options| {
        options.write_buffer_size = 8 << 10;
        options.max_file_size = 4 << 10;
        options.level1_bytes = 16 << 10;
    });
    let mut dice = Dice::new(0x9e37_79b9_7f4a_7c15);
    let mut model: BTreeMap<String, String> = BTreeMap::new();
    let mut snapshots: Vec<Option<(Snapshot, BTreeMap<String, String>)>> = vec![None; 30];
    for round in 0..12_000u64 {
        let key = format!("{:04}", dice.roll(400));
        if dice.roll(10) < 3 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = format!("{round}-").repeat(1 + dice.roll(30) as usize);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        if dice.roll(8) == 0 {
            db.run_background_step().unwrap();
        }
        if dice.roll(40) == 0 {
            let place = dice.roll(30) as usize;
            if let Some((snapshot, expected)) = snapshots[place].take() {
                assert_eq!(contents_at(&db, Some(&snapshot)), expected, "round {round}");
            } else {
                snapshots[place] = Some((db.snapshot(), model.clone()));
            }
        }
    }
    assert!(db.metrics().merges > 50, "{:?}", db.metrics());
    assert_eq!(contents(&db), model);
    for (snapshot, expected) in snapshots.iter().flatten() {
        assert_eq!(&contents_at(&db, Some(snapshot)), expected);
    }
}

/// Keys that are written over and over, or deleted: those who scan leave what they cannot see by leaps. Every snapshot
/// shows its moment, whatever lies between what it sees of one key and of the next.
#[test]
fn what_hides_or_is_newer_is_leapt_over() {
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let world = World::new();
        let db = world.open_with(|options| options.write_buffer_size = 1 << 20);
        let mut model = BTreeMap::new();
        let mut moments = Vec::new();
        for _ in 0..40 {
            let key = [
                "a",
                "a\0",
                "b",
                "the same for sixteen bytes",
                "the same for sixteen bytes, and more",
            ][dice.roll(5) as usize];
            // Around the number that is stepped over, and far more.
            for round in 0..[1, 31, 32, 33, 34, 200][dice.roll(6) as usize] {
                if dice.roll(10) == 0 {
                    db.delete(key).unwrap();
                    model.remove(key);
                } else {
                    let value = format!("{round}");
                    db.put(key, &value).unwrap();
                    model.insert(key.to_owned(), value);
                }
            }
            if dice.roll(3) == 0 {
                moments.push((db.snapshot(), model.clone()));
            }
        }
        for flushed in [false, true] {
            assert_eq!(contents(&db), model);
            for (snapshot, then) in &moments {
                assert_eq!(contents_at(&db, Some(snapshot)), *then, "seed {seed}, {flushed}");
            }
            db.flush().unwrap();
        }
        drop((db, moments));
        assert_eq!(contents(&world.open()), model);
    }
}

/// A flush writes what somebody may see, and deletions.
#[test]
fn a_flush_leaves_out_what_nobody_sees() {
    let world = World::new();
    let db = world.open();
    // Entries and deletions of each table, newest first.
    let tables = |db: &siltstone::Db| {
        let levels = db.levels();
        let tables = levels.iter().flat_map(|level| &level.tables);
        tables.filter_map(|table| table.entries).collect::<Vec<_>>()
    };
    for round in 0..500 {
        db.put("often", round.to_string()).unwrap();
        if round == 300 {
            db.delete("gone").unwrap();
        }
    }
    db.flush().unwrap();
    assert_eq!(tables(&db), [(2, 1)]);
    let snapshot = db.snapshot();
    for round in 0..500 {
        db.put("often", round.to_string()).unwrap();
    }
    let second = db.snapshot();
    db.put("often", "last").unwrap();
    db.flush().unwrap();
    assert_eq!(tables(&db), [(2, 0), (2, 1)], "what the second sees, and the last");
    let at = |snapshot: &Snapshot| db.get_with("often", &at(snapshot)).unwrap().unwrap();
    assert_eq!((at(&snapshot), at(&second)), (b"499".to_vec(), b"499".to_vec()));
    drop((snapshot, second));
    // A log that is replayed at the next open is flushed the same way.
    for round in 0..500 {
        db.put("replayed", round.to_string()).unwrap();
    }
    let log = world.after_crash();
    let db = log.open();
    assert_eq!(tables(&db)[0], (1, 0));
    assert_eq!(db.get("replayed").unwrap().unwrap(), b"499");
}
