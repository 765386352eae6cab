//! What reads of a whole database cost, in requests.

use std::path::Path;

use siltstone::{Background, Db, Options, ReadOptions};

use super::store::{Opened, World};
use super::*;
use crate::reads::cache::{CacheOptions, ExtentCache};

/// About 43 MiB of tables.
const KEYS: u32 = 300_000;
const VALUE_BYTES: usize = 128;

fn options() -> Options {
    Options {
        write_buffer_size: 8 << 20,
        max_file_size: 4 << 20,
        level1_bytes: 8 << 20,
        background: Background::ByHand,
        ..Options::default()
    }
}

/// In order, but not alike: of keys that differ in a few digits LevelDB's filters tell three in a hundred wrongly.
fn key(number: u32) -> [u8; 16] {
    let mut key = [0; 16];
    let (order, rest) = key.split_at_mut(8);
    order.copy_from_slice(format!("{number:08}").as_bytes());
    rest.copy_from_slice(&mixed(u64::from(number)).to_le_bytes());
    key
}

fn mixed(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn value(number: u32) -> Vec<u8> {
    let words = (0..VALUE_BYTES as u64 / 8).map(|at| mixed((u64::from(number) << 8) | at));
    words.flat_map(u64::to_le_bytes).collect()
}

/// No two of these follow each other.
fn spread(nth: u32) -> u32 {
    (u64::from(nth) * 7_368_787 % u64::from(KEYS)) as u32
}

fn fill(db: &Db) {
    for nth in 0..KEYS {
        let number = spread(nth);
        db.put(key(number), value(number)).unwrap();
        if nth % 1000 == 0 {
            while db.run_background_step().unwrap() {}
        }
    }
    db.flush().unwrap();
    while db.run_background_step().unwrap() {}
}

/// A filled database, opened anew.
fn world() -> World {
    let mut world = World::new();
    let opened = world.open(RemoteOptions::default(), options());
    fill(&opened.db);
    world.close(opened);
    world.bucket.take();
    world
}

fn cache(world: &World, capacity_bytes: u64) -> Option<Arc<ExtentCache>> {
    let options = CacheOptions::new(capacity_bytes);
    Some(ExtentCache::open(&world.env, Path::new("cache"), options).unwrap())
}

fn get(db: &Db, number: u32) {
    assert!(db.get(key(number)).unwrap().is_some_and(|found| found == value(number)), "{number}");
}

fn tables_of(db: &Db) -> usize {
    db.levels().iter().map(|level| level.tables.len()).sum()
}

/// Has every table opened, mostly without a look at its data.
fn open_all(opened: &Opened) {
    for number in (0..KEYS).step_by(100) {
        let absent = [&key(number)[..], b"x"].concat();
        assert_eq!(opened.db.get(absent).unwrap(), None);
    }
}

fn scan(db: &Db, from: u32, count: usize) {
    let reading = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    let mut iter = db.iter_with(&reading).unwrap();
    iter.seek(key(from)).unwrap();
    for number in (from..KEYS).take(count) {
        assert!(iter.valid() && iter.key() == key(number) && iter.value() == value(number));
        iter.next().unwrap();
    }
}

#[test]
fn opens_gets_and_scans_cost_few_requests() {
    let mut world = world();
    let opened = world.open(RemoteOptions::default(), options());
    let levels = opened.db.levels().iter().filter(|level| !level.tables.is_empty()).count();
    assert!(levels >= 2, "a database of levels");
    open_all(&opened);
    let stats = opened.remote().stats();
    assert_eq!(stats.opened, tables_of(&opened.db) as u64, "every table is open");
    assert!(stats.tails_too_short <= 2, "{stats:?}");
    world.bucket.take();

    // Nothing is cached but indexes and filters: these are cold.
    let gets = 2000;
    (0..gets).for_each(|nth| get(&opened.db, spread(nth)));
    let cold = world.bucket.take();
    let per_get = cold.len() as f64 / f64::from(gets);
    assert!(per_get <= 1.05, "{per_get} requests for a get");
    assert!(cold.iter().all(|(_, purpose)| *purpose == Purpose::Get));
    open_all(&opened);
    let in_vain = world.bucket.take().len();
    // Ten bits of filter leave one in a hundred, for each of five tables.
    assert!(in_vain <= 180, "{in_vain} requests for 3,000 keys that are not there");

    let per_scan = |count: usize, scans: u32| {
        (0..scans).for_each(|nth| scan(&opened.db, spread(nth) % (KEYS - 1000), count));
        let gets = world.bucket.take();
        assert!(gets.iter().all(|(_, purpose)| *purpose == Purpose::Scan));
        gets.len() as f64 / f64::from(scans)
    };
    let of_ten = per_scan(10, 200);
    assert!(of_ten <= 2.0 * levels as f64, "{of_ten} requests for a scan of 10, {levels} levels");
    let of_thousand = per_scan(1000, 50);
    assert!(of_thousand <= 4.0 * levels as f64, "{of_thousand} for a scan of 1,000");
    let (of_all, bytes) = (per_scan(KEYS as usize, 1), f64::from(KEYS) * 152.0);
    let mean = bytes / of_all;
    assert!(mean >= 256.0 * 1024.0, "{of_all} requests for all: {mean} bytes each");
    let tables = tables_of(&opened.db);
    println!("{tables} tables on {levels} levels; requests for a get {per_get}, a scan of 10");
    println!("{of_ten}, of 1,000 {of_thousand}, of all {of_all}");
    assert_eq!(world.bucket.take(), [], "nothing is asked for when nobody reads");
    world.close(opened);
}

#[test]
fn a_cached_database_asks_for_nothing_even_after_a_restart() {
    let mut world = world();
    let remote = RemoteOptions { cache: cache(&world, 128 << 20), ..RemoteOptions::default() };
    let opened = world.open(remote, options());
    open_all(&opened);
    // A disk that takes its time with so much would have extents left out.
    for from in (0..KEYS).step_by(10_000) {
        scan(&opened.db, from, 10_000);
        opened.remote().cache().unwrap().settle();
    }
    world.bucket.take();
    (0..2000).for_each(|nth| get(&opened.db, spread(nth)));
    scan(&opened.db, 0, KEYS as usize);
    assert_eq!(world.bucket.take(), []);
    world.close(opened);

    let remote = RemoteOptions { cache: cache(&world, 128 << 20), ..RemoteOptions::default() };
    let opened = world.open(remote, options());
    open_all(&opened);
    scan(&opened.db, 0, KEYS as usize);
    (0..2000).for_each(|nth| get(&opened.db, spread(nth)));
    assert_eq!(world.bucket.take(), [], "{:?}", opened.remote().stats());
    let stats = opened.remote().stats();
    assert_eq!((stats.opened, stats.all_gets()), (stats.opened_near, 0));
    world.close(opened);
}

/// Merges read much at a time, use what is cached, and put nothing there.
#[test]
fn merges_read_in_large_pieces_and_leave_the_cache_alone() {
    let mut world = world();
    let threads = Some(world.env.threads.clone());
    let cache = cache(&world, 16 << 20);
    let remote = RemoteOptions { cache: cache.clone(), threads, ..RemoteOptions::default() };
    let opened = world.open(remote, options());
    (0..500).for_each(|nth| get(&opened.db, spread(nth)));
    let cache = cache.unwrap();
    cache.settle();
    let before = cache.stats();
    world.bucket.take();
    opened.db.compact_range(None, None).unwrap();
    let gets = world.bucket.take();
    let of_merges: Vec<_> = gets.iter().filter(|(_, of)| *of == Purpose::CompactIn).collect();
    let merged = opened.db.metrics().compaction_bytes_read;
    assert!(merged > 30 << 20);
    let mean = merged / of_merges.len() as u64;
    assert!(mean >= 1 << 20, "{} requests for {merged} bytes", of_merges.len());
    cache.settle();
    let after = cache.stats();
    let opens = gets.len() - of_merges.len();
    assert!(after.kept - before.kept <= 4 * opens as u64, "{before:?} {after:?}, {opens} opens");
    (0..2000).for_each(|nth| get(&opened.db, spread(nth)));
    drop(cache);
    world.close(opened);
}

/// A byte that is damaged on its way to the cache would else be served for ever: the engine tells, and it is got again.
#[test]
fn what_came_damaged_is_got_again() {
    let mut world = world();
    let cache = cache(&world, 64 << 20);
    let remote = RemoteOptions { cache: cache.clone(), ..RemoteOptions::default() };
    let opened = world.open(remote, options());
    open_all(&opened);
    world.bucket.twist(Twist::Changed, usize::MAX);
    let errors = (0..2000).filter_map(|nth| opened.db.get(key(spread(nth))).err());
    let told = errors.inspect(|error| assert!(error.is_corruption() && error.offset().is_some()));
    assert!(told.count() > 0, "some were of the very block");
    world.bucket.untwist();
    (0..KEYS).for_each(|nth| get(&opened.db, nth));
    scan(&opened.db, 0, KEYS as usize);
    let cache = cache.unwrap();
    assert!(cache.stats().damaged > 50, "{:?}", cache.stats());
    drop(cache);
    world.close(opened);
}

/// Damage in the cache's files under a database that is read: it is got again, and counted.
#[test]
fn a_damaged_cache_file_costs_requests_only() {
    let mut world = world();
    let mut lost = 0;
    for round in 0..5_u64 {
        let cache = cache(&world, 32 << 20);
        let remote = RemoteOptions { cache: cache.clone(), ..RemoteOptions::default() };
        let opened = world.open(remote, options());
        (0..1000).for_each(|nth| get(&opened.db, spread(nth)));
        lost += cache.unwrap().stats().damaged;
        world.close(opened);
        let files = &world.env.file_system;
        for name in files.list(Path::new("cache")).unwrap() {
            let path = Path::new("cache").join(&name);
            let file = files.open(&path).unwrap();
            let mut bytes = vec![0; file.len() as usize];
            file.read_at(&mut bytes, 0).unwrap();
            for at in (0..bytes.len()).skip(round as usize * 777).step_by(50_000) {
                bytes[at] ^= 1 << round;
            }
            let mut file = files.create(&path, siltstone::Site::TableCreate).unwrap();
            file.append(&bytes, siltstone::Site::TableAppend).unwrap();
        }
    }
    assert!(lost > 100, "{lost}");
}
