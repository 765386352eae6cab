//! [`Tally`]: counts what an engine asks of a store, whoever it is. It lies around the slow store, so that both engines are
//! counted at the same seam: retries, hedges and polling included.
//!
//! **Concurrency.** Counters are relaxed: they order nothing, and are read while nobody measures.

use std::fmt;
use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// A list brings so many names by one request.
const PAGE: usize = 1000;
/// Dollars for a put, a list, and the begin and end of an upload, on S3 Standard.
const DOLLARS_WRITE: f64 = 0.005 / 1e3;
/// Dollars for a get.
const DOLLARS_READ: f64 = 0.0004 / 1e3;

/// Requests and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Gets and heads.
    pub(crate) gets: u64,
    /// Of those: of tables.
    pub(crate) table_gets: u64,
    /// Puts, parts, and begins and ends of uploads.
    pub(crate) puts: u64,
    /// Pages of names.
    pub(crate) lists: u64,
    /// Bytes of answers to gets.
    pub(crate) received: u64,
    /// Of those: of tables.
    pub(crate) table_received: u64,
    /// Bytes of puts.
    pub(crate) sent: u64,
}

impl Counts {
    /// What all of it costs; removal is free.
    pub(crate) fn dollars(&self) -> f64 {
        (self.puts + self.lists) as f64 * DOLLARS_WRITE + self.gets as f64 * DOLLARS_READ
    }

    /// All that is paid for.
    pub(crate) fn requests(&self) -> u64 {
        self.gets + self.puts + self.lists
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        Counts {
            gets: self.gets - before.gets,
            table_gets: self.table_gets - before.table_gets,
            puts: self.puts - before.puts,
            lists: self.lists - before.lists,
            received: self.received - before.received,
            table_received: self.table_received - before.table_received,
            sent: self.sent - before.sent,
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    gets: AtomicU64,
    table_gets: AtomicU64,
    puts: AtomicU64,
    lists: AtomicU64,
    received: AtomicU64,
    table_received: AtomicU64,
    sent: AtomicU64,
}

impl Counters {
    fn put(&self, bytes: usize) {
        self.puts.fetch_add(1, Relaxed);
        self.sent.fetch_add(bytes as u64, Relaxed);
    }
}

/// A store that counts.
#[derive(Debug)]
pub(crate) struct Tally {
    inner: Arc<dyn ObjectStore>,
    counters: Arc<Counters>,
}

impl Tally {
    pub(crate) fn new(inner: impl ObjectStore) -> Self {
        Tally { inner: Arc::new(inner), counters: Arc::default() }
    }

    /// All so far.
    pub(crate) fn counts(&self) -> Counts {
        let Counters { gets, table_gets, puts, lists, received, table_received, sent } =
            &*self.counters;
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        Counts {
            gets: read(gets),
            table_gets: read(table_gets),
            puts: read(puts),
            lists: read(lists),
            received: read(received),
            table_received: read(table_received),
            sent: read(sent),
        }
    }
}

/// Where our tables lie below a database's root, those of workers, and SlateDB's.
fn is_table(location: &Path) -> bool {
    location.parts().nth(1).is_some_and(|part| matches!(part.as_ref(), "s" | "jobs" | "compacted"))
}

#[async_trait]
impl ObjectStore for Tally {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.counters.put(payload.content_length());
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.counters.put(0);
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(TalliedUpload { inner, counters: Arc::clone(&self.counters) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (counters, of_table, head) = (&self.counters, is_table(location), options.head);
        counters.gets.fetch_add(1, Relaxed);
        counters.table_gets.fetch_add(u64::from(of_table), Relaxed);
        let got = self.inner.get_opts(location, options).await?;
        let bytes = if head { 0 } else { got.range.end - got.range.start };
        counters.received.fetch_add(bytes, Relaxed);
        counters.table_received.fetch_add(if of_table { bytes } else { 0 }, Relaxed);
        Ok(got)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let counters = Arc::clone(&self.counters);
        // The first page is asked for though nothing may come.
        counters.lists.fetch_add(1, Relaxed);
        let counted = self.inner.list(prefix).enumerate().map(move |(at, meta)| {
            if at > 0 && at % PAGE == 0 {
                counters.lists.fetch_add(1, Relaxed);
            }
            meta
        });
        counted.boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.counters.lists.fetch_add(1, Relaxed);
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.counters.put(0);
        self.inner.copy_opts(from, to, options).await
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tally({})", self.inner)
    }
}

/// An upload in parts, each of which is a put, as its end is.
#[derive(Debug)]
struct TalliedUpload {
    inner: Box<dyn MultipartUpload>,
    counters: Arc<Counters>,
}

#[async_trait]
impl MultipartUpload for TalliedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.counters.put(data.content_length());
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.counters.put(0);
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn what_is_asked_is_counted_by_kind_and_place() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let tally = Tally::new(InMemory::new());
        runtime.block_on(async {
            let (ours, theirs) = (Path::from("db/s/00/e1-1.ldb"), Path::from("db/compacted/x.sst"));
            let record = Path::from("db/v/00000000000000000001");
            for name in [&ours, &theirs, &record] {
                tally.put(name, PutPayload::from_static(b"0123456789")).await.expect("put");
            }
            for name in [&ours, &theirs, &record] {
                tally.get_range(name, 2..5).await.expect("get");
            }
            tally.head(&ours).await.expect("head");
            let mut upload = tally.put_multipart(&Path::from("db/s/01/e1-2.ldb")).await.expect("m");
            upload.put_part(PutPayload::from_static(b"abc")).await.expect("part");
            upload.complete().await.expect("complete");
            tally.list(None).try_collect::<Vec<_>>().await.expect("list");
        });
        let wanted = Counts {
            gets: 4,
            table_gets: 3,
            puts: 6,
            lists: 1,
            received: 9,
            table_received: 6,
            sent: 33,
        };
        assert_eq!(tally.counts(), wanted);
        assert_eq!((wanted - Counts::default()).requests(), 11);
        assert!((wanted.dollars() - (7.0 * 5e-6 + 4.0 * 4e-7)).abs() < 1e-12);
    }
}
