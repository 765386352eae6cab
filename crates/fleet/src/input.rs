//! An input in a bucket: its end is read first, and once; the rest by ranges that reach far ahead, since a merge reads a
//! table from its beginning to its end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use siltstone::{Error, ErrorKind, RandomAccessFile, Result};
use siltstone_cloud::{Bucket, BucketError, Call, Failure, Part, Purpose};

/// Footer, index, and mostly the filter of a table are within this.
const TAIL_BYTES: u64 = 64 << 10;

/// What a job has cost at the bucket. Counters, which order nothing.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) bytes_read: AtomicU64,
    pub(crate) requests: AtomicU64,
}

impl Meter {
    pub(crate) fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) struct BucketFile {
    bucket: Arc<dyn Bucket>,
    meter: Arc<Meter>,
    name: String,
    path: PathBuf,
    bytes: u64,
    ahead_bytes: u64,
    windows: Mutex<Windows>,
}

#[derive(Default)]
struct Windows {
    tail: Option<Window>,
    /// Where the reader is.
    near: Option<Window>,
}

struct Window {
    offset: u64,
    body: Bytes,
}

impl Window {
    fn holds(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.body.get(from..from.checked_add(len)?)
    }
}

impl BucketFile {
    /// An object that is to have so many bytes. It is not looked at yet.
    pub(crate) fn new(
        bucket: &Arc<dyn Bucket>,
        meter: &Arc<Meter>,
        (name, bytes): (&str, u64),
        ahead_bytes: u64,
    ) -> Self {
        BucketFile {
            bucket: Arc::clone(bucket),
            meter: Arc::clone(meter),
            name: name.to_owned(),
            path: name.into(),
            bytes,
            ahead_bytes,
            windows: Mutex::default(),
        }
    }

    fn fetch(&self, offset: u64, len: u64) -> Result<Window> {
        self.meter.count_request();
        let part = Part::Range { offset, len };
        let object = self.bucket.get(&self.name, part, Call::new(Purpose::CompactIn));
        let object = object.map_err(|error| to_error(&error))?;
        self.meter.bytes_read.fetch_add(object.body.len() as u64, Ordering::Relaxed);
        if object.bytes != self.bytes || object.offset != offset {
            let message = format!("object has {} bytes, and should {}", object.bytes, self.bytes);
            return Err(Error::corruption(message).in_file(&self.path));
        }
        Ok(Window { offset, body: object.body })
    }
}

impl RandomAccessFile for BucketFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let rest = self.bytes.saturating_sub(offset);
        let len = usize::try_from(rest).map_or(buf.len(), |rest| rest.min(buf.len()));
        if len == 0 {
            return Ok(0);
        }
        // Held while the bucket answers: one iterator reads a table.
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let Windows { tail, near } = &mut *windows;
        let known =
            [&*near, &*tail].into_iter().flatten().find_map(|window| window.holds(offset, len));
        if let Some(known) = known {
            buf[..len].copy_from_slice(known);
            return Ok(len);
        }
        let tail_at = self.bytes.saturating_sub(TAIL_BYTES);
        let (window, fetched) = match tail.is_none() && offset >= tail_at {
            true => (tail, self.fetch(tail_at, self.bytes - tail_at)?),
            false => (near, self.fetch(offset, self.ahead_bytes.max(len as u64).min(rest))?),
        };
        let window = window.insert(fetched);
        let short = || Error::new(ErrorKind::Io, "the answer is too short").in_file(&self.path);
        buf[..len].copy_from_slice(window.holds(offset, len).ok_or_else(short)?);
        Ok(len)
    }

    fn len(&self) -> u64 {
        self.bytes
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// What a failed call means to the engine.
pub(crate) fn to_error(error: &BucketError) -> Error {
    let kind = match error.failure {
        Failure::Missing => ErrorKind::NotFound,
        // Bytes that were damaged on the way come whole another time.
        _ => ErrorKind::Io,
    };
    Error::new(kind, error.message.clone()).in_file(Path::new(&error.name))
}

#[cfg(test)]
mod tests {
    use siltstone_cloud::{Condition, MemoryBucket};

    use super::*;

    fn object(bytes: usize) -> (Vec<u8>, Arc<dyn Bucket>) {
        let body: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
        let bucket = Arc::new(MemoryBucket::new());
        let call = Call::new(Purpose::Tool);
        bucket.put("t", Bytes::from(body.clone()), Condition::Always, call).unwrap();
        (body, bucket)
    }

    #[test]
    fn a_table_is_read_in_few_requests_and_right() {
        let (body, bucket) = object(1 << 20);
        let meter = Arc::new(Meter::default());
        let file = BucketFile::new(&bucket, &meter, ("t", 1 << 20), 256 << 10);
        let read = |offset: usize, len: usize| {
            let mut buf = vec![0; len];
            let count = file.read_at(&mut buf, offset as u64).unwrap();
            assert_eq!(buf[..count], body[offset.min(body.len())..][..count]);
            count
        };
        let end = body.len();
        assert_eq!(
            (read(end - 48, 48), read(end - 5_000, 4_000), read(end - 48, 100)),
            (48, 4_000, 48)
        );
        assert_eq!(meter.requests.load(Ordering::Relaxed), 1, "the tail, once");
        (0..end - (64 << 10)).step_by(4_096).for_each(|at| assert_eq!(read(at, 4_096), 4_096));
        assert_eq!(meter.requests.load(Ordering::Relaxed), 5);
        assert_eq!((read(end, 10), read(end + 5, 10)), (0, 0));
        assert_eq!(read(0, end), end, "larger than any window");
    }

    #[test]
    fn what_is_missing_or_of_another_size_is_told() {
        let (_, bucket) = object(1_000);
        let meter = Arc::new(Meter::default());
        let read = |name, bytes| {
            let file = BucketFile::new(&bucket, &meter, (name, bytes), 100);
            file.read_at(&mut [0; 10], 0).unwrap_err().kind()
        };
        assert_eq!(read("none", 1_000), ErrorKind::NotFound);
        assert_eq!(read("t", 1_001), ErrorKind::Corruption);
        assert_eq!(read("t", 999), ErrorKind::Corruption);
    }
}
