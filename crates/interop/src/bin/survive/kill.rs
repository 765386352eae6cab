//! Kills a process that has a database open, by the hundred, at moments spread over all it does;
//! after each end, or after more ends during recovery, looks at what is there. See `survive kill`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use clap::Args;
use siltstone_interop::rng::Rng;
use siltstone_interop::scratch::Scratch;
use siltstone_sim::Report;
use siltstone_sim::report::Goal;

use crate::check::{Place, Tally, look_at_checkpoints};
use crate::child::{ChildArgs, Style};
use crate::ending::{Moment, Trigger, end_child, tell_how_to_repeat};
use crate::history::{History, Promise};
use crate::pipe::Phase;
use crate::script::{Script, WRITERS_MAX};
use crate::store::{Engine, Tuning};

/// A database sees so many lives, then a fresh one begins.
const LIVES_MAX: u64 = 40;
/// The longest life, in batches.
const ACKS_MAX: u64 = 8000;

#[derive(Args, Clone, Debug)]
pub(crate) struct KillArgs {
    /// How many times a process is killed
    #[arg(long, default_value_t = 500)]
    cycles: u64,
    #[arg(long, default_value = "siltstone")]
    pub(crate) engine: Engine,
    /// Fixes what is written and when it is meant to end; not what the threads have done by then
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many databases are worked on at a time
    #[arg(long, default_value_t = 2)]
    lanes: u64,
    /// Where databases are made. Default: in memory (/dev/shm), or else where temporary files go
    #[arg(long)]
    folder: Option<PathBuf>,
}

impl KillArgs {
    /// A few of a hundred, lest a part be left out unnoticed. LevelDB does not do all that we do.
    fn least_per_phase(&self) -> Option<u64> {
        (self.engine == Engine::Siltstone).then_some(self.cycles / 100)
    }
}

/// What all lanes share.
struct Campaign<'a> {
    args: &'a KillArgs,
    /// Cycles that nobody has taken yet.
    left: AtomicU64,
    /// Further ones, for phases that chance has left out.
    spare: AtomicU64,
    interrupted: &'a AtomicBool,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Outcome {
    tally: Tally,
    kills: u64,
    while_compacting: u64,
    phases: BTreeMap<&'static str, u64>,
}

pub(crate) fn run(args: &KillArgs, interrupted: &AtomicBool) -> ExitCode {
    let began = Instant::now();
    println!("kill --seed {} --cycles {} --engine {}", args.seed, args.cycles, args.engine.name());
    let campaign = Campaign {
        args,
        left: AtomicU64::new(args.cycles),
        spare: AtomicU64::new(args.cycles / 2),
        interrupted,
        outcome: Mutex::default(),
    };
    thread::scope(|scope| {
        for lane in 0..args.lanes {
            let campaign = &campaign;
            scope.spawn(move || campaign.lane(Rng::new(args.seed ^ lane.rotate_left(32))));
        }
    });
    let outcome = campaign.outcome.into_inner().expect("no lane has panicked");
    report(args, &outcome, began.elapsed()).print()
}

fn report(args: &KillArgs, outcome: &Outcome, elapsed: Duration) -> Report {
    let Outcome { tally, kills, while_compacting, phases } = outcome;
    let mut report = Report::new(&format!("kill-{}", args.engine.name()));
    report.figure("processes killed", *kills, Goal::AtLeast(args.cycles));
    for phase in Phase::ALL {
        let count = phases.get(phase.name()).copied().unwrap_or(0);
        let least = args.least_per_phase().map_or(Goal::None, Goal::AtLeast);
        report.figure(&format!("killed while {}", phase.name()), count, least);
    }
    report.figure("killed while a compaction ran", *while_compacting, Goal::None);
    tally.add_to(&mut report, args.engine);
    report.figure("seconds", elapsed.as_secs(), Goal::None);
    report
}

