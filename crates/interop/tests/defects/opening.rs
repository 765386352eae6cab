//! Opening: one folder under two names, and a folder with nothing in it.

use std::fs;
use std::path::Path;

use siltstone_interop::candid::{Candid, Choice};
use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::peer::Engine;
use siltstone_interop::scratch::Scratch;

use crate::Row;

/// Row 5: `db` and `./db`, in one process.
pub(crate) fn by_another_name(leveldb: LevelDb) -> Row {
    let [theirs, ours] = [Engine::LevelDb(leveldb), Engine::Siltstone].map(|engine| {
        let scratch = Scratch::new("two-names");
        let first = Candid::open(engine, &scratch.join("db"), Choice::default()).unwrap();
        let second = Candid::open(engine, &scratch.join("./db"), Choice::default());
        first.put(b"through the first", b"").unwrap();
        second.err()
    });
    assert_eq!(theirs, None, "LevelDB opens one folder twice");
    let error = ours.expect("siltstone does not");
    assert!(error.starts_with("IO error: lock "), "{error}");
    Row {
        scenario: "One process opens `db` and `./db`",
        leveldb: "both opens succeed: two writers in one folder".to_string(),
        siltstone: "the second open fails: `already held by process`".to_string(),
    }
}

/// Row 6: there is no database, and none is to be made.
pub(crate) fn of_nothing(leveldb: LevelDb) -> Row {
    let left = [Engine::LevelDb(leveldb), Engine::Siltstone].map(|engine| {
        let scratch = Scratch::new("nothing");
        let choice = Choice { create: false, ..Choice::default() };
        let error = Candid::open(engine, &scratch.join("db"), choice).err().expect("nothing there");
        assert!(error.contains("does not exist (create_if_missing is false)"), "{error}");
        names_below(scratch.path())
    });
    let [theirs, ours] = left;
    assert!(theirs.len() > 1, "LevelDB leaves {theirs:?}");
    assert!(ours.is_empty(), "siltstone leaves {ours:?}");
    Row {
        scenario: "A database that is not there is opened, without `create_if_missing`",
        leveldb: format!("fails, and leaves `{}` behind", theirs.join("`, `")),
        siltstone: "fails, and leaves nothing behind".to_string(),
    }
}

fn names_below(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            names.extend(names_below(&entry.path()).iter().map(|below| format!("{name}/{below}")));
            names.push(format!("{name}/"));
        } else {
            names.push(name);
        }
    }
    names.sort();
    names
}
