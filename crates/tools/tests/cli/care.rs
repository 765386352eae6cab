//! Looking after whole databases: verify, repair, checkpoint, destroy, and the dumps of files.

use serde_json::Value;

use crate::harness::Scratch;
use crate::verbs::check;

#[test]
fn care_in_every_format() {
    for format in ["table", "json", "jsonl", "csv", "raw"] {
        let scratch = Scratch::with_database();
        for line in [
            "verify db",
            "checkpoint db copy",
            "repair copy",
            "repair db --yes --out saved",
            "destroy copy",
            "destroy copy --yes",
        ] {
            let ran = scratch.run(&format!("{line} -o {format}"));
            check(line, format, &ran);
        }
        assert!(!scratch.path().join("copy").join("CURRENT").exists());
        assert_eq!(scratch.ok("count saved"), "4\n");
    }
}

/// The levels are LevelDB's, far too large for what is written here: what the logs hold is tested where they are small.
#[test]
fn a_downgraded_database_is_whole() {
    for format in ["table", "json", "jsonl", "csv", "raw"] {
        let scratch = Scratch::with_database();
        scratch.ok("put db user/9 Ravi --compaction sliced");
        check("downgrade db", format, &scratch.run(&format!("downgrade db -o {format}")));
        assert_eq!(scratch.ok("count db"), "5\n");
    }
    let scratch = Scratch::with_database();
    assert_eq!(scratch.run("put db a b --compaction sideways").code, 2);
    assert_eq!(scratch.run("downgrade nowhere").code, 1);
}

#[test]
fn ways_to_compact_are_compared() {
    let scratch = Scratch::with_database();
    for format in ["table", "json", "jsonl", "csv", "raw"] {
        let sizes = "--records 5k --updates 10k --memtable 100 --table 20 --level1 200";
        let line = format!("simulate {sizes} --distribution zipfian");
        check("simulate", format, &scratch.run(&format!("{line} -o {format}")));
    }
    let rows =
        scratch.ok("lab l2sm --records 2k --updates 1 --runs 1 --compaction sliced -o jsonl");
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows.len(), 6, "leveled and sliced, by three distributions");
    assert!(rows.iter().all(|row| row["flushed"].as_f64() > Some(0.0)), "{rows:?}");
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
    for line in
        ["repair db --yes", "repair db --yes --out db", "checkpoint db db", "wal dump small.json"]
    {
        let ran = scratch.run(line);
        assert_eq!(ran.code, 2, "{line}: {}", ran.err);
    }
    assert_eq!(scratch.ok("count db"), "4\n");
}

#[test]
fn damage_is_three_and_nothing_is_changed() {
    let scratch = Scratch::with_database();
    scratch.ok("compact db");
    let table = table_of(&scratch);
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[3] ^= 0x40;
    std::fs::write(&table, &bytes).unwrap();
    for line in ["verify db", "get db user/1", "scan db", "dump db"] {
        let ran = scratch.run(line);
        assert_eq!(ran.code, 3, "{line}: {}", ran.err);
        assert!(ran.err.contains("siltstone repair"), "{line}: {}", ran.err);
    }
    assert_eq!(scratch.run("repair db").code, 0);
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

/// A block of one table is damaged: the plan names what is lost, the repair saves the rest, and
/// what was deleted stays deleted.
#[test]
fn repair_saves_what_can_be_read() {
    let scratch = Scratch::new();
    let text: String = (0..20_000).map(|number| format!("key{number:06}\tv\n")).collect();
    scratch.file("keys.tsv", text);
    scratch.ok("load db keys.tsv --compression none");
    scratch.ok("compact db");
    scratch.ok("put db late v");
    scratch.ok("del db key000003");
    let table = table_of(&scratch);
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&table, &bytes).unwrap();
    let plan: Vec<Value> = serde_json::from_str(&scratch.ok("repair db -o json")).unwrap();
    let lost: Vec<&Value> = plan.iter().filter(|row| row["state"] == "lost").collect();
    assert_eq!(lost.len(), 1, "{plan:?}");
    assert!(lost[0]["from"].as_str().unwrap() > "key000003", "{plan:?}");
    let ran = scratch.run("repair db --yes --out saved");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let count: u64 = scratch.ok("count saved").trim().parse().unwrap();
    assert!((19_000..20_000).contains(&count), "{count}");
    assert_eq!(scratch.ok("get saved late"), "v");
    assert_eq!(scratch.run("get saved key000003").code, 1);
    assert_eq!(scratch.run("verify saved").code, 0);
}

fn table_of(scratch: &Scratch) -> std::path::PathBuf {
    let files = std::fs::read_dir(scratch.path().join("db")).unwrap();
    let mut paths = files.map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().is_some_and(|ending| ending == "ldb")).unwrap()
}
