//! [`S3Bucket`]: the synchronous face of the client, for threads that wait.
//!
//! **Concurrency.** The bucket owns a small tokio runtime. A call hands its future to it and waits on a channel; so it may
//! be made from any thread, a runtime's too, which then stands still as long as the call takes.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectStore;
use siltstone_cloud::{
    Bucket, BucketError, Call, Condition, Failure, Object, Page, Part, Result, Stat, Tag, Upload,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::client::pages::{PAGE, Wanted};
use crate::client::parts::Piece;
use crate::client::{Backend, Client, Deletes, advice};
use crate::location::{Location, Secrets};
use crate::meter::Snapshot;
use crate::options::Options;

/// The client ends so long before its caller goes away, and can say what happened.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// A bucket on S3, or on a server that speaks its protocol, or on any store that `object_store` knows.
///
/// ```
/// use std::sync::Arc;
///
/// use siltstone_cloud::{Bucket, Call, Condition, Part, Purpose};
/// use siltstone_s3::{Options, S3Bucket};
///
/// // S3Bucket::open("s3://bucket/prefix?region=eu-central-1", Options::default()) opens a real one.
/// let store = Arc::new(object_store::memory::InMemory::new());
/// let bucket = S3Bucket::over(store, "prefix", Options::default())?;
/// let call = Call::new(Purpose::Tool);
/// let tag = bucket.put("owner", "me".into(), Condition::Absent, call)?;
/// assert!(bucket.put("owner", "you".into(), Condition::Absent, call).is_err());
/// bucket.put("owner", "you".into(), Condition::Tagged(tag), call)?;
/// assert_eq!(bucket.get("owner", Part::Whole, call)?.body, "you");
/// assert_eq!(bucket.meter().of(Purpose::Tool).requests(), 4);
/// # Ok::<(), siltstone_cloud::BucketError>(())
/// ```
pub struct S3Bucket {
    client: Arc<Client>,
    /// There until the bucket is dropped.
    runtime: Option<Runtime>,
    place: String,
}

impl S3Bucket {
    /// Opens the bucket at a URL ([`Location`]), with what the environment adds. Asks nothing of the server yet.
    ///
    /// [`Failure::Wrong`] if the URL or the environment make no sense.
    pub fn open(url: &str, options: Options) -> Result<Self> {
        S3Bucket::at(&Location::parse(url)?, options)
    }

    /// Opens the bucket at a place. Asks nothing of the server yet.
    pub fn at(location: &Location, options: Options) -> Result<Self> {
        let backend = location.backend(&options)?;
        let place = format!("s3://{}/{}", location.bucket(), location.prefix());
        S3Bucket::new(backend, location.prefix(), options, location.secrets(), place)
    }

    /// A bucket over any store: in memory, in a folder, or one that fails on purpose. Pages of a list cost a look at all
    /// names then, and large objects that fail are put again from the start.
    pub fn over(store: Arc<dyn ObjectStore>, prefix: &str, options: Options) -> Result<Self> {
        let place = format!("a store in this process, below {prefix:?}");
        let backend = Backend {
            objects: store,
            pages: None,
            parts: None,
            sorted: false,
            deletes: Deletes::OneByOne,
        };
        S3Bucket::new(backend, prefix, options, Secrets::default(), place)
    }

    fn new(
        backend: Backend,
        prefix: &str,
        options: Options,
        secrets: Secrets,
        place: String,
    ) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_name("siltstone-s3")
            .enable_all()
            .build()
            .map_err(|error| BucketError::new(Failure::Unavailable, "bucket", error.to_string()))?;
        let client = Arc::new(Client::new(backend, prefix, options, secrets));
        Ok(S3Bucket { client, runtime: Some(runtime), place })
    }

    /// What was asked so far, and what it costs. Reads counters, asks nothing.
    pub fn meter(&self) -> Snapshot {
        self.client.meter.snapshot(self.client.options.prices)
    }

    /// Puts an object in parts, however small it is: for tests of servers.
    pub(crate) fn put_in_parts(
        &self,
        name: &str,
        body: Bytes,
        part_bytes: usize,
        call: Call,
    ) -> Result<Tag> {
        let owned = name.to_owned();
        self.run(name, Effect::Write, call, |client, call| async move {
            client.put_in_parts(&owned, body, part_bytes, call).await
        })
    }

    /// Lists by pages of any size.
    pub(crate) fn list_by(
        &self,
        names_max: usize,
        prefix: &str,
        after: &str,
        call: Call,
    ) -> Result<Page> {
        let (owned, after) = (prefix.to_owned(), after.to_owned());
        self.run(prefix, Effect::Read, call, |client, call| async move {
            let wanted = Wanted { prefix: &owned, after: &after, names_max };
            client.list(wanted, call).await
        })
    }

    /// Puts an object on a condition, and then behaves as if the answer had been lost.
    pub(crate) fn put_and_forget(&self, name: &str, body: Bytes, call: Call) -> Result<Tag> {
        let owned = name.to_owned();
        self.run(name, Effect::Write, call, |client, call| async move {
            client.put_and_forget(&owned, body, call).await
        })
    }

    /// Has the runtime do something, and waits for it.
    fn run<T, F>(
        &self,
        name: &str,
        effect: Effect,
        call: Call,
        work: impl FnOnce(Arc<Client>, Call) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.begin(call, work).end(name, effect)
    }

    /// Has the runtime do something.
    fn begin<T, F>(&self, call: Call, work: impl FnOnce(Arc<Client>, Call) -> F) -> Begun<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let margin = LAST_WORDS.min(call.within / 10);
        let work = work(Arc::clone(&self.client), Call { within: call.within - margin, ..call });
        let (answer, answered) = sync_channel(1);
        let runtime = self.runtime.as_ref().expect("it is there until the bucket is dropped");
        let task = runtime.spawn(async move {
            // Nobody waits any more, if this fails.
            let _ = answer.send(work.await);
        });
        Begun { answered, task: task.abort_handle(), until: Instant::now() + call.within }
    }
}

