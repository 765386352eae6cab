//! Reads that give less than the file has, and say nothing.

use siltstone::ErrorKind;

use crate::support::{Fault, Op, World, contents, synced};

/// A file that seemed shorter than it had been when it was opened was taken to end there. A log then
/// had a torn tail, and a manifest the edits of last week: acknowledged writes were gone, and the
/// recovery that had not seen them removed the log.
#[test]
fn a_short_read_is_not_the_end_of_a_log_or_manifest() {
    let written = World::new();
    let db = written.open();
    for number in 0..50 {
        synced(&db, format!("{number:02}"), "v".repeat(100)).unwrap();
        if number == 20 {
            db.flush().unwrap();
        }
    }
    let image = written.folder.files();
    let reads: Vec<u64> = {
        let world = World::with_files(&image);
        drop(world.open());
        let calls = (1..).zip(world.faults.all_calls());
        calls.filter(|(_, (op, _))| *op == Op::Read).map(|(number, _)| number).collect()
    };
    assert!(reads.len() >= 3, "CURRENT, manifest and log");
    for read in reads {
        let world = World::with_files(&image);
        world.faults.fail_call(read, Fault::ShortRead);
        let refused = world.try_open().err();
        assert_eq!(world.faults.fired(), 1);
        assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::Io), "call {read}");
        assert_eq!(contents(&world.open()).len(), 50, "call {read}");
    }
}
