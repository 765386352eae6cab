//! What siltstone verifies, copies and repairs, LevelDB takes for its own, whoever wrote it.

use std::fs;
use std::path::Path;

use siltstone::Options;
use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::model::Model;
use siltstone_interop::peer::{Durability, Engine, Order, Settings};
use siltstone_interop::rng::Rng;
use siltstone_interop::scratch::Scratch;
use siltstone_interop::workload;

const ROUNDS: usize = 6;

#[test]
fn copies_and_repairs_are_leveldbs_databases_too() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let mut rng = Rng::for_test();
    let scratch = Scratch::new("care");
    let (path, options) = (scratch.path().join("db"), Options::default());
    let mut model = Model::new(Order::Bytewise);
    let engines = [Engine::LevelDb(leveldb), Engine::Siltstone];
    for round in 0..ROUNDS {
        write(engines[round % 2], &path, &mut model, &mut rng);
        let report = siltstone::verify(&path, &options).unwrap();
        assert!(report.is_ok(), "round {round}: {report}");

        let repaired = scratch.path().join(format!("repaired-{round}"));
        let report = siltstone::repair(&path, &repaired, &options).unwrap();
        assert!(report.found.is_whole() && report.found.warnings.is_empty(), "{report}");
        assert_eq!(report.entries_kept, model.len() as u64);

        let copied = scratch.path().join(format!("copied-{round}"));
        let db = siltstone::Db::open_read_only(&path, options.clone()).unwrap();
        db.checkpoint(&copied).unwrap();
        drop(db);
        // The next round goes on with what took its place.
        let kept = siltstone::repair_in_place(&path, &options).unwrap().kept.unwrap();
        for made in [repaired, copied, kept] {
            let mut own = model.clone();
            for engine in engines.into_iter().cycle().take(4) {
                let db = engine.open(&made, &Settings::default()).unwrap();
                let who = format!("round {round}, {} on {}", engine.name(), made.display());
                workload::check(&who, &*db.now(), &own, &mut rng);
                let changes = workload::changes(&mut rng, 200);
                db.write(&changes, Durability::Buffered);
                own.write(&changes);
                db.close();
            }
        }
    }
}

/// LevelDB's repair may bring back what was overwritten or deleted; this one knows by the sequence
/// numbers which entry is the newest.
#[test]
fn siltstone_repairs_leveldbs_database_without_a_manifest() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let mut rng = Rng::for_test();
    for round in 0..ROUNDS {
        let scratch = Scratch::new("lost-manifest");
        let (path, repaired) = (scratch.join("db"), scratch.join("repaired"));
        let mut model = Model::new(Order::Bytewise);
        for _ in 0..=rng.below(4) {
            write(Engine::LevelDb(leveldb), &path, &mut model, &mut rng);
        }
        for entry in fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if name == "CURRENT" || name.starts_with("MANIFEST-") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        siltstone::repair(&path, &repaired, &Options::default()).unwrap();
        for engine in [Engine::LevelDb(leveldb), Engine::Siltstone] {
            let settings = Settings { paranoid: true, ..Settings::default() };
            let db = engine.open(&repaired, &settings).unwrap();
            workload::check(
                &format!("round {round}, {}", engine.name()),
                &*db.now(),
                &model,
                &mut rng,
            );
            db.close();
        }
    }
}

fn write(engine: Engine, path: &Path, model: &mut Model, rng: &mut Rng) {
    let settings = workload::settings(rng, Order::Bytewise);
    let db = engine.open(path, &settings).unwrap_or_else(|error| panic!("{error}"));
    for _ in 0..20 {
        let changes = workload::changes(rng, 200);
        db.write(&changes, workload::durability(rng));
        model.write(&changes);
    }
    let (start, limit) = workload::range(rng, Order::Bytewise);
    db.compact(start.as_deref(), limit.as_deref());
    db.close();
}
