//! Looking after whole databases: verify, repair, checkpoint, destroy, and the dumps of files.

use serde_json::Value;

use crate::harness::Scratch;
use crate::verbs::check;

#[test]
fn care_in_every_format() {
    for format in ["table", "json", "jsonl", "csv", "raw"] {
        let scratch = Scratch::with_database();
        for line in ["verify db", "checkpoint db copy", "destroy copy", "destroy copy --yes"] {
            let ran = scratch.run(&format!("{line} -o {format}"));
            check(line, format, &ran);
        }
        assert!(!scratch.path().join("copy").join("CURRENT").exists());
    }
}

#[test]
fn without_yes_nothing_is_destroyed() {
    let scratch = Scratch::with_database();
    let ran = scratch.run("destroy db");
    assert_eq!((ran.code, ran.text().as_str()), (0, ""));
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    assert_eq!(scratch.ok("count db"), "4\n");
    assert_eq!(scratch.run("destroy nowhere").code, 1);
}

#[test]
fn care_never_overwrites() {
    let scratch = Scratch::with_database();
    for line in ["checkpoint db db", "wal dump small.json"] {
        let ran = scratch.run(line);
        assert_eq!(ran.code, 2, "{line}: {}", ran.err);
    }
    assert_eq!(scratch.ok("count db"), "4\n");
}

#[test]
fn damage_is_three_and_nothing_is_changed() {
    let scratch = Scratch::with_database();
    scratch.ok("compact db");
    let tables = std::fs::read_dir(scratch.path().join("db")).unwrap();
    let table = tables
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ending| ending == "ldb"))
        .unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[3] ^= 0x40;
    std::fs::write(&table, &bytes).unwrap();
    for line in ["verify db", "get db user/1", "scan db", "dump db"] {
        let ran = scratch.run(line);
        assert_eq!(ran.code, 3, "{line}: {}", ran.err);
        assert!(ran.err.contains("siltstone repair"), "{line}: {}", ran.err);
    }
    assert_eq!(std::fs::read(&table).unwrap(), bytes);
}

#[test]
fn files_are_dumped_by_kind() {
    let scratch = Scratch::with_database();
    let name = |start: &str, end: &str| {
        let names = std::fs::read_dir(scratch.path().join("db")).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names.into_iter().rfind(|name| name.starts_with(start) && name.ends_with(end)).unwrap()
    };
    let log = name("0", ".log");
    let text = scratch.ok(&format!("wal dump db/{log}"));
    assert!(text.contains("put '\\x00\\xff' '\\xfe\\x0a'"), "{text}");
    let manifest = name("MANIFEST-", "");
    assert!(scratch.ok(&format!("manifest dump db/{manifest}")).contains("VersionEdit"));
    scratch.ok("compact db");
    let table = name("0", ".ldb");
    let rows = scratch.ok(&format!("sst dump db/{table} -o jsonl"));
    assert!(rows.lines().count() >= 4, "{rows}");
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        assert!(row["text"].as_str().unwrap().contains(" => "), "{row}");
    }
    assert_eq!(scratch.run(&format!("wal dump db/{table}")).code, 2);
}

#[cfg(unix)]
#[test]
fn under_leveldbs_name_it_is_leveldbs_tool() {
    let scratch = Scratch::with_database();
    scratch.ok("compact db");
    let link = scratch.path().join("leveldbutil");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_siltstone"), &link).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&link);
        let ran = command.args(arguments).current_dir(scratch.path()).output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stdout).unwrap())
    };
    assert_eq!(run(&[]).0, Some(1));
    assert_eq!(run(&["dump", "db/nothing.ldb"]).0, Some(1));
    let tables: Vec<String> = std::fs::read_dir(scratch.path().join("db"))
        .unwrap()
        .map(|entry| format!("db/{}", entry.unwrap().file_name().into_string().unwrap()))
        .filter(|name| name.ends_with(".ldb"))
        .collect();
    let (code, text) = run(&["dump", &tables[0]]);
    assert_eq!(code, Some(0));
    assert!(text.contains("'user/1' @ ") && text.contains(" : val => 'Ravi'"), "{text}");
}
