//! One process has the database; all others are shut out, whichever engine they use. When the
//! process goes, even by force, the lock goes with it and all that it wrote is there.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::peer::{Engine, Settings};
use siltstone_interop::scratch::Scratch;

/// More than a memtable of the default size takes, so that a flush is under way, too.
const PUTS: u32 = 60_000;

#[test]
fn leveldb_shuts_out_siltstone_and_the_other_way_round() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let engines = [Engine::LevelDb(leveldb), Engine::Siltstone];
    for holder in engines {
        let scratch = Scratch::new("exclusion");
        let mut held = hold(holder, scratch.path(), 1);
        for other in engines {
            let who = format!("{} against {}", other.name(), holder.name());
            let error = other.open(scratch.path(), &Settings::default()).err().expect(&who);
            assert!(error.is_locked, "{who}: {error}");
        }
        // A failed attempt has not loosened the lock.
        let mut second = start(Engine::Siltstone, scratch.path(), 0);
        assert_ne!(first_line(&mut second), "held");
        assert!(second.wait().unwrap().success());

        drop(held.stdin.take());
        assert!(held.wait().unwrap().success());
        for next in engines {
            let db = next.open(scratch.path(), &Settings::default()).unwrap();
            assert!(db.get(&0_u32.to_be_bytes()).is_some());
            db.close();
        }
    }
}

#[test]
fn a_killed_process_leaves_all_its_writes_to_the_other_engine() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let engines = [Engine::LevelDb(leveldb), Engine::Siltstone];
    for (killed, next) in [(0, 1), (1, 0), (1, 1)] {
        let (killed, next) = (engines[killed], engines[next]);
        let scratch = Scratch::new("killed");
        let mut held = hold(killed, scratch.path(), PUTS);
        held.kill().unwrap();
        held.wait().unwrap();
        let settings = Settings { paranoid: true, ..Settings::default() };
        let db = next.open(scratch.path(), &settings).unwrap();
        let found = (0..PUTS).filter(|number| db.get(&number.to_be_bytes()).is_some()).count();
        assert_eq!(found, PUTS as usize, "{} after {}", next.name(), killed.name());
        db.close();
    }
}

/// A process that has the database in `folder` open, with so many puts made.
fn hold(engine: Engine, folder: &Path, puts: u32) -> Child {
    let mut child = start(engine, folder, puts);
    assert_eq!(first_line(&mut child), "held", "{}", engine.name());
    child
}

fn start(engine: Engine, folder: &Path, puts: u32) -> Child {
    let name = match engine {
        Engine::LevelDb(_) => "leveldb",
        Engine::Siltstone => "siltstone",
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_hold"));
    command.arg(name).arg(folder).arg(puts.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts")
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("the output is piped");
    BufReader::new(output).read_line(&mut line).expect("the output is text");
    line.trim_end().to_string()
}
