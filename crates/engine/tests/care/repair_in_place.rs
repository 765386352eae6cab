//! What is saved takes the damaged database's place, and the damaged one is kept beside it.

use std::path::Path;

use siltstone::{Env, ErrorKind, Options, RepairReport, Site, destroy, repair_in_place, verify};

use crate::support::{Fault, FaultFs};
use crate::{
    Map, build, content, exists, load_leveldb, names, names_with, open, options, read, write,
};

/// The files that make up a database, with their bytes.
fn files(env: &Env, dir: &str) -> Vec<(String, Vec<u8>)> {
    let ours = |name: &String| !["LOCK", "LOG", "LOG.old", "lost"].contains(&name.as_str());
    let names = names(env, dir).into_iter().filter(ours);
    names.map(|name| (name.clone(), read(env, &format!("{dir}/{name}")))).collect()
}

/// Mends `db`, and checks that it is sound and that its old files are kept as they were.
fn mended(env: &Env) -> (RepairReport, Map) {
    let before = files(env, "db");
    let report = repair_in_place("db", &options(env)).unwrap();
    let kept = report.kept.clone().unwrap();
    assert_eq!(files(env, kept.to_str().unwrap()), before, "{report}");
    // Nothing old is left to be replayed or swept.
    assert!(
        files(env, "db")
            .iter()
            .all(|(name, _)| { name == "CURRENT" || before.iter().all(|(old, _)| old != name) })
    );
    assert!(verify("db", &options(env)).unwrap().is_ok());
    let map = content(&open(env, "db"));
    assert_eq!(report.entries_kept, map.len() as u64);
    assert!(verify("db", &options(env)).unwrap().is_ok());
    (report, map)
}

#[test]
fn a_healthy_database_stays_as_it_is() {
    let env = Env::memory();
    let map = build(&env, "db");
    let (report, saved) = mended(&env);
    assert_eq!(saved, map);
    assert!(report.found.is_whole(), "{report}");
    assert_eq!(report.kept.as_deref(), Some(Path::new("db/lost/repair-1")));
    assert_eq!(content(&open(&env, "db/lost/repair-1")), map, "what is kept opens");

    // It lives on, and can be mended again.
    let db = open(&env, "db");
    db.put("key00000", "newer").unwrap();
    db.delete("key00001").unwrap();
    let map = content(&db);
    drop(db);
    let (report, saved) = mended(&env);
    assert_eq!(saved, map);
    assert_eq!(report.kept.as_deref(), Some(Path::new("db/lost/repair-2")));
    assert!(report.found.warnings.is_empty(), "{report}");

    destroy("db", &options(&env)).unwrap();
    assert!(!exists(&env, "db"), "{:?}", names(&env, "db"));
}

#[test]
fn a_database_that_does_not_open_is_mended() {
    let env = Env::memory();
    let map = build(&env, "db");
    let manifest = names(&env, "db").into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    write(&env, &format!("db/{manifest}"), b"rubbish");
    siltstone::Db::open("db", options(&env)).unwrap_err();
    let (report, saved) = mended(&env);
    assert_eq!(saved, map, "{report}");
    assert_eq!(report.found.warnings.len(), 1, "{report}");
}

#[test]
fn what_is_lost_of_a_table_is_still_in_the_kept_file() {
    let env = Env::memory();
    let map = build(&env, "db");
    let table = names_with(&env, "db", ".ldb").pop().unwrap();
    let mut bytes = read(&env, &format!("db/{table}"));
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    write(&env, &format!("db/{table}"), &bytes);
    let (report, saved) = mended(&env);
    assert_eq!(report.found.lost.len(), 1, "{report}");
    assert!(saved != map && saved.len() > 1000, "{}", saved.len());
    assert_eq!(read(&env, &format!("db/lost/repair-1/{table}")), bytes);
}

#[test]
fn a_database_of_leveldb_is_mended() {
    let env = Env::memory();
    load_leveldb(&env, "db");
    load_leveldb(&env, "same");
    let map = content(&open(&env, "same"));
    assert_eq!(mended(&env).1, map);
}

#[test]
fn only_a_database_that_nobody_has_open() {
    let env = Env::memory();
    let db = open(&env, "db");
    assert!(repair_in_place("db", &options(&env)).unwrap_err().is_locked());
    drop(db);
    assert_eq!(repair_in_place("none", &options(&env)).unwrap_err().kind(), ErrorKind::NotFound);
    env.file_system.create_dir("empty".as_ref(), Site::DbDirCreate).unwrap();
    let error = repair_in_place("empty", &options(&env)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(names(&env, "empty").is_empty());
}

/// K2 and K3: whatever call fails, either database is there, whole; and the damaged one is kept before
/// a file of it goes.
#[test]
fn a_failed_one_harms_nothing() {
    let sites = [
        Site::TableCreate,
        Site::TableAppend,
        Site::TableSync,
        Site::TableDirSync,
        Site::RepairKeep,
        Site::WalCreate,
        Site::ManifestCreate,
        Site::ManifestSync,
        Site::ManifestDirSync,
        Site::CurrentRename,
        Site::CurrentDirSync,
    ];
    let (env, faults) = FaultFs::over(Env::memory());
    let map = build(&env, "db");
    for site in sites {
        for fault in [Fault::Io, Fault::NoSpace, Fault::DoneUntold] {
            for nth in 1..3 {
                let fired = faults.fired();
                faults.fail_nth(site, nth, fault);
                let failed = repair_in_place("db", &options(&env)).is_err();
                // A link that cannot be made is a copy.
                assert!(failed || site == Site::RepairKeep || faults.fired() == fired, "{site:?}");
                faults.heal();
                assert_eq!(content(&open(&env, "db")), map, "{site:?} {fault:?} {nth}");
            }
        }
    }
}

/// On file systems without links.
#[test]
fn what_cannot_be_linked_is_copied() {
    let (env, faults) = FaultFs::over(Env::memory());
    let map = build(&env, "db");
    let before = files(&env, "db");
    let fired = faults.fired();
    // The folder; then of each file the link, and the copy.
    for file in 0..before.len() as u64 {
        faults.fail_nth(Site::RepairKeep, 2 + 2 * file, Fault::ReadOnlyDisk);
    }
    let report = repair_in_place("db", &options(&env)).unwrap();
    assert_eq!(faults.fired(), fired + before.len() as u64);
    faults.heal();
    assert_eq!(files(&env, report.kept.unwrap().to_str().unwrap()), before);
    assert_eq!(content(&open(&env, "db")), map);
}

#[test]
fn options_count() {
    let env = Env::memory();
    build(&env, "db");
    struct Other;
    impl siltstone::Comparator for Other {
        fn name(&self) -> &str {
            "other"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            b.cmp(a)
        }
    }
    let other = Options { comparator: Some(std::sync::Arc::new(Other)), ..options(&env) };
    let before = files(&env, "db");
    let error = repair_in_place("db", &other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert_eq!(files(&env, "db"), before);
}
