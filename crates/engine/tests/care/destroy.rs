//! Only what is the engine's goes, and CURRENT first.

use siltstone::{Db, Env, Site, destroy};

use crate::support::{Fault, FaultFs};
use crate::{build, by_hand, content, exists, names, open, options, write};

#[test]
fn a_whole_database_goes_with_its_folder() {
    let env = Env::memory();
    build(&env, "home/db");
    destroy("home/db", &options(&env)).unwrap();
    assert!(!exists(&env, "home/db"));
    assert!(exists(&env, "home"));
    destroy("home/db", &options(&env)).unwrap(); // Nothing there is fine.
}

#[test]
fn foreign_files_stay() {
    let env = Env::memory();
    build(&env, "db");
    for name in ["notes.txt", "000005.ldb.bak", "MANIFEST-x"] {
        write(&env, &format!("db/{name}"), b"mine");
    }
    env.file_system.create_dir("db/lost".as_ref(), Site::WalSetAside).unwrap();
    write(&env, "db/lost/000003.log", b"ours");
    write(&env, "db/lost/keep", b"mine");
    destroy("db", &options(&env)).unwrap();
    assert_eq!(names(&env, "db"), ["000005.ldb.bak", "MANIFEST-x", "lost", "notes.txt"]);
    assert_eq!(names(&env, "db/lost"), ["keep"]);
}

#[test]
fn an_open_database_is_left_alone() {
    let env = Env::memory();
    let db = open(&env, "db");
    db.put("a", "1").unwrap();
    let before = names(&env, "db");
    assert!(destroy("db", &options(&env)).unwrap_err().is_locked());
    assert_eq!(names(&env, "db"), before);
    db.put("b", "2").unwrap();
}

#[test]
fn what_is_half_destroyed_never_opens() {
    let total = {
        let (env, faults) = FaultFs::over(Env::memory());
        build(&env, "db");
        destroy("db", &options(&env)).unwrap();
        faults.calls(Site::DestroyRemove)
    };
    assert!(total > 5);
    for n in 1..=total {
        let (env, faults) = FaultFs::over(Env::memory());
        build(&env, "db");
        faults.fail_from(Site::DestroyRemove, n, Fault::Io);
        destroy("db", &options(&env)).unwrap_err();
        faults.heal();
        let reopen = siltstone::Options { create_if_missing: false, ..options(&env) };
        assert!(Db::open("db", reopen).is_err(), "call {n}");
        if n % 2 == 0 {
            // Or a new one is made, and takes nothing over.
            let db = Db::open("db", by_hand(&env)).unwrap();
            assert!(content(&db).is_empty(), "call {n}");
            while db.run_background_step().unwrap() {}
            assert!(names(&env, "db").iter().all(|name| !name.ends_with(".ldb")), "call {n}");
        }
        destroy("db", &options(&env)).unwrap();
        assert!(!exists(&env, "db"));
    }
}

#[test]
fn nothing_more_goes_if_the_first_removal_may_not_last() {
    let (env, faults) = FaultFs::over(Env::memory());
    build(&env, "db");
    let before = names(&env, "db").len();
    faults.fail_nth(Site::DestroyDirSync, 1, Fault::Io);
    destroy("db", &options(&env)).unwrap_err();
    assert_eq!(names(&env, "db").len(), before, "CURRENT alone is gone, and a mark is there");
    assert!(!exists(&env, "db/CURRENT"));
}
