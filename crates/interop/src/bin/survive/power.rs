//! Cuts the power, as far as a kernel lets one: a file system is told to stop, with or without its
//! journal, while a process works on it; then it is mounted again, which replays the journal, and the
//! database on it is opened. See `survive power`.
//!
//! Half of the cuts follow the first synced write after a change of logs. That is where LevelDB
//! loses what it had acknowledged before: it syncs the new log and not the old.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use siltstone_interop::rng::Rng;
use siltstone_sim::Report;
use siltstone_sim::report::Goal;

use crate::check::{Place, Tally, look_at_checkpoints};
use crate::child::{ChildArgs, Style};
use crate::disk::{Disk, Kind};
use crate::ending::{Moment, Trigger, end_child, tell_how_to_repeat};
use crate::history::{History, Promise};
use crate::script::{Script, WRITERS_MAX};
use crate::shutdown::Flush;
use crate::store::{Engine, Tuning};

/// A database sees so many cuts, then a fresh one begins.
const CUTS_MAX: u64 = 20;
/// The longest life, in batches. Each may wait for the disk.
const ACKS_MAX: u64 = 500;
/// The longest wait between a log's first synced write and the cut.
const SOON_US: usize = 300;

#[derive(Args, Clone, Debug)]
pub(crate) struct PowerArgs {
    /// How many times the power goes
    #[arg(long, default_value_t = 100)]
    cycles: u64,
    #[arg(long, default_value = "ext4")]
    fs: Kind,
    #[arg(long, default_value = "siltstone")]
    pub(crate) engine: Engine,
    /// Fixes what is written and when the power is meant to go; not what threads have done by then
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the file system's image is made. Default: where temporary files go
    #[arg(long)]
    folder: Option<PathBuf>,
}

#[derive(Default)]
struct Outcome {
    tally: Tally,
    cuts: u64,
    after_rotation: u64,
    /// Of these, how many found a fault.
    unlucky_after_rotation: u64,
    while_recovering: u64,
}

