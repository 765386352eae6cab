//! Takes from a process at work what it needs, and gives it back: the space on its disk, the right to
//! make files longer, the right to open more of them. It writes on, failing or not; reads go on; what
//! was acknowledged stays; and with the want over, writes succeed again without a reopen. See
//! `survive full`.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use siltstone_interop::rng::Rng;
use siltstone_interop::scratch::Scratch;
use siltstone_sim::Report;
use siltstone_sim::report::Goal;

use crate::check::{Place, Tally};
use crate::child::{ChildArgs, Style};
use crate::disk::Disk;
use crate::ear::{Ear, Told};
use crate::ending::{command, tell_how_to_repeat};
use crate::history::{History, Promise};
use crate::kill::fast_place;
use crate::pipe::Worker;
use crate::script::{Script, WRITERS_MAX};
use crate::store::{Engine, Tuning};

/// What the database has to itself before the rest is taken.
const DISK_BYTES: u64 = 32 << 20;
/// A database sees so many wants, then a fresh one begins.
const LIVES_MAX: u64 = 5;
/// The want lasts until so many writes have failed, or so long.
const FAILURES: u64 = 20;
const WANT_MAX: Duration = Duration::from_secs(2);
/// Afterwards so many writes must succeed within so long.
const RESUMED: u64 = 300;
const PATIENCE: Duration = Duration::from_secs(10);
/// Or they do not: after so many more failures nobody waits on.
const HOPELESS: u64 = 1000;

#[derive(Args, Clone, Debug)]
pub(crate) struct FullArgs {
    /// How many times each of the three wants comes
    #[arg(long, default_value_t = 20)]
    rounds: u64,
    #[arg(long, default_value = "siltstone")]
    pub(crate) engine: Engine,
    /// Fixes what is written and which want comes when; not what the threads have done by then
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// ENOSPC: another file fills the disk.
    Space,
    /// EFBIG: files may not grow beyond a limit.
    FileSize,
    /// EMFILE: no more files may be opened.
    Descriptors,
}

impl Want {
    fn name(self) -> &'static str {
        match self {
            Want::Space => "space",
            Want::FileSize => "file-size",
            Want::Descriptors => "descriptors",
        }
    }
}

#[derive(Default)]
struct Outcome {
    tally: Tally,
    wants: u64,
    failed_writes: u64,
    /// Processes that said nothing for long.
    hangs: u64,
    not_resumed: u64,
    right_reads: u64,
    wrong_reads: u64,
    failed_reads: u64,
}