/// A call that the runtime is at.
struct Begun<T> {
    answered: Receiver<Result<T>>,
    task: AbortHandle,
    until: Instant,
}

impl<T> Begun<T> {
    fn end(self, name: &str, effect: Effect) -> Result<T> {
        let left = self.until.saturating_duration_since(Instant::now());
        let why = match self.answered.recv_timeout(left) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) => "no answer in the call's time",
            Err(RecvTimeoutError::Disconnected) => "the request's task died",
        };
        self.task.abort();
        let failure = match effect {
            Effect::Read => Failure::Unavailable,
            Effect::Write => Failure::Unsure,
        };
        Err(BucketError::new(failure, name, format!("{why}{}", advice(failure))))
    }
}

/// An object on its way to the runtime, part by part.
struct Sending {
    name: String,
    pieces: UnboundedSender<Piece>,
    begun: Begun<Tag>,
}

impl Upload for Sending {
    fn send(&mut self, part: Bytes) {
        // Whoever does not hear it has ended, and told why.
        let _ = self.pieces.send(Piece::Part(part));
    }

    fn finish(self: Box<Self>) -> Result<Tag> {
        let _ = self.pieces.send(Piece::End);
        self.begun.end(&self.name, Effect::Write)
    }
}

#[derive(Clone, Copy)]
enum Effect {
    Read,
    Write,
}

impl Bucket for S3Bucket {
    fn get(&self, name: &str, part: Part, call: Call) -> Result<Object> {
        let owned = name.to_owned();
        self.run(name, Effect::Read, call, |client, call| async move {
            client.get(&owned, part, call).await
        })
    }

    fn get_each(&self, names: &[String], part: Part, call: Call) -> Vec<Result<Object>> {
        let begin = |name: &String| {
            let owned = name.clone();
            self.begin(call, |client, call| async move { client.get(&owned, part, call).await })
        };
        let begun: Vec<_> = names.iter().map(begin).collect();
        names.iter().zip(begun).map(|(name, begun)| begun.end(name, Effect::Read)).collect()
    }

    fn head(&self, name: &str, call: Call) -> Result<Stat> {
        let owned = name.to_owned();
        self.run(
            name,
            Effect::Read,
            call,
            |client, call| async move { client.head(&owned, call).await },
        )
    }

    fn put(&self, name: &str, body: Bytes, when: Condition, call: Call) -> Result<Tag> {
        let owned = name.to_owned();
        self.run(name, Effect::Write, call, |client, call| async move {
            client.put(&owned, body, when, call).await
        })
    }

    fn upload(&self, name: &str, call: Call) -> Option<Box<dyn Upload>> {
        let (pieces, coming) = unbounded_channel();
        let owned = name.to_owned();
        let begun = self.begin(call, |client, call| async move {
            client.put_as_it_comes(&owned, coming, call).await
        });
        Some(Box::new(Sending { name: name.to_owned(), pieces, begun }))
    }

    fn delete(&self, names: &[String], call: Call) -> Result<()> {
        let Some(first) = names.first() else { return Ok(()) };
        let owned = names.to_vec();
        self.run(first, Effect::Write, call, |client, call| async move {
            client.delete(&owned, call).await
        })
    }

    fn list(&self, prefix: &str, after: &str, call: Call) -> Result<Page> {
        self.list_by(PAGE, prefix, after, call)
    }
}

impl fmt::Debug for S3Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Bucket").field("place", &self.place).finish_non_exhaustive()
    }
}

impl fmt::Display for S3Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)
    }
}

impl Drop for S3Bucket {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not wait, so that a bucket may be dropped on a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use object_store::memory::InMemory;
    use siltstone_cloud::Purpose;

    use super::*;
    use crate::{Faults, Profile, SlowStore};

    /// By the time that the same gets take one after the other, in which the store is mostly waited for.
    #[test]
    fn many_are_asked_for_together() {
        let store =
            SlowStore::new(Arc::new(InMemory::new()), Profile::S3_STANDARD, Faults::default(), 7);
        let bucket = S3Bucket::over(Arc::new(store), "db", Options::default()).unwrap();
        let call = Call::new(Purpose::Tool);
        bucket.put("one", "1".into(), Condition::Always, call).unwrap();
        let names = vec!["one".to_owned(); 24];
        let begin = Instant::now();
        let one_by_one: Vec<_> =
            names.iter().map(|name| bucket.get(name, Part::Whole, call)).collect();
        let took = begin.elapsed();
        let begin = Instant::now();
        let together = bucket.get_each(&names, Part::Whole, call);
        assert!(begin.elapsed() < took / 2, "{:?} to {took:?}", begin.elapsed());
        assert!(one_by_one.iter().chain(&together).all(|got| got.as_ref().unwrap().body == "1"));
    }
}
