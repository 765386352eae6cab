//! Databases with logs beside their levels: LevelDB refuses them, and opens them again once they were drained.

use siltstone::{Area, Compaction, Db, Options};
use siltstone_interop::leveldb::{self, LevelDb};
use siltstone_interop::scratch::Scratch;

fn options(compaction: Compaction) -> Options {
    Options {
        create_if_missing: true,
        write_buffer_size: 64 << 10,
        max_file_size: 32 << 10,
        level1_bytes: 64 << 10,
        unclamped: true,
        compaction,
        ..Default::default()
    }
}

fn has_logs(db: &Db) -> bool {
    db.levels().iter().any(|part| part.area == Area::SstLog)
}

/// Updates 10,000 keys until there are logs once all is quiet: a merge may just have emptied them.
fn fill_logs(db: &Db, compaction: Compaction) {
    for round in 0..20 {
        for number in 0..60_000u32 {
            let key = format!("{:06}", number.wrapping_mul(2_654_435_761) % 10_000);
            db.put(key, (number + round).to_string().repeat(8)).expect("there is room");
        }
        db.flush().expect("there is room");
        db.wait_for_background().expect("there is room");
        if has_logs(db) {
            return;
        }
    }
    panic!("{compaction:?} made no log that lasts");
}

#[test]
fn leveldb_refuses_logs_and_reads_what_they_were_drained_into() {
    let Some(library) = LevelDb::load_or_skip() else { return };
    for compaction in [Compaction::Sliced, Compaction::L2sm] {
        let scratch = Scratch::new("logged");
        let folder = scratch.join("db");
        let db = Db::open(&folder, options(compaction)).expect("a fresh folder");
        fill_logs(&db, compaction);
        db.close().expect("all is written");

        let settings = leveldb::Options { paranoid_checks: true, ..leveldb::Options::default() };
        let refused = library.open(&folder, &settings).map(drop).expect_err("it has logs");
        assert!(refused.to_string().contains("VersionEdit: unknown tag"), "{refused}");

        // With any policy: that of the options has no say.
        let db = Db::open(&folder, options(compaction)).expect("LevelDB has changed nothing");
        db.drain_logs().expect("there is room");
        assert!(!has_logs(&db));
        let pairs: Vec<_> =
            db.iter().and_then(|iter| iter.entries()?.collect()).expect("all can be read");
        assert_eq!(pairs.len(), 10_000);
        db.close().expect("all is written");

        let theirs = library.open(&folder, &settings).expect("no log is left");
        let mut iter = theirs.iter();
        iter.seek_to_first();
        for (key, value) in &pairs {
            assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]));
            iter.next();
        }
        assert!(!iter.valid());
    }
}
