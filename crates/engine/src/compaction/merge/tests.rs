//! Jobs from tables to tables, in memory files. What must come out is told by the rule itself: an
//! entry stays if some snapshot sees it, unless it is a deletion that all see and nothing lies under.

use std::sync::Arc;

use super::*;
use crate::base::error::ErrorKind;
use crate::base::key::{InternalKey, SeqNo, ValueKind};
use crate::base::slot::Slot;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::compaction::closure::close;
use crate::compaction::executor::{CompactionExecutor, LocalExecutor};
use crate::compaction::job::JobLimits;
use crate::compaction::parts::split;
use crate::env::site::Site;
use crate::format::table::TableSettings;
use crate::version::testing::files::Shelf;
use crate::version::testing::{Random, key, order, sst_log, tree, version};
use crate::version::{KeyRange, Version};

type Entries = Vec<(InternalKey, String)>;

struct World {
    shelf: Shelf,
    version: Version,
    last_number: AtomicU64,
    cancelled: AtomicBool,
    bottom: TableSettings,
}

impl World {
    fn new(tables: &[(Slot, u64, Entries)]) -> Self {
        let shelf = Shelf::new();
        let metas = tables
            .iter()
            .map(|(slot, number, entries)| (*slot, shelf.table(*number, entries)))
            .collect::<Vec<_>>();
        shelf.spy.calls();
        World {
            bottom: shelf.settings.clone(),
            shelf,
            version: version(metas),
            last_number: AtomicU64::new(1_000),
            cancelled: AtomicBool::new(false),
        }
    }

    fn job(&self, seed: &[u64], to: Slot, (snapshots, table_bytes): (&[u64], u64)) -> Job {
        let user = order().user;
        let seed: Vec<FileNumber> = seed.iter().copied().map(FileNumber).collect();
        let closed = close(&user, &self.version, &seed, to).unwrap();
        let snapshots = snapshots.iter().copied().map(SeqNo).collect();
        let limits = JobLimits { table_bytes, grandparent_bytes: 1 << 20 };
        Job::new(1, &user, &self.version, &closed, (to, snapshots, limits))
    }

    fn run(&self, job: &Job) -> Result<Output> {
        self.with_context(1, &|| {}, |context| run(job, context))
    }

    /// As [`run`](Self::run), in parts for so many threads, some of which come to help.
    fn run_shared(&self, job: &Arc<Job>, (threads, helpers): (usize, usize)) -> Result<Output> {
        let executor = LocalExecutor::new();
        std::thread::scope(|scope| {
            let help = || self.with_context(1, &|| {}, |context| while executor.help(context) {});
            let call = || (0..helpers).for_each(|_| drop(scope.spawn(help)));
            self.with_context(threads, &call, |context| executor.execute(job, context))
        })
    }

