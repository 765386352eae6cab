//! Damaged tables, read and compacted.

use std::sync::Arc;

use siltstone::{BlockCache, Db, ErrorKind, ReadOptions, repair, verify};

use crate::support::{World, contents, put_all, scan, scan_back};

const KEYS: usize = 100;

fn key(number: usize) -> String {
    format!("{number:04}")
}

/// A closed database of one table with several blocks; and the table's name.
fn one_table() -> (World, String) {
    let world = World::new();
    let db = world.open_with(|options| options.block_size = 512);
    for number in 0..KEYS {
        db.put(key(number), format!("value {number}")).unwrap();
    }
    db.flush().unwrap();
    while db.run_background_step().unwrap() {}
    drop(db);
    let table = world.folder.tables().remove(0);
    (world, table)
}

/// Every key's value is right, missing only with an error, and errors name the table.
fn check_answers(db: &Db, table: &str, when: &str) -> usize {
    let mut failed = 0;
    for number in 0..KEYS {
        match db.get(key(number)) {
            Ok(value) => {
                assert_eq!(value, Some(format!("value {number}").into_bytes()), "{when}");
            }
            Err(error) => {
                assert!(error.is_corruption(), "{when}: {error}");
                assert!(error.file().unwrap().ends_with(table), "{when}: {error}");
                failed += 1;
            }
        }
    }
    let Ok(mut iter) = db.iter() else { return failed };
    for scanned in [scan(&mut iter), scan_back(&mut iter)] {
        match scanned {
            Ok(pairs) => assert_eq!(pairs.len(), KEYS, "{when}: a scan never just ends"),
            Err(error) => {
                assert!(error.is_corruption(), "{when}: {error}");
                assert!(!iter.valid(), "{when}");
                failed += 1;
            }
        }
    }
    failed
}

/// LevelDB's `TableFile` and `TableFileIndexData`, at every byte of the file.
#[test]
fn a_flipped_bit_is_never_a_wrong_answer() {
    let (world, table) = one_table();
    let image = world.folder.files();
    let len = world.folder.len(&table);
    let mut noticed = 0;
    for at in 0..len {
        let damaged = World::with_files(&image);
        damaged.folder.flip(&table, at);
        let db = damaged.open();
        noticed += u64::from(check_answers(&db, &table, &format!("byte {at}")) > 0);
    }
    assert!(noticed * 10 > len * 7, "{noticed} of {len}: the rest is not needed for these reads");
}

/// Damage costs the keys of its block, and those around it can be read.
#[test]
fn damage_is_confined_to_its_block() {
    let (world, table) = one_table();
    world.folder.flip(&table, 700);
    let db = world.open();
    let failed = (0..KEYS).filter(|number| db.get(key(*number)).is_err()).count();
    assert!((1..KEYS / 2).contains(&failed), "{failed} keys");
    let error = (0..KEYS).find_map(|number| db.get(key(number)).err()).unwrap();
    let offset = error.offset().unwrap();
    assert!((200..=700).contains(&offset), "{error}: the block's own offset");
    assert!(error.to_string().contains(&format!("{table} at byte {offset}: ")), "{error}");
}

/// Checksums are verified unless the reader says otherwise; then nothing is promised but that
/// nothing breaks.
#[test]
fn unverified_reads_of_damage_do_not_panic() {
    let (world, table) = one_table();
    let image = world.folder.files();
    for at in (0..world.folder.len(&table)).step_by(3) {
        let damaged = World::with_files(&image);
        damaged.folder.flip(&table, at);
        let db = damaged.open();
        let options = ReadOptions { verify_checksums: false, ..Default::default() };
        for number in 0..KEYS {
            let _ = db.get_with(key(number), &options);
        }
        if let Ok(mut iter) = db.iter_with(&options) {
            let _ = (scan(&mut iter), scan_back(&mut iter));
        }
    }
}

