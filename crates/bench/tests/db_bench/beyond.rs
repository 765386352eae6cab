//! What the program can do beyond LevelDB's: YCSB, runs and rivals, rates, causes, JSON.

use std::path::Path;

use serde_json::Value;
use siltstone_leveldb::LevelDb;
use siltstone_sim::TempDir;

use crate::support::{db_bench, lines, mask, report};

/// The object that a run with these flags writes.
fn json(folder: &TempDir, flags: &[&str]) -> Value {
    let file = folder.path().join("out.json");
    let json = format!("--json={}", file.display());
    report(folder, &[flags, &[&json]].concat());
    read_json(&file)
}

fn read_json(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).expect("the program wrote it");
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn ycsb_finds_all_records_under_every_law() {
    let names = ["ycsbload", "ycsba", "ycsbb", "ycsbc", "ycsbd", "ycsbe", "ycsbf"];
    let list = format!("--benchmarks={}", names.join(","));
    for law in [None, Some("--distribution=uniform"), Some("--distribution=latest")] {
        let folder = TempDir::new("bench-ycsb");
        let flags = ["--num=2000", "--reads=1500", &list];
        let lines = lines(&folder, &flags.into_iter().chain(law).collect::<Vec<_>>());
        assert!(mask(&lines[0]).ends_with(" micros/op; ###### MB/s"), "{}", lines[0]);
        for (name, line) in names.iter().zip(&lines).skip(1) {
            assert!(line.starts_with(&format!("{name:<12} : ")), "{line}");
            let (_, message) = line.split_once('(').unwrap();
            let numbers: Vec<u32> =
                message.split([' ', ')']).filter_map(|word| word.parse().ok()).collect();
            match *name {
                // 95 of 100 operations scan; a scan reads 50 entries in the mean.
                "ycsbe" => assert!((60_000..85_000).contains(&numbers[0]), "{line}"),
                _ => assert_eq!(numbers[0], numbers[1], "{line}"),
            }
            let share = match *name {
                "ycsba" => Some(50),
                "ycsbb" | "ycsbd" => Some(95),
                "ycsbc" | "ycsbf" => Some(100),
                _ => None,
            };
            if let Some(percent) = share {
                let expected = 1500 * percent / 100;
                assert!(numbers[1].abs_diff(expected) < 80, "{line}: expected {expected}");
            }
        }
    }
}

#[test]
fn ycsb_runs_on_threads() {
    let folder = TempDir::new("bench-ycsb-threads");
    let list = "--benchmarks=ycsbload,ycsba,ycsbd,ycsbe";
    let document = json(&folder, &["--num=1000", "--reads=500", "--threads=3", list]);
    let operations: Vec<_> = document["runs"][0]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| (record["threads"].as_u64().unwrap(), record["operations"].as_u64().unwrap()))
        .collect();
    assert_eq!(operations, [(1, 1000), (3, 1500), (3, 1500), (3, 1500)]);
}

#[test]
fn a_rate_holds_operations_back() {
    let folder = TempDir::new("bench-rate");
    let flags = ["--num=400", "--rate=4000", "--benchmarks=fillrandom,fillbatch"];
    let lines = lines(&folder, &flags);
    let micros: f64 = lines[0].split_whitespace().nth(2).unwrap().parse().unwrap();
    // The first begins at once, so 399 intervals of 250 us pass.
    assert!(micros >= 249.0, "{lines:?}");
    assert!(lines[1].starts_with("Percentiles: p50 "), "a rate implies percentiles: {lines:?}");
}

#[test]
fn causes_add_up() {
    let folder = TempDir::new("bench-causes");
    let flags = ["--num=60000", "--causes=1", "--write_buffer_size=1048576"];
    let list = "--benchmarks=fillrandom,readrandom";
    let lines = lines(&folder, &[&flags[..], &[list]].concat());
    assert!(lines[1].starts_with("Written:     6.8 MB by users; times that: log 1."), "{lines:?}");
    assert!(lines[2].starts_with("Stalled:     level 0 long "), "{lines:?}");
    assert!(lines[3].starts_with("readrandom "), "reading writes nothing: {lines:?}");

    let document = json(&folder, &[&flags[..], &[list]].concat());
    let written = &document["runs"][0][0]["written_bytes"];
    let bytes = |cause: &str| written[cause].as_u64().unwrap();
    // Three bytes more than key and value: an entry's kind and lengths.
    assert_eq!(bytes("users"), 60_000 * 119);
    assert!(bytes("log") > bytes("users"));
    assert!(bytes("flush") > bytes("users") / 4, "{written}");
    let all = bytes("log") + bytes("flush") + bytes("compaction");
    let amplification = written["amplification"].as_f64().unwrap();
    assert!((amplification - all as f64 / bytes("users") as f64).abs() < 1e-9);
    assert!(document["runs"][0][0]["stalls"]["memtables_full"].is_u64());
}