    fn with_context<R>(
        &self,
        threads: usize,
        call_for_help: &(dyn Fn() + Sync),
        run: impl FnOnce(&JobContext<'_>) -> R,
    ) -> R {
        let new_number = || FileNumber(self.last_number.fetch_add(1, Ordering::Relaxed) + 1);
        let context = JobContext {
            order: &order(),
            cache: &self.shelf.cache,
            store: &self.shelf.store,
            bottom_table: &self.bottom,
            upper_table: &self.shelf.settings,
            new_number: &new_number,
            tells_numbers: true,
            cancelled: &self.cancelled,
            threads,
            make_way: &|| {},
            hotness: None,
            call_for_help,
            finished: &|_| Ok(()),
        };
        run(&context)
    }

    fn contents(&self, number: FileNumber, size: u64) -> Entries {
        let table = self.shelf.cache.get(number, size).unwrap();
        let mut iter = table.iter(ScanOptions::default());
        let mut entries = Vec::new();
        iter.seek_to_first().unwrap();
        while iter.valid() {
            let value = String::from_utf8(iter.value().to_vec()).unwrap();
            entries.push((InternalKey::from_bytes(iter.key()).unwrap(), value));
            iter.next().unwrap();
        }
        entries
    }

    /// The job's entries in order, with those left out that no snapshot needs.
    fn expected(&self, job: &Job) -> Entries {
        let inputs = job.input_tables();
        let mut all: Entries =
            inputs.flat_map(|(_, table)| self.contents(table.number, table.size)).collect();
        all.sort_by(|(a, _), (b, _)| order().compare(a.as_bytes(), b.as_bytes()));
        let seen = |entry: &InternalKey| {
            job.snapshots.iter().any(|snapshot| {
                let mut visible = all
                    .iter()
                    .map(|(key, _)| key)
                    .filter(|key| key.user() == entry.user() && key.seqno() <= *snapshot);
                visible.next() == Some(entry)
            })
        };
        let hides_nothing = |entry: &InternalKey| {
            let deletion = key::parse(entry.as_bytes()).unwrap().kind == ValueKind::Deletion;
            let range = KeyRange::closed(entry.user(), entry.user());
            deletion
                && entry.seqno() <= job.snapshots[0]
                && self.version.next_meeting(&order().user, job.to, range).is_none()
        };
        let kept = all.iter().filter(|(key, _)| seen(key) && !hides_nothing(key));
        kept.cloned().collect()
    }
}

/// Random tables with a random history, newer data higher up, each slot in keys below 40.
fn random_world(random: &mut Random) -> World {
    let mut tables = Vec::new();
    let mut seqno = 400;
    for (slot, count) in [(Slot::L0, 2), (tree(1), 3), (sst_log(1), 2), (tree(2), 4), (tree(3), 2)]
    {
        for part in 0..count {
            let (from, width) =
                if slot.is_sorted() { (part * 40 / count, 40 / count) } else { (0, 40) };
            let mut entries = Vec::new();
            for _ in 0..1 + random.below(20) {
                seqno -= 1;
                let user = format!("{:02}", from + random.below(width));
                let deletion = random.percent(30);
                let kind = if deletion { ValueKind::Deletion } else { ValueKind::Value };
                let value = if deletion { String::new() } else { format!("value {seqno}") };
                entries.push((InternalKey::new(user.as_bytes(), SeqNo(seqno), kind), value));
            }
            entries.sort_by(|(a, _), (b, _)| order().compare(a.as_bytes(), b.as_bytes()));
            // Level 0 goes by number, newest first; other numbers say nothing.
            tables.push((slot, 100 - tables.len() as u64, entries));
        }
    }
    World::new(&tables)
}

#[test]
fn merges_keep_what_some_read_may_ask_for() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let world = random_world(&mut random);
        let numbers: Vec<u64> = world.version.tables().map(|(_, table)| table.number.0).collect();
        let seed = *random.pick(&numbers);
        let (slot, _) = world.version.find(FileNumber(seed)).unwrap();
        let targets: Vec<Slot> = [1, 2, 3].map(tree).into_iter().filter(|to| *to >= slot).collect();
        let mut snapshots: Vec<u64> =
            (0..random.below(4)).map(|_| random.below(400) as u64).collect();
        snapshots.push(400);
        snapshots.sort_unstable();
        snapshots.dedup();
        let table_bytes = 20 << random.below(8);
        let job = world.job(&[seed], *random.pick(&targets), (&snapshots, table_bytes));
        let job = Arc::new(job);

        let threads = random.below(5);
        let output = match threads {
            0 => world.run(&job),
            threads => world.run_shared(&job, (threads, random.below(threads))),
        };
        let output = output.unwrap();
        assert!(job.accepts(&order(), &output));
        let got = output.tables.iter().flat_map(|built| world.contents(built.number, built.bytes));
        let expected = world.expected(&job);
        assert_eq!(got.collect::<Entries>(), expected);
        let all: u64 = output.tables.iter().map(|built| built.properties.entries).sum();
        assert_eq!(all, expected.len() as u64);
        let inputs = job.input_tables();
        let before: usize =
            inputs.map(|(_, table)| world.contents(table.number, table.size).len()).sum();
        assert_eq!(output.entries_dropped, (before - expected.len()) as u64);
        assert_eq!(output.bytes_read, job.input_bytes(&order().user));
        let written: u64 = output.tables.iter().map(|built| built.bytes).sum();
        assert_eq!(output.bytes_written, written);
        for built in &output.tables {
            let entries = world.contents(built.number, built.bytes);
            assert_eq!(built.smallest, entries[0].0);
            assert_eq!(built.largest, entries[entries.len() - 1].0);
        }
    }
}

