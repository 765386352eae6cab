//! One run through the list of benchmarks, on one engine: opens and renews the database, starts the
//! threads, prints the report.

use std::io::{self, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread;

use crate::benchmark::{self, Entry, Plan, Task};
use crate::engine::{Engine, Result, Store};
use crate::flags::Flags;
use crate::popularity::Popularity;
use crate::random::{Lehmer, ValuePool};
use crate::report::Record;
use crate::report::causes::Causes;
use crate::report::progress::Progress;
use crate::report::stats::Stats;
use crate::work::pace::Pace;
use crate::work::ycsb::{Mix, Records};
use crate::work::{self, Job, Worker};

/// A run.
pub(crate) struct Session<'a, S: Store> {
    flags: &'a Flags,
    store: S,
    /// Always there but while it is being renewed.
    db: Option<S::Db>,
    pool: ValuePool,
    threads_started: u32,
    /// Records that YCSB's workloads have inserted behind the loaded ones.
    inserted: u64,
    out: &'a mut dyn Write,
}

impl<'a, S: Store> Session<'a, S> {
    pub(crate) fn new(flags: &'a Flags, store: S, out: &'a mut dyn Write) -> Self {
        let longest = usize::try_from(flags.value_size).unwrap_or(0);
        let pool = ValuePool::new(flags.compression_ratio, longest);
        Session { flags, store, db: None, pool, threads_started: 0, inserted: 0, out }
    }

    /// Runs the list, and returns what each benchmark came to.
    pub(crate) fn run(mut self) -> Result<Vec<Record>> {
        if !self.flags.use_existing_db {
            // As in LevelDB, what cannot be removed is told by what fails next.
            let _ = self.store.destroy();
        }
        self.db = Some(self.open()?);
        let mut records = Vec::new();
        for name in self.flags.benchmarks.split(',').filter(|name| !name.is_empty()) {
            match benchmark::look_up(name, self.flags) {
                Entry::Benchmark(plan) => records.extend(self.run_benchmark(&plan)?),
                Entry::Property(property) => {
                    let text = self.db()?.property(property);
                    self.print(&format!("\n{}\n", text.as_deref().unwrap_or("(failed)")))?;
                }
                Entry::HeapProfile => eprintln!("heap profiling not supported"),
                Entry::Unknown => eprintln!("unknown benchmark '{name}'"),
            }
        }
        Ok(records)
    }

    /// Runs one and prints its lines. `None` if it is skipped.
    fn run_benchmark(&mut self, plan: &Plan) -> Result<Option<Record>> {
        if let Some(reason) = self.why_to_skip(plan) {
            self.print(&format!("{:<12} : skipped ({reason})\n", plan.name))?;
            return Ok(None);
        }
        if plan.fresh {
            self.db = None;
            let _ = self.store.destroy();
            self.db = Some(self.open()?);
            self.inserted = 0;
        }
        let before = self.db()?.metrics();
        let stats = match plan.task {
            Task::Open => self.reopen(plan)?,
            _ => self.start_threads(plan)?,
        };
        self.print(&stats.report(&plan.name))?;
        let comparisons = self.flags.comparisons.then(|| self.store.take_comparisons());
        if let Some(count) = comparisons {
            self.print(&format!("Comparisons: {count}\n"))?;
        }
        if self.flags.causes {
            self.db()?.rest()?;
        }
        let causes = match (before, self.db()?.metrics()) {
            // Reopening begins the counters anew.
            (Some(before), Some(after)) if plan.task != Task::Open => {
                Some(Causes::between(&before, &after))
            }
            _ => None,
        };
        if let Some(causes) = causes.as_ref().filter(|_| self.flags.causes) {
            self.print(&causes.to_string())?;
        }
        let (name, threads) = (plan.name.clone(), plan.threads);
        Ok(Some(Record { name, threads, stats, comparisons, causes }))
    }

    fn why_to_skip(&self, plan: &Plan) -> Option<&'static str> {
        if plan.fresh && self.flags.use_existing_db {
            return Some("--use_existing_db is true");
        }
        let foreign = plan.task.is_codec() && !S::SHARES_CODECS;
        foreign.then_some("not in LevelDB's C API")
    }

    /// Closes and opens the database again and again.
    fn reopen(&mut self, plan: &Plan) -> Result<Stats> {
        // LevelDB starts its threads here, too, which decides about the seeds of later ones.
        self.threads_started += self.flags.threads() as u32;
        let progress = Progress::new(&plan.name, plan.operations(), plan.threads);
        let mut stats = Stats::new(self.flags.timing(), progress.meter());
        for _ in 0..plan.num {
            self.db = None;
            self.db = Some(self.open()?);
            stats.finished_op();
        }
        stats.stop();
        Ok(stats)
    }

    /// Has all threads begin at once, and sums up what they counted.
    fn start_threads(&mut self, plan: &Plan) -> Result<Stats> {
        let first_seed = self.flags.seed.wrapping_add(self.threads_started).wrapping_add(1);
        self.threads_started += plan.threads as u32;
        let job = Job {
            db: self.db()?,
            plan,
            flags: self.flags,
            pool: &self.pool,
            records: match plan.task {
                Task::Ycsb(mix) => Some(self.records(mix)),
                _ => None,
            },
            threads: plan.threads,
            finished: AtomicUsize::new(0),
        };
        let progress = Progress::new(&plan.name, plan.operations(), plan.threads);
        let all_ready = Barrier::new(plan.threads);
        let run = |index: usize| {
            let random = Lehmer::new(first_seed.wrapping_add(index as u32));
            all_ready.wait();
            let stats = Stats::new(self.flags.timing(), progress.meter());
            let pace = self.flags.rate.map(|rate| Pace::new(rate, index, plan.threads));
            let mut worker = Worker { index, random, stats, pace };
            work::perform(&job, &mut worker).map(|()| worker.stats)
        };
        let stats = thread::scope(|scope| {
            let run = &run;
            let others = (1..plan.threads).map(|index| scope.spawn(move || run(index)));
            let others: Vec<_> = others.collect();
            let mut all = vec![run(0)];
            for other in others {
                all.push(other.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())));
            }
            sum(all)
        });
        if let Some(records) = job.records {
            let loaded = u64::try_from(self.flags.num).unwrap_or(0);
            self.inserted = records.present.into_inner() - loaded;
        }
        stats
    }

    /// The records as a workload of YCSB finds them.
    fn records(&self, mix: Mix) -> Records {
        let loaded = u64::try_from(self.flags.num).unwrap_or(0);
        let law = self.flags.law.unwrap_or(mix.law);
        Records {
            popularity: Popularity::new(law, loaded),
            present: AtomicU64::new(loaded + self.inserted),
        }
    }

    fn db(&self) -> Result<&S::Db> {
        self.db.as_ref().ok_or_else(|| "no database is open".to_owned())
    }

    fn open(&self) -> Result<S::Db> {
        self.store.open().map_err(|error| format!("open error: {error}"))
    }

    fn print(&mut self, text: &str) -> Result<()> {
        print(self.out, text)
    }
}

/// Adds all threads' counts to the first one's. The first error counts for all.
fn sum(all: Vec<Result<Stats>>) -> Result<Stats> {
    let mut threads = all.into_iter();
    let mut stats = threads.next().ok_or("no thread has run")??;
    for thread in threads {
        stats.merge(thread?);
    }
    Ok(stats)
}

/// Prints and flushes, so that a line is seen when its benchmark ends.
pub(crate) fn print(out: &mut dyn Write, text: &str) -> Result<()> {
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    printed.map_err(|error: io::Error| format!("output: {error}"))
}
