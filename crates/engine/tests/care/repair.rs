//! What can be read is saved, the newest of each key; what is lost is told; nothing is touched.

use siltstone::{
    Background, Db, Env, ErrorKind, Options, RepairOptions, RepairReport, Site, TableState,
    WriteBatch, WriteOptions, plan_repair, repair, repair_with, verify,
};

use crate::support::{Fault, FaultFs};
use crate::{
    Map, build, content, copy_dir, exists, load_leveldb, names, names_with, open, options, read,
    write,
};

/// Repairs `db` into `out`, and checks that `db` is as it was, `out` is sound and both opinions of
/// what was found agree.
fn repaired(env: &Env) -> (RepairReport, Map) {
    let files = |dir: &str| -> Vec<_> {
        let names = names(env, dir).into_iter().filter(|name| name != "LOCK");
        names.map(|name| (read(env, &format!("{dir}/{name}")), name)).collect()
    };
    let before = files("db");
    let plan = plan_repair("db", &options(env)).unwrap();
    let report = repair("db", "out", &options(env)).unwrap();
    assert_eq!(files("db"), before, "the damaged database is only read");
    assert_eq!(plan.to_string(), report.found.to_string());
    assert!(verify("out", &options(env)).unwrap().is_ok());
    assert!(names_with(env, "out", ".dbtmp").is_empty());
    let db = open(env, "out");
    let map = content(&db);
    assert_eq!(report.entries_kept, map.len() as u64);
    (report, map)
}

fn damage(env: &Env, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = read(env, path);
    change(&mut bytes);
    write(env, path, &bytes);
}

fn remove(env: &Env, path: &str) {
    env.file_system.remove_file(path.as_ref(), Site::TempRemove).unwrap();
}

fn path_of(env: &Env, matches: impl Fn(&str) -> bool) -> String {
    let found = names(env, "db").into_iter().find(|name| matches(name)).unwrap();
    format!("db/{found}")
}

#[test]
fn a_healthy_database_is_saved_as_it_is() {
    let env = Env::memory();
    let map = build(&env, "db");
    let (report, saved) = repaired(&env);
    assert_eq!(saved, map);
    assert!(report.found.is_whole() && report.found.warnings.is_empty(), "{report}");
    assert!(report.entries_dropped > 0);
    // Later writes win over what was saved.
    let db = open(&env, "out");
    for key in map.keys().step_by(3) {
        db.put(key, "newer").unwrap();
    }
    db.flush().unwrap();
    drop(db);
    let db = open(&env, "out");
    assert!(map.keys().step_by(3).all(|key| db.get(key).unwrap().unwrap() == b"newer"));
}

/// LevelDB's repair puts all tables into level 0, where a read trusts file numbers. A compaction
/// gives old data a new, higher number; after the repair it hides newer values and deletions.
#[test]
fn old_data_in_younger_files_stays_old() {
    let env = Env::memory();
    let by_hand = Options { background: Background::ByHand, ..options(&env) };
    let db = Db::open("db", by_hand).unwrap();
    for i in 0..500 {
        db.put(format!("k{i:03}"), "old").unwrap();
    }
    db.compact_range(None, None).unwrap();
    while db.run_background_step().unwrap() {}
    for i in 0..500 {
        match i % 2 {
            0 => db.put(format!("k{i:03}"), "new").unwrap(),
            _ => db.delete(format!("k{i:03}")).unwrap(),
        }
    }
    db.flush().unwrap();
    drop(db);
    // Swap the ages that the numbers tell: the old table gets the greatest number.
    let tables = names_with(&env, "db", ".ldb");
    assert_eq!(tables.len(), 2);
    let old = format!("db/{}", tables[0]);
    write(&env, "db/009999.ldb", &read(&env, &old));
    remove(&env, &old);
    remove(&env, &path_of(&env, |name| name.starts_with("MANIFEST")));
    let (report, saved) = repaired(&env);
    assert_eq!(saved.len(), 250);
    assert!(saved.values().all(|value| value == b"new"));
    assert!(report.found.warnings[0].contains("deleted"), "{report}");
}

