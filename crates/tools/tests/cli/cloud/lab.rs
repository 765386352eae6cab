//! `siltstone lab cloud`: measurements on a store in the process, with so little to do that they are soon over.

use serde_json::Value;

use super::rows_of;
use crate::harness::Scratch;

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
fn merges_are_measured_at_one_worker_and_two() {
    let rows = measured("merges");
    assert!(rows.iter().all(|row| row["measurement"] == "M8"), "{rows:?}");
    assert_eq!(value(&rows, "jobs one by one"), 200.0);
    let rate = |workers: &str| value(&rows, &format!("{workers}: merged"));
    let ratio = value(&rows, "two workers to twice one");
    let expected = rate("two workers") / (2.0 * rate("one worker"));
    assert!((ratio - expected).abs() < 0.01 && ratio > 0.0, "{ratio} {expected}");
    assert_eq!(value(&rows, "two workers: jobs that came home"), 0.0);
}

#[test]
fn faults_cost_no_keys() {
    let rows = measured("faults");
    assert!(rows.iter().all(|row| row["measurement"] == "M9"), "{rows:?}");
    let sum = value(&rows, "contents as written: sum");
    for fault in ["no fault", "worker killed", "broker restarted", "database killed and opened"] {
        let of = |figure: &str| value(&rows, &format!("{fault}: {figure}"));
        assert_eq!((of("keys lost, or with other values"), of("contents: sum")), (0.0, sum));
        assert!(of("attempts") >= of("jobs") - of("merges that came home"), "{fault}: {rows:?}");
        assert!(of("output files") > 0.0 && of("until all is merged") > 0.0, "{fault}: {rows:?}");
    }
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
