//! Who comes while a leader is at work. The order of keys is the hook: it holds the leader up until the other has come.
#![allow(clippy::disallowed_methods, reason = "tests start threads as they please")]

use std::cmp::Ordering;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{ThreadId, current, scope, yield_now};

use super::*;
use crate::db::handle::Db;
use crate::db::options::{Background, Options};
use crate::store::block_cache::BlockCache;
use crate::{Comparator, Env};

const KEY_OF_LEADER: &str = "k leader";
const KEY_OF_OTHER: &str = "k other";

#[derive(Default)]
struct Hook {
    leader_is_in: AtomicBool,
    other_has_come: AtomicBool,
    panics: AtomicBool,
    /// Who wrote the other's key.
    wrote_other: OnceLock<ThreadId>,
}

impl Comparator for Hook {
    fn name(&self) -> &str {
        "test.hook"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if [a, b].contains(&KEY_OF_LEADER.as_bytes()) && !self.leader_is_in.swap(true, SeqCst) {
            wait_for(&self.other_has_come);
        }
        if [a, b].contains(&KEY_OF_OTHER.as_bytes()) {
            self.wrote_other.get_or_init(|| current().id());
            assert!(!self.panics.load(SeqCst), "on purpose");
        }
        a.cmp(b)
    }
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        yield_now();
    }
}

/// What the leader's put and the other's came to, and who they were.
struct Outcome {
    leader: (ThreadId, std::thread::Result<Result<()>>),
    other: (ThreadId, Result<()>),
}

/// Puts a key, and another one while the first is being inserted.
fn put_two(db: &Db, hook: &Hook, sync_other: bool) -> Outcome {
    scope(|scope| {
        let leader = scope.spawn(|| db.put(KEY_OF_LEADER, "1"));
        wait_for(&hook.leader_is_in);
        let mut batch = WriteBatch::new();
        batch.put(KEY_OF_OTHER, "2");
        let options = WriteOptions { sync: sync_other };
        let other = scope.spawn(move || db.write(&batch, options));
        while db.core().queue.as_ref().unwrap().waiting() == 0 {
            yield_now();
        }
        hook.other_has_come.store(true, SeqCst);
        let (leader_id, other_id) = (leader.thread().id(), other.thread().id());
        Outcome { leader: (leader_id, leader.join()), other: (other_id, other.join().unwrap()) }
    })
}

fn open(write_buffer_size: usize) -> (Db, Arc<Hook>) {
    let hook = Arc::new(Hook::default());
    let options = Options {
        create_if_missing: true,
        env: Env::memory(),
        comparator: Some(Arc::clone(&hook) as Arc<dyn Comparator>),
        write_buffer_size,
        ..Options::default()
    };
    let db = Db::open("db", options).unwrap();
    db.put("k", "0").unwrap(); // The first key is compared with none.
    (db, hook)
}

/// Whether a leader writes what comes while it is at work; else the other does. Both are there in either case.
fn is_written_by_the_leader(write_buffer_size: usize, sync_other: bool) -> bool {
    let (db, hook) = open(write_buffer_size);
    let Outcome { leader, other } = put_two(&db, &hook, sync_other);
    leader.1.unwrap().unwrap();
    other.1.unwrap();
    for (key, value) in [("k", "0"), (KEY_OF_LEADER, "1"), (KEY_OF_OTHER, "2")] {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_bytes()), "{key}");
    }
    let writer = *hook.wrote_other.get().unwrap();
    assert!([leader.0, other.0].contains(&writer));
    writer == leader.0
}

#[test]
fn is_committed_by_the_leader() {
    assert!(is_written_by_the_leader(4 << 20, false));
}

#[test]
fn leads_if_it_wants_a_sync() {
    assert!(!is_written_by_the_leader(4 << 20, true));
}

/// The leader would have to switch memtables, and perhaps to wait, for somebody else.
#[test]
fn leads_if_there_is_no_room() {
    assert!(!is_written_by_the_leader(64 << 10, false));
}

#[test]
fn hears_of_a_panic_in_the_leader() {
    let (db, hook) = open(4 << 20);
    hook.panics.store(true, SeqCst);
    let outcome = put_two(&db, &hook, false);
    assert!(outcome.leader.1.is_err());
    assert_eq!(outcome.other.1.unwrap_err().kind(), ErrorKind::ReadOnly);
    hook.panics.store(false, SeqCst);
    assert_eq!(db.get(KEY_OF_LEADER).unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.put("k more", "3").unwrap_err().kind(), ErrorKind::ReadOnly);
}

/// A lane makes what a large memtable will take next; small ones take no such chunks.
#[test]
fn memory_is_made_ready_for_large_memtables() {
    let wanted = [(64 << 20, true), (8 << 20, false)];
    for (write_buffer_size, is_wanted) in wanted {
        let options = Options {
            create_if_missing: true,
            env: Env::memory(),
            write_buffer_size,
            ..Options::default()
        };
        let db = Db::open("db", options).unwrap();
        for n in 0..4 << 10 {
            db.put(format!("{n}"), [7; 1 << 10]).unwrap();
        }
        while is_wanted && db.core().memory.bytes() == 0 {
            yield_now();
        }
        assert_eq!(db.core().memory.bytes() > 0, is_wanted);
    }
}