impl Campaign<'_> {
    fn lane(&self, mut rng: Rng) {
        while self.has_more() {
            let mut subject = Subject::new(self.args, &mut rng);
            while subject.lives < LIVES_MAX && self.has_more() {
                let mut outcome = self.life(&mut subject, &mut rng);
                let clean = outcome.tally.is_clean();
                if !clean {
                    subject.keep(self.args);
                }
                let mut sum = self.outcome.lock().expect("no lane has panicked");
                sum.tally.add(&outcome.tally);
                sum.kills += outcome.kills;
                sum.while_compacting += outcome.while_compacting;
                for (phase, count) in std::mem::take(&mut outcome.phases) {
                    *sum.phases.entry(phase).or_default() += count;
                }
                if !clean {
                    break;
                }
            }
        }
    }

    fn has_more(&self) -> bool {
        let more = self.left.load(Ordering::Relaxed) > 0 || self.aim().is_some();
        more && !self.interrupted.load(Ordering::Relaxed)
    }

    /// The phase to end in, once the cycles are used up: how long phases last, and so how many ends fall into each, is
    /// the machine's affair.
    fn aim(&self) -> Option<Phase> {
        if self.left.load(Ordering::Relaxed) > 0 || self.spare.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let least = self.args.least_per_phase()?;
        let outcome = self.outcome.lock().expect("no lane has panicked");
        let count = |phase: &Phase| outcome.phases.get(phase.name()).copied().unwrap_or(0);
        Phase::ALL.into_iter().find(|phase| count(phase) < least)
    }

    fn take(&self) {
        // Lanes may take one too many between them: more is no harm.
        let one_less = |left: u64| left.checked_sub(1);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        if taken.is_err() {
            let _ = self.spare.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        }
    }

    /// One life of a database: a process that writes and is killed, perhaps some that are killed as
    /// they recover, and a look.
    fn life(&self, subject: &mut Subject, rng: &mut Rng) -> Outcome {
        let mut outcome = Outcome::default();
        let moment = match self.aim() {
            Some(phase) => Moment::some_time(Trigger::Phase(phase), rng),
            None => Moment::busy(rng, subject.engine, ACKS_MAX),
        };
        subject.end(Style::Mixed, moment, rng, &mut outcome);
        self.take();
        for _ in 0..rng.below(3) {
            subject.end(Style::Idle, Moment::idle(rng), rng, &mut outcome);
            self.take();
        }
        let Subject { engine, folder, tuning, history, .. } = subject;
        let place = Place { engine: *engine, folder, tuning: *tuning };
        outcome.tally.add(&place.look(history, Promise::Process));
        look_at_checkpoints(place, &mut outcome.tally);
        subject.lives += 1;
        outcome
    }
}

/// A database, and what is known of it.
struct Subject {
    engine: Engine,
    scratch: Scratch,
    folder: PathBuf,
    script: Script,
    history: History,
    tuning: Tuning,
    lives: u64,
}

impl Subject {
    fn new(args: &KillArgs, rng: &mut Rng) -> Subject {
        let scratch = match &args.folder {
            Some(folder) => Scratch::below(folder, "kill"),
            None => Scratch::below(&fast_place(), "kill"),
        };
        let script = Script { seed: rng.number() };
        let writers = 1 + rng.below(WRITERS_MAX);
        Subject {
            engine: args.engine,
            folder: scratch.join("db"),
            scratch,
            script,
            history: History::new(script, writers),
            tuning: Tuning(rng.number()),
            lives: 0,
        }
    }

    /// Starts a process, lets it work until its moment has come, and kills it.
    fn end(&mut self, style: Style, moment: Moment, rng: &mut Rng, outcome: &mut Outcome) {
        let child = ChildArgs {
            engine: self.engine,
            style,
            seed: self.script.seed,
            life: rng.number(),
            tuning: self.tuning,
            firsts: self.history.firsts(),
            folder: self.folder.clone(),
        };
        let errors = self.scratch.join("errors");
        let promised = (&mut self.history, Promise::Process);
        let ended = end_child(&child, &errors, moment, promised, || {});
        outcome.tally.failures += u64::from(ended.failed);
        outcome.kills += 1;
        outcome.while_compacting += u64::from(ended.compacting);
        *outcome.phases.entry(ended.phase.name()).or_default() += 1;
    }

    /// Leaves the files for inspection, and says where they are.
    fn keep(&self, args: &KillArgs) {
        let kept = self.scratch.path().with_extension("kept");
        // It was looked at, which is a recovery: but what recovery drops is not much.
        let _ = fs::rename(self.scratch.path(), &kept);
        println!("kept for inspection: {}", kept.display());
        let options = format!("--seed {} --cycles {}", args.seed, args.cycles);
        tell_how_to_repeat("kill", args.engine, &options);
    }
}

/// In memory, if the system has such a place: what a process leaves needs no disk.
pub(crate) fn fast_place() -> PathBuf {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { shared_memory.to_owned() } else { env::temp_dir() }
}
