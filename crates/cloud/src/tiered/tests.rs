//! Whole databases on a bucket in memory. Each machine is an environment of its own.

use std::sync::Arc;
use std::time::Duration;

use siltstone::{Compaction, Compression, Db, Env, ErrorKind, Options, Result};

use super::{CloudDb, CloudOptions, LocalCopies};
use crate::bucket::Failure;
use crate::fickle::Fickle;
use crate::home::{Home, Patience};
use crate::log::replay::read_newest;
use crate::names::{Root, Token};
use crate::reads::cache::{CacheOptions, ExtentCache};

const KEYS: u32 = 3_000;

struct World {
    bucket: Arc<Fickle>,
    home: Home,
    tokens: std::sync::atomic::AtomicU64,
}

impl World {
    fn new() -> Self {
        let bucket = Arc::new(Fickle::default());
        let patience = Patience { total: Duration::ZERO, pause: Duration::ZERO };
        let root = Root::new("shop").unwrap();
        let home = Home::new(bucket.clone(), root, Env::memory().clock).with_patience(patience);
        World { bucket, home, tokens: 0.into() }
    }

    fn cloud(&self) -> CloudOptions {
        let token = self.tokens.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        CloudOptions {
            token: Some(Token(u128::from(token) + 1)),
            close_within: Duration::from_secs(10),
            ..CloudOptions::default()
        }
    }

    fn open(&self, machine: &Env) -> Result<CloudDb> {
        CloudDb::open(&self.home, "db", options(machine), self.cloud())
    }

    fn open_with(&self, machine: &Env, change: impl FnOnce(&mut CloudOptions)) -> Result<CloudDb> {
        let mut cloud = self.cloud();
        change(&mut cloud);
        CloudDb::open(&self.home, "db", options(machine), cloud)
    }
}

fn options(machine: &Env) -> Options {
    Options {
        create_if_missing: true,
        env: machine.clone(),
        info_log: false,
        write_buffer_size: 16 << 10,
        max_file_size: 8 << 10,
        level1_bytes: 32 << 10,
        unclamped: true,
        compaction: Compaction::Sliced,
        ..Options::default()
    }
}

fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(2_654_435_761).to_be_bytes()
}

fn load(db: &Db, round: u32) {
    for number in 0..KEYS {
        db.put(key(number), format!("{number} of round {round}")).unwrap();
    }
    db.flush().unwrap();
}

#[track_caller]
fn check(db: &Db, round: u32) {
    for number in 0..KEYS {
        let value = db.get(key(number)).unwrap().expect("a value");
        assert_eq!(value, format!("{number} of round {round}").into_bytes());
    }
    let mut iter = db.iter().unwrap();
    iter.seek_to_first().unwrap();
    let mut count = 0;
    while iter.valid() {
        count += 1;
        iter.next().unwrap();
    }
    assert_eq!(count, KEYS);
}

fn tables_in(machine: &Env) -> usize {
    let names = machine.file_system.list("db".as_ref()).unwrap();
    names.iter().filter(|name| name.ends_with(".ldb")).count()
}

#[test]
fn another_machine_opens_it_from_the_bucket_alone() {
    let world = World::new();
    let db = world.open(&Env::memory()).unwrap();
    for round in 0..4 {
        load(&db, round);
        // On a busy machine uploads would begin when all is over, and tables that came and went stay here.
        db.wait_for_bucket(Duration::from_secs(60)).unwrap();
    }
    let before = db.cloud_metrics();
    db.close().unwrap();
    assert!(before.uploads > 10 && before.edits >= before.commits, "{before:?}");

    let elsewhere = Env::memory();
    let db = world.open(&elsewhere).unwrap();
    check(&db, 3);
    assert_eq!(db.cloud_metrics().epoch, 2);
    load(&db, 4);
    check(&db, 4);
    db.close().unwrap();
    let before = read_newest(&world.home).unwrap().unwrap().state.tables().clone();
    let db = world.open(&elsewhere).unwrap();
    check(&db, 4);
    db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    // What is merged meanwhile is new; nothing that stays is uploaded again.
    for (number, table) in read_newest(&world.home).unwrap().unwrap().state.tables() {
        assert_eq!(before.get(number).unwrap_or(table), table, "{number}");
    }
}

