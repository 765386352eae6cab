//! Write-ahead logs: an append that breaks off, a byte that flips.

use std::fs;
use std::path::Path;
use std::process::Command;

use siltstone_interop::candid::{Candid, Choice};
use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::peer::Engine;
use siltstone_interop::scratch::{self, Scratch};

use crate::Row;

const PUTS: u32 = 1000;

/// Row 1: the disk is full in the middle of an append, then it is not.
pub(crate) fn torn_append(leveldb: LevelDb) -> Row {
    let [killed, closed] = ["full-disk-kill", "full-disk-close"].map(|part| {
        let found = [Engine::LevelDb(leveldb), Engine::Siltstone].map(|engine| {
            let scratch = Scratch::new("torn-append");
            assert_eq!(acknowledged(part, engine, scratch.path()), PUTS, "{}", engine.name());
            found_in(&Candid::open(engine, scratch.path(), Choice::default()).unwrap()).len()
        });
        assert!(found[0] < PUTS as usize / 2, "{part}: LevelDB keeps {} of {PUTS}", found[0]);
        assert_eq!(found[1], PUTS as usize, "{part}: siltstone keeps all");
        found
    });
    let told = |index: usize| {
        let (killed, closed) = (killed[index], closed[index]);
        format!("reopens without an error; found after a kill: {killed}, after a close: {closed}")
    };
    Row {
        scenario: "The disk is full in the middle of an append, then has space again; 1000 synced \
                   puts are acknowledged",
        leveldb: told(0),
        siltstone: told(1),
    }
}

/// Lets a process play the part, and returns how many of its puts were acknowledged.
fn acknowledged(part: &str, engine: Engine, folder: &Path) -> u32 {
    let engine = match engine {
        Engine::LevelDb(_) => "leveldb",
        Engine::Siltstone => "siltstone",
    };
    // A signal that is ignored stays so in the program that takes over.
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#, env!("CARGO_BIN_EXE_act"), part]);
    let output = command.arg(engine).arg(folder).output().expect("the shell starts");
    let told = String::from_utf8_lossy(&output.stdout);
    let number = told.trim().parse();
    number.unwrap_or_else(|_| panic!("{part}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Which of the puts are there.
fn found_in(db: &Candid) -> Vec<u32> {
    (0..PUTS).filter(|number| db.get(&number.to_be_bytes()).unwrap().is_some()).collect()
}

/// Row 4: one byte flips in the middle of a log of synced puts.
pub(crate) fn flipped_byte(leveldb: LevelDb) -> Row {
    let scratch = Scratch::new("flipped-byte");
    let (theirs, ours) = (scratch.join("theirs"), scratch.join("ours"));
    damaged_log(Engine::LevelDb(leveldb), &theirs);
    let wal = damaged_log(Engine::Siltstone, &ours);

    let cut = scratch.join("cut");
    scratch::copy_files(&theirs, &cut);
    let db = Candid::open(Engine::LevelDb(leveldb), &theirs, Choice::default()).unwrap();
    let found = found_in(&db);
    let missing: Vec<u32> = (0..PUTS).filter(|number| !found.contains(number)).collect();
    let (first, last) = (missing[0], missing[missing.len() - 1]);
    assert!(found.contains(&(PUTS - 1)), "the hole is in the middle");
    let told_by_leveldb =
        format!("opens without an error; {} puts, {first} to {last}, are missing", missing.len());

    // The same bytes: LevelDB's log has no sync marks, so that the rest may be a crash's tail.
    let db = Candid::open(Engine::Siltstone, &cut, Choice::default()).unwrap();
    let prefix = found_in(&db);
    assert!(prefix.iter().copied().eq(0..prefix.len() as u32), "never a hole");
    let Candid::Siltstone(db) = db else { unreachable!("it was opened so") };
    let dropped = &db.recovery_report().dropped;
    assert_eq!(dropped.len(), 1, "and the rest is reported");

    let options = siltstone::Options::default();
    let error = siltstone::Db::open(&ours, options).unwrap_err();
    assert!(error.is_corruption() && error.file() == Some(wal.as_path()), "{error}");
    let (kept, bytes) = (prefix.len(), dropped[0].bytes);
    let offset = error.offset().expect("the error tells the place");
    Row {
        scenario: "One byte flips in the middle of a log of 1000 synced puts",
        leveldb: told_by_leveldb,
        siltstone: format!(
            "does not open, and names the log and byte {offset}, as its sync marks prove that the \
             rest was promised; of LevelDB's log it keeps the {kept} puts before the damage, \
             reports {bytes} bytes as dropped and puts the log aside"
        ),
    }
}

/// A database of synced puts, all in one log, with a flipped byte in it.
fn damaged_log(engine: Engine, folder: &Path) -> std::path::PathBuf {
    let db = Candid::open(engine, folder, Choice::default()).unwrap();
    for number in 0..PUTS {
        db.put(&number.to_be_bytes(), &[b'v'; 100]).unwrap();
    }
    drop(db);
    let wal = scratch::wals(folder).pop().expect("closing does not flush");
    let mut bytes = fs::read(&wal).unwrap();
    assert!(bytes.len() > PUTS as usize * 100, "all of it is in the log");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&wal, bytes).unwrap();
    wal
}
