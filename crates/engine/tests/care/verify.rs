//! Every kind of damage is found, in the file it is in, and nothing else is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use siltstone::{
    Background, BloomFilter, Comparator, Db, Env, ErrorKind, FileKind, Options, Site, Verdict,
    VerifyReport, WriteBatch, WriteOptions, verify, verify_with,
};

use crate::support::{Fault, World, synced};
use crate::{build, load_leveldb, names, names_with, open, options, read, write};

fn check(env: &Env, path: &str) -> VerifyReport {
    verify(path, &options(env)).unwrap()
}

fn problem(env: &Env, path: &str) -> String {
    let report = check(env, path);
    let problems: Vec<_> = report.problems().collect();
    assert_eq!(problems.len(), 1, "{report}");
    problems[0].to_string()
}

/// Finds that changing any byte of a file (every `step`th is tried) is told, naming the file.
fn flip_each(env: &Env, name: &str, step: usize, with: &Options) {
    let path = format!("db/{name}");
    let bytes = read(env, &path);
    for at in (0..bytes.len()).step_by(step).chain(bytes.len().saturating_sub(60)..bytes.len()) {
        for mask in [0x01, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            write(env, &path, &damaged);
            let report = verify("db", with).unwrap();
            let named = report.problems().any(|problem| {
                let file = problem.file().unwrap().file_name().unwrap().to_str().unwrap();
                file == name || name == "CURRENT"
            });
            // A length that points past the end of a log is what a crash leaves, too.
            let torn = report.files.iter().any(|file| {
                file.path.ends_with(name) && file.torn_bytes > 0 && !name.ends_with("ldb")
            });
            assert!(named || torn, "{name}: byte {at} ^ {mask:#x}: {report}");
        }
    }
    write(env, &path, &bytes);
    assert!(verify("db", with).unwrap().is_ok());
}

#[test]
fn a_sound_database_has_no_problems() {
    let env = Env::memory();
    build(&env, "db");
    let before = names(&env, "db");
    let mut steps = Vec::new();
    let report = verify_with("db", &options(&env), &mut |progress| {
        steps.push((progress.files_done, progress.bytes_done));
        assert!(progress.bytes_done <= progress.bytes_total);
    })
    .unwrap();
    assert!(report.is_ok(), "{report}");
    assert_eq!(names(&env, "db"), before, "nothing was touched");
    assert!(steps.is_sorted() && steps.len() > 3);
    let entries = |kind| -> u64 {
        report.files.iter().filter(|file| file.kind == kind).map(|file| file.entries).sum()
    };
    assert_eq!(entries(FileKind::Wal), 100);
    assert!(entries(FileKind::Table) >= 2000 + 1714);
    assert!(entries(FileKind::Manifest) > 1);
}

#[test]
fn each_flipped_byte_is_found() {
    let env = Env::memory();
    let with = Options {
        filter_policy: Some(Arc::new(BloomFilter::new(10))),
        block_size: 1024,
        background: Background::ByHand,
        ..options(&env)
    };
    let db = Db::open("db", with.clone()).unwrap();
    for i in 0..200 {
        db.put(format!("key{i:04}"), format!("value {i}")).unwrap();
    }
    db.flush().unwrap();
    while db.run_background_step().unwrap() {}
    for i in 0..20 {
        let mut batch = WriteBatch::new();
        batch.put(format!("log{i}"), "synced");
        db.write(&batch, WriteOptions { sync: true }).unwrap();
    }
    db.close().unwrap();
    for name in names(&env, "db") {
        match name.as_str() {
            "LOCK" => {}
            table if table.ends_with(".ldb") => {
                flip_each(&env, table, 7, &with);
                // Without the policy its block is looked at all the same.
                flip_each(&env, table, 31, &options(&env));
            }
            _ => flip_each(&env, &name, 1, &with),
        }
    }
}

#[test]
fn what_is_missing_is_told() {
    let env = Env::memory();
    build(&env, "db");
    for name in names(&env, "db") {
        if name == "LOCK" {
            continue;
        }
        let path = format!("db/{name}");
        let bytes = read(&env, &path);
        env.file_system.remove_file(path.as_ref(), Site::TempRemove).unwrap();
        let report = check(&env, "db");
        assert!(!report.is_ok(), "{name}");
        if name.contains('.') {
            let missing = report.problems().next().unwrap();
            assert_eq!((missing.kind(), report.problems().count()), (ErrorKind::NotFound, 1));
            assert!(missing.file().unwrap().ends_with(&name));
        }
        write(&env, &path, &bytes);
    }
    assert!(check(&env, "db").is_ok());
}

/// A full disk poisoned the newest of two logs. Healing copied both into a new one and removed the
/// older, which the manifest goes on to name until the next flush; verify called it missing.
#[test]
fn a_log_that_healing_replaced_is_not_missing() {
    let world = World::new();
    let db = world.open();
    let value = "v".repeat(40 << 10);
    for key in ["a", "b"] {
        synced(&db, key, &value).unwrap();
    }
    let before = world.folder.wals();
    assert_eq!(before.len(), 2);
    world.faults.fail_nth(Site::WalAppend, 1, Fault::NoSpace);
    assert!(synced(&db, "c", "").unwrap_err().is_no_space());
    synced(&db, "c", "").unwrap();
    assert_eq!(world.folder.wals(), before[1..]);
    let report = check(&world.env, "/db");
    assert!(report.is_ok(), "{report}");

    // Without the new log, too, the one that is named is missing.
    world.folder.remove(&before[1]);
    assert_eq!(check(&world.env, "/db").problems().count(), 1);
}

