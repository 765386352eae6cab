//! Plays a part in a process of its own, for tests that need one to kill, to limit or to write
//! beside: `act PART (leveldb|siltstone) FOLDER`.
//!
//! - `full-disk-kill`, `full-disk-close`: a limit on the size of files breaks off an append to the
//!   log and is lifted; then a thousand synced puts. Prints how many were acknowledged, and dies or
//!   closes. Must be started with the signal `XFSZ` ignored: its default ends the process.
//! - `pile`: siltstone writes many memtables' worth and flushes none, so that each has a live log,
//!   with synced writes among the others. Prints `piled` and the number of puts, and waits for its
//!   end.
//! - `stream`: puts numbers in ascending order, into small memtables, until its input ends or there
//!   are very many. Prints `streaming` after the first.
#![forbid(unsafe_code)]

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs, process, thread};

use rustix::process::{Resource, Rlimit, Signal};
use siltstone::{Background, Db, Options, WriteBatch, WriteOptions};
use siltstone_interop::candid::{Candid, Choice};
use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::peer::{Engine, Settings};
use siltstone_interop::scratch;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [part, engine, folder] = arguments.as_slice() else {
        eprintln!("usage: act PART (leveldb|siltstone) FOLDER");
        process::exit(2);
    };
    let engine = match engine.as_str() {
        "siltstone" => Engine::Siltstone,
        _ => Engine::LevelDb(LevelDb::load().expect("the test has found the library")),
    };
    let folder = Path::new(folder);
    match part.as_str() {
        "full-disk-kill" => {
            let _open_to_the_end = fill_disk(engine, folder);
            die();
        }
        "full-disk-close" => drop(fill_disk(engine, folder)),
        "pile" => pile(folder),
        "stream" => stream(engine, folder),
        _ => panic!("there is no part {part}"),
    }
}

/// As the kernel ends a process: nothing is flushed, closed or tidied up.
fn die() {
    let signalled = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
    signalled.expect("a process may kill itself");
}

/// So much of the record that breaks off gets into the log.
const TORN_BYTES: u64 = 50;

fn fill_disk(engine: Engine, folder: &Path) -> Candid {
    let db = Candid::open(engine, folder, Choice::default()).expect("a fresh folder opens");
    for number in 0..100_u32 {
        db.put(format!("before {number}").as_bytes(), &[b'v'; 100]).expect("there is space");
    }
    let wals = scratch::wals(folder);
    let wal = wals.last().expect("an open database has a log");
    let len = fs::metadata(wal).expect("the log is there").len();
    let before = rustix::process::getrlimit(Resource::Fsize);
    set_limit(Rlimit { current: Some(len + TORN_BYTES), ..before });
    // A mapped log has room up to its length: the limit is reached behind it.
    let torn = (0..1000).find_map(|_| db.put(b"torn", &[b'v'; 1000]).err());
    let error = torn.expect("the limit is reached");
    set_limit(before);
    let len_after = fs::metadata(wal).expect("the log is there").len();
    assert_eq!(len_after, len + TORN_BYTES, "the record is torn: {error}");
    let acknowledged =
        (0..1000_u32).filter(|number| db.put(&number.to_be_bytes(), &[b'v'; 100]).is_ok()).count();
    println!("{acknowledged}");
    db
}

fn set_limit(limit: Rlimit) {
    rustix::process::setrlimit(Resource::Fsize, limit).expect("a soft limit is free to move");
}

fn pile(folder: &Path) {
    let options = Options {
        create_if_missing: true,
        write_buffer_size: 64 << 10,
        max_immutable_memtables: 16,
        background: Background::ByHand, // So nobody flushes.
        ..Options::default()
    };
    let db = Db::open(folder, options).expect("a fresh folder opens");
    let puts = 5000_u32;
    for number in 0..puts {
        let mut batch = WriteBatch::new();
        batch.put(number.to_be_bytes(), [b'v'; 100]);
        // Long stretches without a sync: then a whole log has none.
        let sync = number % 1000 < 200 && number.is_multiple_of(7);
        db.write(&batch, WriteOptions { sync }).expect("siltstone writes");
    }
    println!("piled {puts}");
    wait_for_end_of_input();
}

fn stream(engine: Engine, folder: &Path) {
    let settings = Settings { write_buffer_bytes: 512 << 10, ..Settings::default() };
    let db = engine.open(folder, &settings).expect("the folder opens");
    let ended = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&ended);
    thread::spawn(move || {
        wait_for_end_of_input();
        // Only a hint to stop: nothing else is read by it.
        ending.store(true, Ordering::Relaxed);
    });
    // An end, for then the slowest reader catches up.
    for number in 0..1_000_000_u32 {
        db.put(&number.to_be_bytes(), &number.to_be_bytes().repeat(25));
        if number == 0 {
            println!("streaming");
        }
        if ended.load(Ordering::Relaxed) {
            break;
        }
    }
    db.close();
}

fn wait_for_end_of_input() {
    io::stdin().read_to_end(&mut Vec::new()).expect("waiting for the end of input");
}
