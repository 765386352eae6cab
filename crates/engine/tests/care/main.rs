//! Care for whole databases: destroy, checkpoint, verify, repair, dump.
#![allow(dead_code, reason = "parts of the stage are for some modules only")]
#![allow(clippy::disallowed_methods, reason = "tests start threads")]
#![allow(clippy::unwrap_used, reason = "functions that only tests call are tests, too")]

mod checkpoint;
mod destroy;
mod dump;
mod repair;
mod repair_in_place;
#[path = "../support/mod.rs"]
mod support;
mod verify;

use std::collections::BTreeMap;
use std::path::Path;

use siltstone::{Background, Db, Env, Options, Site};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(env: &Env) -> Options {
    Options {
        create_if_missing: true,
        env: env.clone(),
        write_buffer_size: 128 << 10,
        info_log: false,
        ..Default::default()
    }
}

fn by_hand(env: &Env) -> Options {
    Options { background: Background::ByHand, ..options(env) }
}

fn open(env: &Env, path: &str) -> Db {
    Db::open(path, options(env)).unwrap()
}

fn content(db: &Db) -> Map {
    let mut map = Map::new();
    let mut iter = db.iter().unwrap();
    iter.seek_to_first().unwrap();
    while iter.valid() {
        map.insert(iter.key().to_vec(), iter.value().to_vec());
        // Point reads must agree with scans.
        assert_eq!(db.get(iter.key()).unwrap().as_deref(), Some(iter.value()));
        iter.next().unwrap();
    }
    map
}

fn names(env: &Env, dir: &str) -> Vec<String> {
    let mut names = env.file_system.list(Path::new(dir)).unwrap();
    names.sort();
    names
}

fn names_with(env: &Env, dir: &str, extension: &str) -> Vec<String> {
    names(env, dir).into_iter().filter(|name| name.ends_with(extension)).collect()
}

fn exists(env: &Env, path: &str) -> bool {
    env.file_system.metadata(Path::new(path)).is_ok()
}

fn read(env: &Env, path: &str) -> Vec<u8> {
    let file = env.file_system.open(Path::new(path)).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn write(env: &Env, path: &str, bytes: &[u8]) {
    let mut file = env.file_system.create(Path::new(path), Site::TableCreate).unwrap();
    file.append(bytes, Site::TableAppend).unwrap();
    file.close(Site::TableClose).unwrap();
}

/// Copies the files of one folder into another, which is made.
fn copy_dir(env: &Env, from: &str, to: &str) {
    env.file_system.create_dir(Path::new(to), Site::DbDirCreate).unwrap();
    for name in names(env, from) {
        if !env.file_system.metadata(&Path::new(from).join(&name)).unwrap().is_dir {
            write(env, &format!("{to}/{name}"), &read(env, &format!("{from}/{name}")));
        }
    }
}

/// Brings a database that LevelDB 1.23 wrote into `env`; see `testdata/leveldb-1.23/README.md`.
fn load_leveldb(env: &Env, path: &str) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/leveldb-1.23/small");
    env.file_system.create_dir(Path::new(path), Site::DbDirCreate).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap();
        write(env, &format!("{path}/{name}"), &std::fs::read(&file).unwrap());
    }
}

/// A database with several tables on two levels, overwritten and deleted keys, and a log.
fn build(env: &Env, path: &str) -> Map {
    // By hand, so that each build has the same files.
    let db = Db::open(path, by_hand(env)).unwrap();
    for round in 0..3u32 {
        for i in 0..2000u32 {
            let key = format!("key{:05}", i.wrapping_mul(7919) % 2000);
            if i % 7 == round {
                db.delete(&key).unwrap();
            } else {
                db.put(&key, format!("value-{round}-{i}-{}", "x".repeat(40))).unwrap();
            }
        }
        db.flush().unwrap();
        if round == 1 {
            db.compact_range(None, None).unwrap();
        }
    }
    while db.run_background_step().unwrap() {}
    for i in 0..100 {
        db.put(format!("log{i:03}"), format!("in the log {i}")).unwrap();
    }
    let map = content(&db);
    db.close().unwrap();
    map
}