/// Else a lane would stay on the processor of the writer that goes on.
#[test]
fn a_wait_that_fails_takes_the_processor_back() {
    let options = Options { create_if_missing: true, env: Env::memory(), ..Options::default() };
    let db = Db::open("db", options).unwrap();
    let core = db.core();
    {
        // Full, and flushed by somebody who never ends.
        let mut state = core.state.lock();
        state.flushing = true;
        let full = state.memtable.clone();
        state.immutables.extend(vec![full; core.settings.immutables_max]);
    }
    scope(|scope| {
        let writer = scope.spawn(|| core.wait_for_space());
        while !core.seat.is_to_be_had() {
            yield_now();
        }
        core.fail(Error::corruption("on purpose"));
        assert!(writer.join().unwrap().is_err());
    });
    assert!(!core.seat.is_to_be_had());
}

/// What level 0 may grow to by default before anybody does anything about it: by hand a writer merges as soon as it would
/// be slowed down, and not before.
#[test]
fn a_burst_goes_on_until_level_0_has_twenty_tables() {
    let options = Options {
        create_if_missing: true,
        env: Env::memory(),
        write_buffer_size: 64 << 10,
        background: Background::ByHand,
        ..Options::default()
    };
    let db = Db::open("db", options).unwrap();
    let level0 = || db.property("leveldb.num-files-at-level0").unwrap().parse::<usize>().unwrap();
    let mut most = 0;
    for number in 0..80_000_u64 {
        db.put(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), [7; 100]).unwrap();
        most = most.max(level0());
    }
    assert!((20..36).contains(&most), "{most}");
}

/// Tables that are read a lot are in memory, until memtables need the room; not if nobody wants it, nor by hand.
#[test]
fn tables_that_are_read_are_kept_in_memory() {
    for (resident_bytes, background) in
        [(2 << 20, Background::Lanes), (0, Background::Lanes), (2 << 20, Background::ByHand)]
    {
        let options = Options {
            create_if_missing: true,
            env: Env::memory(),
            write_buffer_size: 256 << 10,
            block_cache: Some(Arc::new(BlockCache::new(0))),
            resident_bytes,
            background,
            ..Options::default()
        };
        let is_wanted = resident_bytes > 0 && background == Background::Lanes;
        let db = Db::open("db", options).unwrap();
        let fill = || {
            for n in 0..4000_u32 {
                db.put(n.to_be_bytes(), [7; 100]).unwrap();
            }
        };
        fill();
        db.compact_range(None, None).unwrap();
        let tables = &db.core().tables;
        for n in 0_u32.. {
            assert!(db.get((n % 4000).to_be_bytes()).unwrap().is_some());
            if n > 10_000 && (!is_wanted || tables.resident_bytes() > 0) {
                break;
            }
            assert!(n < 100_000_000, "they are never kept");
        }
        assert_eq!(tables.resident_bytes() > 0, is_wanted);
        let usage = db.property("leveldb.approximate-memory-usage").unwrap();
        assert!(usage.parse::<u64>().unwrap() >= tables.resident_bytes());
        // A merge counts for more than all that they may have.
        while tables.resident_bytes() > 0 {
            fill();
        }
    }
}

/// They are stored, not added to: only who leads may change them, and sees what the leader before it left.
#[test]
fn counters_miss_no_write_of_many_threads() {
    const THREADS: u64 = 4;
    const WRITES: u64 = 2_000;
    let options = Options { create_if_missing: true, env: Env::memory(), ..Default::default() };
    let db = Db::open("db", options).unwrap();
    scope(|scope| {
        for thread in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                for write in 0..WRITES {
                    db.put(format!("{thread} {write:04}"), "value").unwrap();
                }
            });
        }
    });
    let metrics = db.metrics();
    let all = THREADS * WRITES;
    assert_eq!((metrics.batches_written, metrics.keys_written), (all, all));
    // Kind, length of the key, key, length of the value, value.
    assert_eq!(metrics.bytes_written, all * (1 + 1 + 6 + 1 + 5));
}

/// With what indexes it a memtable takes no more than the write buffer.
#[test]
fn an_index_counts_as_a_part_of_the_write_buffer() {
    const BUFFER_BYTES: usize = 256 << 10;
    let options = Options {
        create_if_missing: true,
        env: Env::memory(),
        write_buffer_size: BUFFER_BYTES,
        background: Background::ByHand,
        ..Options::default()
    };
    let db = Db::open("db", options).unwrap();
    let table = || Arc::clone(&db.core().state.lock().memtable.table);
    let first = table();
    for number in 0_u32.. {
        db.put(number.to_be_bytes(), [7; 100]).unwrap();
        assert!(db.get(number.to_be_bytes()).unwrap().is_some());
        if !Arc::ptr_eq(&first, &table()) {
            break;
        }
    }
    let (all, entries) = (first.memory(), first.approximate_bytes());
    assert!(all > entries, "it was searched, and has an index");
    assert!(all <= BUFFER_BYTES && all > BUFFER_BYTES / 10 * 9, "{all}");
}
