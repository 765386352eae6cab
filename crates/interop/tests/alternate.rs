//! LevelDB and siltstone take turns on one database. Whatever one has written, the other reads,
//! changes and leaves behind in good order.

use std::fs;
use std::path::Path;

use siltstone_interop::leveldb::{self, LevelDb};
use siltstone_interop::model::Model;
use siltstone_interop::peer::{Change, Database, Durability, Engine, Order, Settings};
use siltstone_interop::rng::Rng;
use siltstone_interop::scratch::Scratch;
use siltstone_interop::workload;

#[test]
fn engines_take_turns_on_one_database() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    take_turns(leveldb, Order::Bytewise, 240);
}

#[test]
fn engines_take_turns_under_a_custom_order() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    take_turns(leveldb, Order::Backwards, 60);
}

#[test]
fn leveldb_repairs_what_siltstone_wrote() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let mut rng = Rng::for_test();
    let scratch = Scratch::new("repair");
    let path = scratch.path();
    let mut model = Model::new(Order::Bytewise);
    let settings = Settings { write_buffer_bytes: 64 << 10, ..Settings::default() };
    for session in 0..4 {
        let db = Engine::Siltstone.open(path, &settings).unwrap();
        // Each key once: LevelDB's repair may bring back what was overwritten.
        let put = |number: u32| {
            Change::Put(format!("{session} {number}").into_bytes(), workload::value(&mut rng))
        };
        let changes: Vec<Change> = (0..500).map(put).collect();
        changes.chunks(50).for_each(|batch| db.write(batch, Durability::Buffered));
        model.write(&changes);
        db.close();
    }
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name == "CURRENT" || name.starts_with("MANIFEST-") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let options = leveldb::Options { paranoid_checks: true, ..leveldb::Options::default() };
    leveldb.repair(path, &options).unwrap();
    for engine in [Engine::LevelDb(leveldb), Engine::Siltstone] {
        let db = engine.open(path, &settings).unwrap();
        workload::check(engine.name(), &*db.now(), &model, &mut rng);
        db.close();
    }
}

fn take_turns(leveldb: LevelDb, order: Order, rounds: usize) {
    let mut rng = Rng::for_test();
    let scratch = Scratch::new("alternate");
    let mut model = Model::new(order);
    let engines = [Engine::LevelDb(leveldb), Engine::Siltstone];
    let first = rng.below(2);
    for round in 0..rounds {
        let engine = engines[(first + round) % 2];
        take_turn(engine, scratch.path(), round, &mut model, &mut rng);
    }
    assert!(model.len() > 1000, "the database grew");
}

/// One engine opens the database, checks all of it, changes it and closes it.
fn take_turn(engine: Engine, path: &Path, round: usize, model: &mut Model, rng: &mut Rng) {
    let settings = workload::settings(rng, model.order());
    let who = format!("round {round}, {} with {settings:?}", engine.name());
    let db = engine.open(path, &settings).unwrap_or_else(|error| panic!("{who}: {error}"));
    workload::check(&format!("{who}, on opening"), &*db.now(), model, rng);
    use_database(&who, &*db, model, rng);
    db.close();
}

fn use_database(who: &str, db: &dyn Database, model: &mut Model, rng: &mut Rng) {
    let before = rng.one_in(3).then(|| (db.snapshot(), model.clone()));
    change(db, model, rng);
    if rng.one_in(6) {
        let (start, limit) = workload::range(rng, model.order());
        db.compact(start.as_deref(), limit.as_deref());
        change(db, model, rng);
    }
    if let Some((snapshot, then)) = before {
        workload::check(&format!("{who}, in a snapshot"), &*snapshot, &then, rng);
        workload::check(&format!("{who}, on closing"), &*db.now(), model, rng);
    }
}

/// Some batches and single changes.
fn change(db: &dyn Database, model: &mut Model, rng: &mut Rng) {
    for _ in 0..rng.below(6) {
        let batch = workload::changes(rng, 150);
        db.write(&batch, workload::durability(rng));
        model.write(&batch);
    }
    let singles = workload::changes(rng, 100);
    for single in &singles {
        match single {
            Change::Put(key, value) => db.put(key, value),
            Change::Delete(key) => db.delete(key),
        }
    }
    model.write(&singles);
}