fn values(range: std::ops::Range<u64>, seqno: u64) -> Entries {
    range.map(|number| (key(&format!("{number:06}"), seqno), "v".repeat(100))).collect()
}

/// 3,000 entries in two levels: enough for several tables, and for a look at the cancel flag.
fn large_world() -> World {
    World::new(&[(tree(1), 1, values(0..1_500, 9)), (tree(2), 2, values(1_000..2_500, 5))])
}

const OUTPUT_BYTES: u64 = 30_000;

#[test]
fn outputs_are_durable_before_the_job_ends() {
    let world = large_world();
    let job = world.job(&[1], tree(2), (&[10], OUTPUT_BYTES));
    let output = world.run(&job).unwrap();
    assert!(output.tables.len() > 5);
    let sizes = output.tables.iter().map(|built| built.bytes);
    assert!(sizes.take(output.tables.len() - 1).all(|size| (OUTPUT_BYTES..40_000).contains(&size)));
    let calls = world.shelf.spy.calls();
    assert_eq!(calls.last(), Some(&"table.dir.sync"));
    let count = |name| calls.iter().filter(|call| **call == name).count();
    assert_eq!(count("table.sync"), output.tables.len());
    assert_eq!(count("table.close"), output.tables.len());
    assert_eq!((count("table.dir.sync"), count("table.remove")), (1, 0));
}

#[test]
fn a_job_that_keeps_nothing_makes_no_table() {
    let deletion = |user: &str| InternalKey::new(user.as_bytes(), SeqNo(7), ValueKind::Deletion);
    let entries = vec![(deletion("a"), String::new()), (deletion("b"), String::new())];
    let world = World::new(&[(tree(1), 1, entries)]);
    let output = world.run(&world.job(&[1], tree(1), (&[10], OUTPUT_BYTES))).unwrap();
    assert!(output.tables.is_empty());
    assert_eq!((output.entries_dropped, world.shelf.stored()), (2, vec![1]));
    assert!(world.shelf.spy.calls().is_empty());
}

#[test]
fn a_cancelled_job_leaves_nothing() {
    let world = large_world();
    let job = world.job(&[1], tree(2), (&[10], OUTPUT_BYTES));
    world.cancelled.store(true, Ordering::Relaxed);
    assert_eq!(world.run(&job).unwrap_err().kind(), ErrorKind::Closed);
    let calls = world.shelf.spy.calls();
    assert!(calls.contains(&"table.create"), "it had begun");
    assert_eq!(world.shelf.stored(), [1, 2]);
}

#[test]
fn a_failed_job_leaves_nothing() {
    let sites = [
        Site::TableCreate,
        Site::TableAppend,
        Site::TableSync,
        Site::TableClose,
        Site::TableDirSync,
    ];
    for site in sites {
        for calls in [0, 2] {
            if site == Site::TableDirSync && calls > 0 {
                continue; // There is only one.
            }
            let world = large_world();
            let job = world.job(&[1], tree(2), (&[10], OUTPUT_BYTES));
            world.shelf.spy.fail_after(site, calls);
            assert_eq!(world.run(&job).unwrap_err().kind(), ErrorKind::Io, "{}", site.name());
            assert_eq!(world.shelf.stored(), [1, 2], "{}", site.name());
            world.shelf.spy.heal();
            assert!(world.run(&job).is_ok(), "the next attempt takes new numbers");
        }
    }
}

