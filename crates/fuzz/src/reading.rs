//! Options for tiny databases in memory, and everything that can be read of one.

use std::sync::Arc;

use siltstone::{Background, BlockCache, Db, Env, Options, Result};
use siltstone_sim::clock::SimClock;
use siltstone_sim::{Folder, World};

pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Where the databases lie.
pub(crate) const DIR: &str = "/db";

/// Scans of hostile databases end here.
const STEPS_MAX: usize = 5_000;

/// Files in memory, and time by the calls made: no write is slowed.
fn env() -> Env {
    Env { clock: Arc::new(SimClock::default()), ..Env::memory() }
}

/// What is there for the next process when that of `world` has died.
pub(crate) fn after_death(world: &World) -> World {
    world.faults.kill();
    World::over(Env { file_system: Arc::clone(&world.folder.fs), ..env() })
}

/// A world whose database folder holds these files.
pub(crate) fn world(files: &[(String, Vec<u8>)]) -> World {
    let world = World::over(env());
    world.folder.put_files(files);
    world
}

/// Everything small, nothing in the background, no cache: each read reads.
pub(crate) fn options(env: &Env) -> Options {
    Options {
        env: env.clone(),
        info_log: false,
        write_buffer_size: 1 << 10,
        block_size: 256,
        block_restart_interval: 4,
        max_file_size: 2 << 10,
        level1_bytes: 8 << 10,
        block_cache: Some(Arc::new(BlockCache::new(0))),
        background: Background::ByHand,
        unclamped: true,
        ..Default::default()
    }
}

/// A database folder with these files.
pub(crate) fn folder(files: &[(String, Vec<u8>)]) -> (Env, Folder) {
    let env = env();
    let folder = Folder::new(Arc::clone(&env.file_system), DIR);
    folder.put_files(files);
    (env, folder)
}

pub(crate) fn scan(db: &Db) -> Result<Pairs> {
    let mut pairs = Pairs::new();
    let mut iter = db.iter()?;
    iter.seek_to_first()?;
    while iter.valid() && pairs.len() < STEPS_MAX {
        pairs.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next()?;
    }
    Ok(pairs)
}

fn scan_back(db: &Db) -> Result<Pairs> {
    let mut pairs = Pairs::new();
    let mut iter = db.iter()?;
    iter.seek_to_last()?;
    while iter.valid() && pairs.len() < STEPS_MAX {
        pairs.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.prev()?;
    }
    Ok(pairs)
}

/// Reads in every way, whatever comes of it.
pub(crate) fn roam(db: &Db) {
    let _ = scan_back(db);
    let found = scan(db).unwrap_or_default();
    for (key, _) in found.iter().step_by(1 + found.len() / 8) {
        let _ = db.get(key);
        let _ = db.iter().and_then(|mut iter| {
            iter.seek(key)?;
            if iter.valid() { iter.prev() } else { Ok(()) }
        });
    }
    for key in [&b""[..], b"k", b"prefix/05", &[0xff; 9]] {
        let _ = db.get(key);
    }
    let _ = db.approximate_sizes(&[(b"", b"\xff"), (b"\xff", b"")]);
    let _ = db.property("leveldb.sstables");
}

/// All of a sound database; every way to read it must agree.
pub(crate) fn contents(db: &Db) -> Result<Pairs> {
    let forward = scan(db)?;
    let mut backward = scan_back(db)?;
    backward.reverse();
    assert!(forward.len() < STEPS_MAX, "no database here is that large");
    assert_eq!(forward, backward, "both directions show the same");
    assert!(forward.is_sorted_by(|a, b| a.0 < b.0), "keys ascend");
    for (key, value) in forward.iter().step_by(1 + forward.len() / 16) {
        assert_eq!(db.get(key)?.as_ref(), Some(value), "get of {}", key.escape_ascii());
    }
    Ok(forward)
}
