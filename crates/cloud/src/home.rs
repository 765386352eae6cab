//! Where a database lies and how it is reached: a bucket, a root in it, a clock, and the patience to try again. Owners,
//! readers and collectors all have one.
//!
//! I1: a call that might have been done is never told as failed, nor as done, before the bucket was asked what it holds
//! ([`Home::decide`]).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use siltstone::Clock;

use crate::bucket::{
    self, Bucket, BucketError, Call, Condition, Failure, Object, Part, Purpose, Stat, Tag,
};
use crate::error::{Error, ErrorKind, Outcome};
use crate::names::{Name, Root};

/// No object but a table is larger. A snapshot of a million tables has some 60 MiB.
pub(crate) const OBJECT_BYTES_MAX: u64 = 256 << 20;
/// Small registers, leases and pins.
pub(crate) const REGISTER_BYTES_MAX: u64 = 4 << 10;
/// More names than this of one kind that should be few are not taken into memory.
const NAMES_MAX: usize = 1 << 20;

/// How long somebody tries before giving up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// From the first try to the beginning of the last.
    pub total: Duration,
    /// Before the second try. It doubles from try to try, up to a hundredfold.
    pub pause: Duration,
}

impl Default for Patience {
    /// Half a minute, beginning with 50 ms.
    fn default() -> Self {
        Patience { total: Duration::from_secs(30), pause: Duration::from_millis(50) }
    }
}

/// A database's place in a bucket. Cheap to clone.
#[derive(Clone)]
pub struct Home {
    bucket: Arc<dyn Bucket>,
    root: Root,
    clock: Arc<dyn Clock>,
    patience: Patience,
}

/// How a put on a condition ended.
pub(crate) enum Decision {
    /// It went through.
    Mine,
    /// Something else is there.
    Other(Object),
}

impl Home {
    /// The database at `root`.
    pub fn new(bucket: Arc<dyn Bucket>, root: Root, clock: Arc<dyn Clock>) -> Self {
        Home { bucket, root, clock, patience: Patience::default() }
    }

    /// The same, tried so long.
    pub fn with_patience(self, patience: Patience) -> Self {
        Home { patience, ..self }
    }

    /// Another database in the same bucket.
    pub fn at(&self, root: Root) -> Self {
        Home { root, ..self.clone() }
    }

    /// The same, asked by way of `bucket`, which has the same objects.
    pub(crate) fn through(&self, bucket: Arc<dyn Bucket>) -> Self {
        Home { bucket, ..self.clone() }
    }

    /// Where in the bucket.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Which bucket.
    pub fn bucket(&self) -> &Arc<dyn Bucket> {
        &self.bucket
    }

