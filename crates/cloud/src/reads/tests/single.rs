//! One table, read as the engine reads: which requests that takes, and what becomes of errors.

use std::path::Path;

use siltstone::{Env, ErrorKind};

use super::*;
use crate::reads::cache::{CacheOptions, ExtentCache};

const KIB: usize = 1 << 10;
const EXTENT: usize = 64 * KIB;
const MIB: usize = 1 << 20;

fn range(from: usize, to: usize) -> Part {
    Part::Range { offset: from as u64, len: (to - from) as u64 }
}

fn cache(env: &Env) -> Arc<ExtentCache> {
    ExtentCache::open(env, Path::new("cache"), CacheOptions::new(64 << 20)).unwrap()
}

fn cached(bucket: &Arc<Watched>) -> RemoteTables {
    let options = RemoteOptions { cache: Some(cache(&Env::memory())), ..RemoteOptions::default() };
    tables(bucket, options)
}

#[test]
fn opening_takes_one_get_and_none_once_it_is_cached() {
    let bucket = Arc::new(Watched::default());
    let body = body(10 * MIB);
    let object = bucket.put_table("a", body.clone());
    let env = Env::memory();
    let open = || {
        let options = RemoteOptions { cache: Some(cache(&env)), ..RemoteOptions::default() };
        tables(&bucket, options)
    };
    let remote = open();
    let table = remote.open(&object, Purpose::Scan).unwrap();
    // A fortieth of it.
    assert_eq!(bucket.take(), [(range(10 * MIB - 4 * EXTENT, 10 * MIB), Purpose::Scan)]);
    check(&*table, &body, 10 * MIB - 64 * KIB, 64 * KIB, Access::Open);
    check(&*table, &body, 10 * MIB - 48, 100, Access::Open);
    check(&*table, &body, 10 * MIB, 10, Access::Get);
    check(&*table, &body, 10 * MIB + 7, 10, Access::Scan);
    assert_eq!((table.len(), table.path()), (10 << 20, Path::new("a")));
    let again = remote.open(&object, Purpose::Get).unwrap();
    assert_eq!(bucket.take(), [], "it is open");
    drop((table, again));
    drop(remote.open(&object, Purpose::Get).unwrap());
    drop(remote);

    let remote = open();
    drop(remote.open(&object, Purpose::Get).unwrap());
    assert_eq!(bucket.take(), [], "after a restart");
    let stats = remote.stats();
    assert_eq!((stats.opened, stats.opened_near, stats.all_gets()), (1, 1, 0));
}

/// Whoever knows its end need not ask, with or without a cache, however small it is.
#[test]
fn a_table_is_opened_by_its_end() {
    for len in [5 * KIB, MIB, 10 * MIB] {
        for cache in [None, Some(cache(&Env::memory()))] {
            let bucket = Arc::new(Watched::default());
            let body = body(len);
            let object = bucket.put_table("a", body.clone());
            let remote = tables(&bucket, RemoteOptions { cache, ..RemoteOptions::default() });
            let end = len - remote.end_bytes(len as u64) as usize;
            let known = Bytes::copy_from_slice(&body[end..]);
            let table = remote.open_by_its_end(&object, &known, Purpose::Get).unwrap();
            check(&*table, &body, end, len, Access::Open);
            assert_eq!(bucket.take(), [], "{len}");
            drop(table);
            // With less, the rest is asked for.
            let object = bucket.put_table("b", body.clone());
            let known = Bytes::copy_from_slice(&body[len - KIB..]);
            let table = remote.open_by_its_end(&object, &known, Purpose::Get).unwrap();
            check(&*table, &body, end, len, Access::Open);
            assert_eq!(bucket.take().len(), 1, "{len}");
        }
    }
}

/// One that is small comes whole, if there is a cache for it.
#[test]
fn a_small_table_takes_one_get() {
    let body = body(MIB);
    for (remote, gets) in
        [(cached as fn(&_) -> _, 1), (|bucket| tables(bucket, RemoteOptions::default()), 5)]
    {
        let bucket = Arc::new(Watched::default());
        let object = bucket.put_table("a", body.clone());
        let table = remote(&bucket).open(&object, Purpose::Get).unwrap();
        check(&*table, &body, MIB - 48, 48, Access::Open);
        scan(&*table, &body, 0, Access::Scan);
        assert_eq!(bucket.take().len(), gets);
    }
}