#[test]
fn what_the_bucket_lacks_goes_there_when_the_folder_is_opened_again() {
    let (world, machine) = (World::new(), Env::memory());
    let db = world.open(&machine).unwrap();
    load(&db, 0);
    db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    world.bucket.break_puts(Failure::Unavailable);
    load(&db, 1);
    check(&db, 1);
    assert!(db.cloud_metrics().bytes_waiting > 0);
    let property = |name| db.property(name).expect("it is one of ours, or the engine's");
    assert_ne!(property("leveldb.cloud.unuploaded-bytes"), "0");
    assert_eq!(property("leveldb.cloud.epoch"), "1");
    assert!(property("leveldb.cloud.metrics").contains("\nfailures "));
    assert!(property("leveldb.stats").contains("Compactions"));
    assert_eq!(db.property("leveldb.cloud.nonsense"), None);
    assert!(db.prometheus().contains("\nsiltstone_cloud_failures_total "));
    drop(db);
    world.bucket.mend_puts();

    let newest = read_newest(&world.home).unwrap().unwrap();
    let db = world.open(&machine).unwrap();
    check(&db, 1);
    db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    assert!(db.cloud_metrics().uploads > 0);
    assert!(read_newest(&world.home).unwrap().unwrap().state.version() > newest.state.version());
    db.close().unwrap();
    check(&world.open(&Env::memory()).unwrap(), 1);
}

/// Of tables that go from the folder the ends are kept, so that opening them asks for nothing; of those that stay nothing is.
#[test]
fn ends_are_cached_of_tables_without_a_copy() {
    for (local, is_kept) in [(LocalCopies::All, false), (LocalCopies::UpTo(0), true)] {
        let (world, machine) = (World::new(), Env::memory());
        let room = CacheOptions::new(64 << 20);
        let cache = ExtentCache::open(&machine, "cache".as_ref(), room).unwrap();
        let opened = world.open_with(&machine, |cloud| {
            cloud.local = local;
            cloud.reads.cache = Some(Arc::clone(&cache));
        });
        let db = opened.unwrap();
        load(&db, 0);
        db.wait_for_background().unwrap();
        db.wait_for_bucket(Duration::from_secs(60)).unwrap();
        let uploads = db.cloud_metrics().uploads;
        db.close().unwrap();
        assert!(uploads > 0);
        cache.settle();
        assert_eq!(cache.stats().kept > 0, is_kept, "{local:?}: {:?}", cache.stats());
    }
}

#[test]
fn without_local_copies_reads_go_to_the_bucket() {
    let (world, machine) = (World::new(), Env::memory());
    // What is read much is kept in memory, and its file then.
    let options = Options { resident_bytes: 0, ..options(&machine) };
    let cloud = CloudOptions { local: LocalCopies::UpTo(0), ..world.cloud() };
    let db = CloudDb::open(&world.home, "db", options, cloud).unwrap();
    for round in 0..3 {
        load(&db, round);
        check(&db, round);
    }
    db.wait_for_background().unwrap();
    db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    check(&db, 2);
    // What cannot go at a commit goes at a later one.
    for _ in 0..50 {
        if tables_in(&machine) == 0 {
            break;
        }
        db.put("more", "of it").unwrap();
        db.flush().unwrap();
        db.wait_for_background().unwrap();
        db.wait_for_bucket(Duration::from_secs(10)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let evicted = db.cloud_metrics().evicted;
    assert!(evicted > 10 && tables_in(&machine) == 0, "{evicted}, {}", tables_in(&machine));
    db.close().unwrap();
}

#[test]
fn with_all_copies_a_fresh_folder_gets_them_first() {
    let (world, elsewhere) = (World::new(), Env::memory());
    let db = world.open(&Env::memory()).unwrap();
    load(&db, 0);
    db.close().unwrap();
    let db = world.open_with(&elsewhere, |cloud| cloud.local = LocalCopies::All).unwrap();
    assert!(tables_in(&elsewhere) as u64 >= db.cloud_metrics().tables);
    world.bucket.break_gets("", Failure::Unavailable);
    check(&db, 0);
}

#[test]
fn a_database_of_a_folder_becomes_the_buckets() {
    let (world, machine) = (World::new(), Env::memory());
    let db = Db::open("db", options(&machine)).unwrap();
    load(&db, 0);
    db.close().unwrap();
    let db = world.open(&machine).unwrap();
    check(&db, 0);
    db.close().unwrap();
    check(&world.open(&Env::memory()).unwrap(), 0);

    let other = Env::memory();
    load(&Db::open("db", options(&other)).unwrap(), 9);
    let refused = world.open(&other).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    check(&Db::open("db", options(&other)).unwrap(), 9);
}

#[test]
fn of_two_writers_the_first_is_fenced_and_its_folder_refused() {
    let (world, first, second) = (World::new(), Env::memory(), Env::memory());
    let old = world.open(&first).unwrap();
    load(&old, 0);
    old.wait_for_bucket(Duration::from_secs(10)).unwrap();
    let new = world.open(&second).unwrap();
    // Who is fenced may hear of it from a merge before that.
    let _ = old.put("late", "perhaps").and_then(|()| old.flush());
    let fenced = old.wait_for_bucket(Duration::from_secs(10)).unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::Fenced, "{fenced}");
    assert_eq!(old.put("later", "no").unwrap_err().kind(), ErrorKind::Fenced);
    check_old(&old);
    load(&new, 1);
    assert!(old.close().is_err());
    new.wait_for_bucket(Duration::from_secs(10)).unwrap();
    check(&new, 1);
    new.close().unwrap();

    let refused = world.open(&first).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Fenced, "{refused}");
    let db = world.open_with(&first, |cloud| cloud.discard_overtaken = true).unwrap();
    check(&db, 1);
    assert_eq!(db.get("late").unwrap(), None);
    db.close().unwrap();
    assert_eq!(world.open(&second).unwrap_err().kind(), ErrorKind::Fenced);
}