pub(crate) fn run(args: &FullArgs, interrupted: &AtomicBool) -> ExitCode {
    println!("full --seed {} --rounds {} --engine {}", args.seed, args.rounds, args.engine.name());
    let mut passed = true;
    for want in [Want::Space, Want::FileSize, Want::Descriptors] {
        match Campaign::new(args, want) {
            Ok(campaign) => passed &= campaign.run(interrupted),
            Err(reason) => println!("SKIPPED (want of {}: {reason})", want.name()),
        }
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Campaign<'a> {
    args: &'a FullArgs,
    want: Want,
    rng: Rng,
    /// For the want of space.
    disk: Option<Disk>,
    scratch: Scratch,
    outcome: Outcome,
}

/// A database, and what is known of it.
struct Subject {
    folder: PathBuf,
    script: Script,
    history: History,
    tuning: Tuning,
}

impl<'a> Campaign<'a> {
    fn new(args: &'a FullArgs, want: Want) -> Result<Campaign<'a>, String> {
        let disk = match want {
            Want::Space => Some(Disk::in_memory(DISK_BYTES, &fast_place())?),
            Want::FileSize | Want::Descriptors => None,
        };
        Ok(Campaign {
            args,
            want,
            rng: Rng::new(args.seed),
            disk,
            scratch: Scratch::below(&fast_place(), "full"),
            outcome: Outcome::default(),
        })
    }

    fn run(mut self, interrupted: &AtomicBool) -> bool {
        let began = Instant::now();
        let more = |outcome: &Outcome| {
            outcome.wants < self.args.rounds && !interrupted.load(Ordering::Relaxed)
        };
        while more(&self.outcome) {
            let mut subject = self.fresh();
            for _ in 0..LIVES_MAX {
                let clean = self.life(&mut subject);
                if !clean || !more(&self.outcome) {
                    break;
                }
            }
            // Space is short, and not for being full of what is over.
            let _ = fs::remove_dir_all(subject.folder);
        }
        let report = self.report(began.elapsed());
        report.print() == ExitCode::SUCCESS
    }

    fn fresh(&mut self) -> Subject {
        let root = self.disk.as_ref().map_or(self.scratch.path(), Disk::path);
        let folder = root.join("db");
        let script = Script { seed: self.rng.number() };
        Subject {
            folder,
            script,
            history: History::new(script, 1 + self.rng.below(WRITERS_MAX)),
            tuning: Tuning(self.rng.number()),
        }
    }

    /// A process at work that comes to want, and gets out of it or not; its end, and a look.
    fn life(&mut self, subject: &mut Subject) -> bool {
        let child = ChildArgs {
            engine: self.args.engine,
            style: Style::Stubborn,
            seed: subject.script.seed,
            life: self.rng.number(),
            tuning: subject.tuning,
            firsts: subject.history.firsts(),
            folder: subject.folder.clone(),
        };
        let errors = self.scratch.join("errors");
        let mut ear = Ear::new(Worker::start(&mut command(&child, &errors)), &mut subject.history);
        let mut tally = Tally::default();
        let acks = 200 + self.rng.below(3000) as u64;
        tally.failures += u64::from(!ear.listen(PATIENCE, |heard| heard.acks >= acks));

        let eased = self.impose(ear.worker.pid());
        ear.heard = Told::default();
        let told = ear.listen(WANT_MAX, |heard| heard.failures >= FAILURES);
        self.outcome.hangs += u64::from(!told && ear.heard.acks + ear.heard.failures == 0);
        let dies_in_want = self.rng.one_in(3);
        if !dies_in_want {
            self.ease(ear.worker.pid(), eased);
            let (acks, failures) = (ear.heard.acks + RESUMED, ear.heard.failures + HOPELESS);
            ear.listen(PATIENCE, |heard| heard.acks >= acks || heard.failures >= failures);
            self.outcome.not_resumed += u64::from(ear.heard.acks < acks);
        }
        ear.worker.kill();
        ear.listen(PATIENCE, |_| false);
        self.note(&ear.heard);
        drop(ear);
        self.remove_ballast();

        let Subject { folder, history, tuning, .. } = subject;
        let place = Place { engine: self.args.engine, folder, tuning: *tuning };
        tally.add(&place.look(history, Promise::Process));
        if !tally.is_clean() {
            println!("{}", fs::read_to_string(errors).unwrap_or_default());
            println!("round {} of {}: {tally:?}", self.outcome.wants, self.want.name());
            let Campaign { args, .. } = self;
            tell_how_to_repeat(
                "full",
                args.engine,
                &format!("--seed {} --rounds {}", args.seed, args.rounds),
            );
        }
        self.outcome.tally.add(&tally);
        tally.is_clean()
    }

    fn note(&mut self, heard: &Told) {
        self.outcome.wants += 1;
        self.outcome.failed_writes += heard.failures;
        self.outcome.right_reads += heard.right;
        self.outcome.wrong_reads += heard.wrong;
        self.outcome.failed_reads += heard.unread;
    }

    /// Takes it away. Returns the limits as they were.
    fn impose(&mut self, pid: Pid) -> Option<(Resource, Rlimit)> {
        let (resource, current) = match self.want {
            Want::Space => {
                self.fill_disk();
                return None;
            }
            // Less than a log gets to before the next one begins.
            Want::FileSize => (Resource::Fsize, 1 + self.rng.below(60_000) as u64),
            Want::Descriptors => {
                let fds = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
                let open = fds.expect("the process lives").count() as u64;
                (Resource::Nofile, open + self.rng.below(3) as u64)
            }
        };
        // The child's hard limit is ours.
        let limit = Rlimit { current: Some(current), ..getrlimit(resource) };
        let before = prlimit(Some(pid), resource, limit).expect("a child may be limited");
        Some((resource, before))
    }

    fn ease(&self, pid: Pid, before: Option<(Resource, Rlimit)>) {
        if let Some((resource, limit)) = before {
            prlimit(Some(pid), resource, limit).expect("what was may be again");
        }
        self.remove_ballast();
    }

    /// Fills the disk but for a random rest of a few pages.
    fn fill_disk(&mut self) {
        let mut file = File::create(self.ballast()).expect("a name costs nothing");
        let mut filled = 0;
        while let Ok(written) = file.write(&[0; 4096]) {
            filled += written as u64;
        }
        let rest = self.rng.below(200_000) as u64;
        file.set_len(filled.saturating_sub(rest)).expect("a file can be cut");
    }

    fn remove_ballast(&self) {
        // It is there for one of the three wants, and only until it is over.
        let _ = fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.disk.as_ref().map_or(self.scratch.path(), Disk::path).join("ballast")
    }

    fn report(&self, elapsed: Duration) -> Report {
        let Outcome { tally, wants, failed_writes, hangs, .. } = &self.outcome;
        let Outcome { not_resumed, right_reads, wrong_reads, failed_reads, .. } = &self.outcome;
        let ours = |goal| if self.args.engine == Engine::Siltstone { goal } else { Goal::None };
        let never = ours(Goal::AtMost(0));
        // Without descriptors a table that is not open cannot be read, and a folder cannot be
        // synced: that ends writing, and what it was for may show.
        let spared = if self.want == Want::Descriptors { Goal::None } else { never };
        let mut report =
            Report::new(&format!("full-{}-{}", self.want.name(), self.args.engine.name()));
        report
            .figure("times in want", *wants, Goal::AtLeast(self.args.rounds))
            .figure("failed writes", *failed_writes, ours(Goal::AtLeast(self.args.rounds)))
            .figure("times nothing was heard", *hangs, never)
            .figure("times writes did not resume", *not_resumed, spared)
            .figure("right reads in want", *right_reads, Goal::None)
            .figure("wrong reads in want", *wrong_reads, never)
            .figure("failed reads in want", *failed_reads, spared)
            .figure("failed writes that show", tally.verdict.shown, spared);
        tally.add_to(&mut report, self.args.engine);
        report.figure("seconds", elapsed.as_secs(), Goal::None);
        report
    }
}