#[test]
fn a_table_of_another_length_is_noticed() {
    let (world, table) = one_table();
    let len = world.folder.len(&table) as usize;
    let image = world.folder.files();
    for new_len in [0, 1, 47, 48, len / 2, len - 1, len + 1, 2 * len] {
        let damaged = World::with_files(&image);
        damaged.folder.edit(&table, |bytes| bytes.resize(new_len, 0));
        let failed = match damaged.try_open() {
            Ok(db) => check_answers(&db, &table, &format!("{new_len} of {len} bytes")),
            Err(error) => usize::from(error.is_corruption()),
        };
        assert!(failed > 0, "{new_len} of {len} bytes");
    }
}

/// LevelDB's `UnrelatedKeys`: what does not touch the damage goes on.
#[test]
fn damage_to_a_table_leaves_other_keys_alone() {
    let (world, table) = one_table();
    world.folder.flip(&table, 100);
    let db = world.open();
    put_all(&db, &[("zz", "unrelated")]);
    assert_eq!(db.get("zz").unwrap(), Some(b"unrelated".to_vec()));
    db.flush().unwrap();
    assert_eq!(db.get("zz").unwrap(), Some(b"unrelated".to_vec()));
}

/// LevelDB's `CompactionInputError`: what cannot be read cannot be merged. It is told, nothing is
/// installed, and everything that could be read before can be read afterwards.
#[test]
fn a_compaction_that_meets_damage_changes_nothing() {
    let (world, table) = one_table();
    world.folder.flip(&table, 700);
    let db = world.open();
    put_all(&db, &[("0000", "new"), ("0099", "new")]);
    let before = (0..KEYS).map(|number| db.get(key(number)).ok()).collect::<Vec<_>>();
    let error = db.compact_range(None, None).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(error.file().unwrap().ends_with(&table), "{error}");
    let refused = db.put("x", "1").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    assert!(refused.to_string().contains(&table), "the first cause is told: {refused}");
    let after = (0..KEYS).map(|number| db.get(key(number)).ok()).collect::<Vec<_>>();
    assert_eq!(before, after);
    let files = world.folder.tables();
    drop(db);
    let db = world.open();
    assert_eq!(world.folder.tables()[..files.len().min(2)], files[..files.len().min(2)]);
    assert_eq!(db.get("0000").unwrap(), Some(b"new".to_vec()));
}

/// A block that was read well stays readable from the cache; a failed one is not kept.
#[test]
fn damaged_blocks_are_not_cached() {
    let (world, table) = one_table();
    world.folder.flip(&table, 10);
    let db = world.open_with(|options| {
        options.block_cache = Some(Arc::new(BlockCache::new(1 << 20)));
    });
    for _ in 0..3 {
        assert!(db.get(key(0)).unwrap_err().is_corruption());
    }
    assert!(db.get(key(KEYS - 1)).unwrap().is_some());
}

/// A table of four blocks that are a sector long each, so that whole blocks change places with the
/// sectors of a disk; and its name.
fn sector_blocks() -> (World, String) {
    let world = World::new();
    let db = world.open_with(|options| {
        options.block_size = 256;
        options.compression = siltstone::Compression::None;
    });
    // Lengths, key and tag, restart point and count, trailer.
    let value = 512 - 4 - (4 + 8) - (4 + 4) - 5;
    for number in 0..4 {
        db.put(key(number), number.to_string().repeat(value)).unwrap();
    }
    db.flush().unwrap();
    drop(db);
    let table = world.folder.tables().remove(0);
    (world, table)
}

/// A disk that writes a sector to another one's place: the block there is sound, so its checksum does
/// not tell, and the keys that belong there would be gone without an error. A compaction would copy
/// them out of order.
#[test]
fn regress_a_block_in_the_place_of_another() {
    let (world, table) = sector_blocks();
    let image = world.folder.files();
    for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
        let damaged = World::with_files(&image);
        damaged
            .folder
            .edit(&table, |bytes| bytes.copy_within(from * 512..from * 512 + 512, to * 512));
        let db = damaged.open();
        let wrong = |number: usize| match db.get(key(number)) {
            Ok(found) => {
                found.is_none_or(|value| !value.starts_with(number.to_string().as_bytes()))
            }
            Err(error) => {
                assert_eq!(error.offset(), Some(to as u64 * 512), "{error}");
                assert!(number == to && from != to, "{error}");
                false
            }
        };
        assert!(!(0..4).any(wrong), "{from} over {to}");
        assert_eq!(db.get(key(to)).is_err(), from != to, "{from} over {to}");
        let mut iter = db.iter().unwrap();
        assert_eq!(scan(&mut iter).is_err(), from != to, "{from} over {to}");
        assert_eq!(scan_back(&mut iter).is_err(), from != to, "{from} over {to}");
        put_all(&db, &[(&key(1), "new")]); // So that there is something to merge.
        assert_eq!(db.compact_range(None, None).is_err(), from != to, "{from} over {to}");
    }
}