#[test]
fn who_asks_first_takes_nothing_from_an_owner() {
    let (world, first) = (World::new(), Env::memory());
    let ask = |machine: &Env| world.open_with(machine, |cloud| cloud.unless_owned = true);
    let db = ask(&first).unwrap();
    load(&db, 0);
    let refused = ask(&Env::memory()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    drop(db);
    // It is not known to be closed; the folder may go on with it.
    assert!(ask(&Env::memory()).is_err());
    ask(&first).unwrap().close().unwrap();
    let elsewhere = Env::memory();
    check(&ask(&elsewhere).unwrap(), 0);
}

/// What was there goes on being read.
fn check_old(db: &Db) {
    assert_eq!(db.get(key(5)).unwrap().unwrap(), b"5 of round 0");
}

#[test]
fn writers_wait_once_too_much_is_here_only() {
    let (world, machine) = (World::new(), Env::memory());
    let db = world.open_with(&machine, |cloud| cloud.bytes_waiting_max = 64 << 10).unwrap();
    world.bucket.break_puts(Failure::Unavailable);
    let db = Arc::new(db);
    let writer = {
        let db = Arc::clone(&db);
        std::thread::spawn(move || (0..6).for_each(|round| load(&db, round)))
    };
    let mut waiting = 0;
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(10));
        let now = db.cloud_metrics().bytes_waiting;
        if now == waiting && now > 64 << 10 {
            break;
        }
        waiting = now;
    }
    assert!(!writer.is_finished());
    assert!(waiting < 1 << 20, "{waiting}");
    check_some(&db);
    world.bucket.mend_puts();
    writer.join().unwrap();
    assert!(db.cloud_metrics().waits > 0);
    check(&db, 5);
}

fn check_some(db: &Db) {
    assert!(db.get(key(0)).unwrap().is_some());
}

#[test]
fn lost_answers_and_whole_records_now_and_then_change_nothing() {
    let (world, machine) = (World::new(), Env::memory());
    let db = world.open_with(&machine, |cloud| cloud.snapshot_every = 3).unwrap();
    for round in 0..12 {
        world.bucket.next("v/", crate::fickle::Fate::AnswerLost);
        world.bucket.next("s/", crate::fickle::Fate::RequestLost);
        world.bucket.next("v/", crate::fickle::Fate::RequestLost);
        load(&db, round);
        db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    }
    world.bucket.forget_fates();
    db.close().unwrap();
    let replay = read_newest(&world.home).unwrap().unwrap();
    let since = replay.state.version().0 - replay.state.base().0;
    assert!(since <= 3, "{since}");
    check(&world.open(&Env::memory()).unwrap(), 11);
}

#[test]
fn a_machine_that_is_lost_leaves_a_whole_version_behind() {
    let world = World::new();
    let db = world.open(&Env::memory()).unwrap();
    load(&db, 0);
    db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    let elsewhere = Env::memory();
    // The first one goes on for a while, as a machine does that is cut off.
    load(&db, 1);
    let new = world.open(&elsewhere).unwrap();
    for number in 0..KEYS {
        let value = String::from_utf8(new.get(key(number)).unwrap().unwrap()).unwrap();
        assert!(value.starts_with(&format!("{number} of round ")), "{value}");
    }
    load(&new, 2);
    drop(db);
    check(&new, 2);
}

