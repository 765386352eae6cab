//! Files as text.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use siltstone::{Comparator, Db, Env, ErrorKind, Options, dump_file};

use crate::{build, names, names_with, open, options, write};

fn text(env: &Env, path: &str) -> siltstone::Result<String> {
    let mut out = Vec::new();
    dump_file(path, env, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn each_kind_of_file_is_dumped() {
    let env = Env::memory();
    let db = open(&env, "db");
    db.put("k", "v\n").unwrap();
    db.flush().unwrap();
    db.delete("k").unwrap();
    drop(db);
    let mut seen = Vec::new();
    for name in names(&env, "db") {
        match (text(&env, &format!("db/{name}")), Path::new(&name).extension()) {
            (Ok(text), Some(extension)) if extension == "ldb" => {
                assert_eq!(text, "'k' @ 1 : val => 'v\\x0a'\n");
                seen.push("table");
            }
            (Ok(text), Some(extension)) if extension == "log" => {
                assert_eq!(text, "--- offset 0; sequence 2\n  del 'k'\n");
                seen.push("log");
            }
            (Ok(text), _) => {
                assert!(text.starts_with("--- offset 0; VersionEdit {\n  Comparator: leveldb."));
                seen.push("manifest");
            }
            (Err(error), _) => assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}"),
        }
    }
    seen.sort();
    assert_eq!(seen, ["log", "manifest", "table"]);
}

/// The check that blocks stand where their keys belong took every order for the bytewise one.
#[test]
fn a_table_in_another_order_is_dumped() {
    struct Reverse;
    impl Comparator for Reverse {
        fn name(&self) -> &str {
            "reverse"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            b.cmp(a)
        }
    }
    let env = Env::memory();
    let options = Options { comparator: Some(Arc::new(Reverse)), ..options(&env) };
    let db = Db::open("db", options).unwrap();
    for number in 0..1000 {
        db.put(format!("{number:05}"), "value").unwrap();
    }
    db.flush().unwrap();
    let table = names_with(&env, "db", ".ldb").remove(0);
    assert_eq!(text(&env, &format!("db/{table}")).unwrap().lines().count(), 1000);
}

#[test]
fn failures_are_told() {
    let env = Env::memory();
    build(&env, "db");
    write(&env, "db/000999.ldb", b"no table");
    assert!(text(&env, "db/000999.ldb").unwrap_err().is_corruption());
    assert!(text(&env, "db/000998.ldb").unwrap_err().is_not_found());

    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for name in names(&env, "db").iter().filter(|name| name.contains("0") && *name != "000999.ldb")
    {
        assert!(dump_file(format!("db/{name}"), &env, &mut Full).is_err(), "{name}");
    }
}
