//! One run through the list of benchmarks, on one engine: opens and renews the database, starts the
//! threads, prints the report.

use std::io::{self, Write};
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;
use std::thread;

use crate::benchmark::{self, Entry, Plan, Task};
use crate::engine::{Engine, Result, Store};
use crate::flags::Flags;
use crate::random::{Lehmer, ValuePool};
use crate::report::header;
use crate::report::progress::Progress;
use crate::report::stats::Stats;
use crate::work::{self, Job, Worker};

/// The first thread of a run draws from the seed behind this one, each later thread from the next.
const SEED: u32 = 1000;

/// A run.
pub(crate) struct Session<'a, S: Store> {
    flags: &'a Flags,
    store: S,
    /// Always there but while it is being renewed.
    db: Option<S::Db>,
    pool: ValuePool,
    threads_started: u32,
    out: &'a mut dyn Write,
}

impl<'a, S: Store> Session<'a, S> {
    pub(crate) fn new(flags: &'a Flags, store: S, out: &'a mut dyn Write) -> Self {
        let longest = usize::try_from(flags.value_size).unwrap_or(0);
        let pool = ValuePool::new(flags.compression_ratio, longest);
        Session { flags, store, db: None, pool, threads_started: 0, out }
    }

    /// Runs the list.
    pub(crate) fn run(mut self) -> Result<()> {
        if !self.flags.use_existing_db {
            // As in LevelDB, what cannot be removed is told by what fails next.
            let _ = self.store.destroy();
        }
        let (engine, version) = self.store.version();
        eprint!("{}", header::environment(engine, &version));
        self.print(&header::sizes(self.flags))?;
        self.db = Some(self.open()?);
        for name in self.flags.benchmarks.split(',').filter(|name| !name.is_empty()) {
            match benchmark::look_up(name, self.flags) {
                Entry::Benchmark(plan) => self.run_benchmark(&plan)?,
                Entry::Property(property) => {
                    let text = self.db()?.property(property);
                    self.print(&format!("\n{}\n", text.as_deref().unwrap_or("(failed)")))?;
                }
                Entry::HeapProfile => eprintln!("heap profiling not supported"),
                Entry::Unknown => eprintln!("unknown benchmark '{name}'"),
            }
        }
        Ok(())
    }

    fn run_benchmark(&mut self, plan: &Plan) -> Result<()> {
        if let Some(reason) = self.why_to_skip(plan) {
            return self.print(&format!("{:<12} : skipped ({reason})\n", plan.name));
        }
        if plan.fresh {
            self.db = None;
            let _ = self.store.destroy();
            self.db = Some(self.open()?);
        }
        let stats = match plan.task {
            Task::Open => self.reopen(plan)?,
            _ => self.start_threads(plan)?,
        };
        self.print(&stats.report(&plan.name))?;
        if self.flags.comparisons {
            let count = self.store.take_comparisons();
            self.print(&format!("Comparisons: {count}\n"))?;
        }
        Ok(())
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
        let mut stats = Stats::new(self.flags.histogram, progress.meter());
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
        let first_seed = SEED + self.threads_started + 1;
        self.threads_started += plan.threads as u32;
        let job = Job {
            db: self.db()?,
            plan,
            flags: self.flags,
            pool: &self.pool,
            threads: plan.threads,
            finished: AtomicUsize::new(0),
        };
        let progress = Progress::new(&plan.name, plan.operations(), plan.threads);
        let all_ready = Barrier::new(plan.threads);
        let run = |index: usize| {
            let random = Lehmer::new(first_seed + index as u32);
            all_ready.wait();
            let stats = Stats::new(self.flags.histogram, progress.meter());
            let mut worker = Worker { index, random, stats };
            work::perform(&job, &mut worker).map(|()| worker.stats)
        };
        thread::scope(|scope| {
            let others: Vec<_> =
                (1..plan.threads).map(|index| scope.spawn(move || run(index))).collect();
            let mut stats = run(0);
            for other in others {
                let other = other.join().map_err(|_| "a thread panicked".to_owned())?;
                match (&mut stats, other) {
                    (Ok(stats), Ok(other)) => stats.merge(other),
                    (Ok(_), failed) => stats = failed,
                    (Err(_), _) => {}
                }
            }
            stats
        })
    }

    fn db(&self) -> Result<&S::Db> {
        self.db.as_ref().ok_or_else(|| "no database is open".to_owned())
    }

    fn open(&self) -> Result<S::Db> {
        self.store.open().map_err(|error| format!("open error: {error}"))
    }

    /// Prints and flushes, so that a line is seen when its benchmark ends.
    fn print(&mut self, text: &str) -> Result<()> {
        let printed = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        printed.map_err(|error: io::Error| format!("output: {error}"))
    }
}
