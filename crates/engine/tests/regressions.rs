//! Failures that happened once, each with its story.

use siltstone::{Background, Db, Env, Level0Limits, Options};

/// Waiting for background work asked the policy whether there was any, which took the noted seek
/// compactions out of it, and threw the answer away. By hand the compaction was lost; with lanes
/// nobody was left to do what the waiter waited for, and it hung.
#[test]
fn waiting_for_background_does_the_noted_seek_compaction() {
    let options = Options {
        create_if_missing: true,
        env: Env::memory(),
        background: Background::ByHand,
        seek_compaction: true,
        ..Options::default()
    };
    let db = Db::open("db", options).unwrap();
    for value in ["old", "new"] {
        db.put("a", value).unwrap();
        db.put("z", value).unwrap();
        db.flush().unwrap();
    }
    // Each of these reads visits the newer table in vain; a table bears a hundred of them.
    for _ in 0..100 {
        assert_eq!(db.get("m").unwrap(), None);
    }
    db.wait_for_background().unwrap();
    let metrics = db.metrics();
    assert_eq!(metrics.merges + metrics.moves, 1);
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"new"[..]));
}

/// Of several tables whose reads had spent their budget, the first to be picked made the policy
/// forget the others, which then were never compacted for it.
#[test]
fn every_noted_seek_compaction_is_done() {
    let options = Options {
        create_if_missing: true,
        env: Env::memory(),
        background: Background::ByHand,
        seek_compaction: true,
        level0: Level0Limits { compact: 8, slow_down: 8, stop: 12 },
        ..Options::default()
    };
    let db = Db::open("db", options).unwrap();
    for ends in [["a", "c"], ["x", "z"]] {
        // Two tables over the same range: a read between their keys goes through both.
        for value in ["old", "new"] {
            for end in ends {
                db.put(end, value).unwrap();
            }
            db.flush().unwrap();
        }
    }
    for _ in 0..100 {
        assert_eq!(db.get("b").unwrap(), None);
        assert_eq!(db.get("y").unwrap(), None);
    }
    db.wait_for_background().unwrap();
    assert_eq!(db.property("leveldb.num-files-at-level0").as_deref(), Some("0"));
}