#[test]
fn an_open_database_is_left_alone() {
    let env = Env::memory();
    let db = open(&env, "db");
    db.put("a", "1").unwrap();
    assert!(repair("db", "out", &options(&env)).unwrap_err().is_locked());
    assert!(plan_repair("db", &options(&env)).unwrap_err().is_locked());
    assert!(!exists(&env, "out"));
    db.put("b", "2").unwrap();
    drop(db);
    assert_eq!(repaired(&env).1.len(), 2);
}

#[test]
fn a_flipped_byte_costs_one_block() {
    let env = Env::memory();
    let db = open(&env, "db");
    let key = |i: u32| format!("key{i:05}").into_bytes();
    let value = |i: u32| format!("{:x}", i.wrapping_mul(2_654_435_761)).repeat(5).into_bytes();
    for i in 0..2000 {
        db.put(key(i), value(i)).unwrap();
    }
    db.compact_range(None, None).unwrap();
    drop(db);
    let table = path_of(&env, |name| name.ends_with(".ldb"));
    let len = read(&env, &table).len();
    damage(&env, &table, |bytes| bytes[len / 2] ^= 0x40);
    let (report, saved) = repaired(&env);
    assert_eq!(report.found.lost.len(), 1, "{report}");
    let lost = &report.found.lost[0];
    assert!(lost.file.ends_with(&table["db/".len()..]));
    assert!((lost.offset..lost.offset + lost.bytes + 5).contains(&(len as u64 / 2)));
    assert_eq!(report.found.tables_in(TableState::Damaged), 1);
    let (from, to) = (lost.from.clone().unwrap(), lost.to.clone().unwrap());
    let missing: Vec<u32> = (0..2000).filter(|i| !saved.contains_key(&key(*i))).collect();
    assert!(!missing.is_empty() && missing.len() < 200, "{} are missing", missing.len());
    assert!(missing.iter().all(|i| (&from..=&to).contains(&&key(*i))));
    assert!((0..2000).all(|i| saved.get(&key(i)).is_none_or(|saved| *saved == value(i))));
}

#[test]
fn a_truncated_table_is_saved_up_to_the_cut() {
    let env = Env::memory();
    let map = build(&env, "db");
    let table = format!("db/{}", names_with(&env, "db", ".ldb").last().unwrap());
    let whole = read(&env, &table);
    let mut before = 0;
    for share in [8, 4, 2] {
        write(&env, &table, &whole[..whole.len() - whole.len() / share]);
        copy_dir(&env, "db", "db.copy");
        let (report, saved) = repaired(&env);
        assert_eq!(report.found.tables_in(TableState::Damaged), 1, "{report}");
        assert_eq!(report.found.lost.len(), 1, "{report}");
        let lost = report.found.lost[0].bytes;
        assert!(lost < 5000, "only the block that was cut: {lost}");
        let right = saved.iter().filter(|(key, value)| map.get(*key) == Some(*value)).count();
        assert!(right > 1000 && (before == 0 || right <= before), "{right}");
        before = right;
        siltstone::destroy("out", &options(&env)).unwrap();
        siltstone::destroy("db.copy", &options(&env)).unwrap();
    }
    write(&env, &table, b"");
    let (report, _) = repaired(&env);
    assert_eq!(report.found.tables_in(TableState::Unreadable), 1, "{report}");
    assert!(report.found.lost[0].from.is_some() && report.found.lost[0].to.is_some());
}

/// The bytes behind the data: index, footer, properties. All entries can be found without them.
#[test]
fn a_damaged_index_costs_nothing() {
    let env = Env::memory();
    let map = build(&env, "db");
    let tables = names_with(&env, "db", ".ldb");
    let table = format!("db/{}", tables.last().unwrap());
    let whole = read(&env, &table);
    for back in [3, 30, 47, 60, 100] {
        damage(&env, &table, |bytes| {
            let at = bytes.len() - back;
            bytes[at] ^= 1;
        });
        let (report, saved) = repaired(&env);
        assert_eq!(saved, map, "{back} from the end: {report}");
        assert!(report.found.lost.is_empty(), "{report}");
        siltstone::destroy("out", &options(&env)).unwrap();
        write(&env, &table, &whole);
    }
}

