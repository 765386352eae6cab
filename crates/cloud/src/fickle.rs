//! What the tests of this crate stand on: a bucket that answers as it is told to, and a clock that stands still.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use siltstone::Clock;

use crate::bucket::{
    Bucket, BucketError, Call, Condition, Failure, Object, Page, Part, Result, Stat, Tag,
};
use crate::home::Home;
use crate::log::version_log::{Edit, Opening, VersionLog};
use crate::memory::MemoryBucket;
use crate::names::{Root, Token};
use crate::table;
use crate::{Purpose, Table};

/// What becomes of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// Done, but nobody is told.
    AnswerLost,
    /// Not done, and nobody is told.
    RequestLost,
    /// Done when [`Fickle::land`] is called.
    Late,
    /// Certainly not done.
    Unavailable,
}

/// A bucket in memory, of which the next puts have chosen fates. Its time is the clock's.
#[derive(Default)]
pub(crate) struct Fickle {
    pub(crate) memory: MemoryBucket,
    pub(crate) clock: StillClock,
    fates: Mutex<VecDeque<(String, Fate)>>,
    bad_gets: Mutex<Vec<(String, Failure)>>,
    bad_puts: Mutex<Option<Failure>>,
    late: Mutex<Vec<(String, Bytes, Condition)>>,
    /// Lists that were asked for.
    pub(crate) lists: AtomicUsize,
}

impl Fickle {
    /// The next put of a name that has `part` in it ends so.
    pub(crate) fn next(&self, part: &str, fate: Fate) {
        self.fates.lock().unwrap().push_back((part.to_owned(), fate));
    }

    /// From now on gets of names that have `part` in them fail so.
    pub(crate) fn break_gets(&self, part: &str, failure: Failure) {
        self.bad_gets.lock().unwrap().push((part.to_owned(), failure));
    }

    pub(crate) fn mend_gets(&self) {
        self.bad_gets.lock().unwrap().clear();
    }

    /// From now on puts fail so.
    pub(crate) fn break_puts(&self, failure: Failure) {
        *self.bad_puts.lock().unwrap() = Some(failure);
    }

    pub(crate) fn mend_puts(&self) {
        *self.bad_puts.lock().unwrap() = None;
    }

    /// Puts end well from now on.
    pub(crate) fn forget_fates(&self) {
        self.fates.lock().unwrap().clear();
    }

    /// What was late comes now.
    pub(crate) fn land(&self) {
        for (name, body, when) in self.late.lock().unwrap().drain(..) {
            let _ = self.memory.put(&name, body, when, Call::new(Purpose::Tool));
        }
    }

    fn fate(&self, name: &str) -> Fate {
        let mut fates = self.fates.lock().unwrap();
        let at = fates.iter().position(|(part, _)| name.contains(part.as_str()));
        at.and_then(|at| fates.remove(at)).map_or(Fate::Done, |(_, fate)| fate)
    }

    fn set_now(&self) {
        self.memory.set_now_ms(self.clock.0.load(Relaxed));
    }

    /// All names.
    pub(crate) fn names(&self) -> Vec<String> {
        let page = self.memory.list("", "", Call::new(Purpose::Tool)).unwrap();
        page.stats.into_iter().map(|stat| stat.name).collect()
    }
}

impl Bucket for Fickle {
    fn get(&self, name: &str, part: Part, call: Call) -> Result<Object> {
        let bad_gets = self.bad_gets.lock().unwrap();
        match bad_gets.iter().find(|(part, _)| name.contains(part.as_str())) {
            Some((_, failure)) => Err(BucketError::new(*failure, name, "as the test wants it")),
            None => self.memory.get(name, part, call),
        }
    }

    fn head(&self, name: &str, call: Call) -> Result<Stat> {
        self.memory.head(name, call)
    }

    fn put(&self, name: &str, body: Bytes, when: Condition, call: Call) -> Result<Tag> {
        self.set_now();
        let failed = |failure| Err(BucketError::new(failure, name, "as the test wants it"));
        if let Some(failure) = *self.bad_puts.lock().unwrap() {
            return failed(failure);
        }
        match self.fate(name) {
            Fate::Done => self.memory.put(name, body, when, call),
            Fate::AnswerLost => {
                let _ = self.memory.put(name, body, when, call);
                failed(Failure::Unsure)
            }
            Fate::RequestLost => failed(Failure::Unsure),
            Fate::Late => {
                self.late.lock().unwrap().push((name.to_owned(), body, when));
                failed(Failure::Unsure)
            }
            Fate::Unavailable => failed(Failure::Unavailable),
        }
    }

    fn delete(&self, names: &[String], call: Call) -> Result<()> {
        self.memory.delete(names, call)
    }

    fn list(&self, prefix: &str, after: &str, call: Call) -> Result<Page> {
        self.lists.fetch_add(1, Relaxed);
        self.memory.list(prefix, after, call)
    }
}

/// Time, in milliseconds, that only sleeping and tests move.
#[derive(Default)]
pub(crate) struct StillClock(AtomicU64);

impl StillClock {
    pub(crate) fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Relaxed);
    }
}

impl Clock for Fickle {
    fn now(&self) -> Duration {
        Duration::from_millis(self.clock.0.load(Relaxed))
    }

    fn wall_micros(&self) -> u64 {
        self.clock.0.load(Relaxed) * 1000
    }

    fn sleep(&self, time: Duration) {
        self.clock.0.fetch_add(time.as_millis() as u64, Relaxed);
    }
}

/// A bucket and a database in it.
pub(crate) fn world() -> (Arc<Fickle>, Home) {
    let bucket = Arc::new(Fickle::default());
    let home = Home::new(bucket.clone(), Root::new("db").unwrap(), bucket.clone());
    (bucket, home)
}

pub(crate) fn open(home: &Home, token: u128) -> VersionLog {
    VersionLog::open(home, &Opening::new(Token(token))).unwrap().0
}

/// Uploads a table under a number.
pub(crate) fn table(log: &VersionLog, number: u64) -> (u64, Table) {
    let body = Bytes::from(format!("table {number} of epoch {}", log.epoch().0));
    let table = table::upload(log.home(), log.table_id(number), &body, Purpose::Flush).unwrap();
    (number, table)
}

/// Commits a version that adds tables, after they were uploaded, and removes others.
pub(crate) fn edit(log: &VersionLog, added: &[u64], removed: &[u64]) -> Edit {
    let added = added.iter().map(|number| table(log, *number)).collect();
    let payloads = vec![Bytes::from_static(b"edit")];
    Edit { payloads, added, removed: removed.to_vec() }
}

/// Numbers of a version's tables.
pub(crate) fn numbers(home: &Home) -> Vec<u64> {
    let replay = crate::log::replay::read_newest(home).unwrap().unwrap();
    replay.state.tables().keys().copied().collect()
}
