//! Each verb in each format: what is on stdout parses as what was asked for.

use serde_json::Value;

use crate::harness::{Ran, Scratch};

const READERS: [&str; 8] = [
    "get db user/1",
    "scan db",
    "count db",
    "dump db",
    "info db",
    "stats db",
    "levels db",
    "levels db --tables",
];

pub(crate) fn check(line: &str, format: &str, ran: &Ran) {
    assert_eq!(ran.code, 0, "{line}: {}", ran.err);
    let text = ran.text();
    match format {
        "json" => {
            let value: Value = serde_json::from_str(&text).unwrap();
            assert!(value.is_object() || value.is_array(), "{line}: {text}");
        }
        "jsonl" => {
            for row in text.lines() {
                assert!(serde_json::from_str::<Value>(row).unwrap().is_object(), "{line}: {row}");
            }
        }
        "csv" => {
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            assert!(!reader.headers().unwrap().is_empty(), "{line}: {text}");
            assert!(reader.records().all(|row| row.is_ok()), "{line}: {text}");
        }
        _ => {}
    }
}

#[test]
fn reading_verbs_in_every_format() {
    let scratch = Scratch::with_database();
    scratch.ok("flush db");
    for line in READERS {
        for format in ["table", "json", "jsonl", "csv", "raw"] {
            check(line, format, &scratch.run(&format!("{line} -o {format}")));
        }
    }
}

#[test]
fn acting_verbs_in_every_format() {
    for format in ["table", "json", "jsonl", "csv", "raw"] {
        let scratch = Scratch::with_database();
        for line in [
            "gen json more.json --pairs 10",
            "load db more.json",
            "put db a b",
            "del db a",
            "flush db",
            "compact db",
        ] {
            let ran = scratch.run(&format!("{line} -o {format}"));
            check(line, format, &ran);
        }
        assert_eq!(scratch.ok("count db"), "14\n");
    }
}

#[test]
fn without_a_format_acting_verbs_leave_stdout_alone() {
    let scratch = Scratch::with_database();
    for line in ["put db a b", "del db a nothing", "flush db", "compact db"] {
        let ran = scratch.run(line);
        assert_eq!((ran.code, ran.text().as_str()), (0, ""), "{line}");
        assert!(!ran.err.is_empty(), "{line}");
        assert!(!ran.err.contains('\x1b'), "{line}: colour in a pipe");
    }
    assert!(scratch.run("put db a b -q").err.is_empty());
}