#[test]
fn one_bad_file_does_not_hide_another() {
    let env = Env::memory();
    build(&env, "db");
    let tables = names_with(&env, "db", ".ldb");
    assert!(tables.len() > 1);
    for table in &tables {
        let mut bytes = read(&env, &format!("db/{table}"));
        bytes[10] ^= 1;
        write(&env, &format!("db/{table}"), &bytes);
    }
    let report = check(&env, "db");
    assert_eq!(report.problems().count(), tables.len());
    assert!(report.problems().all(|problem| problem.offset() == Some(0)), "{report}");
    // Nor does a bad manifest.
    let manifest = names(&env, "db").into_iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    let mut bytes = read(&env, &format!("db/{manifest}"));
    bytes[8] ^= 1;
    write(&env, &format!("db/{manifest}"), &bytes);
    assert_eq!(check(&env, "db").problems().count(), tables.len() + 1);
}

#[test]
fn a_table_that_is_not_the_manifests_is_told() {
    let env = Env::memory();
    build(&env, "db");
    let tables = names_with(&env, "db", ".ldb");
    let path = format!("db/{}", tables[0]);
    let bytes = read(&env, &path);
    write(&env, &path, &read(&env, &format!("db/{}", tables[1])));
    let told = problem(&env, "db");
    assert!(told.contains("the manifest says"), "{told}");
    write(&env, &path, &bytes[..bytes.len() - 1]);
    assert!(problem(&env, "db").contains("the manifest says"));
}

#[test]
fn orphans_are_listed_and_torn_tails_are_no_damage() {
    let env = Env::memory();
    build(&env, "db");
    write(&env, "db/000900.ldb", b"left over");
    write(&env, "db/000901.dbtmp", b"left over");
    let log = format!("db/{}", names_with(&env, "db", ".log")[0]);
    let bytes = read(&env, &log);
    write(&env, &log, &bytes[..bytes.len() - 5]);
    let report = check(&env, "db");
    assert!(report.is_ok(), "{report}");
    let orphans: Vec<_> = report
        .files
        .iter()
        .filter(|file| matches!(file.verdict, Verdict::Orphan))
        .map(|file| file.path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(orphans, ["000900.ldb", "000901.dbtmp"]);
    assert!(report.files.iter().any(|file| file.torn_bytes > 0 && file.kind == FileKind::Wal));
}

#[test]
fn copies_are_sound() {
    let env = Env::memory();
    build(&env, "db");
    open(&env, "db").checkpoint("copy").unwrap();
    assert!(check(&env, "copy").is_ok());
}

#[test]
fn beside_a_live_writer_nothing_is_found() {
    let env = Env::memory();
    let db = open(&env, "db");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0u64.. {
                if stop.load(Ordering::Acquire) {
                    break;
                }
                let key = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50).to_be_bytes();
                db.put(key, [1; 100]).unwrap();
            }
        });
        for _ in 0..30 {
            let report = check(&env, "db");
            assert!(report.is_ok(), "{report}");
        }
        stop.store(true, Ordering::Release);
    });
}

#[test]
fn where_no_database_is_nothing_can_be_verified() {
    let env = Env::memory();
    assert!(verify("db", &options(&env)).unwrap_err().is_not_found());
    env.file_system.create_dir("db".as_ref(), Site::DbDirCreate).unwrap();
    write(&env, "db/notes", b"x");
    let error = verify("db", &options(&env)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_database_of_leveldb_is_sound() {
    let env = Env::memory();
    load_leveldb(&env, "db");
    let report = check(&env, "db");
    assert!(report.is_ok(), "{report}");
    assert!(report.files.iter().any(|file| file.kind == FileKind::Table && file.entries > 0));
}

#[test]
fn another_comparators_database_is_no_damage() {
    struct Other;
    impl Comparator for Other {
        fn name(&self) -> &str {
            "test.other"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            b.cmp(a)
        }
    }
    let env = Env::memory();
    build(&env, "db");
    let other = Options { comparator: Some(Arc::new(Other)), ..options(&env) };
    assert_eq!(verify("db", &other).unwrap_err().kind(), ErrorKind::Incompatible);
    let refused = siltstone::repair("db", "out", &other).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incompatible);
    let made = Db::open("other", other.clone()).unwrap();
    for i in 0..3000 {
        made.put(format!("{i}"), "x".repeat(50)).unwrap();
    }
    drop(made);
    assert!(verify("other", &other).unwrap().is_ok());
    let report = siltstone::repair("other", "out", &other).unwrap();
    assert_eq!(report.entries_kept, 3000);
    assert!(verify("out", &other).unwrap().is_ok());
}
