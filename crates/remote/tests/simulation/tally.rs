//! What was seen in a run.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use siltstone_remote::{BrokerStats, HomeReason};

use crate::dice::Dice;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The worker's process ends, and starts again later, with nothing.
    Killed,
    /// It stands still beyond its lease, and goes on as if nothing had been.
    Paused,
    /// It works, and nobody hears it.
    CutOff,
    /// Thirty times as slow.
    Slow,
    /// The connection ends while the result is on its way.
    AnswerLost,
    /// The result comes much later.
    AnswerLate,
    /// The result comes twice.
    AnswerTwice,
    /// The result is not what was made.
    Forged,
    BrokerRestart,
    ClientCutOff,
}

impl Fault {
    pub(crate) fn of_attempt(dice: &mut Dice) -> Self {
        const OF_ATTEMPTS: [Fault; 8] = [
            Fault::Killed,
            Fault::Paused,
            Fault::CutOff,
            Fault::Slow,
            Fault::AnswerLost,
            Fault::AnswerLate,
            Fault::AnswerTwice,
            Fault::Forged,
        ];
        OF_ATTEMPTS[dice.roll(OF_ATTEMPTS.len() as u64) as usize]
    }

    /// Strikes while the runner works, not when it answers.
    pub(crate) fn is_of_process(self) -> bool {
        matches!(self, Fault::Killed | Fault::Paused | Fault::CutOff)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) jobs: u64,
    /// Jobs that a fault has struck.
    pub(crate) faulted: u64,
    pub(crate) attempts: u64,
    pub(crate) done: u64,
    pub(crate) home: BTreeMap<HomeReason, u64>,
    pub(crate) faults: BTreeMap<Fault, u64>,
    pub(crate) forged: u64,
    /// By brokers, by rule.
    pub(crate) refused: u64,
    /// By clients.
    pub(crate) rejected: u64,
    pub(crate) bad_installs: u64,
    pub(crate) completed_twice: u64,
    pub(crate) stuck: u64,
    pub(crate) slowest: Duration,
    /// The longest time in which nothing happened to a job.
    pub(crate) longest_still: Duration,
    pub(crate) simulated: Duration,
    pub(crate) trace: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn add_refusals(&mut self, stats: &BrokerStats) {
        self.refused += stats.refusals.values().sum::<u64>();
    }

    /// Everything that happens leaves its mark in the hash.
    pub(crate) fn trace(&mut self, at: Duration, event: &impl Debug) {
        for byte in format!("{at:?} {event:?}").bytes() {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        self.jobs += other.jobs;
        self.faulted += other.faulted;
        self.attempts += other.attempts;
        self.done += other.done;
        self.forged += other.forged;
        self.refused += other.refused;
        self.rejected += other.rejected;
        self.bad_installs += other.bad_installs;
        self.completed_twice += other.completed_twice;
        self.stuck += other.stuck;
        self.slowest = self.slowest.max(other.slowest);
        self.longest_still = self.longest_still.max(other.longest_still);
        self.simulated += other.simulated;
        for (reason, count) in &other.home {
            *self.home.entry(*reason).or_default() += count;
        }
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
    }
}