#[test]
fn options_of_existence_count_for_the_bucket() {
    let (world, machine) = (World::new(), Env::memory());
    let open = |env: &Env, change: fn(&mut Options)| {
        let mut options = options(env);
        change(&mut options);
        CloudDb::open(&world.home, "db", options, world.cloud())
    };
    let missing = open(&machine, |options| options.create_if_missing = false).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::InvalidArgument);
    assert!(read_newest(&world.home).unwrap().is_none(), "nothing was touched");
    let db = open(&machine, |_| {}).unwrap();
    load(&db, 0);
    let locked = open(&machine, |_| {}).unwrap_err();
    assert_eq!(locked.kind(), ErrorKind::Locked, "who has it open is not fenced: {locked}");
    load(&db, 1);
    db.close().unwrap();
    let exists = open(&Env::memory(), |options| options.error_if_exists = true).unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::InvalidArgument);
    check(&open(&machine, |options| options.create_if_missing = false).unwrap(), 1);
}

#[test]
fn what_may_be_all_that_is_left_is_not_cleared_away() {
    let world = World::new();
    let db = world.open(&Env::memory()).unwrap();
    load(&db, 0);
    db.close().unwrap();
    let names = |machine: &Env| {
        let mut names = machine.file_system.list("db".as_ref()).unwrap();
        names.retain(|name| !name.starts_with("CLOUD") && name != "LOCK");
        names.sort();
        names
    };
    let lose_current = |machine: &Env| {
        let current = std::path::Path::new("db/CURRENT");
        machine.file_system.remove_file(current, siltstone::Site::TempRemove).unwrap();
    };
    // A folder that was nobody's, and one that is this database's.
    let (foreign, own) = (Env::memory(), Env::memory());
    load(&Db::open("db", options(&foreign)).unwrap(), 5);
    drop(world.open(&own).unwrap());
    world.open(&own).unwrap().put("in the log", "only").unwrap();
    for machine in [&foreign, &own] {
        lose_current(machine);
        let before = names(machine);
        let refused = world.open(machine).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
        assert_eq!(names(machine), before);
    }
}

#[test]
fn an_adoption_that_was_cut_short_goes_on() {
    let (world, machine) = (World::new(), Env::memory());
    load(&Db::open("db", options(&machine)).unwrap(), 0);
    world.bucket.break_puts(Failure::Unavailable);
    assert!(world.open(&machine).is_err());
    world.bucket.mend_puts();
    let db = world.open(&machine).unwrap();
    check(&db, 0);
    db.close().unwrap();
    check(&world.open(&Env::memory()).unwrap(), 0);
}

#[test]
fn closing_brings_all_to_the_bucket_without_a_flush() {
    let world = World::new();
    let db = world.open(&Env::memory()).unwrap();
    db.put("apple", "red").unwrap();
    db.close().unwrap();
    let db = world.open(&Env::memory()).unwrap();
    assert_eq!(db.get("apple").unwrap().as_deref(), Some(&b"red"[..]));
}

/// However much waits for it.
#[test]
fn closing_ends_while_the_bucket_is_out_of_reach() {
    let (world, machine) = (World::new(), Env::memory());
    let db = world.open_with(&machine, |cloud| {
        cloud.bytes_waiting_max = 20 << 10;
        cloud.close_within = Duration::from_millis(50);
    });
    let db = db.unwrap();
    world.bucket.break_puts(Failure::Unavailable);
    let handle = Db::clone(&db);
    let writer = std::thread::spawn(move || {
        // Without end: what waited for room goes on once the database closes, for as long as that takes.
        (0..u32::MAX).try_for_each(|number| handle.put(key(number), [7; 100]))
    });
    while db.cloud_metrics().bytes_waiting < 20 << 10 {
        std::thread::yield_now();
    }
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(writer.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    world.bucket.mend_puts();
    assert!(world.open(&machine).unwrap().get(key(0)).unwrap().is_some());
}

#[test]
fn nobody_writes_on_once_nothing_follows() {
    let (world, machine) = (World::new(), Env::memory());
    let db = world.open(&machine).unwrap();
    let handle = Db::clone(&db);
    drop(db);
    assert_eq!(handle.put("late", "no").unwrap_err().kind(), ErrorKind::Closed);
}

fn with_lease(lease: Duration) -> impl FnOnce(&mut CloudOptions) {
    move |cloud| cloud.lease = lease
}

#[test]
fn who_is_taken_over_with_a_lease_is_silent_by_then() {
    let world = World::new();
    let lease = Duration::from_millis(600);
    let first = world.open_with(&Env::memory(), with_lease(lease)).unwrap();
    first.put("a", "1").unwrap();
    std::thread::sleep(2 * lease);
    first.put("b", "2").unwrap();
    first.flush().unwrap();
    first.wait_for_bucket(Duration::from_secs(10)).unwrap();
    let begin = std::time::Instant::now();
    let second = world.open_with(&Env::memory(), with_lease(lease)).unwrap();
    assert!(begin.elapsed() >= lease);
    // He commits nothing, and nobody tells him: still he does not acknowledge.
    assert_eq!(first.put("c", "3").unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(second.get("b").unwrap().as_deref(), Some(&b"2"[..]));
    second.put("c", "4").unwrap();
}

#[test]
fn without_proof_writes_wait_and_then_go_on() {
    let world = World::new();
    let lease = Duration::from_millis(500);
    let machine = Env::memory();
    let db = world.open_with(&machine, with_lease(lease)).unwrap();
    db.put("a", "1").unwrap();
    world.bucket.break_gets("owner", Failure::Unavailable);
    std::thread::sleep(2 * lease);
    std::thread::scope(|scope| {
        let begin = std::time::Instant::now();
        let waiting = scope.spawn(|| db.put("b", "2"));
        std::thread::sleep(lease / 5);
        world.bucket.mend_gets();
        waiting.join().unwrap().unwrap();
        assert!(begin.elapsed() >= lease / 5);
    });
    world.bucket.break_gets("owner", Failure::Unavailable);
    std::thread::sleep(2 * lease);
    let refused = db.put("c", "3").unwrap_err();
    assert!(refused.to_string().contains("lease"), "{refused}");
    drop(db);
    world.bucket.mend_gets();
    let db = world.open_with(&machine, with_lease(lease)).unwrap();
    db.put("d", "4").unwrap();
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"2"[..]));
}

