//! The process that gets killed: it opens the database, writes what the script says, cares for it,
//! closes, and begins again, until its end. It is this program, started once more.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{process, thread};

use clap::{Args, ValueEnum};
use siltstone_interop::candid::{Candid, Result};
use siltstone_interop::peer::{Change, Durability};
use siltstone_interop::rng::Rng;
use siltstone_interop::scratch;

use crate::pipe::{Message, Phase, Voice};
use crate::script::{Script, letter};
use crate::store::{Engine, Tuning};

/// What the child is told by its command line.
#[derive(Args, Clone, Debug)]
pub(crate) struct ChildArgs {
    #[arg(long)]
    pub(crate) engine: Engine,
    #[arg(long)]
    pub(crate) style: Style,
    /// Of the script.
    #[arg(long)]
    pub(crate) seed: u64,
    /// Of what is not in the script: how often it syncs, how long until it closes.
    #[arg(long)]
    pub(crate) life: u64,
    #[arg(long)]
    pub(crate) tuning: Tuning,
    /// The first batch of each writer.
    #[arg(long, value_delimiter = ',')]
    pub(crate) firsts: Vec<u64>,
    pub(crate) folder: PathBuf,
}

/// What the child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    /// Open and close, without a write.
    Idle,
    /// Write, flush, compact, make checkpoints; close and open again.
    Mixed,
    /// Write on after failures, reading in between.
    Stubborn,
    /// One writer, and no sync until a log has been replaced. Then one synced write, and rest.
    Rotate,
}

impl Style {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Style::Idle => "idle",
            Style::Mixed => "mixed",
            Style::Stubborn => "stubborn",
            Style::Rotate => "rotate",
        }
    }
}

/// So many of the last acknowledged batches are read after a failure.
const READ_BACK: usize = 50;
/// Once in so many batches the first writer does something else first.
const CHORE_EVERY: usize = 400;

pub(crate) fn run(args: &ChildArgs) -> ! {
    // The parent's end is ours: it holds the other end of the input.
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        process::exit(0);
    });
    let mut rng = Rng::new(args.life);
    let work = Work {
        args,
        script: Script { seed: args.seed },
        voice: Arc::new(Voice::new()),
        sync_every: rng.pick(&[2, 10, 50, 400]),
        failed: AtomicBool::new(false),
    };
    let mut numbers = args.firsts.clone();
    while !work.failed.load(Ordering::Relaxed) {
        if let Err(error) = work.session(&mut numbers, &mut rng) {
            work.give_up(&error);
        }
    }
    rest()
}

fn rest() -> ! {
    loop {
        thread::park();
    }
}

struct Work<'a> {
    args: &'a ChildArgs,
    script: Script,
    voice: Arc<Voice>,
    /// A batch is synced once in so many, on average.
    sync_every: usize,
    /// Set once a write has failed. Only a hint to stop: nothing else is read by it.
    failed: AtomicBool,
}

