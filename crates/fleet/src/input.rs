//! An input in a bucket: its end is read first, and once; the rest by windows, since a merge reads a table from its beginning to its
//! end. Where there is a crew, the next windows are on their way while one is merged, and so is the beginning of tables that come next: ever
//! more of them as long as they are late, within what a job may hold.

use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use siltstone::{Error, ErrorKind, RandomAccessFile, Result};
use siltstone_cloud::{Bucket, BucketError, Call, CrewDesk, Failure, Part, Purpose};

/// Footer and index of a table are mostly within such a share of it. What else is there is read anyway, by and by.
const TAIL_SHARE: u64 = 16;
const TAIL_BYTES: RangeInclusive<u64> = (64 << 10)..=(4 << 20);
/// A table up to this size is read whole: a second request would take longer than its bytes.
const WHOLE_BYTES: u64 = 1 << 20;

/// So many windows of an input are on their way while one is merged, at least and at most.
const DEPTH: RangeInclusive<usize> = 4..=16;

/// What a job has cost at the bucket. Counters, which order nothing.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) bytes_read: AtomicU64,
    pub(crate) requests: AtomicU64,
}

impl Meter {
    pub(crate) fn count_requests(&self, count: usize) {
        self.requests.fetch_add(count as u64, Relaxed);
    }
}

/// A job's way to its bucket.
pub(crate) struct Counter {
    pub(crate) bucket: Arc<dyn Bucket>,
    pub(crate) meter: Meter,
    /// Who asks while the job goes on; without, it asks itself and waits.
    pub(crate) crew: Option<CrewDesk>,
    /// What is on its way, or has come and waits for its turn.
    pub(crate) ahead: AtomicU64,
    /// What that may be; one window for each input comes in any case.
    pub(crate) ahead_max: u64,
}

/// How far inputs of one slot are read ahead. A counter that orders nothing.
#[derive(Clone)]
pub(crate) struct Pace {
    window_bytes: u64,
    depth: Arc<AtomicUsize>,
}

impl Pace {
    /// So many windows, as far as that is within what is usual.
    pub(crate) fn new(window_bytes: u64, windows: usize) -> Self {
        let depth = windows.clamp(*DEPTH.start(), *DEPTH.end());
        Pace { window_bytes, depth: Arc::new(AtomicUsize::new(depth)) }
    }

    fn depth(&self) -> usize {
        self.depth.load(Relaxed)
    }

    /// A window was late.
    fn deepen(&self) {
        self.depth.store((self.depth() + 1).min(*DEPTH.end()), Relaxed);
    }
}

pub(crate) struct BucketFile {
    counter: Arc<Counter>,
    object: Arc<Object>,
    pace: Pace,
    windows: Mutex<Windows>,
}

struct Object {
    name: String,
    path: PathBuf,
    bytes: u64,
}

#[derive(Default)]
struct Windows {
    tail: Option<Window>,
    /// Where the reader is.
    near: Option<Window>,
    flights: Vec<Flight>,
}

struct Window {
    offset: u64,
    body: Bytes,
}

/// A window on its way.
struct Flight {
    bytes: Range<u64>,
    answer: Receiver<Result<Window>>,
    counter: Arc<Counter>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.counter.ahead.fetch_sub(self.bytes.end - self.bytes.start, Relaxed);
    }
}

impl Window {
    fn end(&self) -> u64 {
        self.offset + self.body.len() as u64
    }

    /// Copies what it has from `offset` on.
    fn copy(&self, offset: u64, buf: &mut [u8]) -> usize {
        let from = offset.checked_sub(self.offset).and_then(|from| usize::try_from(from).ok());
        let rest = from.and_then(|from| self.body.get(from..)).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        len
    }
}

impl Windows {
    fn copy(&self, offset: u64, buf: &mut [u8]) -> usize {
        let known = [&self.near, &self.tail].into_iter().flatten();
        known.map(|window| window.copy(offset, buf)).find(|copied| *copied > 0).unwrap_or(0)
    }