    /// By which leases and pauses are timed.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(crate) fn object(&self, name: &Name) -> String {
        self.root.object(name)
    }

    fn tries(&self) -> Tries<'_> {
        let until = self.now().saturating_add(self.patience.total);
        Tries { home: self, until, pause: self.patience.pause }
    }

    /// Does what changes nothing, or may be done twice, until it succeeds or patience ends.
    fn patiently<T>(&self, mut work: impl FnMut() -> bucket::Result<T>) -> Outcome<T> {
        let mut tries = self.tries();
        loop {
            let failed = match work() {
                Ok(done) => return Ok(done),
                Err(failed) => failed,
            };
            if !is_passing(&failed) || !tries.wait() {
                return Err(failed.into());
            }
        }
    }

    /// All of an object, or `None` if there is none. More than `bytes_max` is damage.
    pub(crate) fn read(
        &self,
        name: &str,
        purpose: Purpose,
        bytes_max: u64,
    ) -> Outcome<Option<Object>> {
        let part = Part::Range { offset: 0, len: bytes_max };
        let got = self.patiently(|| found(self.bucket.get(name, part, Call::new(purpose))))?;
        all_of(name, got, bytes_max)
    }

    /// All of each object, or `None` where there is none, in their order: asked for together, where the bucket can.
    pub(crate) fn read_each(
        &self,
        names: &[String],
        purpose: Purpose,
        bytes_max: u64,
    ) -> Vec<Outcome<Option<Object>>> {
        let part = Part::Range { offset: 0, len: bytes_max };
        let got = self.bucket.get_each(names, part, Call::new(purpose));
        let judge = |(name, got): (&String, _)| match found(got) {
            Ok(got) => all_of(name, got, bytes_max),
            // What failed for now is asked for again, by itself.
            Err(failed) if is_passing(&failed) => self.read(name, purpose, bytes_max),
            Err(failed) => Err(failed.into()),
        };
        names.iter().zip(got).map(judge).collect()
    }

    /// What is known of an object, or `None` if there is none.
    pub(crate) fn head(&self, name: &str, purpose: Purpose) -> Outcome<Option<Stat>> {
        self.patiently(|| match self.bucket.head(name, Call::new(purpose)) {
            Ok(stat) => Ok(Some(stat)),
            Err(failed) if failed.failure == Failure::Missing => Ok(None),
            Err(failed) => Err(failed),
        })
    }

    /// Writes an object whose name nobody else writes: whether it was there before makes no difference.
    pub(crate) fn write(&self, name: &str, body: &Bytes, purpose: Purpose) -> Outcome<Tag> {
        let (always, call) = (Condition::Always, Call::new(purpose));
        self.patiently(|| self.bucket.put(name, body.clone(), always.clone(), call))
    }

    /// All objects of a folder behind a name.
    pub(crate) fn list(&self, folder: &str, after: &str, purpose: Purpose) -> Outcome<Vec<Stat>> {
        let mut all = Vec::new();
        self.list_each(folder, after, purpose, |stat| {
            if all.len() == NAMES_MAX {
                return Err(Error::damaged(&stat.name, format!("{NAMES_MAX} of its kind")));
            }
            all.push(stat);
            Ok(())
        })?;
        Ok(all)
    }

    /// Each object of a folder behind a name, a page in memory at a time.
    pub(crate) fn list_each(
        &self,
        folder: &str,
        after: &str,
        purpose: Purpose,
        mut each: impl FnMut(Stat) -> Outcome<()>,
    ) -> Outcome<()> {
        let (prefix, mut after) = (self.root.prefix(folder), after.to_owned());
        loop {
            let page = self.patiently(|| self.bucket.list(&prefix, &after, Call::new(purpose)))?;
            let Some(last) = page.last() else { return Ok(()) };
            let is_last = page.is_last;
            if last.name <= after {
                return Err(Error::damaged(&last.name, "comes twice in a list"));
            }
            after.clone_from(&last.name);
            page.stats.into_iter().try_for_each(&mut each)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Removes objects whose names are never used again.
    pub(crate) fn remove(&self, names: &[String], purpose: Purpose) -> Outcome<()> {
        self.patiently(|| self.bucket.delete(names, Call::new(purpose)))
    }

    /// Puts an object on a condition, and does not rest before it is known whether it is there. `body` must be like no
    /// other, by a token in it: that is how it is known again. [`ErrorKind::Undecided`] if patience ends before that, and
    /// the put may have been done or may still be; after any other error it has not been done.
    pub(crate) fn decide(
        &self,
        name: &str,
        body: &Bytes,
        when: &Condition,
        purpose: Purpose,
    ) -> Outcome<Decision> {
        let mut tries = self.tries();
        let mut perhaps = false;
        loop {
            let failed = match self.bucket.put(name, body.clone(), when.clone(), Call::new(purpose))
            {
                Ok(_) => return Ok(Decision::Mine),
                Err(failed) => failed,
            };
            match failed.failure {
                // Who is refused may have been let in before, by a put whose answer got lost.
                Failure::Refused | Failure::Unsure => {
                    perhaps = true;
                    match self.read_back(name, body, when, purpose) {
                        Ok(Some(decision)) => return Ok(decision),
                        Ok(None) => {}
                        Err(error) => return Err(error.of_kind(ErrorKind::Undecided)),
                    }
                }
                _ if is_passing(&failed) => {}
                _ => return Err(told(failed, perhaps)),
            }
            if !tries.wait() {
                return Err(told(failed, perhaps));
            }
        }
    }

    /// What an object holds after a put of which the answer is unclear; `None` if it is as before, so that the put can be
    /// tried again.
    fn read_back(
        &self,
        name: &str,
        body: &Bytes,
        when: &Condition,
        purpose: Purpose,
    ) -> Outcome<Option<Decision>> {
        let Some(object) = self.read(name, purpose, OBJECT_BYTES_MAX)? else { return Ok(None) };
        if object.body == *body {
            return Ok(Some(Decision::Mine));
        }
        let is_as_before = matches!(when, Condition::Tagged(tag) if *tag == object.tag);
        Ok((!is_as_before).then_some(Decision::Other(object)))
    }
}

/// Nothing there is an answer too.
fn found(got: bucket::Result<Object>) -> bucket::Result<Option<Object>> {
    match got {
        Ok(object) => Ok(Some(object)),
        Err(failed) if failed.failure == Failure::Missing => Ok(None),
        Err(failed) => Err(failed),
    }
}

/// What came must be the whole object.
fn all_of(name: &str, got: Option<Object>, bytes_max: u64) -> Outcome<Option<Object>> {
    match got {
        Some(object) if object.bytes > bytes_max || object.bytes != object.body.len() as u64 => {
            Err(Error::damaged(name, format!("has {} bytes", object.bytes)))
        }
        got => Ok(got),
    }
}

/// True if the same call may succeed a little later.
fn is_passing(failed: &BucketError) -> bool {
    matches!(failed.failure, Failure::Unavailable | Failure::Unsure | Failure::Damaged)
}

fn told(failed: BucketError, perhaps: bool) -> Error {
    let error = Error::from(failed);
    if perhaps { error.of_kind(ErrorKind::Undecided) } else { error }
}

/// Pauses between tries.
struct Tries<'a> {
    home: &'a Home,
    until: Duration,
    pause: Duration,
}

impl Tries<'_> {
    /// Waits for the next try; false if patience has ended.
    fn wait(&mut self) -> bool {
        if self.home.now() >= self.until {
            return false;
        }
        self.home.clock.sleep(self.pause);
        self.pause = (self.pause * 2).min(self.home.patience.pause * 100);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::fickle::Fickle;

    /// A request is as dear as a put: none is made to hear that there is nothing more.
    #[test]
    fn a_list_takes_a_request_for_each_page() {
        let bucket = Arc::new(Fickle::default());
        let home = Home::new(bucket.clone(), Root::new("db").unwrap(), bucket.clone());
        for (names, requests) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (2_500, 3)] {
            for number in 0..names {
                home.write(&format!("db/wal/{number:020}"), &Bytes::new(), Purpose::Wal).unwrap();
            }
            bucket.lists.store(0, Relaxed);
            assert_eq!(home.list("wal/", "", Purpose::Wal).unwrap().len(), names);
            assert_eq!(bucket.lists.load(Relaxed), requests, "of {names}");
        }
    }
}
