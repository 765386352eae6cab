//! A folder that somebody else has been in.

use siltstone::Site;

use crate::support::{Dice, Folder, World, contents, put_all};

/// Whatever is not the database's is neither read nor removed, however alike it looks.
#[test]
fn unknown_names_are_left_alone() {
    let strangers = [
        "notes.txt",
        "000005",
        "000005.ldb.bak",
        "000005.tmp",
        "x000005.ldb",
        "+5.ldb",
        "-1.log",
        "MANIFEST",
        "MANIFEST-",
        "MANIFEST-abc",
        "CURRENT.bak",
        "LOCK2",
        "LOG.older",
        ".hidden",
        "99999999999999999999999.log",
        "18446744073709551615.log",
        "18446744073709551615.ldb",
        "18446744073709551614.sst",
        "MANIFEST-18446744073709551615",
    ];
    let world = World::new();
    for round in 0..3 {
        for name in strangers {
            world.folder.write(name, b"not yours");
        }
        let inner = Folder::new(world.folder.fs.clone(), world.folder.path("lost+found"));
        inner.write("000001.log", b"nor this");
        let db = world.open();
        put_all(&db, &[("a", "1"), ("b", "2")]);
        db.compact_range(None, None).unwrap();
        while db.run_background_step().unwrap() {}
        drop(db);
        assert_eq!(contents(&world.open_read_only().unwrap()).len(), 2);
        for name in strangers {
            assert_eq!(world.folder.read(name), b"not yours", "round {round}: {name}");
        }
        assert_eq!(inner.read("000001.log"), b"nor this");
    }
}

/// Left-overs that are the database's own are swept at open, and new files take greater numbers.
#[test]
fn orphans_are_swept() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "1")]);
    drop(db);
    for name in ["000900.ldb", "000901.sst", "000902.dbtmp", "MANIFEST-000001", "000001.log"] {
        world.folder.write(name, b"left over");
    }
    let db = world.open();
    while db.run_background_step().unwrap() {}
    let names = world.folder.names();
    for name in ["000900.ldb", "000901.sst", "000902.dbtmp", "MANIFEST-000001", "000001.log"] {
        assert!(!names.iter().any(|left| left == name), "{names:?}");
    }
    assert!(world.folder.manifests()[0].as_str() > "MANIFEST-000902", "{names:?}");
    assert_eq!(contents(&db).len(), 1);
}

/// Folders under the database's own names: an error or none, but no panic, and they stay.
#[test]
fn folders_under_owned_names() {
    for name in ["000900.ldb", "000900.dbtmp", "MANIFEST-000001", "000900.log", "LOG", "000900.sst"]
    {
        let world = World::new();
        put_all(&world.open(), &[("a", "1")]);
        world.folder.fs.create_dir(&world.folder.path(name), Site::DbDirCreate).unwrap();
        match world.try_open_with(|options| options.info_log = true) {
            Ok(db) => {
                while db.run_background_step().unwrap() {}
                assert_eq!(contents(&db).len(), 1, "{name}");
            }
            Err(error) => assert!(error.file().unwrap().ends_with(name), "{error}"),
        }
        assert!(world.folder.fs.metadata(&world.folder.path(name)).unwrap().is_dir, "{name}");
    }
}

/// CURRENT at every bit.
#[test]
fn a_flipped_bit_in_current_is_an_error() {
    let world = World::new();
    put_all(&world.open(), &[("a", "1")]);
    let image = world.folder.files();
    for at in 0..world.folder.len("CURRENT") {
        for bit in 0..8 {
            let damaged = World::with_files(&image);
            damaged.folder.edit("CURRENT", |bytes| bytes[at as usize] ^= 1 << bit);
            let error = damaged.try_open().unwrap_err();
            assert!(error.is_corruption(), "byte {at}, bit {bit}: {error}");
        }
    }
}

/// Logs and manifests of arbitrary bytes.
#[test]
fn noise_is_never_a_panic() {
    let mut dice = Dice::new(0x2545_f491_4f6c_dd1d);
    let mut noise = |len: usize| -> Vec<u8> { (0..len).map(|_| dice.roll(256) as u8).collect() };
    let world = World::new();
    put_all(&world.open(), &[("a", "1")]);
    let image = world.folder.files();
    for round in 0..200 {
        let damaged = World::with_files(&image);
        let log = damaged.folder.wals().remove(0);
        let manifest = damaged.folder.manifests().remove(0);
        let name = if round % 2 == 0 { &log } else { &manifest };
        let bytes = noise(1 + round * 7 % 300);
        damaged.folder.edit(name, |old| {
            let at = round * 3 % old.len();
            old.splice(at.., bytes);
        });
        match damaged.try_open() {
            Ok(db) => assert!(contents(&db).len() <= 1),
            Err(error) => assert!(error.is_corruption(), "{error}"),
        }
    }
}