/// A table with a long index takes two gets, and those like it one.
#[test]
fn a_longer_tail_is_learnt() {
    let bucket = Arc::new(Watched::default());
    let body = body(20 * MIB);
    let objects: Vec<_> =
        (0..20).map(|nth| bucket.put_table(&nth.to_string(), body.clone())).collect();
    let remote = tables(&bucket, RemoteOptions::default());
    let open = |object| {
        let table = remote.open(object, Purpose::Get).unwrap();
        // As the engine does: footer, index, filter before it.
        check(&*table, &body, 20 * MIB - 64 * KIB, 64 * KIB, Access::Open);
        check(&*table, &body, 20 * MIB - 900 * KIB, 890 * KIB, Access::Open);
        check(&*table, &body, 20 * MIB - 1700 * KIB, 800 * KIB, Access::Open);
        bucket.take()
    };
    let gets = open(&objects[0]);
    // Twice as far as was asked for.
    let start = 20 * MIB - 1800 * KIB;
    assert_eq!(gets.len(), 2);
    assert_eq!(gets[1], (range(start, 20 * MIB - 510 * KIB), Purpose::Get));
    for object in &objects[1..] {
        let gets = open(object);
        assert_eq!(gets.len(), 1, "{gets:?}");
    }
    assert_eq!(remote.stats().tails_too_short, 1, "that of the first");
    // Opened and read, a table keeps little.
    let table = remote.open(&objects[0], Purpose::Get).unwrap();
    check(&*table, &body, 0, 10, Access::Get);
    bucket.take();
    check(&*table, &body, 20 * MIB - 60 * KIB, 60 * KIB, Access::Get);
    assert_eq!(bucket.take(), []);
    check(&*table, &body, 20 * MIB - 100 * KIB, 10, Access::Get);
    assert_eq!(bucket.take().len(), 1);
}

#[test]
fn a_get_takes_the_extents_that_it_needs() {
    let bucket = Arc::new(Watched::default());
    let body = body(MIB + 512 * KIB + 1000);
    let object = bucket.put_table("a", body.clone());
    let remote = cached(&bucket);
    let table = remote.open(&object, Purpose::Get).unwrap();
    bucket.take();
    let get = |offset, len| {
        check(&*table, &body, offset, len, Access::Get);
        bucket.take()
    };
    assert_eq!(get(5000, 4000), [(range(0, EXTENT), Purpose::Get)]);
    assert_eq!(get(10, EXTENT - 10), [], "the whole extent is there");
    let across = get(4 * EXTENT - 10, 20);
    assert_eq!(across, [(range(3 * EXTENT, 5 * EXTENT), Purpose::Get)]);
    assert_eq!(get(4 * EXTENT, 2 * EXTENT), [(range(5 * EXTENT, 6 * EXTENT), Purpose::Get)]);
    assert_eq!(get(2 * EXTENT, 2 * EXTENT), [(range(2 * EXTENT, 3 * EXTENT), Purpose::Get)]);
    // What is cached in between is got again: that costs less than another request.
    let all = get(0, 8 * EXTENT);
    assert_eq!(all, [(range(EXTENT, 8 * EXTENT), Purpose::Get)]);
    let stats = remote.stats();
    assert_eq!((stats.gets(Purpose::Get), stats.misses), (6, 6));
    assert_eq!(stats.get_bytes(Purpose::Get), (EXTENT * 13 + 1000) as u64);
    assert!(stats.cache_hits >= 4 && stats.cache_bytes >= 3 * EXTENT as u64, "{stats:?}");
}

/// Nothing is kept: a get brings what is asked for, and next to nothing beside it.
#[test]
fn without_a_cache_a_get_takes_what_is_read() {
    let bucket = Arc::new(Watched::default());
    let body = body(MIB + 512 * KIB + 1000);
    let object = bucket.put_table("a", body.clone());
    let remote = tables(&bucket, RemoteOptions::default());
    let table = remote.open(&object, Purpose::Get).unwrap();
    bucket.take();
    for _ in 0..2 {
        check(&*table, &body, 5000, 4001, Access::Get);
        assert_eq!(bucket.take(), [(range(4992, 9024), Purpose::Get)]);
    }
    assert_eq!(remote.stats().get_bytes(Purpose::Get), 65_536 + 40 + 2 * (9024 - 4992));
}

fn scan(table: &dyn RandomAccessFile, body: &[u8], from: usize, access: Access) {
    let mut at = from;
    while at < body.len() {
        check(table, body, at, 5000, access);
        at += 5000;
    }
}

