//! Virtual time, and who goes on in it. Each seat has a thread; one runs at a time, and hands on at every call of the bucket,
//! which takes some time, and at times very long.
//!
//! I1: all that is decided by chance comes from one seed, in the order of virtual time: same seed, same schedule.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use siltstone::Clock;
use siltstone_cloud::{
    Bucket, BucketError, Call, Condition, Failure, Home, MemoryBucket, Object, Page, Part, Result,
    Root, Stat, Tag, Token,
};

use super::history::History;
use crate::stage::Dice;

/// What is past is kept for so long.
pub(super) const AGE_MIN: Duration = Duration::from_secs(600);
/// Some moment in 2023.
const START_MS: u64 = 1_700_000_000_000;
/// A call takes less than this, in microseconds.
const CALL_MICROS: u64 = 60_000;

pub(super) struct Turns {
    state: Mutex<State>,
    seats: Vec<Condvar>,
    pub(super) memory: Arc<MemoryBucket>,
    history: Mutex<History>,
}

struct State {
    /// Microseconds.
    now: u64,
    asked: u64,
    /// Who goes on when; those of the same time in the order in which they asked for it.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    running: Option<usize>,
    dice: Dice,
}

impl State {
    fn ask(&mut self, seat: usize, after: u64) {
        self.asked += 1;
        self.due.push(Reverse((self.now + after, self.asked, seat)));
    }
}

/// A turn that is over when it is dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.hand_on(&mut self.0.lock());
    }
}

impl Turns {
    pub(super) fn new(seed: u64, seats: usize) -> Self {
        let (due, dice) = (BinaryHeap::new(), Dice(seed));
        Turns {
            state: Mutex::new(State { now: 0, asked: 0, due, running: None, dice }),
            seats: (0..seats).map(|_| Condvar::new()).collect(),
            memory: Arc::default(),
            history: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_micros(self.lock().now)
    }

    /// A number below `sides`.
    pub(super) fn roll(&self, sides: u64) -> u64 {
        self.lock().dice.below(sides)
    }

    pub(super) fn token(&self) -> Token {
        let half = || u128::from(self.roll(u64::MAX));
        Token(half() << 64 | half())
    }

    /// Lets the first seat go on.
    pub(super) fn begin(&self) {
        let mut state = self.lock();
        (0..self.seats.len()).for_each(|seat| state.ask(seat, 0));
        self.hand_on(&mut state);
    }

    /// Waits until it is a seat's turn for the first time.
    pub(super) fn sit_down(&self, seat: usize) -> Turn<'_> {
        self.wait(self.lock(), seat);
        Turn(self)
    }

    fn sleep(&self, seat: usize, time: Duration) {
        let mut state = self.lock();
        state.ask(seat, u64::try_from(time.as_micros()).unwrap_or(u64::MAX >> 2));
        self.hand_on(&mut state);
        self.wait(state, seat);
    }

    fn wait(&self, state: MutexGuard<'_, State>, seat: usize) {
        let is_others = |state: &mut State| state.running != Some(seat);
        drop(self.seats[seat].wait_while(state, is_others));
    }

    fn hand_on(&self, state: &mut State) {
        state.running = None;
        if let Some(Reverse((at, _, seat))) = state.due.pop() {
            (state.now, state.running) = (at, Some(seat));
            self.seats[seat].notify_one();
        }
    }

    /// What the bucket calls now, so long after what time it is here.
    pub(super) fn set_bucket_clock(&self, after: Duration) {
        let now = (self.now() + after).as_millis();
        self.memory.set_now_ms(START_MS + u64::try_from(now).unwrap_or(u64::MAX >> 1));
    }
}

/// One's bucket and clock.
pub(super) struct Seat {
    pub(super) turns: Arc<Turns>,
    number: usize,
    /// Gets of what is called so find nothing.
    hidden: &'static str,
    pause: Mutex<Option<Pause>>,
}

