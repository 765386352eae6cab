//! Whoever runs a job makes the same bytes, from wherever an earlier attempt has come: jobs of random databases, run as a
//! worker would and then by the database itself, on the same tables.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

use siltstone::service::{
    CompactionService, Completion, JobOutcome, JobSpec, JobSummary, JobTools, Submitted,
};
use siltstone::{
    Background, BloomFilter, Compaction, Comparator, Compression, Db, Env, ErrorKind, Event,
    EventListener, FileNumber, FilterPolicy, Level0Limits, Options, Snapshot,
};
use siltstone_sim::Dice;

use crate::stage::{Bytes, Made, Objects, Shop, run};

/// By length first.
struct ShortFirst;

impl Comparator for ShortFirst {
    fn name(&self) -> &str {
        "test.short-first"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

/// Lets everything pass.
struct Open;

impl FilterPolicy for Open {
    fn name(&self) -> &str {
        "test.open"
    }

    fn create_filter(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
        out.extend((keys.len() as u32).to_le_bytes());
    }

    fn may_match(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
}

/// Runs each job it is given, and sends it home to be run there, too.
struct Both {
    store: Arc<Objects>,
    tools: JobTools,
    /// What the last job has made.
    made: Mutex<Option<Made>>,
    seen: Mutex<Seen>,
}

/// Whether the jobs were worth anything.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    jobs: usize,
    tables: usize,
    resumed: usize,
    with_snapshots: usize,
    over_others: usize,
    cut: usize,
    narrowed: usize,
}

impl CompactionService for Both {
    fn wants(&self, _: &JobSummary) -> bool {
        true
    }

    fn submit(&self, spec: JobSpec, _: &JobSummary, done: Completion) -> Box<dyn Submitted> {
        let run = |earlier: &[_], most| run(&self.store, (&spec, &self.tools), earlier, most);
        let all = run(&[], usize::MAX).unwrap();
        let mut seen = self.seen.lock().unwrap();
        for before in 1..all.len() {
            assert!(run(&all[..before], usize::MAX).unwrap() == all[before..], "behind {before}");
            seen.resumed += 1;
        }
        if all.len() > 2 {
            // It looks about every so many entries.
            let stopped = run(&[], 2).unwrap();
            assert!(stopped.len() >= 2 && all.starts_with(&stopped), "stopped");
        }
        seen.jobs += 1;
        seen.tables += all.len();
        seen.with_snapshots += usize::from(spec.snapshots.len() > 1);
        seen.over_others += usize::from(!spec.below.is_empty());
        seen.cut += usize::from(spec.part.from.is_some() || spec.part.until.is_some());
        seen.narrowed += usize::from(spec.inputs.iter().any(|input| !input.live.is_empty()));
        *self.made.lock().unwrap() = Some(all);
        done.complete(JobOutcome::RunHere("for comparison".to_owned()));
        struct Nothing;
        impl Submitted for Nothing {
            fn cancel(&self) {}
        }
        Box::new(Nothing)
    }
}

/// Compares what the database has made with what was made before.
struct Judge(Arc<Both>);

impl EventListener for Judge {
    fn on_event(&self, event: &Event) {
        let Event::CompactionFinished { outputs, moved: false, .. } = event else { return };
        let made = self.0.made.lock().unwrap().take().unwrap();
        let own: Vec<Bytes> =
            outputs.iter().map(|number| self.0.store.get(FileNumber(*number)).unwrap()).collect();
        assert!(own.iter().eq(made.iter().map(|(bytes, _)| bytes)));
    }
}

fn tools() -> JobTools {
    JobTools { comparators: vec![Arc::new(ShortFirst)], filters: vec![Arc::new(Open)] }
}

fn options(dice: &mut Dice, compaction: Compaction) -> Options {
    let comparator: Option<Arc<dyn Comparator>> = match dice.roll(4) {
        0 => Some(Arc::new(ShortFirst)),
        _ => None,
    };
    let filter_policy: Option<Arc<dyn FilterPolicy>> = match dice.roll(4) {
        0 => Some(Arc::new(BloomFilter::new(7))),
        1 => Some(Arc::new(BloomFilter::wide(7))),
        2 => Some(Arc::new(Open)),
        _ => None,
    };
    let compression = match dice.roll(3) {
        0 => Compression::None,
        1 => Compression::Snappy,
        _ => Compression::ZSTD,
    };
    Options {
        create_if_missing: true,
        env: Env::memory(),
        info_log: false,
        comparator,
        filter_policy,
        compression,
        compaction,
        write_buffer_size: 8 << 10,
        level0: Level0Limits { compact: 2, slow_down: 12, stop: 20 },
        max_file_size: 1 << (9 + dice.roll(4)),
        block_size: 1 << (6 + dice.roll(5)),
        block_restart_interval: 1 + dice.roll(20) as usize,
        level1_bytes: 4 << 10,
        level_growth: 3,
        compaction_lanes: 1,
        background: Background::ByHand,
        unclamped: true,
        ..Default::default()
    }
}

fn one_history(seed: u64, compaction: Compaction) -> Seen {
    let mut dice = Dice::new(seed);
    let store = Arc::new(Objects::default());
    let (made, seen) = Default::default();
    let both = Arc::new(Both { store: Arc::clone(&store), tools: tools(), made, seen });
    let options = Options {
        table_store: Some(Arc::new(Shop(Arc::clone(&store)))),
        compaction_service: Some(Arc::clone(&both) as _),
        listeners: vec![Arc::new(Judge(Arc::clone(&both)))],
        ..options(&mut dice, compaction)
    };
    let db = Db::open("db", options).unwrap();
    let mut snapshots: Vec<Snapshot> = Vec::new();
    for _ in 0..6_000 {
        let key = format!("{:x}", dice.roll(700).wrapping_mul(0x9e37_79b9));
        match dice.roll(10) {
            0..3 => db.delete(key).unwrap(),
            _ => {
                let words = 1 + dice.roll(6);
                let value: String =
                    (0..words).map(|_| format!("{:x}", dice.roll(1 << 60))).collect();
                db.put(key, value).unwrap();
            }
        }
        if dice.roll(300) == 0 {
            snapshots.push(db.snapshot());
        }
        if dice.roll(400) == 0 && !snapshots.is_empty() {
            snapshots.swap_remove(dice.roll(snapshots.len() as u64) as usize);
        }
        if dice.roll(3_000) == 0 {
            db.compact_range(None, None).unwrap();
        }
    }
    db.wait_for_background().unwrap();
    let seen = *both.seen.lock().unwrap();
    assert_eq!(db.metrics().merges, seen.jobs as u64);
    assert_eq!(db.metrics().merges_come_home, seen.jobs as u64);
    seen
}

#[test]
fn whoever_runs_a_job_makes_the_same_bytes() {
    let mut total = Seen::default();
    for compaction in Compaction::ALL {
        for seed in 1..=20 {
            let seen = one_history(seed, compaction);
            total.jobs += seen.jobs;
            total.tables += seen.tables;
            total.resumed += seen.resumed;
            total.with_snapshots += seen.with_snapshots;
            total.over_others += seen.over_others;
            total.cut += seen.cut;
            total.narrowed += seen.narrowed;
        }
    }
    println!("{total:?}");
    let Seen { jobs, tables, resumed, with_snapshots, over_others, cut, narrowed } = total;
    assert!(jobs > 500 && tables > 3 * jobs && resumed > 2 * jobs, "{total:?}");
    let rare = [with_snapshots, over_others, cut, narrowed];
    assert!(rare.iter().all(|count| *count > 30), "{total:?}");
}

#[test]
fn jobs_that_make_no_sense_or_ask_for_the_unknown_are_refused() {
    let store = Arc::new(Objects::default());
    let desk = crate::stage::Desk::taking(|_| true);
    let db = Db::open("db", crate::away::options(&store, &desk)).unwrap();
    // One with tables of two slots.
    let spec = (0..).find_map(|round: u32| {
        crate::away::fill(&db, round * 200..(round + 1) * 200);
        while db.run_background_step().unwrap() {
            let Some(given) = desk.try_next() else { continue };
            if given.spec.inputs.last().unwrap().slot > given.spec.inputs[0].slot {
                return Some(given.spec);
            }
            given.run(&store);
        }
        None
    });
    let spec = spec.unwrap();
    let known = JobTools::default();
    let refusal = |change: &dyn Fn(&mut JobSpec)| {
        let mut changed = spec.clone();
        change(&mut changed);
        run(&store, (&changed, &known), &[], usize::MAX).map(drop).unwrap_err().kind()
    };
    assert!(run(&store, (&spec, &known), &[], usize::MAX).is_ok());
    let senseless: [&dyn Fn(&mut JobSpec); 12] = [
        &|spec| spec.inputs.clear(),
        &|spec| spec.inputs.push(spec.inputs[0].clone()),
        &|spec| spec.inputs.reverse(),
        &|spec| spec.inputs[0].span.smallest.truncate(7),
        &|spec| spec.inputs[0].span.largest = b"\0\0\0\0\0\0\0\0".to_vec(),
        &|spec| spec.inputs[0].live = vec![spec.inputs[0].span.clone()],
        &|spec| spec.snapshots.clear(),
        &|spec| spec.snapshots.insert(0, siltstone::SeqNo(1 << 55)),
        &|spec| spec.cut.table_bytes = 0,
        &|spec| spec.cut.borders.push((vec![0; 7], 1)),
        &|spec| spec.layout.restart_interval = 0,
        &|spec| spec.target = spec.inputs[0].slot,
    ];
    for (nth, change) in senseless.iter().enumerate() {
        assert_eq!(refusal(*change), ErrorKind::InvalidArgument, "number {nth}");
    }
    let unknown: [&dyn Fn(&mut JobSpec); 3] = [
        &|spec| spec.layout.comparator = "else".to_owned(),
        &|spec| spec.layout.filter.as_mut().unwrap().name = "else".to_owned(),
        &|spec| spec.layout.filter.as_mut().unwrap().bits_per_key = u32::MAX,
    ];
    for (nth, change) in unknown.iter().enumerate() {
        assert_eq!(refusal(*change), ErrorKind::Incompatible, "number {nth}");
    }
    let lost = spec.inputs[0].number;
    assert_eq!(refusal(&|spec| spec.inputs[0].number = FileNumber(999_999)), ErrorKind::NotFound);
    // A table under the number of another one.
    store.put(lost, store.get(spec.inputs[1].number).unwrap());
    assert_eq!(refusal(&|_| ()), ErrorKind::Corruption);
}
