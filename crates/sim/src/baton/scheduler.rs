//! Who runs next: decided at every step from a seed, so that a schedule is a function of its seed
//! alone.
//!
//! Bugs differ in what brings them out, so seeds differ in how they choose: evenly among all that
//! may run; staying with one thread for a while; or by priorities that change at a few points (PCT,
//! Burckhardt et al., ASPLOS 2010), which finds what needs few but exact preemptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

use crate::Dice;

/// The schedule that runs, and all that happened in it as one number. Shared by the scheduler, the
/// scenario and the hook that reports a panic.
#[derive(Default)]
pub(super) struct Trace {
    seed: AtomicU64,
    hash: AtomicU64,
    pub(super) steps: AtomicU64,
    pub(super) schedules: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) differed: AtomicU64,
}

impl Trace {
    pub(super) fn seed(&self) -> u64 {
        self.seed.load(Relaxed)
    }

    /// Takes a fact into the schedule's hash.
    pub(super) fn note(&self, fact: u64) {
        let mixed = (self.hash.load(Relaxed) ^ fact).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash.store(mixed ^ (mixed >> 29), Relaxed);
    }

    fn begin(&self, seed: u64) {
        self.seed.store(seed, Relaxed);
        self.hash.store(0, Relaxed);
    }
}

/// Of every so many schedules, the first is run again, to see that it is the same.
pub(super) const REPEAT_EVERY: u64 = 20;

/// Runs the schedules of the seeds from `next` to `end`.
pub(super) struct Baton {
    trace: Arc<Trace>,
    first: u64,
    next: u64,
    end: u64,
    /// The seed that runs again, and the hash of its first run.
    repeat: Option<(u64, u64)>,
    running: Option<u64>,
    dice: Dice,
    choice: Choice,
}

impl Baton {
    pub(super) fn new(trace: Arc<Trace>, first: u64, schedules: u64) -> Self {
        Baton {
            trace,
            first,
            next: first,
            end: first + schedules,
            repeat: None,
            running: None,
            dice: dice_of(0),
            choice: Choice::Even,
        }
    }

    /// Looks back at the run that has ended, and says which seed is next.
    fn next_seed(&mut self) -> Option<u64> {
        if let Some(seed) = self.running.take() {
            let hash = self.trace.hash.load(Relaxed);
            match self.repeat.take() {
                Some((_, first)) => {
                    self.trace.repeated.fetch_add(1, Relaxed);
                    if first != hash {
                        self.trace.differed.fetch_add(1, Relaxed);
                        eprintln!("seed {seed} did not do the same again");
                    }
                }
                None => {
                    self.trace.schedules.fetch_add(1, Relaxed);
                    if (seed - self.first).is_multiple_of(REPEAT_EVERY) {
                        self.repeat = Some((seed, hash));
                        return Some(seed);
                    }
                }
            }
        }
        let seed = self.next;
        self.next += 1;
        (seed < self.end).then_some(seed)
    }
}

/// Neighbouring seeds have little in common.
pub(super) fn dice_of(seed: u64) -> Dice {
    let mut mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Dice::new((mixed ^ (mixed >> 31)) | 1)
}

impl Scheduler for Baton {
    fn new_execution(&mut self) -> Option<Schedule> {
        let seed = self.next_seed()?;
        self.running = Some(seed);
        self.trace.begin(seed);
        self.dice = dice_of(seed);
        self.choice = Choice::draw(&mut self.dice);
        Some(Schedule::new(seed))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let ids = || runnable.iter().map(|task| usize::from(task.id()));
        let current = current.map(usize::from);
        let chosen = if runnable.len() == 1 {
            usize::from(runnable[0].id())
        } else {
            self.choice.choose(&mut self.dice, ids(), current, is_yielding)
        };
        self.trace.steps.fetch_add(1, Relaxed);
        self.trace.note(chosen as u64);
        Some(TaskId::from(chosen))
    }

    fn next_u64(&mut self) -> u64 {
        self.dice.roll(u64::MAX)
    }
}

enum Choice {
    /// Each that may run has the same chance.
    Even,
    /// The one that runs goes on, but for one step in so many.
    Sticky(u64),
    Priorities(Priorities),
}

/// The highest goes first. At the points of change, and when it yields, the one that runs falls
/// behind all others.
struct Priorities {
    of_task: Vec<u64>,
    /// Steps from the beginning, descending.
    changes: Vec<u64>,
    step: u64,
    lowest: u64,
}

impl Choice {
    fn draw(dice: &mut Dice) -> Self {
        match dice.roll(4) {
            0 => Choice::Even,
            1 => Choice::Sticky(2 << dice.roll(6)),
            _ => {
                // How long a schedule is cannot be known, so the guess is drawn, too.
                let length = 64 << dice.roll(8);
                let mut changes: Vec<u64> = (0..dice.roll(6)).map(|_| dice.roll(length)).collect();
                changes.sort_unstable_by(|a, b| b.cmp(a));
                let lowest = 1 << 32;
                Choice::Priorities(Priorities { of_task: Vec::new(), changes, step: 0, lowest })
            }
        }
    }

    fn choose(
        &mut self,
        dice: &mut Dice,
        ids: impl ExactSizeIterator<Item = usize> + Clone,
        current: Option<usize>,
        is_yielding: bool,
    ) -> usize {
        match self {
            Choice::Even => even(dice, ids),
            Choice::Sticky(one_in) => {
                let stays = current.filter(|now| !is_yielding && ids.clone().any(|id| id == *now));
                match stays {
                    Some(now) if dice.roll(*one_in) > 0 => now,
                    _ => even(dice, ids),
                }
            }
            Choice::Priorities(priorities) => priorities.choose(dice, ids, current, is_yielding),
        }
    }
}

fn even(dice: &mut Dice, mut ids: impl ExactSizeIterator<Item = usize>) -> usize {
    let at = dice.roll(ids.len() as u64) as usize;
    ids.nth(at).expect("a roll is below the number of tasks")
}

impl Priorities {
    fn choose(
        &mut self,
        dice: &mut Dice,
        ids: impl Iterator<Item = usize> + Clone,
        current: Option<usize>,
        is_yielding: bool,
    ) -> usize {
        let tasks = ids.clone().max().map_or(0, |last| last + 1).max(self.of_task.len());
        while self.of_task.len() < tasks {
            self.of_task.push((1 << 32) + 1 + dice.roll(1 << 30));
        }
        let change = self.changes.last().is_some_and(|at| *at <= self.step);
        if change {
            self.changes.pop();
        }
        if (change || is_yielding)
            && let Some(now) = current.and_then(|now| self.of_task.get_mut(now))
        {
            self.lowest -= 1;
            *now = self.lowest;
        }
        self.step += 1;
        ids.max_by_key(|id| self.of_task[*id]).expect("some task may run")
    }
}
