//! LevelDB's `fault_injection_test`: what was not synced is lost, also names that were not; all
//! that a synced write promised is there, and the rest is a prefix.

use std::sync::Arc;

use siltstone::{Db, Env};

use crate::support::{PowerFs, World, contents, synced, unsynced};

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