    /// The flight that brings the byte at `offset`.
    fn take_flight(&mut self, offset: u64) -> Option<Flight> {
        let at = self.flights.iter().position(|flight| flight.bytes.contains(&offset))?;
        Some(self.flights.swap_remove(at))
    }
}

impl Object {
    /// Where its end begins, if that is read by itself.
    fn tail_at(&self) -> u64 {
        let tail = (self.bytes / TAIL_SHARE).clamp(*TAIL_BYTES.start(), *TAIL_BYTES.end());
        if self.bytes <= WHOLE_BYTES { self.bytes } else { self.bytes - tail }
    }
}

impl Counter {
    fn fetch(&self, object: &Object, bytes: &Range<u64>) -> Result<Window> {
        self.meter.count_requests(1);
        let (offset, len) = (bytes.start, bytes.end - bytes.start);
        let part = Part::Range { offset, len };
        let got = self.bucket.get(&object.name, part, Call::new(Purpose::CompactIn));
        let got = got.map_err(|error| to_error(&error))?;
        self.meter.bytes_read.fetch_add(got.body.len() as u64, Relaxed);
        if got.bytes != object.bytes || got.offset != offset {
            let message = format!("object has {} bytes, and should {}", got.bytes, object.bytes);
            return Err(Error::corruption(message).in_file(&object.path));
        }
        Ok(Window { offset, body: got.body })
    }

    /// None if nobody is there to fetch it.
    fn send_for(self: &Arc<Self>, object: &Arc<Object>, bytes: Range<u64>) -> Option<Flight> {
        let (sender, answer) = sync_channel(1);
        let (counter, object, wanted) = (Arc::clone(self), Arc::clone(object), bytes.clone());
        let fetch = move || {
            // Nobody may wait for it any more.
            let _ = sender.send(counter.fetch(&object, &wanted));
        };
        if !self.crew.as_ref()?.leave(Box::new(fetch)) {
            return None;
        }
        self.ahead.fetch_add(bytes.end - bytes.start, Relaxed);
        Some(Flight { bytes, answer, counter: Arc::clone(self) })
    }

    fn has_room(&self, bytes: &Range<u64>) -> bool {
        self.ahead.load(Relaxed) + (bytes.end - bytes.start) <= self.ahead_max
    }
}

impl BucketFile {
    /// An object that is to have so many bytes. It is not looked at yet.
    pub(crate) fn new(counter: &Arc<Counter>, (name, bytes): (&str, u64), pace: Pace) -> Self {
        BucketFile {
            counter: Arc::clone(counter),
            object: Arc::new(Object { name: name.to_owned(), path: name.into(), bytes }),
            pace,
            windows: Mutex::default(),
        }
    }

