//! LevelDB's `fault_injection_test`: what was not synced is lost, also names that were not; all
//! that a synced write promised is there, and the rest is a prefix.

use std::path::Path;
use std::sync::Arc;

use siltstone::{Db, Env, Options, Site};

use crate::support::{Fault, PowerFs, World, contents, synced, unsynced};

struct Cut {
    world: World,
    power: Arc<PowerFs>,
}

impl Cut {
    fn new() -> Self {
        Cut::with_files(&[])
    }

    fn with_files(files: &[(String, Vec<u8>)]) -> Self {
        let power = PowerFs::new(Env::memory().file_system);
        let world = World::on(power.clone());
        world.folder.put_files(files);
        power.settle();
        Cut { world, power }
    }

    fn after(&self) -> Cut {
        Cut::with_files(&self.power.after_power_cut(&self.world.folder.dir))
    }
}

fn open(world: &World) -> Db {
    world.open_with(|options| {
        options.write_buffer_size = 4 << 10;
        options.max_file_size = 4 << 10;
        options.level0.compact = 2;
    })
}

fn value(number: usize) -> String {
    format!("{number}/").repeat(1 + number % 50)
}

/// Cuts the power after each of some writes, synced ones and others, with background work going on
/// in between; reopens, and writes on.
#[test]
fn power_cuts_lose_a_suffix_without_promises() {
    for (every, background) in [(1, true), (5, true), (7, false), (1000, true)] {
        let mut cut = Cut::new();
        let mut written = 0;
        for round in 0..12 {
            let db = open(&cut.world);
            let found = contents(&db).len();
            assert!(found <= written);
            for number in 0..found {
                let got = db.get(format!("{number:06}")).unwrap();
                assert_eq!(got, Some(value(number).into_bytes()), "a prefix without holes");
            }
            written = found;
            let mut promised = found;
            for _ in 0..(30 + 13 * round) {
                let key = format!("{written:06}");
                if written % every == every - 1 {
                    synced(&db, key, value(written)).unwrap();
                    promised = written + 1;
                } else {
                    unsynced(&db, key, value(written)).unwrap();
                }
                written += 1;
                if background {
                    db.run_background_step().unwrap();
                }
            }
            let next = cut.after();
            let db = open(&next.world);
            let count = contents(&db).len();
            assert!(promised <= count && count <= written, "{promised} <= {count} <= {written}");
            drop(db);
            cut = next;
        }
    }
}

/// A new database is found again once its first synced write returned, and a clean close keeps all.
#[test]
fn a_closed_database_is_durable() {
    let cut = Cut::new();
    let db = open(&cut.world);
    for number in 0..200 {
        unsynced(&db, format!("{number:06}"), value(number)).unwrap();
    }
    db.close().unwrap();
    assert_eq!(contents(&open(&cut.after().world)).len(), 200);
}

/// A compaction that was not installed leaves nothing but orphans, whatever became of them.
#[test]
fn a_power_cut_after_each_background_step() {
    let cut = Cut::new();
    let db = cut.world.open_with(|options| {
        options.write_buffer_size = 4 << 10;
        options.max_immutable_memtables = 16;
        options.level0.compact = 2;
    });
    for number in 0..150 {
        synced(&db, format!("{:06}", number % 90), value(number)).unwrap();
    }
    let expected = contents(&db);
    loop {
        assert_eq!(contents(&open(&cut.after().world)), expected);
        if !db.run_background_step().unwrap() {
            break;
        }
    }
}

/// Whatever went wrong when the name of a new folder was synced was taken for a folder that is closed
/// to us: synced writes were gone with the folder after a power cut. So were checkpoints and repairs
/// that had succeeded.
#[test]
fn a_folder_whose_name_is_not_durable_holds_no_database() {
    for fault in [Fault::Io, Fault::Denied, Fault::NoSpace, Fault::TooManyFiles] {
        let cut = Cut::new();
        cut.world.faults.fail_nth(Site::DbParentSync, 1, fault);
        cut.world.try_open().unwrap_err();
        let db = open(&cut.world);
        synced(&db, "a", "1").unwrap();
        assert_eq!(contents(&open(&cut.after().world)).len(), 1, "{fault:?}");

        for level in 1..=3 {
            let copy = Path::new("/copies/of/db");
            cut.world.faults.fail_nth(Site::DbParentSync, level, fault);
            db.checkpoint(copy).unwrap_err();
            assert!(Db::open_read_only(copy, cut.world.options()).is_err());
            if level == 1 {
                // Only folders that were made count: those above were there the second time.
                cut.world.faults.heal();
                db.checkpoint(copy).unwrap();
                assert!(!cut.power.after_power_cut(copy).is_empty(), "{fault:?}");
                siltstone::destroy(copy, &cut.world.options()).unwrap();
            }
            cut.world.folder.fs.remove_dir(Path::new("/copies/of"), Site::TempRemove).unwrap();
            cut.world.folder.fs.remove_dir(Path::new("/copies"), Site::TempRemove).unwrap();
        }
    }
}

/// The folder may be there, and its parent closed to us.
#[test]
fn a_folder_that_was_there_may_lie_in_one_that_is_closed() {
    let cut = Cut::new();
    cut.world.folder.fs.create_dir(&cut.world.folder.dir, Site::DbDirCreate).unwrap();
    cut.world.faults.fail_from(Site::DbParentSync, 1, Fault::Denied);
    synced(&open(&cut.world), "a", "1").unwrap();
    let options = Options { create_if_missing: false, ..cut.world.options() };
    Db::open(&cut.world.folder.dir, options).unwrap();
}
