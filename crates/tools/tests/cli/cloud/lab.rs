//! `siltstone lab cloud`: measurements on a store in the process, with so little to do that they are soon over.

use serde_json::Value;

use super::server::{BUCKET, KEY_ID, SECRET, Server};
use super::{reach, rows_of};
use crate::harness::{Scratch, finish, spawn};

fn measured(what: &str) -> Vec<Value> {
    let scratch = Scratch::new();
    let line = format!("lab cloud --measure {what} --profile zero --records 4k --runs 1");
    let ran = scratch.run(&format!("{line} --folder . -o jsonl"));
    assert_eq!(ran.code, 0, "{line}: {}", ran.err);
    let left = std::fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(left, 0, "folders of databases are removed");
    rows_of(&ran)
}

fn value(rows: &[Value], what: &str) -> f64 {
    let row = rows.iter().find(|row| row["what"] == what);
    row.unwrap_or_else(|| panic!("{what}: {rows:?}"))["value"].as_f64().unwrap()
}

#[test]
fn stalls_are_measured_beside_merges_here_and_elsewhere() {
    let rows = measured("stalls");
    assert!(rows.iter().all(|row| row["measurement"] == "M4"), "{rows:?}");
    assert!(value(&rows, "flat out, local: merges") > 0.0);
    assert!(value(&rows, "flat out, tiered + worker: merges elsewhere") > 0.0);
    let longest = "at half of that, local: longest time without a write";
    let row = rows.iter().find(|row| row["what"] == longest).unwrap();
    assert_eq!(row["wanted"], "at most 100000");
    assert_eq!(row["met"], value(&rows, longest) <= 100_000.0);
}

#[test]
fn merges_are_measured_at_one_worker_two_and_four() {
    let rows = measured("merges");
    assert!(rows.iter().all(|row| row["measurement"] == "M8" || row["measurement"] == "M5"));
    let asked = |what: &str| value(&rows, &format!("job of one worker, for {what}"));
    assert!(asked("compact-in: bytes of one") > asked("compact-out: bytes of one"));
    assert!(asked("compact-out: requests of a million") >= 1e6);
    assert_eq!(value(&rows, "jobs one by one"), 200.0);
    let rate = |workers: &str| value(&rows, &format!("{workers}: merged"));
    for (count, workers) in [(2.0, "two workers"), (4.0, "four workers")] {
        let ratio = value(&rows, &format!("{workers} to {count} times one"));
        let expected = rate(workers) / (count * rate("one worker"));
        assert!((ratio - expected).abs() < 0.01 && ratio > 0.0, "{ratio} {expected}");
        assert_eq!(value(&rows, &format!("{workers}: jobs that came home")), 0.0);
    }
}

#[test]
fn faults_cost_no_keys() {
    let rows = measured("faults");
    assert!(rows.iter().all(|row| row["measurement"] == "M9"), "{rows:?}");
    let sum = value(&rows, "contents as written: sum");
    for fault in ["no fault", "worker killed", "broker restarted", "database killed and opened"] {
        let of = |figure: &str| value(&rows, &format!("{fault}: {figure}"));
        assert_eq!((of("keys lost, or with other values"), of("contents: sum")), (0.0, sum));
        // Jobs of a database that was killed are given up, attempted or not.
        let asked = if fault.starts_with("database") { 1.0 } else { of("jobs") };
        assert!(of("attempts") >= asked - of("merges that came home"), "{fault}: {rows:?}");
        assert!(of("output files") > 0.0 && of("until all is merged") > 0.0, "{fault}: {rows:?}");
    }
}

/// Objects and set-ups, with a folder that stands for a mounted bucket, and a server that has nothing afterwards.
fn measured_at_server(what: &str) -> Vec<Value> {
    let (scratch, server) = (Scratch::new(), Server::new());
    std::fs::create_dir(scratch.path().join("mount")).unwrap();
    let line = format!(
        "lab cloud --measure {what} --records 4k --runs 1 --folder . --s3fs mount --bucket s3://{BUCKET}/a/b -o jsonl"
    );
    let mut command = scratch.command();
    reach(command.args(line.split_whitespace()), &server);
    let ran = finish(spawn(command), b"");
    assert_eq!(ran.code, 0, "{line}: {}", ran.err);
    let seen = format!("{}{}", ran.text(), ran.err);
    assert!(!seen.contains(KEY_ID) && !seen.contains(SECRET), "{seen}");
    assert!(server.objects().is_empty(), "{:?}", server.names(""));
    let left = |folder: &str| std::fs::read_dir(scratch.path().join(folder)).unwrap().count();
    assert_eq!((left("."), left("mount")), (1, 0), "folders of databases are removed");
    rows_of(&ran)
}

#[test]
fn set_ups_are_measured_at_a_server_and_compared_with_its_bucket_as_a_folder() {
    let rows = measured_at_server("setups");
    assert!(rows.iter().all(|row| row["value"].is_f64()), "{rows:?}");
    let rate = |set_up: &str| value(&rows, &format!("fillrandom, {set_up}: rate"));
    let ratio = "fillrandom, tiered to tables on S3FS: rate";
    let expected = rate("tiered") / rate("tables on S3FS");
    assert!((value(&rows, ratio) - expected).abs() < 0.01 * expected, "{expected}");
    let row = rows.iter().find(|row| row["what"] == ratio).unwrap();
    assert_eq!(row["wanted"], "at least 1");
    assert!(value(&rows, "fillrandom, remote: rate") < rate("tiered"));
}

#[test]
fn objects_are_measured_at_a_server_and_compared_with_files() {
    let rows = measured_at_server("objects");
    assert!(rows.iter().all(|row| row["measurement"] == "M1" && row["value"].is_f64()));
    for size in ["4 KiB", "64 MiB"] {
        let gets = |way: &str| value(&rows, &format!("{size}, {way}: gets of 4 KiB a second"));
        let ratio = value(&rows, &format!("{size}: gets, ours to S3FS"));
        let expected = gets("ranges") / gets("S3FS");
        assert!((ratio - expected).abs() < 0.01 * expected, "{ratio} {expected}");
    }
    let ratio = "64 MiB: gets, ranges to whole objects";
    assert!(value(&rows, ratio) > 1.0, "{rows:?}");
}

#[test]
fn without_a_mount_its_set_ups_are_told_to_be_missing() {
    let rows = measured("setups");
    let missing: Vec<&Value> = rows.iter().filter(|row| row["value"].is_null()).collect();
    assert_eq!(missing.len(), 4, "{missing:?}");
    let told = |row: &&Value| row["what"].as_str().unwrap().ends_with("S3FS: no mount given");
    assert!(missing.iter().all(told), "{missing:?}");
    let scratch = Scratch::new();
    let ran = scratch.run("lab cloud --measure setups --s3fs nowhere");
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("nowhere is no folder"), "{}", ran.err);
}

#[test]
fn zombies_are_swept_by_so_many_seeds() {
    let rows = measured("zombies --schedules 60");
    assert!(rows.iter().all(|row| row["measurement"] == "M10"), "{rows:?}");
    assert_eq!(value(&rows, "schedules"), 60.0);
    let late = value(&rows, "commits begun after a takeover");
    assert!(late > 0.0 && value(&rows, "of these refused") == late, "{rows:?}");
    for none in ["commits that got through after a takeover", "committed writes lost"] {
        assert_eq!(value(&rows, none), 0.0, "{none}");
    }
}
