//! Virtual time, and who runs in it. One actor runs at a time, in a thread of its own; when it waits, whoever is due next
//! goes on. What takes effect without anybody waiting for it (a put that is late) is an event, too.
//!
//! I1: everything that is decided by chance comes from one seed, in the order of virtual time: same seed, same trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{Hash, Hasher};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use siltstone_cloud::{Bucket, BucketError, Call, Condition, MemoryBucket, Purpose, Tag, Token};

use super::cheat::Mutant;
use super::fate::{Tally, Weather};
use super::ledger::Ledger;
use crate::Dice;
use crate::hash::Mixer;

/// Some moment in 2023.
const START_MS: u64 = 1_700_000_000_000;

/// What changes the bucket.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    Put(String, Bytes, Option<Option<String>>),
    Delete(Vec<String>),
}

impl Effect {
    pub(super) fn put(name: &str, body: Bytes, when: &Condition) -> Self {
        let when = match when {
            Condition::Always => None,
            Condition::Absent => Some(None),
            Condition::Tagged(tag) => Some(Some(tag.0.clone())),
        };
        Effect::Put(name.to_owned(), body, when)
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Wake(usize),
    Late(Effect),
}

/// Due at a time; those of the same time in the order in which they were asked for.
type Due = Reverse<(u64, u64, What)>;

pub(super) struct Stage {
    state: Mutex<State>,
    seats: Vec<Condvar>,
    pub(super) memory: MemoryBucket,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) mutant: Option<Mutant>,
    pub(super) rules: Rules,
}

/// What a seed has chosen for its world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) horizon: Duration,
    pub(super) age_min: Duration,
    pub(super) lease: Duration,
    pub(super) snapshot_every: u64,
}

pub(super) struct State {
    /// Microseconds.
    now: u64,
    asked: u64,
    queue: BinaryHeap<Due>,
    running: Option<usize>,
    pub(super) dice: Dice,
    hash: Mixer,
    pub(super) weather: Weather,
    pub(super) tally: Tally,
}

impl Stage {
    pub(super) fn new(seed: u64, actors: usize, mutant: Option<Mutant>) -> Self {
        let mut dice = Dice::new(Mixer::of(&seed.to_le_bytes()) | 1);
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let horizon = minutes(240 + dice.roll(240));
        let rules = Rules {
            horizon,
            age_min: minutes([5, 10, 20, 40][dice.roll(4) as usize]),
            lease: minutes(1 + dice.roll(10)),
            snapshot_every: 3 + dice.roll(12),
        };
        let weather = Weather::forecast(&mut dice, &rules);
        let (queue, tally, hash) = (BinaryHeap::new(), Tally::default(), Mixer::default());
        let state = State { now: 0, asked: 0, queue, running: None, dice, hash, weather, tally };
        Stage {
            state: Mutex::new(state),
            seats: (0..actors).map(|_| Condvar::new()).collect(),
            memory: MemoryBucket::new(),
            ledger: Mutex::new(Ledger::new(rules.age_min)),
            mutant,
            rules,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_micros(self.lock().now)
    }

    /// True once actors should come to their ends.
    pub(super) fn is_over(&self) -> bool {
        self.now() >= self.rules.horizon || self.ledger().has_violations()
    }

    /// A number below `sides`.
    pub(super) fn roll(&self, sides: u64) -> u64 {
        self.lock().dice.roll(sides)
    }

    pub(super) fn token(&self) -> Token {
        let mut state = self.lock();
        Token((0..4).fold(0, |token, _| token << 31 | u128::from(state.dice.roll(1 << 31))))
    }

    pub(super) fn trace_hash(&self) -> u64 {
        self.lock().hash.finish()
    }

    /// Lets the first actor begin. All of them have been started.
    pub(super) fn begin(&self, actors: usize) {
        let mut state = self.lock();
        for actor in 0..actors {
            let at = state.dice.roll(60_000_000);
            state.ask(at, What::Wake(actor));
        }
        self.hand_on(&mut state);
    }

    /// Waits until it is this actor's turn.
    pub(super) fn take_seat(&self, me: usize) {
        let state = self.lock();
        let turn = |state: &mut State| state.running != Some(me);
        drop(self.seats[me].wait_while(state, turn));
    }

    /// This actor is done.
    pub(super) fn leave(&self) {
        let mut state = self.lock();
        self.hand_on(&mut state);
    }

    /// Lets time pass for an actor.
    pub(super) fn sleep(&self, me: usize, time: Duration) {
        let mut state = self.lock();
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX >> 1);
        let at = state.now + micros;
        state.ask(at, What::Wake(me));
        self.hand_on(&mut state);
        if state.running != Some(me) {
            let turn = |state: &mut State| state.running != Some(me);
            drop(self.seats[me].wait_while(state, turn));
        }
    }

    /// Something takes effect later.
    pub(super) fn late(&self, after: Duration, effect: Effect) {
        let mut state = self.lock();
        let at = state.now + after.as_micros() as u64;
        state.ask(at, What::Late(effect));
    }

    /// What is late comes now. Nobody else runs.
    pub(super) fn drain(&self) {
        let mut state = self.lock();
        self.hand_on(&mut state);
    }

    fn hand_on(&self, state: &mut State) {
        state.running = None;
        while let Some(Reverse((at, _, what))) = state.queue.pop() {
            state.now = state.now.max(at);
            match what {
                What::Late(effect) => drop(self.take_effect(state, &effect)),
                What::Wake(actor) => {
                    state.running = Some(actor);
                    self.seats[actor].notify_one();
                    return;
                }
            }
        }
    }

    /// Changes the bucket, and tells the ledger.
    pub(super) fn take_effect(
        &self,
        state: &mut State,
        effect: &Effect,
    ) -> Result<Tag, BucketError> {
        let now = Duration::from_micros(state.now);
        self.memory.set_now_ms(START_MS + state.now / 1000);
        let call = Call::new(Purpose::Tool);
        let done = match effect {
            Effect::Put(name, body, when) => {
                let when = match when.clone() {
                    None => Condition::Always,
                    Some(None) => Condition::Absent,
                    Some(Some(tag)) => Condition::Tagged(Tag(tag)),
                };
                let done = self.memory.put(name, body.clone(), when, call);
                if done.is_ok() {
                    self.ledger().note_put(&self.memory, now, name, body);
                }
                done
            }
            Effect::Delete(names) => {
                self.ledger().note_delete(now, names);
                self.memory.delete(names, call).map(|()| Tag(String::new()))
            }
        };
        state.note(&(effect_text(effect), done.is_ok()));
        done
    }
}

fn effect_text(effect: &Effect) -> (&[String], &str, &[u8]) {
    match effect {
        Effect::Put(name, body, _) => (&[], name, body),
        Effect::Delete(names) => (names, "", &[]),
    }
}

impl State {
    fn ask(&mut self, at: u64, what: What) {
        self.asked += 1;
        self.queue.push(Reverse((at, self.asked, what)));
    }

    /// Takes something into the trace.
    pub(super) fn note(&mut self, what: &impl Hash) {
        (self.now, what).hash(&mut self.hash);
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_micros(self.now)
    }
}