impl Work<'_> {
    /// From one opening to the closing.
    fn session(&self, numbers: &mut [u64], rng: &mut Rng) -> Result<()> {
        let ChildArgs { engine, folder, tuning, .. } = self.args;
        self.voice.say(Message::Phase(Phase::Opening));
        let db = engine.open_telling(folder, *tuning, &self.voice)?;
        self.voice.say(Message::Phase(Phase::Writing));
        match self.args.style {
            Style::Idle => {}
            Style::Mixed => {
                // Many sessions are short, so that many are closed.
                let batches = 1 << rng.below(13);
                thread::scope(|scope| {
                    for (writer, next) in numbers.iter_mut().enumerate() {
                        let db = &db;
                        scope.spawn(move || self.write_some(db, writer, next, batches));
                    }
                });
            }
            Style::Stubborn => thread::scope(|scope| {
                for (writer, first) in numbers.iter().enumerate() {
                    let db = &db;
                    scope.spawn(move || self.write_on(db, writer, *first));
                }
            }),
            Style::Rotate => self.write_past_rotation(&db, &mut numbers[0], rng)?,
        }
        self.voice.say(Message::Phase(Phase::Closing));
        db.close()
    }

    fn write_some(&self, db: &Candid, writer: usize, next: &mut u64, batches: u64) {
        for number in *next..*next + batches {
            let mut dice = self.script.dice(writer, number ^ self.args.life);
            if writer == 0
                && dice.one_in(CHORE_EVERY)
                && let Err(error) = self.chore(db, number, &mut dice)
            {
                return self.give_up(&error);
            }
            if !self.write(db, writer, number, dice.one_in(self.sync_every)) {
                return;
            }
            *next = number + 1;
            if self.failed.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// For ever.
    fn write_on(&self, db: &Candid, writer: usize, first: u64) {
        let mut acked = VecDeque::new();
        for number in first.. {
            let synced = self.script.dice(writer, number ^ self.args.life).one_in(self.sync_every);
            if self.try_write(db, writer, number, synced).is_ok() {
                acked.push_back(number);
                if acked.len() > READ_BACK {
                    acked.pop_front();
                }
            } else {
                self.read_back(db, writer, &acked);
                // Trouble is told so much faster than it ends.
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Reads what was acknowledged, by its batch's own key.
    fn read_back(&self, db: &Candid, writer: usize, acked: &VecDeque<u64>) {
        let (mut right, mut wrong, mut failed) = (0, 0, 0);
        for number in acked {
            let changes = self.script.batch(writer, *number);
            let Some(Change::Put(key, value)) = changes.first() else {
                unreachable!("a batch puts its own key first");
            };
            match db.get(key) {
                Ok(Some(found)) if found == *value => right += 1,
                Ok(_) => wrong += 1,
                Err(_) => failed += 1,
            }
        }
        self.voice.say(Message::Read { right });
        if wrong > 0 {
            self.voice.say(Message::Misread { wrong });
        }
        if failed > 0 {
            self.voice.say(Message::Unread { failed });
        }
    }

    /// Writes one batch; false, and nothing more, after a failure.
    fn write(&self, db: &Candid, writer: usize, number: u64, synced: bool) -> bool {
        let written = self.try_write(db, writer, number, synced);
        written.inspect_err(|error| self.give_up(error)).is_ok()
    }

    /// Writes one batch, and tells of it before and after.
    fn try_write(&self, db: &Candid, writer: usize, number: u64, synced: bool) -> Result<()> {
        let changes = self.script.batch(writer, number);
        let durability = if synced { Durability::Synced } else { Durability::Buffered };
        let writer = writer as u8;
        self.voice.say(Message::Begun { writer, number, synced });
        let written = db.write(&changes, durability);
        self.voice.say(match written {
            Ok(()) => Message::Acked { writer, number },
            Err(_) => Message::Failed { writer, number },
        });
        written
    }

    /// Something other than writing.
    fn chore(&self, db: &Candid, number: u64, dice: &mut Rng) -> Result<()> {
        let phase = dice.pick(&[Phase::Flushing, Phase::Compacting, Phase::Checkpoint]);
        self.voice.say(Message::Phase(phase));
        match (phase, db) {
            (Phase::Flushing, Candid::Siltstone(db)) => {
                db.flush().map_err(|error| error.to_string())?;
            }
            (Phase::Checkpoint, Candid::Siltstone(db)) => {
                let place = self.args.folder.with_file_name(format!("checkpoint-{number}"));
                db.checkpoint(place).map_err(|error| error.to_string())?;
            }
            (Phase::Compacting, _) => {
                let first = letter(dice.below(self.args.firsts.len()));
                db.compact(&[first], &[first + dice.below(2) as u8])?;
            }
            // LevelDB has neither.
            _ => {}
        }
        self.voice.say(Message::Phase(Phase::Writing));
        Ok(())
    }

    /// The case in which LevelDB loses what came before: the old log is not synced when the new
    /// one is.
    fn write_past_rotation(&self, db: &Candid, next: &mut u64, rng: &mut Rng) -> Result<()> {
        let newest = || scratch::wals(&self.args.folder).pop();
        let mut rotations = 1 + rng.below(3);
        let mut log = newest();
        while self.write(db, 0, *next, false) {
            *next += 1;
            let now = newest();
            if now != log {
                log = now;
                rotations -= 1;
            }
            if rotations == 0 {
                if self.write(db, 0, *next, true) {
                    self.voice.say(Message::Rotated);
                }
                rest();
            }
        }
        Ok(())
    }

    /// Says what is wrong. What it means is for the parent to say, who knows whether the power
    /// had gone.
    fn give_up(&self, error: &str) {
        if !self.failed.swap(true, Ordering::Relaxed) {
            self.voice.say(Message::Broken);
            // For people; nobody reads it but them, and it may be closed.
            let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("child: {error}\n"));
        }
    }
}
