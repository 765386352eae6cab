//! Replicas beside a writer, on a bucket in memory.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use siltstone::{BlockCache, Compression, Db, Env, ErrorKind, Options};

use super::*;
use crate::bucket::Failure;
use crate::fickle::Fickle;
use crate::home::Patience;
use crate::names::Root;
use crate::reads::cache::{CacheOptions, ExtentCache};
use crate::tiered::{CloudDb, CloudOptions, LogArchive};

const KEYS: u32 = 1_000;

fn world() -> (Arc<Fickle>, Home) {
    let bucket = Arc::new(Fickle::default());
    let patience = Patience { total: Duration::from_millis(100), pause: Duration::from_millis(1) };
    let home = Home::new(bucket.clone(), Root::new("db").unwrap(), Env::memory().clock);
    (bucket, home.with_patience(patience))
}

fn engine() -> Options {
    Options {
        create_if_missing: true,
        env: Env::memory(),
        info_log: false,
        write_buffer_size: 16 << 10,
        max_file_size: 8 << 10,
        unclamped: true,
        ..Options::default()
    }
}

fn writer(home: &Home, log: LogArchive) -> CloudDb {
    let cloud = CloudOptions { token: Some(Token(1)), ..CloudOptions::default() };
    CloudDb::open(home, "db", engine(), cloud.with_log(log)).unwrap()
}

fn load(db: &Db, round: u32) {
    for number in 0..KEYS {
        db.put(number.to_be_bytes(), format!("{number} of round {round}")).unwrap();
    }
}

fn shown(db: &Db) -> u32 {
    let value = String::from_utf8(db.get(7_u32.to_be_bytes()).unwrap().unwrap()).unwrap();
    let round = value.strip_prefix("7 of round ").unwrap().parse().unwrap();
    for number in 0..KEYS {
        let value = db.get(number.to_be_bytes()).unwrap().expect("a value");
        assert_eq!(value, format!("{number} of round {round}").into_bytes());
    }
    round
}

