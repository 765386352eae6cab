//! Requests that keep at it: the asynchronous heart of a bucket. Each call of [`S3Bucket`](crate::S3Bucket) runs one
//! function of [`Client`] on the bucket's runtime; tests run them on a runtime whose clock they hold.
//!
//! **K1.** Nothing below tries again: `object_store` is told not to, and the [`wire`](crate::wire) repeats nothing. So each
//! attempt is counted, paid, timed and judged here.
//! **K2.** Once an attempt of a write may have been done, the call ends with proof that it was, or as unsure. A condition
//! that fails after such an attempt proves nothing: it may be our own object that is in the way.
//! **K3.** At most `requests_max` requests are under way.
//!
//! ```text
//!   get, head  reads.rs --+                        +-- hedge.rs   a second get
//!   put        writes.rs -+-- persist -- attempt --+-- gate       requests_max
//!   parts      parts.rs --+   retry.rs             +-- meter.rs   what it costs
//!   list       pages.rs --+
//! ```

pub(crate) mod pages;
pub(crate) mod parts;
mod reads;
mod writes;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use object_store::ObjectStore;
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use siltstone_cloud::{BucketError, Call, Failure, Result};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::dice::Dice;
use crate::hedge::Hedger;
use crate::location::Secrets;
use crate::meter::{Meter, Tag, Verb};
use crate::options::Options;
use crate::retry::{Attempts, patience};
use crate::trouble::{Class, Trouble, short};

/// As S3 has it.
const NAME_BYTES_MAX: usize = 1024;

/// What stores objects, and what it can do beyond that.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// Lists one page by one request.
    pub(crate) pages: Option<Arc<dyn PaginatedListStore>>,
    /// Takes a part of an upload again.
    pub(crate) parts: Option<Arc<dyn MultipartStore>>,
    /// Lists come in the order of names.
    pub(crate) sorted: bool,
    pub(crate) deletes: Deletes,
}

/// How many objects one request removes, and so what it means that something is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletes {
    /// Each object by itself: a missing one is as good as removed.
    OneByOne,
    /// Many. Missing ones are no error to it, so if it says that something is, it is the place that was asked.
    Bulk,
}

pub(crate) struct Client {
    pub(crate) backend: Backend,
    /// Where our names begin; no slash at either end.
    pub(crate) root: String,
    pub(crate) options: Options,
    pub(crate) meter: Meter,
    pub(crate) secrets: Secrets,
    hedger: Hedger,
    gate: Semaphore,
    seed: u64,
    calls: AtomicU64,
}

/// One call on one name: what it is counted as, and until when it may take.
#[derive(Clone, Debug)]
struct Errand {
    name: String,
    tag: Tag,
    until: Instant,
}

impl Errand {
    fn new(name: &str, verb: Verb, call: Call) -> Self {
        let now = Instant::now();
        // A time that the clock cannot tell is as good as a day.
        let until = now.checked_add(call.within).unwrap_or(now + Duration::from_secs(86_400));
        Errand { name: name.to_owned(), tag: Tag { purpose: call.purpose, verb }, until }
    }

    /// The same call's next step.
    fn by(&self, verb: Verb) -> Self {
        Errand { tag: Tag { verb, ..self.tag }, ..self.clone() }
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// What one attempt moves: it decides how long it may take.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// So many bytes go out.
    Sends(u64),
    /// So many are to come.
    Brings(u64),
    /// Nobody knows how many come: the attempt may take all the time that is left.
    Unknown,
}

/// What an attempt got, and how many bytes came with it.
type Got<T> = std::result::Result<(T, u64), Trouble>;

impl Client {
    pub(crate) fn new(backend: Backend, root: &str, options: Options, secrets: Secrets) -> Self {
        Client {
            backend,
            root: root.trim_matches('/').to_owned(),
            meter: Meter::default(),
            secrets,
            hedger: Hedger::new(options.hedge.clone()),
            gate: Semaphore::new(options.requests_max.clamp(1, Semaphore::MAX_PERMITS)),
            seed: options.seed.unwrap_or_else(seed_of_the_system),
            calls: AtomicU64::new(0),
            options,
        }
    }

    /// The key of an object, if `name` can be one.
    fn path(&self, name: &str) -> Result<Path> {
        let key = self.key(name);
        let wrong = |why: &str| {
            Err(BucketError::new(
                Failure::Wrong,
                short(name),
                format!("no name of an object: {why}"),
            ))
        };
        if key.len() > NAME_BYTES_MAX {
            return wrong("with its prefix it has more than 1024 bytes");
        }
        match Path::parse(&key) {
            Ok(path) if !name.is_empty() && path.as_ref() == key => Ok(path),
            _ => wrong("it is empty, has an empty, '.' or '..' part, or a slash at an end"),
        }
    }