    /// It will be opened soon, and mostly be read from its beginning on: sends for what is needed first.
    pub(crate) fn expect(&self, from_its_beginning: bool) {
        let mut windows = self.windows();
        let (bytes, tail_at) = (self.object.bytes, self.object.tail_at());
        let end = if tail_at == bytes { 0..bytes } else { tail_at..bytes };
        windows.flights.extend(self.counter.send_for(&self.object, end));
        if from_its_beginning && tail_at < bytes {
            self.send_ahead(&mut windows, 0);
        }
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
        // Windows are changed in single steps.
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the window that begins with or holds the byte at `offset`.
    fn bring(&self, windows: &mut Windows, offset: u64, len: u64) -> Result<()> {
        let on_its_way = windows.take_flight(offset).and_then(|flight| self.land(&flight));
        let window = match on_its_way {
            // What failed ahead is tried again by who needs it.
            Some(Ok(window)) => window,
            _ => self.counter.fetch(&self.object, &self.window_at(offset, len))?,
        };
        let end = window.end();
        if window.offset >= self.object.tail_at() {
            windows.tail = Some(window);
            return Ok(());
        }
        windows.near = Some(window);
        self.send_ahead(windows, end);
        Ok(())
    }

    /// Waits for what is on its way. For data that is late more will be from now on.
    fn land(&self, flight: &Flight) -> Option<Result<Window>> {
        match flight.answer.try_recv() {
            Err(TryRecvError::Empty) => {
                if flight.bytes.start < self.object.tail_at() {
                    self.pace.deepen();
                }
                flight.answer.recv().ok()
            }
            landed => landed.ok(),
        }
    }

    /// Sends for what lies behind `from`, and behind what is on its way.
    fn send_ahead(&self, windows: &mut Windows, from: u64) {
        let tail_at = self.object.tail_at();
        let (mut end, mut ahead) = (from, 0);
        for flight in windows.flights.iter().filter(|flight| flight.bytes.start < tail_at) {
            (end, ahead) = (end.max(flight.bytes.end), ahead + 1);
        }
        while end < tail_at && ahead < self.pace.depth() {
            let next = end..tail_at.min(end + self.pace.window_bytes);
            if ahead > 0 && !self.counter.has_room(&next) {
                return;
            }
            // Nobody is free to fetch it: what comes behind it would be of no use yet.
            let Some(flight) = self.counter.send_for(&self.object, next) else { return };
            (end, ahead) = (flight.bytes.end, ahead + 1);
            windows.flights.push(flight);
        }
    }

    fn window_at(&self, offset: u64, len: u64) -> Range<u64> {
        let (bytes, tail_at) = (self.object.bytes, self.object.tail_at());
        match tail_at == bytes {
            true => 0..bytes,
            false if offset >= tail_at => tail_at..bytes,
            false => offset..tail_at.min(offset + self.pace.window_bytes.max(len)),
        }
    }
}

impl RandomAccessFile for BucketFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let rest = self.object.bytes.saturating_sub(offset);
        let len = usize::try_from(rest).map_or(buf.len(), |rest| rest.min(buf.len()));
        // Held while the bucket answers: one iterator reads a table.
        let mut windows = self.windows();
        let mut filled = 0;
        while filled < len {
            let (at, buf) = (offset + filled as u64, &mut buf[filled..len]);
            let mut copied = windows.copy(at, buf);
            if copied == 0 {
                self.bring(&mut windows, at, buf.len() as u64)?;
                copied = windows.copy(at, buf);
            }
            if copied == 0 {
                let error = Error::new(ErrorKind::Io, "the answer is too short");
                return Err(error.at(at).in_file(&self.object.path));
            }
            filled += copied;
        }
        Ok(len)
    }

    fn len(&self) -> u64 {
        self.object.bytes
    }

    fn path(&self) -> &Path {
        &self.object.path
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
    use siltstone::Env;
    use siltstone_cloud::{Condition, Crew, MemoryBucket};

    use super::*;

    const MIB: usize = 1 << 20;

    fn object(bytes: usize) -> (Vec<u8>, Arc<dyn Bucket>) {
        let body: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
        let bucket = Arc::new(MemoryBucket::new());
        let call = Call::new(Purpose::Tool);
        bucket.put("t", Bytes::from(body.clone()), Condition::Always, call).unwrap();
        (body, bucket)
    }

    fn counter(bucket: &Arc<dyn Bucket>, crew: Option<&Crew>) -> Arc<Counter> {
        let (bucket, crew) = (Arc::clone(bucket), crew.map(|crew| crew.desk().clone()));
        let ahead = AtomicU64::new(0);
        Arc::new(Counter { bucket, meter: Meter::default(), crew, ahead, ahead_max: 64 << 20 })
    }

    fn check(file: &BucketFile, body: &[u8], offset: usize, len: usize) {
        let mut buf = vec![0; len];
        let count = file.read_at(&mut buf, offset as u64).unwrap();
        assert_eq!(count, len.min(body.len().saturating_sub(offset)));
        assert_eq!(buf[..count], body[offset.min(body.len())..][..count]);
    }

    #[test]
    fn a_table_is_read_in_few_requests_and_right() {
        let (body, bucket) = object(2 * MIB);
        let counter = counter(&bucket, None);
        let requests = || counter.meter.requests.load(Relaxed);
        let file = BucketFile::new(&counter, ("t", 2 << 20), Pace::new(256 << 10, 4));
        let end = body.len();
        for (offset, len) in [(end - 48, 48), (end - 5_000, 4_000), (end - 48, 100)] {
            check(&file, &body, offset, len);
        }
        assert_eq!(requests(), 1, "the tail, once");
        // No window ends where a block does.
        (0..end).step_by(4_100).for_each(|at| check(&file, &body, at, 4_100));
        assert_eq!(requests(), 9);
        check(&file, &body, end, 10);
        check(&file, &body, end + 5, 10);
        check(&file, &body, 0, end);
        check(&file, &body, 1_000_000, 10);
        check(&file, &body, 10, 10);
    }

    #[test]
    fn a_small_table_is_one_request() {
        let (body, bucket) = object(MIB);
        let counter = counter(&bucket, None);
        let file = BucketFile::new(&counter, ("t", 1 << 20), Pace::new(256 << 10, 4));
        check(&file, &body, MIB - 48, 48);
        (0..MIB).step_by(4_100).for_each(|at| check(&file, &body, at, 4_100));
        assert_eq!(counter.meter.requests.load(Relaxed), 1);
    }

    #[test]
    fn what_comes_next_is_on_its_way() {
        let crew = Crew::new(Env::memory().threads, 2);
        for (bytes, from_its_beginning, sent, all) in
            [(2 * MIB, true, 5, 9), (2 * MIB, false, 1, 9), (MIB / 2, true, 1, 1)]
        {
            let (body, bucket) = object(bytes);
            let counter = counter(&bucket, Some(&crew));
            let file = BucketFile::new(&counter, ("t", bytes as u64), Pace::new(256 << 10, 4));
            file.expect(from_its_beginning);
            assert_eq!(file.windows().flights.len(), sent);
            check(&file, &body, bytes - 48, 48);
            (0..bytes).step_by(4_100).for_each(|at| check(&file, &body, at, 4_100));
            assert_eq!(counter.meter.requests.load(Relaxed), all);
            assert_eq!(counter.meter.bytes_read.load(Relaxed), bytes as u64);
            assert!(file.windows().flights.is_empty());
        }
    }

    #[test]
    fn what_is_on_its_way_has_room_and_is_more_where_it_is_late() {
        let (_, bucket) = object(2 * MIB);
        let crew = Crew::new(Env::memory().threads, 2);
        let mut counter = counter(&bucket, Some(&crew));
        // The end and two windows.
        Arc::get_mut(&mut counter).unwrap().ahead_max = 640 << 10;
        let pace = Pace::new(256 << 10, 4);
        let file = BucketFile::new(&counter, ("t", 2 << 20), pace.clone());
        file.expect(true);
        assert_eq!(file.windows().flights.len(), 3);
        assert_eq!(counter.ahead.load(Relaxed), 640 << 10);
        let other = BucketFile::new(&counter, ("t", 2 << 20), pace.clone());
        other.expect(true);
        assert_eq!(other.windows().flights.len(), 2, "one comes in any case");
        drop((file, other));
        assert_eq!(counter.ahead.load(Relaxed), 0);
        (0..100).for_each(|_| pace.deepen());
        assert_eq!(pace.depth(), *DEPTH.end());
    }

    #[test]
    fn what_is_missing_or_of_another_size_is_told() {
        let (_, bucket) = object(1_000);
        let crew = Crew::new(Env::memory().threads, 2);
        for crew in [None, Some(&crew)] {
            let counter = counter(&bucket, crew);
            let read = |name, bytes| {
                let file = BucketFile::new(&counter, (name, bytes), Pace::new(100, 4));
                file.expect(true);
                file.read_at(&mut [0; 10], 0).unwrap_err().kind()
            };
            assert_eq!(read("none", 1_000), ErrorKind::NotFound);
            assert_eq!(read("t", 1_001), ErrorKind::Corruption);
            assert_eq!(read("t", 999), ErrorKind::Corruption);
        }
    }
}