#[test]
fn scans_and_merges_read_ahead() {
    let bucket = Arc::new(Watched::default());
    let body = body(16 * MIB);
    let object = bucket.put_table("a", body.clone());
    let remote = tables(&bucket, RemoteOptions::default());
    let table = remote.open(&object, Purpose::Get).unwrap();
    bucket.take();
    scan(&*table, &body, 0, Access::Scan);
    let gets = bucket.take();
    assert!((11..=15).contains(&gets.len()), "{} gets of a scan", gets.len());
    assert!(gets.iter().all(|(_, purpose)| *purpose == Purpose::Scan));
    scan(&*table, &body, 0, Access::Merge);
    let gets = bucket.take();
    assert!((4..=5).contains(&gets.len()), "{} gets of a merge", gets.len());
    assert!(gets.iter().all(|(_, purpose)| *purpose == Purpose::CompactIn));

    let mut at = 4 * MIB;
    while at > 0 {
        at -= 4096;
        check(&*table, &body, at, 4096, Access::Scan);
    }
    let gets = bucket.take();
    assert!(gets.len() <= 10, "{} gets backward", gets.len());
}

/// Sixteen merges' inputs and four scans, in turns, in bounded memory.
#[test]
fn many_runs_share_the_memory() {
    let bucket = Arc::new(Watched::default());
    let body = body(2 * MIB);
    let options = RemoteOptions { window_memory: 8 << 20, ..RemoteOptions::default() };
    let remote = tables(&bucket, options);
    let tables: Vec<_> = (0..20)
        .map(|nth| bucket.put_table(&nth.to_string(), body.clone()))
        .map(|object| remote.open(&object, Purpose::Get).unwrap())
        .collect();
    bucket.take();
    for at in (0..2 * MIB).step_by(16 * KIB) {
        for (nth, table) in tables.iter().enumerate() {
            let access = if nth < 16 { Access::Merge } else { Access::Scan };
            check(&**table, &body, at, 16 * KIB, access);
        }
        assert!(remote.shared().windows.memory() <= 8 << 20);
    }
    let gets = bucket.take().len();
    assert!(gets <= 20 * 16, "{gets} gets: windows of less than 128 KiB");
}

#[test]
fn threads_get_the_next_window_meanwhile() {
    let bucket = Arc::new(Watched::default());
    let body = body(16 * MIB);
    let object = bucket.put_table("a", body.clone());
    let threads = Some(Env::memory().threads);
    let remote = tables(&bucket, RemoteOptions { threads, ..RemoteOptions::default() });
    let table = remote.open(&object, Purpose::Get).unwrap();
    for access in [Access::Scan, Access::Merge, Access::Scan] {
        bucket.take();
        scan(&*table, &body, 0, access);
        let gets = bucket.take();
        let bytes: u64 = gets
            .iter()
            .map(|(part, _)| match part {
                Part::Range { len, .. } => *len,
                _ => panic!("a table's size is known"),
            })
            .sum();
        assert!(bytes <= 16 * MIB as u64, "{bytes}: nothing comes twice");
        assert!(gets.len() <= 21, "{} gets", gets.len());
    }
    assert!(remote.stats().windows_ahead >= 20, "{:?}", remote.stats());

    // One that fails is tried again by who needs it, who also sees it fail.
    check(&*table, &body, 0, 4096, Access::Merge);
    bucket.twist(Twist::Fails(Failure::Unavailable), 1);
    scan(&*table, &body, 4096, Access::Merge);
    // Without threads it goes on.
    drop(remote);
    scan(&*table, &body, 0, Access::Scan);
}

#[test]
fn who_wants_the_same_waits_for_it() {
    let bucket = Arc::new(Watched::default());
    let body = body(4 * MIB);
    let object = bucket.put_table("a", body.clone());
    for has_cache in [true, false] {
        let remote =
            if has_cache { cached(&bucket) } else { tables(&bucket, RemoteOptions::default()) };
        // Without a cache only what was read itself is the same.
        let step = if has_cache { 5000 } else { 8 };
        bucket.take();
        bucket.shut();
        let before = remote.stats().joined;
        std::thread::scope(|scope| {
            let openers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| remote.open(&object, Purpose::Get).unwrap()))
                .collect();
            while remote.stats().joined < before + 7 {
                std::thread::yield_now();
            }
            bucket.open_gate();
            openers.into_iter().for_each(|opener| drop(opener.join().unwrap()));
        });
        assert_eq!(bucket.take().len(), 1, "of eight that open it");

        let table = remote.open(&object, Purpose::Get).unwrap();
        bucket.take();
        bucket.shut();
        let before = remote.stats().joined;
        std::thread::scope(|scope| {
            for nth in 0..8 {
                let (table, body) = (&table, &body);
                let (from, len) = (EXTENT + nth * step, 4096 - nth * 8);
                scope.spawn(move || check(&**table, body, from, len, Access::Get));
            }
            while remote.stats().joined < before + 7 {
                std::thread::yield_now();
            }
            // Another extent is another get.
            scope.spawn(|| check(&*table, &body, 9 * EXTENT, 10, Access::Get));
            bucket.wait_for_gets(2);
            bucket.open_gate();
        });
        assert_eq!(bucket.take().len(), 2);
    }
}

