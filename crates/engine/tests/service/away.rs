//! What becomes of jobs that are given away: installed, run at home, or dropped, and never in anybody's way.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use siltstone::service::{
    CompactionService, Completion, JobOutcome, JobSpec, JobSummary, JobTools, Submitted,
};
use siltstone::{
    Background, BloomFilter, Clock, Compaction, Compression, Db, Env, Error, ErrorKind, FileNumber,
    Level0Limits, Options, SeqNo,
};

use crate::stage::{Desk, Made, Objects, Shop, finished, run};

const KEYS: u32 = 1_500;

pub(crate) fn options(store: &Arc<Objects>, service: &Arc<Desk>) -> Options {
    Options {
        create_if_missing: true,
        env: Env::memory(),
        info_log: false,
        table_store: Some(Arc::new(Shop(Arc::clone(store)))),
        compaction_service: Some(Arc::clone(service) as _),
        filter_policy: Some(Arc::new(BloomFilter::new(10))),
        write_buffer_size: 8 << 10,
        max_file_size: 4 << 10,
        compression: Compression::None,
        level0: Level0Limits { compact: 2, slow_down: 12, stop: 20 },
        level1_bytes: 16 << 10,
        level_growth: 4,
        background: Background::ByHand,
        unclamped: true,
        ..Default::default()
    }
}

fn key(number: u32) -> String {
    format!("{:05}", number.wrapping_mul(2_654_435_761) % KEYS)
}

pub(crate) fn fill(db: &Db, writes: Range<u32>) {
    for number in writes {
        match number % 5 {
            0 => db.delete(key(number)).unwrap(),
            _ => db.put(key(number), number.to_string().repeat(12)).unwrap(),
        }
    }
}

/// What is there after `fill` of all up to this one.
pub(crate) fn check(db: &Db, writes: u32) {
    let mut model = BTreeMap::new();
    for number in 0..writes {
        match number % 5 {
            0 => model.remove(&key(number)),
            _ => model.insert(key(number), number.to_string().repeat(12)),
        };
    }
    let found = db.iter().unwrap().entries().unwrap().map(Result::unwrap);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let found: Vec<_> = found.map(|(key, value)| (text(key), text(value))).collect();
    assert!(found.iter().map(|(key, value)| (key, value)).eq(model.iter()));
    for number in 0..KEYS {
        let got = db.get(key(number)).unwrap().map(text);
        assert_eq!(got.as_ref(), model.get(&key(number)), "{number}");
    }
}

/// All tables in the store count, once there is nothing to do.
fn check_store(db: &Db, store: &Objects) {
    while db.run_background_step().unwrap() {}
    let tables = db.levels().into_iter().flat_map(|level| level.tables);
    let mut live: Vec<FileNumber> = tables.map(|table| table.number).collect();
    live.sort_unstable();
    assert_eq!(store.numbers(), live);
}

/// How many merges some writes take depends on how lanes get to them: writes on until there are so many. Returns how many
/// writes there were.
fn fill_until_merges(db: &Db, mut writes: u32, merges: u64) -> u32 {
    while db.metrics().merges < merges {
        fill(db, writes..writes + 1_000);
        writes += 1_000;
        db.wait_for_background().unwrap();
    }
    writes
}

/// A worker that does what is there to do until the service is dropped.
fn work(desk: &Arc<Desk>, store: &Arc<Objects>) -> std::thread::JoinHandle<()> {
    let (desk, store) = (Arc::clone(desk), Arc::clone(store));
    std::thread::spawn(move || {
        while Arc::strong_count(&desk) > 1 {
            match desk.try_next() {
                Some(given) => given.run(&store),
                None => std::thread::yield_now(),
            }
        }
    })
}

