//! Where lanes run while somebody writes, as they tell an environment that listens.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use siltstone::{Db, Env, Lane, Options, Place, Result, Threads};

/// The processor that everybody is on.
const HERE: usize = 5;

thread_local! {
    static NAME: RefCell<String> = const { RefCell::new(String::new()) };
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}

/// The system's threads, and what lanes ask of it.
struct Listening {
    inner: Arc<dyn Threads>,
    settled: Mutex<Vec<(String, Place)>>,
    lowered: Mutex<Vec<(String, u32)>>,
    gave_way: Mutex<Vec<String>>,
}

impl Threads for Listening {
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Lane>> {
        let lane = name.to_owned();
        let work = move || {
            NAME.set(lane);
            PLACE.set(Some(Place::Anywhere));
            work();
        };
        self.inner.spawn(name, Box::new(work))
    }

    fn processor(&self) -> Option<usize> {
        Some(HERE)
    }

    fn place(&self) -> Option<Place> {
        PLACE.get()
    }

    fn settle(&self, place: Place) {
        PLACE.set(Some(place));
        self.settled.lock().unwrap().push((NAME.with_borrow(String::clone), place));
    }

    fn lower_priority(&self, steps: u32) {
        let lowered = (NAME.with_borrow(String::clone), steps);
        let mut all = self.lowered.lock().unwrap();
        if steps > 0 && !all.contains(&lowered) {
            all.push(lowered);
        }
    }

    fn give_way(&self) {
        self.gave_way.lock().unwrap().push(NAME.with_borrow(String::clone));
    }
}

/// A database that merges all the time, and what its lanes ask for.
fn busy(lanes_make_way: bool) -> (Db, Arc<Listening>) {
    open(Options {
        write_buffer_size: 64 << 10,
        level1_bytes: 256 << 10,
        lanes_make_way,
        ..Options::default()
    })
}

fn open(options: Options) -> (Db, Arc<Listening>) {
    let env = Env::memory();
    let threads = Arc::new(Listening {
        inner: Arc::clone(&env.threads),
        settled: Mutex::default(),
        lowered: Mutex::default(),
        gave_way: Mutex::default(),
    });
    let options = Options {
        create_if_missing: true,
        env: Env { threads: threads.clone(), ..env },
        ..options
    };
    (Db::open("db", options).unwrap(), threads)
}

/// Fewer than there are between two looks of the writers' leader for readers.
const PUTS_PER_CHECK: usize = 50;

/// Writes so many bytes at a stretch, or until it is enough.
fn write(db: &Db, bytes: usize, is_enough: impl Fn() -> bool) {
    for n in 0..bytes / 200 {
        db.put(format!("{:016}", n * 7919 % 10_007), [n as u8; 184]).unwrap();
        if n % PUTS_PER_CHECK == 0 && is_enough() {
            return;
        }
    }
}

#[test]
fn lanes_keep_off_the_writers_processor() {
    let (db, threads) = busy(true);
    let has_settled = |lane: &str, place| {
        let settled = threads.settled.lock().unwrap();
        settled.iter().any(|(name, at)| name.starts_with(lane) && *at == place)
    };
    let off = Place::Off(HERE);
    let lanes = ["siltstone-flush", "siltstone-compact", "siltstone-sweep"];
    write(&db, 500 << 20, || lanes.iter().all(|lane| has_settled(lane, off)));
    for lane in lanes {
        assert!(has_settled(lane, off), "{lane}");
    }
    db.close().unwrap();
    for lane in ["siltstone-flush", "siltstone-sweep"] {
        assert!(!has_settled(lane, Place::On(HERE)), "{lane} looks too seldom to borrow");
    }
    let mut lowered = threads.lowered.lock().unwrap().clone();
    lowered.sort();
    let merges = ["siltstone-compact-0", "siltstone-compact-1"];
    assert_eq!(lowered, merges.map(|lane| (lane.to_owned(), 5)));
}

#[test]
fn lanes_go_behind_readers_beside_a_writer() {
    for (lanes_make_way, reads) in [(true, true), (true, false), (false, true)] {
        let (db, threads) = busy(lanes_make_way);
        let are_behind = || {
            let lowered = threads.lowered.lock().unwrap();
            let is_behind = |(lane, steps): &(&str, u32)| {
                lowered.contains(&(format!("siltstone-{lane}"), *steps))
            };
            [("flush", 7), ("compact-0", 12), ("compact-1", 12)].iter().all(is_behind)
        };
        let (expects, is_over) = (lanes_make_way && reads, AtomicBool::new(false));
        let gets = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while reads && !is_over.load(Relaxed) {
                    db.get("absent").unwrap();
                    gets.fetch_add(1, Relaxed);
                }
            });
            // Where all have one processor a reader would come by too seldom.
            let waits_for_get = || {
                let before = gets.load(Relaxed);
                while gets.load(Relaxed) == before && !reader.is_finished() {
                    std::thread::yield_now();
                }
                are_behind()
            };
            let bytes = if expects { 1 << 30 } else { 16 << 20 };
            write(&db, bytes, waits_for_get);
            is_over.store(true, Relaxed);
        });
        db.close().unwrap();
        assert_eq!(are_behind(), expects, "{lanes_make_way} {reads}");
    }
}

/// Everybody is on one processor here.
#[test]
fn a_flush_stops_for_the_writer_where_both_have_one_processor() {
    for lanes_make_way in [true, false] {
        let write_buffer_size = 1 << 20;
        let (db, threads) =
            open(Options { write_buffer_size, lanes_make_way, ..Options::default() });
        let has_given_way = || !threads.gave_way.lock().unwrap().is_empty();
        let rounds = if lanes_make_way { 1000 } else { 3 };
        for _ in 0..rounds {
            // One memtable, and the beginning of the next; nobody writes while it is flushed.
            write(&db, write_buffer_size, || false);
            db.wait_for_background().unwrap();
            if has_given_way() {
                break;
            }
        }
        db.close().unwrap();
        let mut who = threads.gave_way.lock().unwrap().clone();
        who.dedup();
        let expected: &[&str] = if lanes_make_way { &["siltstone-flush"] } else { &[] };
        assert_eq!(who, expected);
    }
}

#[test]
fn lanes_that_make_no_way_stay_where_they_are() {
    let (db, threads) = busy(false);
    write(&db, 4 << 20, || false);
    db.close().unwrap();
    assert_eq!(*threads.settled.lock().unwrap(), []);
    assert!(threads.lowered.lock().unwrap().is_empty());
}