#[test]
fn failures_are_told_by_what_can_be_done() {
    let bucket = Arc::new(Watched::default());
    let body = body(2 * MIB);
    let object = bucket.put_table("s/a.ldb", body.clone());
    let remote = cached(&bucket);
    let table = remote.open(&object, Purpose::Get).unwrap();
    let mut buf = [0; 100];
    for (twist, kind) in [
        (Twist::Fails(Failure::Missing), ErrorKind::NotFound),
        (Twist::Fails(Failure::Unavailable), ErrorKind::Io),
        (Twist::Fails(Failure::Denied), ErrorKind::Io),
        (Twist::Fails(Failure::Damaged), ErrorKind::Io),
        (Twist::Fails(Failure::Wrong), ErrorKind::InvalidArgument),
        (Twist::CutShort, ErrorKind::Io),
    ] {
        for access in [Access::Get, Access::Scan, Access::Merge] {
            bucket.twist(twist, 1);
            let error = table.read_for(&mut buf, 70_000, access).unwrap_err();
            assert_eq!(error.kind(), kind, "{twist:?}: {error}");
            assert_eq!(error.file(), Some(Path::new("s/a.ldb")));
            assert!(error.offset().is_some_and(|offset| offset <= 70_000));
            assert!(error.to_string().contains("s/a.ldb at byte"), "{error}");
        }
    }
    check(&*table, &body, 70_000, 100, Access::Get);
    assert_eq!(remote.stats().failed_gets, 18);

    for (what, object) in [
        ("longer", TableObject { bytes: object.bytes - 1, ..object.clone() }),
        ("shorter", TableObject { bytes: object.bytes + 1, ..object.clone() }),
        ("much shorter", TableObject { bytes: 100 << 20, ..object.clone() }),
    ] {
        let error = remote.open(&object, Purpose::Get).unwrap_err();
        assert!(error.is_corruption(), "{what}: {error}");
        assert!(error.to_string().contains("object has 2097152 bytes"), "{error}");
    }
    let missing = TableObject { name: "s/b.ldb".to_owned(), ..object.clone() };
    assert!(remote.open(&missing, Purpose::Get).unwrap_err().is_not_found());
    let endless = TableObject { bytes: u64::MAX, ..object };
    let error = remote.open(&endless, Purpose::Get).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// An upload that was tried twice is nothing to complain about; another table of the same size is.
#[test]
fn an_object_that_changes_is_looked_at() {
    let bucket = Arc::new(Watched::default());
    let body = body(10 * MIB);
    let object = bucket.put_table("a", body.clone());
    let remote = tables(&bucket, RemoteOptions::default());
    let table = remote.open(&object, Purpose::Get).unwrap();
    assert_eq!(bucket.put_table("a", body.clone()), object);
    bucket.take();
    check(&*table, &body, 0, 10, Access::Get);
    let gets = [range(0, 64), range(0, 8 * MIB), range(8 * MIB, 10 * MIB)];
    assert_eq!(bucket.take().iter().map(|(part, _)| *part).collect::<Vec<_>>(), gets);
    check(&*table, &body, EXTENT, 10, Access::Get);
    assert_eq!(bucket.take().len(), 1, "once is enough");

    let mut other = body.clone();
    other[9 * MIB] ^= 1;
    bucket.put_table("a", other);
    for access in [Access::Get, Access::Scan, Access::Merge] {
        let error = table.read_for(&mut [0; 10], 5, access).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains("another"), "{error}");
    }
    bucket.put_table("a", body.clone());
    check(&*table, &body, 0, 10, Access::Get);
}