/// One that stands still for long, in one of its next calls.
struct Pause {
    calls: u64,
    length: Duration,
    /// It was done, and the answer waits.
    is_after: bool,
}

impl Seat {
    pub(super) fn new(turns: &Arc<Turns>, number: usize, hidden: &'static str) -> Self {
        Seat { turns: Arc::clone(turns), number, hidden, pause: Mutex::new(None) }
    }

    pub(super) fn home(self: &Arc<Self>) -> siltstone::Result<Home> {
        let bucket = Arc::clone(self) as Arc<dyn Bucket>;
        Ok(Home::new(bucket, Root::new("db")?, Arc::clone(self) as Arc<dyn Clock>))
    }

    /// Rests for up to so long.
    pub(super) fn rest(&self, most: Duration) {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        self.sleep(Duration::from_micros(self.turns.roll(micros)));
    }

    /// In one of so many next calls it stands still, for up to four times as long as garbage waits.
    pub(super) fn pause_within(&self, calls: u64) {
        let tenths = u32::try_from(self.turns.roll(40)).unwrap_or(0);
        let (length, is_after) = (AGE_MIN / 10 * tenths, self.turns.roll(2) == 0);
        let calls = self.turns.roll(calls);
        *self.pause() = Some(Pause { calls, length, is_after });
    }

    fn pause(&self) -> MutexGuard<'_, Option<Pause>> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Others go on while it is on its way.
    fn call<T>(&self, call: impl FnOnce(&MemoryBucket) -> T) -> T {
        let pause = self.due();
        let is_long = pause.as_ref().is_some_and(|pause| pause.length > AGE_MIN);
        self.turns.history().tally.long_pauses += u64::from(is_long);
        let way = Duration::from_micros(self.turns.roll(CALL_MICROS));
        let length = |after| pause.as_ref().filter(|pause| pause.is_after == after);
        let length = |after| length(after).map_or(Duration::ZERO, |pause| pause.length);
        self.sleep(way + length(false));
        self.turns.history().tally.calls += 1;
        self.turns.set_bucket_clock(Duration::ZERO);
        let answer = call(&self.turns.memory);
        if length(true) > Duration::ZERO {
            self.sleep(length(true));
        }
        answer
    }

    fn due(&self) -> Option<Pause> {
        let mut pause = self.pause();
        let calls = pause.as_mut().map(|pause| std::mem::replace(&mut pause.calls, 0))?;
        if calls == 0 {
            return pause.take();
        }
        if let Some(pause) = pause.as_mut() {
            pause.calls = calls - 1;
        }
        None
    }
}

impl Bucket for Seat {
    fn get(&self, name: &str, part: Part, call: Call) -> Result<Object> {
        let got = self.call(|memory| memory.get(name, part, call));
        if !self.hidden.is_empty() && name.ends_with(self.hidden) {
            return Err(BucketError::new(Failure::Missing, name, "it is hidden"));
        }
        got
    }

    fn head(&self, name: &str, call: Call) -> Result<Stat> {
        self.call(|memory| memory.head(name, call))
    }

    fn put(&self, name: &str, body: Bytes, when: Condition, call: Call) -> Result<Tag> {
        self.call(|memory| {
            let put = memory.put(name, body.clone(), when, call);
            if put.is_ok() {
                self.turns.history().note_put(name, &body);
            }
            put
        })
    }

    fn delete(&self, names: &[String], call: Call) -> Result<()> {
        self.call(|memory| memory.delete(names, call))
    }

    fn list(&self, prefix: &str, after: &str, call: Call) -> Result<Page> {
        self.call(|memory| memory.list(prefix, after, call))
    }
}

impl Clock for Seat {
    fn now(&self) -> Duration {
        self.turns.now()
    }

    fn wall_micros(&self) -> u64 {
        START_MS * 1_000 + self.turns.lock().now
    }

    fn sleep(&self, time: Duration) {
        self.turns.sleep(self.number, time);
    }
}
