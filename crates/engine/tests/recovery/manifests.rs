//! Manifests and CURRENT.

use siltstone::ErrorKind;

use crate::support::{World, contents, put_all};

/// LevelDB's `LargeManifestCompacted`, and its users' first complaint: the manifest grows for ever.
#[test]
fn manifests_stay_small_however_many_flushes_there_are() {
    let world = World::new();
    let db = world.open();
    let long = "k".repeat(16 << 10); // Bounds are a manifest's bulk.
    let mut largest = 0;
    for round in 0..300 {
        db.put(&long, round.to_string()).unwrap();
        db.flush().unwrap();
        while db.run_background_step().unwrap() {}
        let manifests = world.folder.manifests();
        assert_eq!(manifests.len(), 1, "the one before is gone");
        largest = largest.max(world.folder.len(&manifests[0]));
    }
    assert!(largest < 3 << 19, "{largest} bytes");
    assert!(db.metrics().manifest_rotations > 5);
    let db = world.after_crash().open();
    assert_eq!(contents(&db)[&long], "299");
}

/// LevelDB's `ManifestMissing`.
#[test]
fn a_missing_manifest_is_corruption() {
    let world = World::new();
    drop(world.open());
    let manifest = world.folder.manifests().remove(0);
    world.folder.remove(&manifest);
    let error = world.try_open().unwrap_err();
    assert!(error.is_corruption());
    assert!(error.to_string().contains("points to a non-existent file"), "{error}");
    assert!(error.to_string().contains(&manifest), "{error}");
}

#[test]
fn current_must_name_a_manifest() {
    for text in ["", "MANIFEST-000002", "\n", "000002\n", "../MANIFEST-000002\n", "\0\0\0\0\n"] {
        let world = World::new();
        drop(world.open());
        world.folder.write("CURRENT", text.as_bytes());
        let error = world.try_open().unwrap_err();
        assert!(error.is_corruption(), "{text:?}: {error}");
        assert!(error.file().is_some_and(|file| file.ends_with("CURRENT")), "{error}");
        assert!(error.to_string().contains("CURRENT"), "{error}");
    }
    let world = World::new();
    drop(world.open());
    world.folder.write("CURRENT", &vec![b'M'; 1 << 20]);
    assert!(world.try_open().unwrap_err().is_corruption(), "and is not read for its length");
}

/// The edit that a crash cut short was never relied on; one in the middle was.
#[test]
fn only_the_last_edit_may_be_torn() {
    let world = World::new();
    let db = world.open();
    for round in ["1", "2", "3"] {
        put_all(&db, &[("a", round)]);
        db.flush().unwrap();
    }
    let manifest = world.folder.manifests().remove(0);
    let len = world.folder.len(&manifest) as usize;
    for cut in 1..len / 4 {
        let image = world.after_crash();
        image.folder.edit(&manifest, |bytes| bytes.truncate(len - cut));
        // Its tables and its log are still there: housekeeping has not been by.
        assert_eq!(contents(&image.open())["a"], "3", "{cut} bytes less");
    }
    for at in 0..len {
        let image = world.after_crash();
        image.folder.flip(&manifest, at as u64);
        match image.try_open() {
            // A length in the last edit that reaches past the end looks torn.
            Ok(db) => assert_eq!(contents(&db)["a"], "3", "byte {at}"),
            Err(error) => assert!(error.is_corruption(), "{error}"),
        }
    }
}

/// A flipped bit makes a length reach past the file's end: without a look behind it, all later edits
/// pass for the torn tail of a crash, and the tables they name are swept.
#[test]
fn regress_edits_behind_a_damaged_length() {
    let world = World::new();
    let db = world.open();
    let manifest = world.folder.manifests().remove(0);
    let second_edit = world.folder.len(&manifest);
    for round in ["1", "2", "3"] {
        put_all(&db, &[(round, round)]);
        db.flush().unwrap();
        while db.run_background_step().unwrap() {}
    }
    drop(db);
    world.folder.edit(&manifest, |bytes| bytes[second_edit as usize + 5] |= 0x40);
    for opened in [world.try_open(), world.open_read_only()] {
        let error = opened.unwrap_err();
        assert!(error.is_corruption() && error.file().unwrap().ends_with(&manifest), "{error}");
        assert_eq!(error.offset(), Some(second_edit), "{error}");
    }
}

/// The manifest loses its last edit, by whatever means: the table that it names would be swept as an
/// orphan, but the log that it replaced is missing.
#[test]
fn regress_a_lost_edit_that_outlived_its_log() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "1")]);
    let manifest = world.folder.manifests().remove(0);
    let edits = world.folder.len(&manifest);
    let log = world.folder.wals().remove(0);
    db.flush().unwrap();
    while db.run_background_step().unwrap() {}
    drop(db);
    world.folder.edit(&manifest, |bytes| bytes.truncate(edits as usize));
    let before = world.folder.files();
    for opened in [world.try_open(), world.open_read_only()] {
        let error = opened.unwrap_err();
        assert!(error.is_corruption() && error.file().unwrap().ends_with(&log), "{error}");
    }
    assert_eq!(world.folder.files(), before);
}

#[test]
fn a_database_of_another_comparator_is_refused() {
    let world = World::new();
    drop(world.open());
    let manifest = world.folder.manifests().remove(0);
    let edit =
        crate::support::log_file::log_file(&[b"\x01\x08my.order\x02\x03\x03\x04\x04\x00".to_vec()]);
    world.folder.write(&manifest, &edit);
    let before = world.folder.files();
    let error = world.try_open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    let text = "my.order does not match existing comparator : leveldb.BytewiseComparator";
    assert!(error.to_string().starts_with("Invalid argument: "), "{error}");
    assert!(error.to_string().contains(text), "{error}");
    assert_eq!(world.folder.files(), before, "nothing is changed");
}

/// LevelDB's `MissingSSTFile` and `StillReadSST`.
#[test]
fn a_missing_table_is_told_at_open_and_an_old_name_is_found() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("foo", "bar")]);
    db.flush().unwrap();
    drop(db);
    let table = world.folder.tables().remove(0);
    let bytes = world.folder.read(&table);
    world.folder.remove(&table);
    let error = world.try_open().unwrap_err();
    assert!(error.is_corruption());
    assert!(error.to_string().contains("missing files; e.g.: "), "{error}");
    assert!(error.file().unwrap().ends_with(&table), "{error}");

    let old = table.replace(".ldb", ".sst");
    world.folder.write(&old, &bytes);
    let db = world.open();
    assert_eq!(contents(&db)["foo"], "bar");
    put_all(&db, &[("foo", "new")]);
    db.compact_range(None, None).unwrap();
    while db.run_background_step().unwrap() {}
    assert_eq!(world.folder.ending(".sst"), [""; 0], "and removed under it");
    assert_eq!(contents(&db)["foo"], "new");
}
