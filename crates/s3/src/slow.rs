//! A store as slow and as faulty as the network's: wraps any `object_store`, for tests and measurements. The same wrapper
//! goes below engines other than ours, so that all are measured alike.
//!
//! **S1.** The n-th request draws from a stream of its own, made of the seed and n. So the same seed and the same order of
//! requests bring the same times and faults, whatever runs at the same time.
//! **S2.** A fault has happened before its effect (nothing was stored) or after it (stored, and the answer lost): both occur,
//! and the caller cannot tell which.
//!
//! Time is tokio's: tests that pause its clock sleep for nothing.

mod fate;
mod profile;
mod upload;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::time::{Instant, sleep_until};

use fate::{Fate, Moment};
pub use fate::{Fault, FaultKind};
pub use profile::{BrownOut, Faults, Profile};
use upload::SlowUpload;

/// A list brings so many names by one request.
const PAGE: usize = 1000;

/// Any store, made slow and faulty by seed.
pub struct SlowStore {
    inner: Arc<dyn ObjectStore>,
    shared: Arc<Shared>,
}

/// What decides on requests.
#[derive(Debug)]
pub(crate) struct Shared {
    profile: Profile,
    faults: Faults,
    seed: u64,
    begun: Instant,
    requests: AtomicU64,
    trace: AtomicU64,
    hits: [AtomicU64; FaultKind::ALL.len()],
}

impl SlowStore {
    /// `inner` with the times of `profile` and the faults of `faults`, drawn by `seed`. Brown-outs count from now on.
    pub fn new(inner: Arc<dyn ObjectStore>, profile: Profile, faults: Faults, seed: u64) -> Self {
        let shared = Shared {
            profile,
            faults,
            seed,
            begun: Instant::now(),
            requests: AtomicU64::new(0),
            trace: AtomicU64::new(seed),
            hits: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        SlowStore { inner, shared: Arc::new(shared) }
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Faults of one kind so far.
    pub fn faults(&self, kind: FaultKind) -> u64 {
        self.shared.hits[kind as usize].load(Ordering::Relaxed)
    }

    /// Stands for all that was drawn so far: equal for equal runs, whatever the order in which requests ended.
    pub fn trace(&self) -> u64 {
        self.shared.trace.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Draws what becomes of the next request.
    pub(crate) fn draw(&self, kind: Kind) -> Fate {
        let ordinal = self.requests.fetch_add(1, Ordering::Relaxed);
        let fate = Fate::draw(self, kind, ordinal, self.begun.elapsed());
        // Sums do not mind the order.
        self.trace.fetch_add(fate.stamp(), Ordering::Relaxed);
        if let Some(fault) = fate.fault() {
            self.hits[fault as usize].fetch_add(1, Ordering::Relaxed);
        }
        fate
    }

    /// How long `bytes` are on the way.
    pub(crate) fn transfer(&self, bytes: u64) -> Duration {
        match self.profile.bytes_per_second {
            None => Duration::ZERO,
            Some(rate) => Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64),
        }
    }

    /// A request that sends `bytes`, with its effect and its fault.
    pub(crate) async fn write<T>(
        &self,
        kind: Kind,
        bytes: u64,
        effect: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let fate = self.draw(kind);
        let arrives = Instant::now() + fate.latency / 2 + self.transfer(bytes);
        rest_until(arrives).await;
        fate.strike(Moment::Before).await?;
        let done = effect.await;
        rest_until(arrives + fate.latency / 2).await;
        fate.strike(Moment::After).await?;
        done
    }

    /// A request that only asks.
    pub(crate) async fn read<T>(
        &self,
        kind: Kind,
        ask: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let fate = self.draw(kind);
        rest_until(Instant::now() + fate.latency).await;
        fate.strike(Moment::Before).await?;
        let answer = ask.await;
        fate.strike(Moment::After).await?;
        answer
    }
}

/// Timers know milliseconds, and are late rather than early: what is shorter than half of one is no time.
async fn rest_until(due: Instant) {
    if due.saturating_duration_since(Instant::now()) >= Duration::from_micros(500) {
        sleep_until(due).await;
    }
}

/// Kinds of requests, by how long they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Put,
    List,
}

#[async_trait]
impl ObjectStore for SlowStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let bytes = payload.content_length() as u64;
        self.shared.write(Kind::Put, bytes, self.inner.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begin = self.inner.put_multipart_opts(location, opts);
        let inner = self.shared.write(Kind::Put, 0, begin).await?;
        Ok(Box::new(SlowUpload { inner, shared: Arc::clone(&self.shared) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut got = self.shared.read(Kind::Get, self.inner.get_opts(location, options)).await?;
        let attributes = std::mem::take(&mut got.attributes);
        let (meta, range) = (got.meta.clone(), got.range.clone());
        let extensions = std::mem::take(&mut got.extensions);
        let shared = Arc::clone(&self.shared);
        let mut due = Instant::now();
        let chunks = got.into_stream().then(move |chunk| {
            due += shared.transfer(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64));
            async move {
                rest_until(due).await;
                chunk
            }
        });
        let payload = GetResultPayload::Stream(chunks.boxed());
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, shared) = (Arc::clone(&self.inner), Arc::clone(&self.shared));
        let chunks = locations.try_chunks(PAGE).map_err(|error| error.1);
        let removed = chunks.and_then(move |chunk| {
            let (inner, shared) = (Arc::clone(&inner), Arc::clone(&shared));
            async move {
                let names = futures_util::stream::iter(chunk.into_iter().map(Ok)).boxed();
                let removal = async { Ok(inner.delete_stream(names).collect::<Vec<_>>().await) };
                let outcomes = shared.write(Kind::Put, 0, removal).await?;
                Ok(futures_util::stream::iter(outcomes))
            }
        });
        removed.try_flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let shared = Arc::clone(&self.shared);
        // A page's time passes before its first name.
        let paged = self.inner.list(prefix).enumerate().then(move |(at, meta)| {
            let shared = Arc::clone(&shared);
            async move {
                match at % PAGE {
                    0 => shared.read(Kind::List, async { meta }).await,
                    _ => meta,
                }
            }
        });
        // An empty list is a request, too.
        let shared = Arc::clone(&self.shared);
        let mut paged = paged.boxed();
        futures_util::stream::once(async move {
            match paged.next().await {
                Some(first) => futures_util::stream::iter([first]).chain(paged).boxed(),
                None => match shared.read(Kind::List, async { Ok(()) }).await {
                    Ok(()) => futures_util::stream::empty().boxed(),
                    Err(error) => futures_util::stream::iter([Err(error)]).boxed(),
                },
            }
        })
        .flatten()
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.shared.read(Kind::List, self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.shared.write(Kind::Put, 0, self.inner.copy_opts(from, to, options)).await
    }
}

impl fmt::Debug for SlowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (profile, seed) = (&self.shared.profile, self.shared.seed);
        f.debug_struct("SlowStore").field("profile", profile).field("seed", &seed).finish()
    }
}

impl fmt::Display for SlowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlowStore({}, {})", self.shared.profile.name, self.inner)
    }
}

#[cfg(test)]
mod tests;
