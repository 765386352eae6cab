//! One end: a child is started, listened to until its moment has come, and ended, with or without
//! the file system below it. Both campaigns of sudden ends come here.

use std::env;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use siltstone_interop::rng::Rng;

use crate::child::ChildArgs;
use crate::history::{History, Promise};
use crate::pipe::{Heard, Message, Phase, Worker};
use crate::store::Engine;

/// Who says nothing for so long hangs.
pub(crate) const HANG: Duration = Duration::from_secs(20);

/// When the end comes: so long after an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) after: Trigger,
    pub(crate) then: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    Start,
    Acks(u64),
    Phase(Phase),
    /// So many compactions have begun.
    Compactions(u64),
    /// See [`Message::Rotated`].
    Rotated,
}

impl Moment {
    /// While a process only opens and closes.
    pub(crate) fn idle(rng: &mut Rng) -> Moment {
        let after = match rng.below(10) {
            0..4 => Trigger::Start,
            4..8 => Trigger::Phase(Phase::Opening),
            _ => Trigger::Phase(Phase::Closing),
        };
        Moment::some_time(after, rng)
    }

    pub(crate) fn busy(rng: &mut Rng, engine: Engine, acks_max: u64) -> Moment {
        let after = match rng.below(10) {
            0 | 1 => Trigger::Start,
            // LevelDB does not tell of compactions.
            2 | 3 if engine == Engine::Siltstone => Trigger::Compactions(1 + rng.below(12) as u64),
            2..6 => Trigger::Acks(log_uniform(rng, acks_max)),
            _ => Trigger::Phase(rng.pick(&Phase::ALL)),
        };
        Moment::some_time(after, rng)
    }

    /// Soon after.
    pub(crate) fn some_time(after: Trigger, rng: &mut Rng) -> Moment {
        let limit_us = if after == Trigger::Start { 60_000 } else { 4_000 };
        Moment { after, then: Duration::from_micros(log_uniform(rng, limit_us)) }
    }
}

/// A number below `limit`, each order of magnitude as likely as the others.
fn log_uniform(rng: &mut Rng, limit: u64) -> u64 {
    let bits = rng.below(limit.ilog2() as usize + 1);
    ((1 << bits) + rng.below(1 << bits) as u64 - 1).min(limit)
}

/// What was seen of a child.
pub(crate) struct Ended {
    /// It failed, or hung, before its end.
    pub(crate) failed: bool,
    /// What it was about.
    pub(crate) phase: Phase,
    pub(crate) compacting: bool,
}

/// Starts a process, lets it work until the moment, does `end`, and kills it. `errors` is a file
/// for what it complains of.
pub(crate) fn end_child(
    child: &ChildArgs,
    errors: &Path,
    moment: Moment,
    (history, promise): (&mut History, Promise),
    end: impl FnOnce(),
) -> Ended {
    let mut worker = Worker::start(&mut command(child, errors));
    let mut watch = Watch::new(moment);
    let mut failed = loop {
        match worker.listen(watch.deadline) {
            Heard::Messages(messages) => watch.note_all(&messages, history),
            Heard::Silence => break !watch.is_due,
            Heard::End => break true,
        }
        if watch.is_broken || (watch.is_due && Instant::now() >= watch.deadline) {
            break watch.is_broken;
        }
    };
    // What is in the pipe by now was true before the end. One read takes all that a pipe holds.
    if let Heard::Messages(messages) = worker.listen(Instant::now()) {
        watch.note_all(&messages, history);
    }
    end();
    worker.kill();
    while let Heard::Messages(mut messages) = worker.listen(Instant::now() + HANG) {
        if promise == Promise::Power {
            messages.retain(is_true_without_power);
        }
        watch.note_all(&messages, history);
    }
    worker.wait();
    failed |= watch.is_broken;
    if failed {
        println!("a process failed, or did nothing more, waiting for {moment:?}");
        println!("{}", fs::read_to_string(errors).unwrap_or_default());
    }
    Ended { failed, phase: watch.phase, compacting: watch.compactions_running > 0 }
}

/// Without a disk all fails, and what a failure leaves nobody knows. Nor does a success count: ext4
/// lets a sync succeed that meets the shutdown half way, and then drops what was synced.
fn is_true_without_power(message: &Message) -> bool {
    !matches!(message, Message::Acked { .. } | Message::Failed { .. } | Message::Broken)
}

/// For our own engine: LevelDB's faults are known.
pub(crate) fn tell_how_to_repeat(campaign: &str, engine: Engine, options: &str) {
    if engine == Engine::Siltstone {
        println!(
            "to see it again, as far as timing allows: cargo run -p siltstone-interop --bin survive \
             -- {campaign} {options}"
        );
    }
}

/// This program again, as the child; what it complains of goes to the file `errors`. Without the
/// signal that ends a process whose file is over its limit.
pub(crate) fn command(child: &ChildArgs, errors: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"trap "" XFSZ; exec "$0" child "$@""#]);
    command.arg(env::current_exe().expect("a process knows its program"));
    let firsts: Vec<String> = child.firsts.iter().map(u64::to_string).collect();
    command
        .args(["--engine", child.engine.name()])
        .args(["--style", child.style.name()])
        .args(["--seed", &child.seed.to_string()])
        .args(["--life", &child.life.to_string()])
        .args(["--tuning", &child.tuning.0.to_string()])
        .args(["--firsts", &firsts.join(",")])
        .arg(&child.folder);
    let errors = File::create(errors).expect("a file of complaints can be made");
    command.stderr(Stdio::from(errors));
    // The terminal's interruptions are for the parent alone.
    command.process_group(0);
    command
}

/// Waits for the moment, message by message.
struct Watch {
    moment: Moment,
    deadline: Instant,
    /// The event has come, and the deadline is the end.
    is_due: bool,
    is_broken: bool,
    acks: u64,
    compactions: u64,
    compactions_running: i64,
    phase: Phase,
}

impl Watch {
    fn new(moment: Moment) -> Watch {
        let mut watch = Watch {
            moment,
            deadline: Instant::now() + HANG,
            is_due: false,
            is_broken: false,
            acks: 0,
            compactions: 0,
            compactions_running: 0,
            phase: Phase::Opening,
        };
        watch.arm_if(moment.after == Trigger::Start);
        watch
    }

    fn note_all(&mut self, messages: &[Message], history: &mut History) {
        for message in messages {
            history.note(*message);
            match message {
                Message::Acked { .. } => self.acks += 1,
                Message::Phase(phase) => self.phase = *phase,
                Message::Compaction { begins: true } => {
                    self.compactions += 1;
                    self.compactions_running += 1;
                }
                Message::Compaction { begins: false } => self.compactions_running -= 1,
                Message::Failed { .. } | Message::Broken => self.is_broken = true,
                _ => {}
            }
            let has_come = match self.moment.after {
                Trigger::Start => false,
                Trigger::Acks(acks) => self.acks >= acks,
                Trigger::Phase(phase) => *message == Message::Phase(phase),
                Trigger::Compactions(count) => self.compactions >= count,
                Trigger::Rotated => *message == Message::Rotated,
            };
            self.arm_if(has_come);
        }
        if !self.is_due {
            // It is alive, and has not got there yet.
            self.deadline = Instant::now() + HANG;
        }
    }

    fn arm_if(&mut self, has_come: bool) {
        if has_come && !self.is_due {
            self.is_due = true;
            self.deadline = Instant::now() + self.moment.then;
        }
    }
}