#[test]
fn without_a_manifest_every_table_is_used() {
    let env = Env::memory();
    let map = build(&env, "db");
    damage(&env, &path_of(&env, |name| name.starts_with("MANIFEST")), |bytes| bytes[10] ^= 1);
    let (report, saved) = repaired(&env);
    assert_eq!(saved, map);
    assert_eq!((report.found.manifest, report.found.warnings.len()), (None, 1));
}

#[test]
fn without_current_the_newest_manifest_is_used() {
    let env = Env::memory();
    let map = build(&env, "db");
    for text in [None, Some("MANIFEST-00"), Some("rubbish\n")] {
        match text {
            None => remove(&env, "db/CURRENT"),
            Some(text) => write(&env, "db/CURRENT", text.as_bytes()),
        }
        let (report, saved) = repaired(&env);
        assert_eq!(saved, map);
        assert!(report.found.manifest.is_some());
        assert!(report.found.warnings[0].contains("CURRENT"), "{report}");
        siltstone::destroy("out", &options(&env)).unwrap();
    }
}

#[test]
fn a_log_is_read_on_behind_damage() {
    let env = Env::memory();
    let db = Db::open("db", Options { write_buffer_size: 4 << 20, ..options(&env) }).unwrap();
    let count = 5000;
    for i in 0..count {
        let mut batch = WriteBatch::new();
        batch.put(format!("key{:05}", i % 4000), format!("value {i} {}", "y".repeat(50)));
        db.write(&batch, WriteOptions { sync: true }).unwrap();
    }
    let map = content(&db);
    drop(db);
    let log = path_of(&env, |name| name.ends_with(".log"));
    assert!(read(&env, &log).len() > 300 << 10, "more than the write buffer of the repair");
    assert_eq!(repaired(&env).1, map);
    siltstone::destroy("out", &options(&env)).unwrap();

    damage(&env, &log, |bytes| bytes[100_000] ^= 1);
    Db::open("db", options(&env)).unwrap_err();
    let (report, saved) = repaired(&env);
    assert_eq!(report.found.lost.len(), 1, "{report}");
    assert_eq!(report.found.lost[0].offset / 32768, 100_000 / 32768);
    assert!(report.found.log_bytes_dropped() <= 32768);
    assert!(saved.len() > 3000 && saved.len() < 4000);
    // What the damage hit is gone, or an older value of its key is back; no other.
    assert!(saved.iter().filter(|(key, value)| map[*key] != **value).count() < 400);
}

#[test]
fn a_missing_table_is_told_with_its_range() {
    let env = Env::memory();
    build(&env, "db");
    let table = format!("db/{}", names_with(&env, "db", ".ldb")[0]);
    remove(&env, &table);
    let (report, saved) = repaired(&env);
    assert!(!saved.is_empty());
    let lost = &report.found.lost[0];
    assert!(lost.file.ends_with(&table["db/".len()..]) && lost.from.is_some() && lost.bytes > 0);
    assert!(report.to_string().contains("lost: "), "{report}");
}

#[test]
fn orphans_count_only_if_asked_for() {
    let env = Env::memory();
    build(&env, "db");
    {
        let other = open(&env, "other");
        other.put("orphan", "value").unwrap();
        other.flush().unwrap();
    }
    let table = &names_with(&env, "other", ".ldb")[0];
    write(&env, "db/000999.ldb", &read(&env, &format!("other/{table}")));
    let (report, saved) = repaired(&env);
    assert_eq!(report.found.orphans.len(), 1);
    assert!(!saved.contains_key(&b"orphan"[..]));
    let how = RepairOptions { use_orphans: true };
    repair_with("db", "with", &options(&env), &how).unwrap();
    assert_eq!(content(&open(&env, "with")).len(), saved.len() + 1);
}