#[test]
fn a_shared_job_ends_fewer_tables_early_than_it_has_parts() {
    let world = large_world();
    let job = Arc::new(world.job(&[1], tree(2), (&[10], OUTPUT_BYTES)));
    let alone = world.run(&job).unwrap();
    world.shelf.spy.calls();
    let shared = world.run_shared(&job, (3, 2)).unwrap();
    assert!((1..=2).contains(&(shared.tables.len() - alone.tables.len())));
    let calls = world.shelf.spy.calls();
    assert_eq!(calls.iter().filter(|call| **call == "table.dir.sync").count(), 1);
    assert_eq!(calls.last(), Some(&"table.dir.sync"));
    let contents = |output: &Output| -> Entries {
        output.tables.iter().flat_map(|built| world.contents(built.number, built.bytes)).collect()
    };
    assert!(contents(&alone) == contents(&shared));
    assert_eq!(shared.bytes_read, alone.bytes_read);
}

/// Each of these tables ends with the last key of all.
#[test]
fn tables_of_level_0_are_parted_where_their_keys_are() {
    let numbers: Vec<u64> = (1..=20).collect();
    let entries = |nth: u64| values(0..4_000, nth).into_iter().skip(nth as usize - 1).step_by(20);
    let table = |nth: &u64| (Slot::L0, *nth, entries(*nth).collect());
    let world = World::new(&numbers.iter().map(table).collect::<Vec<_>>());
    let job = world.job(&numbers, tree(1), (&[100], OUTPUT_BYTES));
    let parts = world.with_context(2, &|| {}, |context| split(&job, context, 2)).unwrap();
    let part = |part: &Part| world.with_context(1, &|| {}, |context| run_part(&job, context, part));
    let bytes: Vec<u64> = parts.iter().map(|of| part(of).unwrap().bytes_written).collect();
    let (low, high) = (*bytes.iter().min().unwrap(), *bytes.iter().max().unwrap());
    assert!(bytes.len() == 2 && high < low + low / 2, "{bytes:?}");
}

#[test]
fn a_shared_job_that_fails_leaves_nothing() {
    for helpers in 0..3 {
        for (site, calls) in [(Site::TableSync, 3), (Site::TableAppend, 1), (Site::TableDirSync, 0)]
        {
            let world = large_world();
            let job = Arc::new(world.job(&[1], tree(2), (&[10], OUTPUT_BYTES)));
            world.shelf.spy.fail_after(site, calls);
            assert_eq!(world.run_shared(&job, (3, helpers)).unwrap_err().kind(), ErrorKind::Io);
            assert_eq!(world.shelf.stored(), [1, 2], "{}, {helpers} helpers", site.name());
            world.shelf.spy.heal();
            assert!(world.run_shared(&job, (3, helpers)).is_ok());
        }
    }
}

#[test]
fn a_panic_in_a_part_fails_the_job() {
    let world = large_world();
    let (job, executor) =
        (Arc::new(world.job(&[1], tree(2), (&[10], OUTPUT_BYTES))), LocalExecutor::new());
    let panics = || panic!("in a callback");
    let help = || {
        world.with_context(1, &|| {}, |context| {
            let context = JobContext { new_number: &panics, ..*context };
            executor.help(&context)
        })
    };
    // The helper comes first, for the caller waits for it.
    let call = || {
        std::thread::scope(|scope| assert!(scope.spawn(help).join().is_err()));
    };
    let error =
        world.with_context(2, &call, |context| executor.execute(&job, context)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    assert!(!world.with_context(1, &|| {}, |context| executor.help(context)), "it is over");
}

#[test]
fn a_failed_read_fails_the_job() {
    let world = large_world();
    let job = world.job(&[1], tree(2), (&[10], OUTPUT_BYTES));
    world.shelf.lose(2);
    assert!(world.run(&job).unwrap_err().is_not_found());
    assert_eq!(world.shelf.stored(), [1]);
}

#[test]
fn keys_that_are_none_fail_the_job() {
    let bad = InternalKey::from_bytes(b"k\x07\x01\0\0\0\0\0\0").unwrap();
    let world = World::new(&[(tree(1), 1, vec![(bad, "value".to_owned())])]);
    let error = world.run(&world.job(&[1], tree(1), (&[10], OUTPUT_BYTES))).unwrap_err();
    assert!(error.is_corruption());
    assert!(error.file().unwrap().ends_with("000001.ldb") && error.offset() == Some(0), "{error}");
    assert_eq!(world.shelf.stored(), [1]);
}