pub(crate) fn run(args: &PowerArgs, interrupted: &AtomicBool) -> ExitCode {
    let began = Instant::now();
    let (fs, engine) = (args.fs.name(), args.engine.name());
    println!("power --seed {} --cycles {} --fs {fs} --engine {engine}", args.seed, args.cycles);
    let place = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    let disk = match Disk::make(args.fs, &place) {
        Ok(disk) => disk,
        Err(reason) => {
            println!("SKIPPED (power cuts on {fs}: {reason})");
            return ExitCode::SUCCESS;
        }
    };
    let mut campaign = Campaign {
        args,
        disk,
        rng: Rng::new(args.seed),
        recent: String::new(),
        outcome: Outcome::default(),
    };
    while campaign.outcome.cuts < args.cycles && !interrupted.load(Ordering::Relaxed) {
        if let Err(error) = campaign.database(interrupted) {
            // Without a disk nothing was tested, and that is no success.
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    report(args, &campaign.outcome, began.elapsed()).print()
}

fn report(args: &PowerArgs, outcome: &Outcome, elapsed: Duration) -> Report {
    let mut report = Report::new(&format!("power-{}-{}", args.fs.name(), args.engine.name()));
    let half = Goal::AtLeast(args.cycles / 2);
    report
        .figure("power cuts", outcome.cuts, Goal::AtLeast(args.cycles))
        .figure("cuts after a change of logs", outcome.after_rotation, half)
        .figure("of these, with a fault", outcome.unlucky_after_rotation, Goal::None)
        .figure("cuts during recovery", outcome.while_recovering, Goal::None);
    outcome.tally.add_to(&mut report, args.engine);
    report.figure("seconds", elapsed.as_secs(), Goal::None);
    report
}

struct Campaign<'a> {
    args: &'a PowerArgs,
    disk: Disk,
    rng: Rng,
    /// The cuts since the last look, for people.
    recent: String,
    outcome: Outcome,
}

/// A database, and what is known of it.
struct Subject {
    folder: PathBuf,
    script: Script,
    history: History,
    tuning: Tuning,
}

impl Campaign<'_> {
    /// From a fresh database to its last cut, or the first fault.
    fn database(&mut self, interrupted: &AtomicBool) -> Result<(), String> {
        let mut subject = self.fresh();
        for _ in 0..CUTS_MAX {
            if self.outcome.cuts >= self.args.cycles || interrupted.load(Ordering::Relaxed) {
                break;
            }
            let tally = self.cycle(&mut subject)?;
            self.outcome.tally.add(&tally);
            if !tally.is_clean() {
                self.tell(&tally);
                break;
            }
        }
        Ok(())
    }

    fn fresh(&mut self) -> Subject {
        for entry in fs::read_dir(self.disk.path()).expect("the disk is mounted").flatten() {
            if entry.file_name().to_string_lossy().starts_with("db-") {
                fs::remove_dir_all(entry.path()).expect("nobody holds it");
            }
        }
        // Never a name used before: a cut may undo that removal.
        let folder = self.disk.path().join(format!("db-{}", self.outcome.cuts));
        let script = Script { seed: self.rng.number() };
        Subject {
            folder,
            script,
            history: History::new(script, 1 + self.rng.below(WRITERS_MAX)),
            tuning: Tuning(self.rng.number()),
        }
    }

    /// A process at work, a cut, perhaps a second one during recovery, and a look.
    fn cycle(&mut self, subject: &mut Subject) -> Result<Tally, String> {
        let rotates = 2 * self.outcome.after_rotation <= self.outcome.cuts;
        let style = if rotates { Style::Rotate } else { Style::Mixed };
        let mut tally = Tally::default();
        self.recent.clear();
        self.cut(subject, style, &mut tally)?;
        // After a look nothing is left to recover, so the second cut comes before it.
        if !rotates && self.rng.one_in(3) {
            self.cut(subject, Style::Idle, &mut tally)?;
            self.outcome.while_recovering += 1;
        }
        let Subject { folder, history, tuning, .. } = subject;
        let place = Place { engine: self.args.engine, folder, tuning: *tuning };
        tally.add(&place.look(history, Promise::Power));
        look_at_checkpoints(place, &mut tally);
        self.outcome.after_rotation += u64::from(rotates);
        self.outcome.unlucky_after_rotation += u64::from(rotates && !tally.is_clean());
        Ok(tally)
    }

    fn cut(
        &mut self,
        subject: &mut Subject,
        style: Style,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let rng = &mut self.rng;
        let moment = match style {
            Style::Idle => Moment::idle(rng),
            Style::Rotate => {
                let then = Duration::from_micros(rng.below(SOON_US) as u64);
                Moment { after: Trigger::Rotated, then }
            }
            _ => Moment::busy(rng, self.args.engine, ACKS_MAX),
        };
        let child = ChildArgs {
            engine: self.args.engine,
            style,
            seed: subject.script.seed,
            life: rng.number(),
            tuning: subject.tuning,
            firsts: subject.history.firsts(),
            folder: subject.folder.clone(),
        };
        let flush = rng.pick(&Flush::EACH);
        let errors = self.disk.beside("errors");
        let mut done = Ok(());
        let promised = (&mut subject.history, Promise::Power);
        let ended = end_child(&child, &errors, moment, promised, || done = self.disk.cut(flush));
        done?;
        tally.failures += u64::from(ended.failed);
        self.outcome.cuts += 1;
        let (style, phase) = (style.name(), ended.phase.name());
        self.recent += &format!(" [{style}, while {phase}, flushing {flush:?}]");
        self.disk.start_again()
    }

    fn tell(&self, tally: &Tally) {
        println!("cut {}{}: {:?}", self.outcome.cuts, self.recent, tally.verdict);
        let PowerArgs { fs, engine, seed, cycles, .. } = self.args;
        let options = format!("--fs {} --seed {seed} --cycles {cycles}", fs.name());
        tell_how_to_repeat("power", *engine, &options);
    }
}