#[test]
fn tables_that_others_have_made_are_the_databases() {
    for compaction in Compaction::ALL {
        for background in [Background::ByHand, Background::Lanes] {
            let store = Arc::new(Objects::default());
            let desk = Desk::keeping();
            let worker = work(&desk, &store);
            let options = Options { background, compaction, ..options(&store, &desk) };
            drop(desk);
            let db = Db::open("db", options.clone()).unwrap();
            fill(&db, 0..30_000);
            db.wait_for_background().unwrap();
            check(&db, 30_000);
            fill(&db, 30_000..40_000);
            db.compact_range(None, None).unwrap();
            let all = fill_until_merges(&db, 40_000, 21);
            check(&db, all);
            let metrics = db.metrics();
            assert!(metrics.merges > 20 && metrics.merges_away == metrics.merges, "{metrics:?}");
            assert_eq!((metrics.merges_come_home, metrics.background_errors), (0, 0));
            assert_eq!(metrics.entries_dropped % 7, 0, "as the workers say");
            db.wait_for_background().unwrap();
            if background == Background::ByHand {
                check_store(&db, &store);
            }
            let flushes = metrics.flushes;
            assert_eq!(store.creations.lock().unwrap().len() as u64, flushes, "nothing else is");
            db.close().unwrap();
            let db = Db::open("db", options).unwrap();
            check(&db, all);
            drop(db);
            worker.join().unwrap();
        }
    }
}

/// One lane, and a job that nobody does: flushes, other merges and writers go on.
#[test]
fn a_job_that_is_away_holds_nobody_up() {
    let store = Arc::new(Objects::default());
    // A deep one: what it holds on to must not be in the way of level 0.
    let desk = Desk::taking(|job| job.from.level.number() > 1 && job.away == 0);
    let options = Options {
        background: Background::Lanes,
        compaction_lanes: 1,
        level1_bytes: 4 << 10,
        ..options(&store, &desk)
    };
    let db = Db::open("db", options).unwrap();
    let mut writes = 0;
    let mut more = |db: &Db| {
        fill(db, writes..writes + 1_000);
        writes += 1_000;
        writes
    };
    while !desk.is_asked() {
        more(&db);
    }
    let given = desk.next();
    let inputs: Vec<FileNumber> = given.spec.inputs.iter().map(|input| input.number).collect();
    let before = db.metrics();
    while db.metrics().merges < before.merges + 10 || db.metrics().flushes < before.flushes + 20 {
        more(&db);
    }
    assert!(inputs.iter().all(|number| store.get(*number).is_some()), "inputs stay");
    assert_eq!(db.metrics().merges_away, 0);
    assert_eq!(given.summary.bytes, given.spec.input_bytes());
    given.run(&store);
    while db.metrics().merges_away == 0 {
        std::thread::yield_now();
    }
    let all = more(&db);
    check(&db, all);
    db.close().unwrap();
}

/// A worker that is slower than writers are, or never answers, and has what level 0 is to be merged into.
#[test]
fn a_job_that_writers_would_wait_for_comes_home() {
    let store = Arc::new(Objects::default());
    let desk = Desk::taking(|job| job.from.level.number() == 1 && job.away == 0);
    let options = Options { background: Background::Lanes, ..options(&store, &desk) };
    let db = Db::open("db", options).unwrap();
    let mut writes = 0;
    while !desk.is_asked() {
        // None leaves while level 0 fills.
        fill(&db, writes..writes + 100);
        writes += 100;
        std::thread::sleep(Duration::from_millis(2));
    }
    let given = desk.next();
    fill(&db, writes..writes + 20_000);
    check(&db, writes + 20_000);
    db.wait_for_background().unwrap();
    assert!(desk.cancelled().contains(&given.spec.number), "{:?}", desk.cancelled());
    assert!(db.metrics().merges_come_home > 0 && db.metrics().merges_away == 0);
    assert_eq!(db.metrics().background_errors, 0);
    db.close().unwrap();
}