/// Tables that are whole but not the ones that the manifest means, as a restored backup may have
/// them: no read takes one for the other, whether their sizes give them away or not.
#[test]
fn swapped_tables_are_told_apart() {
    for value in ["of the same size", "of another size, because it is longer"] {
        let world = World::new();
        let db = world.open();
        put_all(&db, &[("a", "1"), ("b", "of the same size")]);
        db.flush().unwrap();
        put_all(&db, &[("a", "2"), ("b", value)]);
        db.flush().unwrap();
        drop(db);
        let tables = world.folder.tables();
        let (first, second) = (world.folder.read(&tables[0]), world.folder.read(&tables[1]));
        world.folder.write(&tables[0], &second);
        world.folder.write(&tables[1], &first);

        let report = verify("/db", &world.options()).unwrap();
        let found: Vec<String> = report.problems().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        if first.len() == second.len() {
            let number = |name: &String| name[..6].parse::<u64>().unwrap();
            let (is, named) = (number(&tables[1]), number(&tables[0]));
            let message = format!("this is table {is} under the name of {named}");
            assert!(found[0].contains(&tables[0]) && found[0].contains(&message), "{found:?}");
        }
        let db = world.open();
        let error = db.get("a").unwrap_err();
        assert!(error.is_corruption(), "{error}");
        assert!(error.file().unwrap().ends_with(&tables[1]), "the newest is asked first: {error}");
        assert!(db.iter().and_then(|mut iter| scan(&mut iter)).is_err());
        drop(db);

        world.folder.write(&tables[0], &first);
        world.folder.write(&tables[1], &second);
        assert_eq!(contents(&world.open())["b"], value);
    }
}

/// A table of another database, of the same number and size, whose keys are all less than those of its
/// neighbour: merged as they come, they would make a table that is not sorted.
#[test]
fn regress_a_compaction_of_keys_that_descend() {
    let tables_of = |first: char| {
        let world = World::new();
        let db = world.open_with(|options| options.max_file_size = 1 << 10);
        for number in 0..40 {
            db.put(format!("{first}{number:03}"), "v".repeat(100)).unwrap();
        }
        db.compact_range(None, None).unwrap();
        drop(db);
        world
    };
    let (world, other) = (tables_of('m'), tables_of('a'));
    let last = world.folder.tables().pop().unwrap();
    assert!(world.folder.tables().len() > 2);
    assert_eq!(world.folder.len(&last), other.folder.len(&last));
    world.folder.write(&last, &other.folder.read(&last));
    assert!(!verify("/db", &world.options()).unwrap().is_ok());
    let db = world.open();
    put_all(&db, &[("m000", "new"), ("m039", "new")]);
    let error = db.compact_range(None, None).unwrap_err();
    assert!(error.is_corruption() && error.file().unwrap().ends_with(&last), "{error}");
}

/// The tables of a repaired database carry their new names' numbers, those of a checkpoint keep
/// their old ones.
#[test]
fn copies_and_repaired_databases_know_their_tables() {
    let world = World::new();
    let db = world.open();
    for value in ["1", "2"] {
        put_all(&db, &[("a", value), ("b", value)]);
        db.flush().unwrap();
    }
    db.checkpoint("/copy").unwrap();
    drop(db);
    repair("/copy", "/saved", &world.options()).unwrap();
    for path in ["/copy", "/saved"] {
        let report = verify(path, &world.options()).unwrap();
        assert!(report.is_ok(), "{path}: {report}");
        let db = Db::open(path, world.options()).unwrap();
        assert_eq!(contents(&db)["a"], "2");
    }
}