const FOLLOWING: Following = Following {
    lease: Duration::from_secs(60),
    busy: Duration::from_millis(2),
    idle: Duration::from_millis(10),
};

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_replica_reads_what_is_there_and_stays() {
    let (_, home) = world();
    let missing = Replica::open(&home, engine(), ReplicaOptions::default()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::InvalidArgument);
    let db = writer(&home, LogArchive::Off);
    load(&db, 0);
    db.flush().unwrap();
    db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    let replica = Replica::open(&home, engine(), ReplicaOptions::default()).unwrap();
    assert_eq!(shown(&replica.db()), 0);
    load(&db, 1);
    db.close().unwrap();
    assert_eq!(shown(&replica.db()), 0);
    let refused = replica.db().put("key", "value").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_follower_goes_on_and_old_readers_stay() {
    let (bucket, home) = world();
    let db = writer(&home, LogArchive::Off);
    load(&db, 0);
    db.flush().unwrap();
    db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    let options = ReplicaOptions { token: Some(Token(1 << 64)), ..ReplicaOptions::default() };
    let replica = Replica::follow(&home, engine(), options, FOLLOWING).unwrap();
    let old = replica.db();
    assert_eq!(shown(&old), 0);
    for round in 1..4 {
        load(&db, round);
        db.flush().unwrap();
        db.wait_for_bucket(Duration::from_secs(10)).unwrap();
        let version = db.cloud_metrics().version;
        until("the replica goes on", || replica.version() >= version);
        assert_eq!(shown(&replica.db()), round);
        assert_eq!(shown(&old), 0);
    }
    assert!(replica.switches() >= 3 && replica.failure().is_none());
    drop((replica, old));
    assert!(!bucket.names().iter().any(|name| name.contains("/readers/")), "its lease is gone");
}

/// Looks by itself only when the test is over.
const WAITING: Following = Following {
    lease: Duration::from_secs(36_000),
    busy: Duration::from_secs(3_600),
    idle: Duration::from_secs(3_600),
};

/// A follower that waits for news, and its writer, which announces to whoever stands in the middle.
fn told() -> (CloudDb, Replica, Arc<Mutex<Vec<u64>>>) {
    told_and_asking(1)
}

/// It asks for what is new so many times at once.
fn told_and_asking(times: usize) -> (CloudDb, Replica, Arc<Mutex<Vec<u64>>>) {
    let (_, home) = world();
    let announced = Arc::new(Mutex::new(Vec::new()));
    let mut cloud = CloudOptions { token: Some(Token(1)), ..CloudOptions::default() };
    let heard = Arc::clone(&announced);
    cloud.announce =
        Some(Arc::new(move |version: VersionNumber| heard.lock().unwrap().push(version.0)));
    let db = CloudDb::open(&home, "db", engine(), cloud).unwrap();
    load(&db, 0);
    commit(&db);
    let options = ReplicaOptions { token: Some(Token(1 << 64)), ..ReplicaOptions::default() };
    let options = options.with_requests_at_once(times);
    let replica = Replica::follow(&home, engine(), options, WAITING).unwrap();
    (db, replica, announced)
}

fn commit(db: &CloudDb) -> u64 {
    db.flush().unwrap();
    db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    db.cloud_metrics().version
}

#[test]
fn each_version_is_announced_when_its_record_is_there() {
    let (db, _, announced) = told();
    for round in 1..4 {
        load(&db, round);
        commit(&db);
    }
    let newest = db.cloud_metrics().version;
    db.close().unwrap();
    let announced = announced.lock().unwrap();
    assert!(announced.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{announced:?}");
    assert!(announced.len() >= 4 && announced.contains(&newest), "{announced:?}");
}

#[test]
fn who_is_told_looks_at_once_however_long_it_would_rest() {
    for times in [1, 4] {
        let (db, replica, _) = told_and_asking(times);
        let news = replica.news();
        for round in 1..4 {
            load(&db, round);
            let version = commit(&db);
            news.tell(version);
            // All versions up to that one are gone through.
            until("the replica goes on", || replica.version() >= version);
            assert_eq!(shown(&replica.db()), round);
        }
        assert!(replica.failure().is_none());
        drop(replica);
        news.tell(u64::MAX);
    }
}

#[test]
fn wrong_late_and_lost_news_harms_nothing() {
    let (_, home) = world();
    let db = writer(&home, LogArchive::Off);
    load(&db, 0);
    commit(&db);
    let options = ReplicaOptions { token: Some(Token(1 << 64)), ..ReplicaOptions::default() };
    let replica = Replica::follow(&home, engine(), options, FOLLOWING).unwrap();
    let news = replica.news();
    for round in 1..5 {
        for wrong in [0, 1, replica.version(), u64::MAX] {
            news.tell(wrong);
        }
        load(&db, round);
        let version = commit(&db);
        // The truth comes between lies or not at all, and is found all the same.
        if round % 2 == 0 {
            news.tell(version);
        }
        news.tell(version + 1_000);
        until("the replica goes on", || replica.version() >= version);
        assert_eq!(shown(&replica.db()), round);
    }
    assert!(replica.failure().is_none());
}

#[test]
fn a_replica_shows_the_archived_log() {
    let (_, home) = world();
    let log = LogArchive::Every(Duration::from_millis(1));
    let db = writer(&home, log);
    load(&db, 0);
    db.flush().unwrap();
    db.put(7_u32.to_be_bytes(), "later").unwrap();
    // Where a later version comes while one is opened, it is shown without the log.
    db.wait_for_background().unwrap();
    db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    until("the log is there", || db.cloud_metrics().log_lag == 0);
    let open = |with_log| {
        let options = ReplicaOptions { with_log, ..ReplicaOptions::default() };
        Replica::open(&home, engine(), options).unwrap().db().get(7_u32.to_be_bytes()).unwrap()
    };
    assert_eq!(open(true).unwrap(), b"later");
    assert_eq!(open(false).unwrap(), b"7 of round 0");
}

/// What a reader had is near in the next version, though the writer has merged all tables.
#[test]
fn what_was_near_is_near_in_the_next_version() {
    let (bucket, home) = world();
    // Longer than what comes when a table is opened.
    let (write_buffer_size, max_file_size) = (2 << 20, 2 << 20);
    let compression = Compression::None;
    let sizes = Options { write_buffer_size, max_file_size, compression, ..engine() };
    let cloud = CloudOptions { token: Some(Token(1)), ..CloudOptions::default() };
    let db = CloudDb::open(&home, "db", sizes, cloud).unwrap();
    let put = |number: u32| db.put(number.to_be_bytes(), [number as u8; 8000]).unwrap();
    (0..KEYS).for_each(put);
    commit(&db);
    for cached in [true, false] {
        let machine = Env::memory();
        let room = CacheOptions { extent_bytes: 4 << 10, ..CacheOptions::new(64 << 20) };
        let cache = ExtentCache::open(&machine, "cache".as_ref(), room).unwrap();
        let reads = RemoteOptions { cache: cached.then_some(cache), ..RemoteOptions::default() };
        let token = Some(Token((1 << 64) + u128::from(cached)));
        let options = ReplicaOptions { token, ..ReplicaOptions::default() }.with_reads(reads);
        // Each version would have blocks of its own.
        let nothing = Options { block_cache: Some(Arc::new(BlockCache::new(0))), ..engine() };
        let replica = Replica::follow(&home, nothing, options, FOLLOWING).unwrap();
        let read = |from: &Db, number: u32| from.get(number.to_be_bytes()).map(|_| ());
        let hot = 300..350;
        hot.clone().for_each(|number| read(&replica.db(), number).unwrap());
        (0..KEYS).step_by(9).for_each(put);
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        let version = commit(&db);
        until("the replica goes on", || replica.version() >= version);
        bucket.break_gets("", Failure::Unavailable);
        let failed = hot.filter(|number| read(&replica.db(), *number).is_err()).count();
        bucket.mend_gets();
        assert_eq!(failed > 0, !cached, "{failed}");
    }
}