    fn key(&self, name: &str) -> String {
        if self.root.is_empty() { name.to_owned() } else { format!("{}/{name}", self.root) }
    }

    /// Chance for one call, which is the same for the same seed and number of calls before.
    fn dice(&self) -> Dice {
        // No other memory is told by it.
        Dice::stream(self.seed, self.calls.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes attempts until one succeeds, none can help, or the time is up. `doubt` is set once one may have been done
    /// (K2); it is looked at for writes only.
    async fn persist<T, F>(
        &self,
        errand: &Errand,
        doubt: &mut bool,
        mut work: impl FnMut() -> F,
    ) -> std::result::Result<T, Trouble>
    where
        F: Future<Output = std::result::Result<T, Trouble>>,
    {
        let mut attempts = Attempts::new(self.dice());
        loop {
            let trouble = match work().await {
                Ok(value) => return Ok(value),
                Err(trouble) => trouble,
            };
            *doubt |= !trouble.class.is_harmless();
            let Some(rest) = attempts.rest(&self.options.retry, &trouble, errand.left()) else {
                return Err(trouble);
            };
            sleep(rest).await;
            self.meter.retried(errand.tag);
        }
    }

    /// The same for what only asks, or does no harm if it was done: nobody minds doubt.
    async fn ask<T, F>(
        &self,
        errand: &Errand,
        work: impl FnMut() -> F,
    ) -> std::result::Result<T, Trouble>
    where
        F: Future<Output = std::result::Result<T, Trouble>>,
    {
        self.persist(errand, &mut false, work).await
    }

    /// One attempt: waits its turn (K3), is counted, and given up when it takes too long.
    async fn attempt<T>(
        &self,
        errand: &Errand,
        load: Load,
        work: impl Future<Output = Got<T>>,
    ) -> std::result::Result<T, Trouble> {
        let Ok(permit) = timeout_at(errand.until, self.gate.acquire()).await else {
            let message = format!("{} requests are under way", self.options.requests_max);
            return Err(Trouble::new(Class::Unreached, message));
        };
        let _permit = permit.expect("the gate is never closed");
        let (left, begun) = (errand.left(), Instant::now());
        let (sent, time) = match load {
            Load::Sends(bytes) => (bytes, patience(&self.options.retry, bytes, left)),
            Load::Brings(bytes) => (0, patience(&self.options.retry, bytes, left)),
            Load::Unknown => (0, left),
        };
        self.meter.asked(errand.tag, sent);
        let late =
            |_| Err(Trouble::new(Class::Timeout, format!("no whole answer within {time:?}")));
        match timeout(time, work).await.unwrap_or_else(late) {
            Ok((value, received)) => {
                self.meter.answered(errand.tag, received, begun.elapsed());
                Ok(value)
            }
            Err(trouble) => {
                self.meter.failed(errand.tag, trouble.class);
                if errand.tag.verb == Verb::Get && trouble.class.is_outage() {
                    self.hedger.failed();
                }
                Err(trouble)
            }
        }
    }

    /// What a call's end in trouble means to its caller.
    fn error(&self, errand: &Errand, trouble: &Trouble, doubt: bool) -> BucketError {
        let writes = errand.tag.verb.writes();
        let failure = match trouble.class {
            _ if writes && doubt => Failure::Unsure,
            // Of an upload, or of the object that was to be replaced: the parts of writes have told these apart before.
            Class::Missing if writes => Failure::Wrong,
            Class::Missing => Failure::Missing,
            Class::Refused => Failure::Refused,
            Class::Denied => Failure::Denied,
            Class::Damaged => Failure::Damaged,
            Class::Wrong | Class::Beyond | Class::Odd => Failure::Wrong,
            Class::Conflict | Class::Throttled | Class::Unreached => Failure::Unavailable,
            Class::Server | Class::Timeout | Class::Broken => Failure::Unavailable,
        };
        self.failed(errand, failure, &trouble.message)
    }

    fn failed(&self, errand: &Errand, failure: Failure, message: &str) -> BucketError {
        let verb = errand.tag.verb.name();
        let message = self.secrets.redact(&format!("{verb}: {message}{}", advice(failure)));
        BucketError::new(failure, short(&errand.name), message)
    }
}

/// What can be done now.
pub(crate) fn advice(failure: Failure) -> &'static str {
    match failure {
        Failure::Unsure => "; it may have been done: read it back",
        Failure::Unavailable => "; nothing was done: try again later",
        Failure::Denied => "; check the keys, and what they allow",
        Failure::Damaged => "; what arrived was thrown away: read it again",
        Failure::Wrong => "; trying again will not help",
        Failure::Missing | Failure::Refused => "",
    }
}

/// Random bits from the operating system, by way of the keys that it gives to hash tables.
pub(crate) fn seed_of_the_system() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests;