#[test]
fn paths_that_cannot_be_are_refused() {
    let env = Env::memory();
    build(&env, "db");
    build(&env, "taken");
    let refused = |from, to| repair(from, to, &options(&env)).unwrap_err().kind();
    assert_eq!(refused("db", "taken"), ErrorKind::InvalidArgument);
    assert_eq!(refused("db", "db"), ErrorKind::InvalidArgument);
    assert_eq!(refused("none", "out"), ErrorKind::NotFound);
    env.file_system.create_dir("empty".as_ref(), Site::DbDirCreate).unwrap();
    assert_eq!(refused("empty", "out"), ErrorKind::InvalidArgument);
    assert!(names(&env, "empty").is_empty());
    assert!(!exists(&env, "out"));
}

#[test]
fn a_failed_one_leaves_nothing() {
    let sites = [
        Site::RepairDirCreate,
        Site::TableCreate,
        Site::TableAppend,
        Site::TableSync,
        Site::TableClose,
        Site::TableDirSync,
        Site::TempRemove,
        Site::ManifestCreate,
        Site::ManifestSnapshot,
        Site::ManifestSync,
        Site::ManifestDirSync,
        Site::CurrentRename,
        Site::CurrentDirSync,
    ];
    let (env, faults) = FaultFs::over(Env::memory());
    let wide = Options { write_buffer_size: 4 << 20, ..options(&env) };
    let db = Db::open("db", wide).unwrap();
    for i in 0..3000 {
        db.put(format!("key{i:05}"), "z".repeat(60)).unwrap();
    }
    let map = content(&db);
    drop(db);
    for site in sites {
        for fault in [Fault::Io, Fault::NoSpace, Fault::DoneUntold] {
            let fired = faults.fired();
            faults.fail_nth(site, 1, fault);
            let error = repair("db", "out", &options(&env)).unwrap_err();
            assert_eq!(faults.fired(), fired + 1, "{site:?}: {error}");
            faults.heal();
            assert!(!exists(&env, "out/CURRENT"), "{site:?} {fault:?}");
            repair("db", "out", &options(&env)).unwrap();
            assert_eq!(content(&open(&env, "out")), map);
            siltstone::destroy("out", &options(&env)).unwrap();
        }
    }
}

#[test]
fn files_that_cannot_be_read_are_lost_like_damaged_ones() {
    let (env, faults) = FaultFs::over(Env::memory());
    build(&env, "db");
    let table = names_with(&env, "db", ".ldb")[0].clone();
    faults.fail_reads(&table);
    let report = repair("db", "out", &options(&env)).unwrap();
    assert_eq!(report.found.tables_in(TableState::Unreadable), 1, "{report}");
    faults.heal();
    faults.fail_reads(".log");
    let report = repair("db", "out2", &options(&env)).unwrap();
    assert_eq!(report.found.lost.len(), 1, "{report}");
    faults.heal();
    assert!(content(&open(&env, "out2")).len() > 1000);
}

#[test]
fn a_database_of_leveldb_is_saved_whole() {
    let env = Env::memory();
    load_leveldb(&env, "db");
    copy_dir(&env, "db", "copy");
    let map = content(&open(&env, "copy"));
    assert!(!map.is_empty());
    let (report, saved) = repaired(&env);
    assert_eq!(saved, map, "{report}");
    // Tables were named .sst once.
    for table in names_with(&env, "db", ".ldb") {
        let old = format!("db/{}", table.replace(".ldb", ".sst"));
        env.file_system
            .rename(format!("db/{table}").as_ref(), old.as_ref(), Site::TempRemove)
            .unwrap();
    }
    siltstone::destroy("out", &options(&env)).unwrap();
    assert_eq!(repaired(&env).1, map);
    assert!(verify("db", &options(&env)).unwrap().is_ok());
    open(&env, "db").checkpoint("point").unwrap();
    assert_eq!(content(&open(&env, "point")), map);
}

#[test]
fn logs_that_recovery_put_aside_are_mentioned() {
    let env = Env::memory();
    build(&env, "db");
    env.file_system.create_dir("db/lost".as_ref(), Site::WalSetAside).unwrap();
    write(&env, "db/lost/000001.log", b"");
    let plan = plan_repair("db", &options(&env)).unwrap();
    assert!(plan.is_whole() && plan.warnings[0].contains("lost"), "{plan}");
}
