//! A checkpoint is a whole database, or none.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use siltstone::{Db, Env, ErrorKind, Options, Site};

use crate::support::{Fault, FaultFs, TempDir};
use crate::{build, content, exists, names, open, options, write};

#[test]
fn a_checkpoint_equals_its_database_and_goes_its_own_way() {
    let env = Env::memory();
    let map = build(&env, "db");
    let db = open(&env, "db");
    db.checkpoint("copies/one").unwrap();
    db.put("later", "yes").unwrap();
    let copy = open(&env, "copies/one");
    assert_eq!(content(&copy), map);
    copy.put("own", "yes").unwrap();
    copy.compact_range(None, None).unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(copy.get("later").unwrap(), None);
    assert_eq!(db.get("own").unwrap(), None);
    drop(copy);
    assert_eq!(content(&open(&env, "copies/one")).len(), map.len() + 1);
    assert_eq!(content(&db).len(), map.len() + 1);
}

#[test]
fn a_read_only_handle_makes_one_too() {
    let env = Env::memory();
    let map = build(&env, "db");
    let before = names(&env, "db");
    Db::open_read_only("db", options(&env)).unwrap().checkpoint("copy").unwrap();
    assert_eq!(names(&env, "db"), before);
    assert_eq!(content(&open(&env, "copy")), map);
}

#[test]
fn under_load_it_holds_a_prefix_that_includes_all_before_the_call() {
    let dir = TempDir::new("checkpoint");
    let path = dir.path().join("db");
    let small = |env| Options { max_file_size: 1 << 20, ..options(env) };
    let env = Env::posix();
    let db = Db::open(&path, small(&env)).unwrap();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0u64.. {
                if stop.load(Ordering::Acquire) {
                    break;
                }
                // Scattered keys, so that compactions have something to do.
                let key = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
                db.put(key, [&i.to_be_bytes()[..], &[7; 200]].concat()).unwrap();
                written.store(i + 1, Ordering::Release);
            }
        });
        for round in 0..5 {
            while written.load(Ordering::Acquire) < 3000 * (round + 1) {
                std::thread::yield_now();
            }
            let before = written.load(Ordering::Acquire);
            let to = dir.path().join(format!("copy-{round}"));
            db.checkpoint(&to).unwrap();
            let copy = content(&Db::open(&to, small(&env)).unwrap());
            assert!(copy.len() as u64 >= before);
            for i in 0..copy.len() as u64 {
                let key = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
                assert_eq!(copy[&key[..]][..8], i.to_be_bytes(), "write {i} of {}", copy.len());
            }
        }
        stop.store(true, Ordering::Release);
    });
    db.close().unwrap();
}

#[test]
fn a_path_that_is_taken_is_refused_untouched() {
    let env = Env::memory();
    build(&env, "db");
    write(&env, "file", b"x");
    let db = open(&env, "db");
    for taken in ["db", "file"] {
        let error = db.checkpoint(taken).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    env.file_system.create_dir("other".as_ref(), Site::DbDirCreate).unwrap();
    write(&env, "other/mine", b"x");
    db.checkpoint("other").unwrap_err();
    assert_eq!(names(&env, "other"), ["mine"]);
    env.file_system.create_dir("empty".as_ref(), Site::DbDirCreate).unwrap();
    db.checkpoint("empty").unwrap();
}

#[test]
fn tables_that_cannot_be_linked_are_copied() {
    for fault in [Fault::Io, Fault::DoneUntold] {
        let (env, faults) = FaultFs::over(Env::memory());
        let map = build(&env, "db");
        let db = open(&env, "db");
        faults.fail_nth(Site::CheckpointLink, 1, fault);
        faults.fail_nth(Site::CheckpointLink, 2, fault);
        db.checkpoint("copy").unwrap();
        assert_eq!(content(&open(&env, "copy")), map);
        assert_eq!(content(&db), map, "the tables that were copied are as they were");
    }
}

#[test]
fn a_failed_one_leaves_nothing() {
    let sites = [
        Site::CheckpointDirCreate,
        Site::DbParentSync,
        Site::LockCreate,
        Site::ManifestCreate,
        Site::ManifestSnapshot,
        Site::ManifestSync,
        Site::ManifestDirSync,
        Site::CurrentCreate,
        Site::CurrentAppend,
        Site::CurrentSync,
        Site::CurrentClose,
        Site::CurrentRename,
        Site::CurrentDirSync,
    ];
    for site in sites {
        for fault in [Fault::Io, Fault::DoneUntold] {
            let (env, faults) = FaultFs::over(Env::memory());
            let map = build(&env, "db");
            let db = open(&env, "db");
            db.flush().unwrap();
            db.wait_for_background().unwrap();
            faults.fail_nth(site, 1, fault);
            assert!(db.checkpoint("copy").is_err(), "{site:?}");
            assert_eq!(faults.fired(), 1, "{site:?}");
            assert!(!exists(&env, "copy/CURRENT"), "{site:?} {fault:?}");
            faults.heal();
            db.checkpoint("copy").unwrap();
            assert_eq!(content(&open(&env, "copy")), map);
        }
    }
}
