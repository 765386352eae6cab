//! The bucket as one actor sees it: every call takes time, in which others run, and fares as fate will have it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use siltstone::Clock;
use siltstone_cloud::{
    Bucket, BucketError, Call, Condition, Failure, Object, Page, Part, Result, Stat, Tag,
};

use super::cheat::Cheat;
use super::fate::{Fate, Journey, Request};
use super::stage::{Effect, Stage};

/// What an actor is, as far as faults are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Collector,
    Reader,
}

/// One actor's bucket and clock.
pub(super) struct Client {
    stage: Arc<Stage>,
    me: usize,
    role: Role,
    cheat: Mutex<Cheat>,
}

impl Client {
    pub(super) fn new(stage: Arc<Stage>, me: usize, role: Role) -> Self {
        let cheat = Mutex::new(Cheat::new(stage.mutant, role));
        Client { stage, me, role, cheat }
    }

    fn cheat(&self) -> MutexGuard<'_, Cheat> {
        self.cheat.lock().unwrap()
    }

    /// A collection begins.
    pub(super) fn begin_collection(&self) {
        let left = self.cheat().begin_collection();
        if let Some((name, body)) = left {
            let effect = Effect::put(&name, body, &Condition::Always);
            drop(self.stage.take_effect(&mut self.stage.lock(), &effect));
        }
    }

    /// Goes there: what has been decided for the call, at the moment when it arrives.
    fn go(&self, request: Request, name: &str) -> Journey {
        let is_commit = request == Request::ConditionalPut && name.contains("v/");
        let stalls = match self.role {
            // A writer that sleeps while it commits is the danger.
            Role::Writer if is_commit => 120,
            Role::Writer => 4,
            Role::Collector => 40,
            Role::Reader => 6,
        };
        let mut state = self.stage.lock();
        let journey = state.journey(request, stalls);
        state.note(&(self.me, request as u8, name));
        drop(state);
        self.stage.sleep(self.me, journey.before);
        journey
    }

    fn come_back(&self, journey: Journey) {
        if !journey.after.is_zero() {
            self.stage.sleep(self.me, journey.after);
        }
    }

    fn read<T>(&self, name: &str, read: impl FnOnce(&dyn Bucket) -> Result<T>) -> Result<T> {
        let journey = self.go(Request::Read, name);
        let answer = match journey.fate {
            Fate::Damaged => Err(failed(Failure::Damaged, name)),
            Fate::Done => read(&self.stage.memory),
            _ => Err(failed(Failure::Unavailable, name)),
        };
        self.come_back(journey);
        answer
    }

    fn change(&self, request: Request, name: &str, effect: &Effect) -> Result<Tag> {
        let journey = self.go(request, name);
        let now = || self.stage.take_effect(&mut self.stage.lock(), effect);
        let answer = match journey.fate {
            Fate::Done => now(),
            Fate::Unavailable | Fate::Damaged => Err(failed(Failure::Unavailable, name)),
            Fate::RequestLost => Err(failed(Failure::Unsure, name)),
            Fate::AnswerLost => now().and_then(|_| Err(failed(Failure::Unsure, name))),
            Fate::Late(after) => {
                self.stage.late(after, effect.clone());
                Err(failed(Failure::Unsure, name))
            }
            Fate::Twice(after) => {
                self.stage.late(after, effect.clone());
                now()
            }
            Fate::Refused => Err(failed(Failure::Refused, name)),
            Fate::Half => {
                if let Effect::Delete(names) = effect {
                    let half = Effect::Delete(names[..names.len() / 2].to_vec());
                    drop(self.stage.take_effect(&mut self.stage.lock(), &half));
                }
                Err(failed(Failure::Unsure, name))
            }
        };
        self.come_back(journey);
        answer
    }
}

fn failed(failure: Failure, name: &str) -> BucketError {
    BucketError::new(failure, name, "the weather is bad")
}

impl Bucket for Client {
    fn get(&self, name: &str, part: Part, call: Call) -> Result<Object> {
        let got = self.read(name, |bucket| bucket.get(name, part, call));
        self.cheat().get(name, got)
    }

    fn head(&self, name: &str, call: Call) -> Result<Stat> {
        self.read(name, |bucket| bucket.head(name, call))
    }

    fn put(&self, name: &str, body: Bytes, when: Condition, _: Call) -> Result<Tag> {
        if let Some(tag) = self.cheat().swallows(name, &body) {
            return Ok(tag);
        }
        let is_free = when == Condition::Always;
        let request = if is_free { Request::Put } else { Request::ConditionalPut };
        let answer = self.change(request, name, &Effect::put(name, body.clone(), &when));
        self.cheat().put(name, &body, &answer);
        answer
    }

    fn delete(&self, names: &[String], _: Call) -> Result<()> {
        let first = names.first().map_or("", String::as_str);
        self.change(Request::Delete, first, &Effect::Delete(names.to_vec())).map(drop)
    }

    fn list(&self, prefix: &str, after: &str, call: Call) -> Result<Page> {
        let short = 1 + self.stage.roll(40) as usize;
        let page = self.read(prefix, |bucket| bucket.list(prefix, after, call)).map(|mut page| {
            // A server may end a page where it likes.
            page.is_last &= page.len() <= short;
            page.stats.truncate(short);
            page
        });
        self.cheat().list(prefix, page)
    }
}

impl Clock for Client {
    fn now(&self) -> Duration {
        self.stage.now()
    }

    fn wall_micros(&self) -> u64 {
        self.stage.now().as_micros() as u64
    }

    fn sleep(&self, time: Duration) {
        self.stage.sleep(self.me, time);
    }
}

/// Objects that an actor believes in though they are not there.
pub(super) type Phantoms = BTreeMap<String, Bytes>;
