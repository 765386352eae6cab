//! Opens a database and holds it until told to let go: `hold (leveldb|siltstone) FOLDER PUTS`.
//! Run by `tests/exclusion.rs`, because locks on files only shut out other processes.
//!
//! Prints `held` once it has the database and has made so many puts, none of them synced, or the
//! reason why it has not. Then it waits for the end of its input, and closes.
#![forbid(unsafe_code)]

use std::io::{self, Read};
use std::path::Path;
use std::{env, process};

use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::peer::{Engine, Settings};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [engine, folder, puts] = arguments.as_slice() else {
        eprintln!("usage: hold (leveldb|siltstone) FOLDER PUTS");
        process::exit(2);
    };
    let engine = match engine.as_str() {
        "siltstone" => Engine::Siltstone,
        _ => Engine::LevelDb(LevelDb::load().expect("the test has found the library")),
    };
    match engine.open(Path::new(folder), &Settings::default()) {
        Err(error) => println!("{error}"),
        Ok(db) => {
            for number in 0..puts.parse::<u32>().expect("PUTS is a number") {
                db.put(&number.to_be_bytes(), &[b'v'; 100]);
            }
            println!("held");
            io::stdin().read_to_end(&mut Vec::new()).expect("waiting for the end of input");
            db.close();
        }
    }
}