#[test]
fn runs_are_repeated_and_their_medians_told() {
    let folder = TempDir::new("bench-runs");
    let flags = ["--num=500", "--runs=3", "--benchmarks=fillrandom,readrandom", "--percentiles=1"];
    let lines = lines(&folder, &flags);
    let found: Vec<_> = lines.iter().filter(|line| line.ends_with(" found)")).collect();
    assert_eq!(found.len(), 3);
    let count = |line: &str| line.split('(').nth(1).unwrap().to_owned();
    assert_eq!(count(found[0]), count(found[2]), "each run has the same keys");
    let medians = &lines[lines.len() - 3..];
    assert_eq!(medians[0], "Medians of 3 runs (lowest to highest)");
    assert!(
        medians[2].starts_with("readrandom   : ") && medians[2].contains(" to "),
        "{medians:?}"
    );

    let document = json(&folder, &flags);
    assert_eq!(document["runs"].as_array().unwrap().len(), 3);
    let record = &document["runs"][2][1];
    assert_eq!(record["name"], "readrandom");
    let percentile = |name: &str| record["percentiles"][name].as_f64().unwrap();
    assert!(percentile("p50") > 0.0 && percentile("p50") <= percentile("p99.99"));
    assert!(percentile("p99.99") <= percentile("max"));
}

#[test]
fn another_seed_asks_for_other_keys() {
    let found = |seed: &str| {
        let folder = TempDir::new("bench-seed");
        let list = "--benchmarks=fillrandom,readrandom";
        lines(&folder, &["--num=2000", seed, list])[1].split('(').nth(1).unwrap().to_owned()
    };
    assert_eq!(found("--seed=1000"), found("--runs=1"), "1000 is the default");
    assert_ne!(found("--seed=5"), found("--seed=6"));
}

/// A program beside itself: the ratio is that of two equals, and every line has one.
#[test]
fn a_rival_is_compared_line_by_line() {
    let folder = TempDir::new("bench-against");
    let rival = format!("--against={}", env!("CARGO_BIN_EXE_db_bench"));
    let list = "--benchmarks=fillrandom,readrandom,readrandom,stats";
    let flags = ["--num=3000", "--runs=2", "--percentiles=1", &rival, list];
    let text = report(&folder, &flags);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "Medians of 2 rounds in micros/op; a ratio above 1: siltstone is faster");
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>()[..3],
        ["siltstone", "db_bench", "ratio"]
    );
    let names: Vec<_> = lines[2..].iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["fillrandom", "readrandom", "readrandom"]);
    assert!(!text.contains("different keys"), "{text}");
    for line in &lines[2..] {
        let ratio: f64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
        assert!(ratio > 0.0, "{line}");
    }
}

#[test]
fn a_rival_that_fails_is_told() {
    let folder = TempDir::new("bench-against-nothing");
    let output = db_bench(&folder, &["--num=10", "--against=./no/such/program"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("./no/such/program"), "{errors}");

    // One that takes no flag and prints no line.
    let output = db_bench(&folder, &["--num=10", "--benchmarks=fillseq", "--against=/bin/true"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors, "the two programs have no line in common\n");
}

#[test]
fn leveldb_is_a_rival_by_name() {
    if LevelDb::load_or_skip().is_none() {
        return;
    }
    let folder = TempDir::new("bench-against-leveldb");
    let file = folder.path().join("out.json");
    let flags = [
        "--num=2000",
        "--runs=1",
        "--against=leveldb",
        "--benchmarks=fillrandom,readrandom,crc32c",
    ];
    let json = format!("--json={}", file.display());
    let text = report(&folder, &[&flags[..], &[&json]].concat());
    assert_eq!(text.lines().count(), 4, "crc32c is out of reach of the C API: {text}");
    assert!(!text.contains("different keys"), "{text}");
    let document = read_json(&file);
    assert_eq!((&document["ours"], &document["theirs"]), (&"siltstone".into(), &"leveldb".into()));
    assert_eq!(document["rows"][1]["found_differs"], false);
}