/// Level 0 is not full yet, but a worker takes longer than a merge here.
#[test]
fn a_late_job_comes_home_before_writers_are_slowed_down() {
    let store = Arc::new(Objects::default());
    let desk = Desk::taking(|job| job.from.level.number() == 0 && job.away == 0);
    let options = Options { background: Background::Lanes, ..options(&store, &desk) };
    let db = Db::open("db", options).unwrap();
    let mut writes = 0;
    let mut more = |db: &Db| {
        fill(db, writes..writes + 100);
        db.flush().unwrap();
        writes += 100;
        writes
    };
    let until = |holds: &dyn Fn() -> bool| {
        let begin = Instant::now();
        while !holds() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", db.levels());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    // Merged from two tables on; half way from there to twelve it is time.
    for _ in 0..2 {
        more(&db);
    }
    until(&|| desk.is_asked());
    let given = desk.next();
    std::thread::sleep(Duration::from_millis(100));
    while db.levels()[0].tables.len() < 7 {
        more(&db);
    }
    until(&|| db.metrics().merges_come_home > 0);
    assert_eq!(db.metrics().stall_l0_slowdown_micros, 0);
    let all = more(&db);
    check(&db, all);
    assert_eq!(desk.cancelled(), [given.spec.number]);
    assert!(!desk.is_asked(), "for a while none leaves");
    db.close().unwrap();
}

/// What waits for a worker keeps its tables from other merges.
#[test]
fn no_second_job_waits_for_a_worker() {
    for tells in [true, false] {
        let store = Arc::new(Objects::default());
        let desk = Desk::telling(tells, |job| job.from.level.number() > 0);
        let options = Options { level1_bytes: 4 << 10, ..options(&store, &desk) };
        let db = Db::open("db", options).unwrap();
        // Eleven tables are far too much for level 1 at once; the first time there is nothing below to merge them with.
        for table in 0..110 {
            fill(&db, table * 50..(table + 1) * 50);
            db.flush().unwrap();
            while table % 11 == 10 && !desk.is_asked() && db.run_background_step().unwrap() {}
            if desk.is_asked() {
                break;
            }
        }
        while db.run_background_step().unwrap() {}
        let first = desk.try_next().expect("one has left");
        assert_eq!(desk.is_asked(), !tells);
        if tells {
            // No matter how often, and from where.
            first.done.beginning().tell();
            first.done.beginning().clone().tell();
            while db.run_background_step().unwrap() {}
            assert!(desk.is_asked(), "it has left, and the next one waits");
        }
        let late = first.done.beginning();
        first.run(&store);
        late.tell();
        drop(desk.try_next());
        db.close().unwrap();
    }
}

/// Merges of level 1 would be in its way, and are away for longer than they would be here.
#[test]
fn level_0_goes_first_once_it_fills() {
    // Half way from two tables to twelve it fills.
    for (tables, first) in [(3, 1), (6, 1), (7, 0)] {
        let store = Arc::new(Objects::default());
        let desk = Desk::telling(true, |_| true);
        let (env, clock) = at_hand();
        let options = Options { env, level1_bytes: 1 << 10, ..options(&store, &desk) };
        let db = Db::open("db", options).unwrap();
        let mut writes = 0;
        let mut flush = |tables: u32| {
            for _ in 0..tables {
                fill(&db, writes..writes + 50);
                writes += 50;
                db.flush().unwrap();
                clock.go_on(Duration::from_millis(100));
            }
        };
        let next = || {
            while !desk.is_asked() {
                assert!(db.run_background_step().unwrap(), "there is something to merge");
            }
            desk.next()
        };
        // Much for level 2, and then for level 1, which is further past its limit than level 0 will be.
        flush(6);
        next().run(&store);
        while db.run_background_step().unwrap() {
            desk.try_next().into_iter().for_each(|given| given.run(&store));
        }
        flush(6);
        next().run(&store);
        assert!(db.run_background_step().unwrap());
        flush(tables);
        let given = next();
        assert_eq!(given.spec.inputs[0].slot.level.number(), first, "of {tables} tables");
        given.run(&store);
        db.close().unwrap();
    }
}

/// None has been in anybody's way yet: the last one was away for so long that level 0 would be full by then.
#[test]
fn no_job_leaves_that_would_be_back_too_late() {
    let store = Arc::new(Objects::default());
    let desk = Desk::telling(true, |_| true);
    let (env, clock) = at_hand();
    let db = Db::open("db", Options { env, ..options(&store, &desk) }).unwrap();
    let mut writes = 0;
    let mut flush = |tables: u32, each: Duration| {
        for _ in 0..tables {
            fill(&db, writes..writes + 50);
            writes += 50;
            clock.go_on(each);
            db.flush().unwrap();
        }
        assert_eq!(db.levels()[0].tables.len() as u32, tables);
        assert!(db.run_background_step().unwrap());
    };
    flush(3, Duration::from_millis(100));
    let first = desk.next();
    clock.go_on(Duration::from_secs(2));
    first.run(&store);
    assert!(db.run_background_step().unwrap());
    assert_eq!((db.metrics().merges, db.metrics().merges_away), (1, 1));
    // Forty would come while it is away; or, more slowly, one.
    flush(5, Duration::from_millis(100));
    assert!(!desk.is_asked(), "it is merged here");
    assert_eq!((db.metrics().merges, db.metrics().merges_away), (2, 1));
    flush(3, Duration::from_secs(10));
    assert!(desk.is_asked());
    desk.next().run(&store);
    db.close().unwrap();
}

/// A clock that goes on when it is told to.
struct Hand(AtomicU64);

impl Hand {
    fn go_on(&self, time: Duration) {
        self.0.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    fn wall_micros(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep(&self, time: Duration) {
        self.go_on(time);
    }
}

fn at_hand() -> (Env, Arc<Hand>) {
    let clock = Arc::new(Hand(AtomicU64::new(0)));
    (Env { clock: clock.clone(), ..Env::memory() }, clock)
}

/// What is done to what a worker has made.
type Answer = fn(Made) -> Made;

/// Ways to answer, each of them wrong.
fn wrong_answers() -> Vec<(&'static str, Answer)> {
    vec![
        ("out of order", |mut made| {
            made.reverse();
            made
        }),
        ("another size", |mut made| {
            made[0].1.bytes += 1;
            made
        }),
        ("cut short", |mut made| {
            made[1].0 = Arc::new(made[1].0[..made[1].0.len() - 1].to_vec());
            made
        }),
        ("no table", |mut made| {
            made[1].0 = Arc::new(vec![0; made[1].0.len()]);
            made
        }),
        ("another table", |mut made| {
            made[1].0 = Arc::clone(&made[0].0);
            made[1].1.bytes = made[0].1.bytes;
            made
        }),
        ("miscounted", |mut made| {
            made[0].1.entries += 1;
            made
        }),
        ("newer than told", |mut made| {
            made[0].1.largest_seqno = SeqNo(made[0].1.largest_seqno.0 - 1);
            made
        }),
        ("keys of nobody", |mut made| {
            made[1].1.span.largest = b"zzz\x01\x01\0\0\0\0\0\0".to_vec();
            made
        }),
        ("no key", |mut made| {
            made[0].1.span.smallest = b"0".to_vec();
            made
        }),
        ("no entries", |mut made| {
            made[0].1.entries = 0;
            made
        }),
    ]
}

#[test]
fn wrong_results_are_made_good_at_home_and_leave_nothing() {
    for (what, answer) in wrong_answers() {
        let store = Arc::new(Objects::default());
        let desk = Arc::new(Desk::default());
        let db = Db::open("db", options(&store, &desk)).unwrap();
        let mut answered = 0;
        for round in 0..30 {
            fill(&db, round * 200..(round + 1) * 200);
            while db.run_background_step().unwrap() {
                let Some(given) = desk.try_next() else { continue };
                let known = JobTools::default();
                let made = run(&store, (&given.spec, &known), &[], usize::MAX).unwrap();
                let is_wrong = made.len() > 1;
                answered += u64::from(is_wrong);
                let made = if is_wrong { answer(made) } else { made };
                given.done.complete(finished(&store, made));
            }
        }
        let metrics = db.metrics();
        assert!(answered > 2, "{what}");
        assert_eq!((metrics.merges_come_home, metrics.background_errors), (answered, 0), "{what}");
        check(&db, 6_000);
        check_store(&db, &store);
    }
}

#[test]
fn what_cannot_be_adopted_or_is_let_go_of_runs_at_home() {
    struct Unwilling {
        way: fn(Completion),
        submitted: AtomicU64,
    }
    struct Nothing;
    impl Submitted for Nothing {
        fn cancel(&self) {}
    }
    impl CompactionService for Unwilling {
        fn wants(&self, _: &JobSummary) -> bool {
            true
        }
        fn submit(&self, _: JobSpec, _: &JobSummary, done: Completion) -> Box<dyn Submitted> {
            self.submitted.fetch_add(1, Ordering::Relaxed);
            (self.way)(done);
            Box::new(Nothing)
        }
    }
    let ways: [fn(Completion); 2] =
        [drop, |done| done.complete(JobOutcome::RunHere("no time".to_owned()))];
    for way in ways {
        for background in [Background::ByHand, Background::Lanes] {
            let store = Arc::new(Objects::default());
            let desk = Arc::new(Desk::default());
            let service = Arc::new(Unwilling { way, submitted: AtomicU64::new(0) });
            let compaction_service: Option<Arc<dyn CompactionService>> = Some(service.clone());
            let options = Options { background, compaction_service, ..options(&store, &desk) };
            let db = Db::open("db", options).unwrap();
            fill(&db, 0..12_000);
            db.wait_for_background().unwrap();
            db.compact_range(None, None).unwrap();
            let all = fill_until_merges(&db, 12_000, 6);
            // A merge that is under way has come home, and is not counted yet.
            db.wait_for_background().unwrap();
            let metrics = db.metrics();
            let submitted = service.submitted.load(Ordering::Relaxed);
            assert!(submitted > 5);
            assert_eq!(metrics.merges_come_home, submitted);
            // With lanes some may have come home late, and the next ones were not submitted at all.
            assert!(background == Background::Lanes || metrics.merges == submitted);
            assert_eq!(metrics.merges_away, 0);
            check(&db, all);
        }
    }
}

#[test]
fn closing_leaves_what_is_away_and_waits_for_nothing() {
    let store = Arc::new(Objects::default());
    let desk = Arc::new(Desk::default());
    let options = Options { background: Background::Lanes, ..options(&store, &desk) };
    let db = Db::open("db", options.clone()).unwrap();
    fill(&db, 0..1_000);
    let given = desk.next();
    // Somebody waits for a compaction of everything, which cannot begin.
    let waiting = {
        let db = db.clone();
        std::thread::spawn(move || db.compact_range(None, None))
    };
    db.close().unwrap();
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!((desk.left(), desk.cancelled()), (vec![given.spec.number], Vec::new()));
    let before = store.numbers();
    given.run(&store);
    assert_eq!(store.numbers(), before, "too late");

    let db = Db::open("db", options).unwrap();
    check(&db, 1_000);
    let again = desk.next();
    assert!(again.spec.inputs.iter().all(|input| store.get(input.number).is_some()));
    again.run(&store);
    db.close().unwrap();
}

/// One that is back is installed: whoever ran it has forgotten it by now.
#[test]
fn closing_installs_what_is_back() {
    for is_sound in [true, false] {
        let (store, desk) = (Arc::new(Objects::default()), Arc::new(Desk::default()));
        let db = Db::open("db", options(&store, &desk)).unwrap();
        let mut writes = 0;
        while !desk.is_asked() {
            fill(&db, writes..writes + 100);
            writes += 100;
            while db.run_background_step().unwrap() {}
        }
        let given = desk.next();
        let inputs: Vec<_> = given.spec.inputs.iter().map(|input| input.number).collect();
        match is_sound {
            true => given.run(&store),
            false => given.done.complete(JobOutcome::RunHere("nobody wants it".to_owned())),
        }
        let handle = db.clone();
        db.close().unwrap();
        let metrics = handle.metrics();
        assert_eq!(
            (metrics.merges_away, metrics.merges),
            (u64::from(is_sound), u64::from(is_sound))
        );
        let tables = handle.levels().into_iter().flat_map(|level| level.tables);
        let is_input = tables.map(|table| table.number).any(|number| inputs.contains(&number));
        assert_eq!(is_input, !is_sound);
        drop(handle);
    }
}

/// One that is just being given away, too.
#[test]
fn closing_leaves_what_is_on_its_way_out() {
    /// Closes the database while it takes its job.
    struct Closing {
        desk: Arc<Desk>,
        db: Mutex<Option<Db>>,
    }
    impl CompactionService for Closing {
        fn wants(&self, _: &JobSummary) -> bool {
            true
        }
        fn submit(
            &self,
            spec: JobSpec,
            summary: &JobSummary,
            end: Completion,
        ) -> Box<dyn Submitted> {
            let db = self.db.lock().unwrap().take();
            db.into_iter().for_each(|db| db.close().unwrap());
            self.desk.submit(spec, summary, end)
        }
    }
    let (store, desk) = (Arc::new(Objects::default()), Arc::new(Desk::default()));
    let closing = Arc::new(Closing { desk: Arc::clone(&desk), db: Mutex::default() });
    let compaction_service: Option<Arc<dyn CompactionService>> = Some(closing.clone());
    let db = Db::open("db", Options { compaction_service, ..options(&store, &desk) }).unwrap();
    *closing.db.lock().unwrap() = Some(db.clone());
    // Its merges run within it.
    while closing.db.lock().unwrap().is_some() {
        let _ = db.put("k", vec![0; 9 << 10]);
        while db.run_background_step().unwrap_or(false) {}
    }
    let given = desk.next();
    assert_eq!((desk.left(), desk.cancelled()), (vec![given.spec.number], Vec::new()));
}

/// Whoever compacts by hand waits for his job, wherever it runs.
#[test]
fn a_caller_waits_for_his_job() {
    let store = Arc::new(Objects::default());
    let desk = Desk::taking(|job| job.is_awaited);
    // Level 2 has room for all of it: else lanes would take what is too much there to level 3 meanwhile.
    let level_growth = 8;
    let background = Background::Lanes;
    let options = Options { background, level_growth, ..options(&store, &desk) };
    let db = Db::open("db", options).unwrap();
    fill(&db, 0..3_000);
    db.wait_for_background().unwrap();
    fill(&db, 3_000..3_050);
    let waiting = {
        let db = db.clone();
        std::thread::spawn(move || db.compact_range(None, None))
    };
    let given = desk.next();
    assert!(!waiting.is_finished() && given.summary.is_awaited);
    let worker = {
        let (desk, store) = (Arc::clone(&desk), Arc::clone(&store));
        std::thread::spawn(move || {
            let mut given = Some(given);
            while !waiting.is_finished() {
                match given.take().or_else(|| desk.try_next()) {
                    Some(given) => given.run(&store),
                    None => std::thread::yield_now(),
                }
            }
            waiting.join().unwrap()
        })
    };
    worker.join().unwrap().unwrap();
    assert!(db.metrics().merges_away > 0);
    let filled = db.levels().into_iter().filter(|level| !level.tables.is_empty()).count();
    assert_eq!(filled, 1, "all of it lies in one level");
    check(&db, 3_050);
}

/// A panic in a callback ends writing, as everywhere; it must not end a job twice.
#[test]
fn a_panic_in_a_service_ends_writing() {
    struct Panics(bool);
    impl CompactionService for Panics {
        fn wants(&self, _: &JobSummary) -> bool {
            assert!(self.0, "on purpose");
            true
        }
        fn submit(&self, _: JobSpec, _: &JobSummary, done: Completion) -> Box<dyn Submitted> {
            let _done = done;
            panic!("on purpose");
        }
    }
    for wants in [false, true] {
        let store = Arc::new(Objects::default());
        let desk = Arc::new(Desk::default());
        let service: Arc<dyn CompactionService> = Arc::new(Panics(wants));
        let compaction_service = Some(service);
        let background = Background::Lanes;
        let options = Options { background, compaction_service, ..options(&store, &desk) };
        let db = Db::open("db", options).unwrap();
        let refused: Error =
            (0..).find_map(|number: u32| db.put(key(number), number.to_string()).err()).unwrap();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly);
        assert_eq!(db.close().unwrap_err().kind(), ErrorKind::ReadOnly);
    }
}