/// A bucket that panics takes its caller along, and nobody who waits.
#[test]
fn who_waits_is_woken_whatever_happens() {
    let bucket = Arc::new(Watched::default());
    let body = body(4 * MIB);
    let object = bucket.put_table("a", body.clone());
    let remote = tables(&bucket, RemoteOptions::default());
    let table = remote.open(&object, Purpose::Get).unwrap();
    bucket.shut();
    std::thread::scope(|scope| {
        bucket.twist(Twist::Panics, 1);
        let leader = scope.spawn(|| table.read_at(&mut [0; 10], 0));
        bucket.wait_for_gets(1);
        let follower = scope.spawn(|| table.read_at(&mut [0; 10], 5));
        while remote.stats().joined < 1 {
            std::thread::yield_now();
        }
        bucket.open_gate();
        assert!(leader.join().is_err());
        assert_eq!(follower.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
    });
    check(&*table, &body, 0, 10, Access::Get);
}

#[test]
fn a_table_is_warm_before_it_is_shown() {
    let bucket = Arc::new(Watched::default());
    let body = body(20 * MIB);
    let object = bucket.put_table("a", body.clone());
    let remote = cached(&bucket);
    let table = remote.warm(&object, 9 << 20).unwrap();
    let gets = bucket.take();
    assert_eq!(gets.len(), 3, "the tail, 8 MiB, and the rest");
    assert!(gets.iter().all(|(_, purpose)| *purpose == Purpose::Warm));
    for at in (0..9 * MIB).step_by(100_000) {
        check(&*table, &body, at, 4096.min(9 * MIB - at), Access::Get);
    }
    assert_eq!(bucket.take(), []);
    remote.warm(&object, 9 << 20).unwrap();
    assert_eq!(bucket.take(), [], "it is warm");
    let cache = remote.cache().unwrap();
    cache.settle();
    assert_eq!(cache.cached_bytes(&object), (9 << 20) + (512 << 10));
}

/// Who has just written a table need not get its end back.
#[test]
fn a_table_just_written_is_opened_without_a_get() {
    let bucket = Arc::new(Watched::default());
    let remote = cached(&bucket);
    for bytes in [5 * MIB, 5 * MIB + 1, 1000, 1] {
        let body = body(bytes);
        let object = bucket.put_table(&bytes.to_string(), body.clone());
        let end = remote.end_bytes(object.bytes) as usize;
        let end = Bytes::from(body.clone()).slice(bytes - end..);
        remote.keep_end(&object, &end).unwrap();
        let table = remote.open(&object, Purpose::Get).unwrap();
        check(&*table, &body, bytes.saturating_sub(64 * KIB), 64 * KIB, Access::Open);
        assert_eq!(bucket.take(), [], "{bytes}");
        check(&*table, &body, 0, bytes, Access::Get);
        bucket.take();
    }
    let object = bucket.put_table("short", body(10));
    remote.keep_end(&object, &Bytes::from_static(b"more than it has")).unwrap();
    check(&*remote.open(&object, Purpose::Get).unwrap(), &body(10), 0, 10, Access::Get);
}

/// Reads of all kinds from many threads, on a bucket that fails now and then: each is right or fails.
#[test]
fn many_threads_read_what_is_there() {
    let bucket = Arc::new(Watched::default());
    let body = body(3 * MIB + 77);
    let env = Env::memory();
    let options = CacheOptions { capacity_bytes: 1 << 20, extent_bytes: 4 << 10 };
    let cache = ExtentCache::open(&env, Path::new("cache"), options).unwrap();
    let options = RemoteOptions {
        cache: Some(cache),
        threads: Some(env.threads.clone()),
        window_memory: 2 << 20,
        ..RemoteOptions::default()
    };
    let object = bucket.put_table("a", body.clone());
    let remote = tables(&bucket, options);
    std::thread::scope(|scope| {
        for seed in 0..6_u64 {
            let (remote, body, object, bucket) = (&remote, &body, &object, &bucket);
            scope.spawn(move || {
                let mut state = seed + 1;
                let mut next = move |below: usize| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) as usize % below
                };
                for turn in 0..300 {
                    if turn % 50 == 49 && seed == 0 {
                        bucket.twist(Twist::Fails(Failure::Unavailable), 2);
                    }
                    let Ok(table) = remote.open(object, Purpose::Get) else { continue };
                    let access = [Access::Get, Access::Scan, Access::Merge, Access::Open][next(4)];
                    let (mut at, len) = (next(body.len()), 1 + next(20_000));
                    for _ in 0..1 + next(10) {
                        let mut buf = vec![0; len];
                        match table.read_for(&mut buf, at as u64, access) {
                            Ok(read) => assert!(buf[..read] == body[at..body.len().min(at + len)]),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
                        }
                        at = (at + len).min(body.len() - 1);
                    }
                }
            });
        }
    });
}
