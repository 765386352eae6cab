//! Seeds of the corpora: small databases of every layout, and their files taken apart.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use siltstone::{BloomFilter, Compression, Db, Options};
use siltstone_sim::{Folder, World};

use crate::reading::{DIR, options};
use crate::{Target, folder};

type Files = Vec<(String, Vec<u8>)>;

/// Longer ones are left out: they would cost more time than they are worth.
const SEED_BYTES_MAX: usize = 2048;

/// Every seed: its target's name, and the input.
pub fn all(decoders: impl Fn(&Files) -> Vec<(&'static str, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    let mut seeds = BTreeSet::new();
    for files in databases() {
        for (name, file) in decoders(&files) {
            let target = Target::find(name).unwrap();
            seeds.insert((name.to_owned(), target.input_of(file)));
        }
        for (_, log) in files.iter().filter(|(name, _)| name.ends_with(".log")) {
            seeds.insert(("wal".to_owned(), [&[0, 0], &log[..]].concat()));
        }
        for mode in 0..5 {
            seeds.insert(("folder".to_owned(), folder::encode(mode, &files)));
        }
    }
    for (name, input) in operations() {
        seeds.insert((name.to_owned(), input));
    }
    let fits = |(_, input): &(String, Vec<u8>)| input.len() <= SEED_BYTES_MAX;
    seeds.into_iter().filter(fits).collect()
}

fn databases() -> Vec<Files> {
    let mut all = vec![leveldb()];
    for compression in [Compression::None, Compression::Snappy, Compression::ZSTD] {
        for filter in [false, true] {
            let layout = |options: &mut Options| {
                options.compression = compression;
                options.filter_policy = filter.then(|| Arc::new(BloomFilter::new(10)) as _);
            };
            all.extend([database(layout, 3), database(layout, 14)]);
        }
    }
    all
}

/// What a process leaves that dies after some rounds of writing.
fn database(layout: impl Fn(&mut Options), rounds: u32) -> Files {
    let world = World::new();
    let mut tuned = Options { create_if_missing: true, ..options(&world.env) };
    layout(&mut tuned);
    let db = Db::open(DIR, tuned).unwrap();
    for round in 0..rounds {
        db.put(format!("prefix/{round:02}"), "v".repeat(round as usize * 3)).unwrap();
        db.put([b'a' + round as u8], [round as u8; 30]).unwrap();
        db.delete(format!("prefix/{:02}", round / 2)).unwrap();
        if round % 4 == 3 {
            db.flush().unwrap();
        }
        if round == 10 {
            db.compact_range(None, None).unwrap();
        }
    }
    world.after_crash().folder.files()
}

/// One that LevelDB wrote.
fn leveldb() -> Files {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/leveldb-1.23/small");
    Folder::new(siltstone::Env::posix().file_system, dir).files()
}

/// Operations of every kind, a few with faults; each also as a run with damage at its end.
fn operations() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    for first in 0..32u8 {
        let mut steps: Vec<u8> = Vec::new();
        for step in 0..12u8 {
            steps.extend([step.wrapping_mul(first), first ^ step, step * 7, 0x60 + first]);
        }
        seeds.push(("operations", [&[first], &steps[..]].concat()));
        let damage = [first, first.wrapping_mul(37), first * 5, first / 16];
        seeds.push(("damage", [&[32 << 2 | first & 3], &steps[..32], &damage].concat()));
    }
    seeds
}