/// The lock of the folder proves that nobody else is there.
#[test]
fn the_same_folder_waits_for_no_lease() {
    let (world, machine) = (World::new(), Env::memory());
    let hour = Duration::from_secs(3600);
    let db = world.open_with(&machine, with_lease(hour)).unwrap();
    db.put("a", "1").unwrap();
    drop(db);
    let db = world.open_with(&machine, with_lease(hour)).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    // Closed, it is nobody's any more.
    db.close().unwrap();
    world.open_with(&Env::memory(), with_lease(hour)).unwrap();
}

/// What readers had is still here when a merge at home has replaced its tables, and their files have gone to the bucket.
#[test]
fn what_was_near_is_near_after_a_merge() {
    for cached in [true, false] {
        let (world, machine) = (World::new(), Env::memory());
        let room = CacheOptions { extent_bytes: 4 << 10, ..CacheOptions::new(64 << 20) };
        let cache = ExtentCache::open(&machine, "cache".as_ref(), room).unwrap();
        let cloud = CloudOptions { local: LocalCopies::UpTo(0), ..world.cloud() };
        let cache = cached.then_some(cache);
        let cloud = cloud.with_reads(crate::RemoteOptions { cache, ..Default::default() });
        // Longer than what comes when a table is opened.
        let (write_buffer_size, max_file_size, level1_bytes) = (2 << 20, 2 << 20, 4 << 20);
        let sizes = Options { write_buffer_size, max_file_size, level1_bytes, ..options(&machine) };
        // What is read much is kept in memory, and its file then.
        let compression = Compression::None;
        let options = Options { resident_bytes: 0, compression, ..sizes };
        let db = CloudDb::open(&world.home, "db", options, cloud).unwrap();
        for number in (0..KEYS).chain(0..KEYS / 2) {
            db.put(key(number), [number as u8; 4000]).unwrap();
        }
        leave_nothing_here(&db, &machine);
        let hot = || (100..160).map(key);
        hot().for_each(|key| assert!(db.get(key).unwrap().is_some()));
        (0..20).for_each(|number| db.put(key(number * 7), [1; 4000]).unwrap());
        db.flush().unwrap();
        let merges = db.metrics().merges;
        db.compact_range(None, None).unwrap();
        assert!(db.metrics().merges > merges);
        leave_nothing_here(&db, &machine);
        world.bucket.break_gets("", Failure::Unavailable);
        let failed = hot().filter(|key| db.get(key).is_err()).count();
        assert_eq!(failed > 0, !cached, "{failed}");
        world.bucket.mend_gets();
    }
}

fn leave_nothing_here(db: &CloudDb, machine: &Env) {
    db.flush().unwrap();
    db.wait_for_background().unwrap();
    db.wait_for_bucket(Duration::from_secs(10)).unwrap();
    for _ in 0..500 {
        if tables_in(machine) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} tables stay here", tables_in(machine));
}
