//! What the cache's thread does: appends extents to the newest segment, and makes room by giving up the oldest, out of
//! which it takes along what was read since it was written (FIFO with reinsertion, a CLOCK whose hand is the age).
//!
//! I1: files are written front to back and given up whole, so that there are few, and disks have large, sequential writes only.
//! I2: nothing is synced: a crash loses extents, and checksums tell which.
//! I3: a failed write ends caching for a while, and nothing else: reads go on. The segment that it was for is written no more. On a full
//! disk the cache gives back what it has.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use siltstone::{Result, Site, WritableFile};

use super::Key;
use super::inner::{Inner, add};
use super::layout::{self, HEADER_BYTES, Place, record_bytes};

/// After a failed write, so long none is tried.
const REST: Duration = Duration::from_secs(30);
/// A segment has no more records than if all were so long: what is known of them in memory is bounded, too.
const RECORD_BYTES_USUAL: u64 = 4 << 10;

pub(super) struct Writer {
    inner: Arc<Inner>,
    newest: u32,
    active: Option<Active>,
    rests_until: Option<Duration>,
    buffer: Vec<u8>,
}

/// The segment that is written.
struct Active {
    number: u32,
    file: Box<dyn WritableFile>,
    bytes: u64,
    records: Vec<(Key, Place)>,
}

impl Writer {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        let newest = inner.index().newest_segment();
        Writer { inner, newest, active: None, rests_until: None, buffer: Vec::new() }
    }

    /// Until the cache is closed.
    pub(super) fn run(mut self) {
        let inner = Arc::clone(&self.inner);
        while let Some((key, bytes)) = inner.queue.next() {
            self.write_or_rest(key, &bytes);
            inner.queue.done(&key);
        }
        self.finish();
    }

    fn write_or_rest(&mut self, key: Key, bytes: &Bytes) {
        let now = self.inner.env.clock.now();
        if self.rests_until.is_some_and(|until| now < until) {
            return add(&self.inner.counters.dropped, 1);
        }
        self.rests_until = None;
        if self.inner.index().has(&key) {
            return;
        }
        match self
            .make_room(record_bytes(bytes.len() as u32))
            .and_then(|()| self.append(key, bytes))
        {
            Ok(()) => add(&self.inner.counters.kept, 1),
            Err(error) => {
                // The end of that file is unknown; what lies before it can be read.
                self.active = None;
                self.rests_until = Some(now.saturating_add(REST));
                add(&self.inner.counters.failed_writes, 1);
                // Others need the space more: a segment goes for each try that fails.
                let oldest = self.inner.index().next_to_go(None).filter(|_| error.is_no_space());
                if let Some(oldest) = oldest {
                    let _ = self.inner.drop_segment(oldest);
                }
            }
        }
    }

    /// Gives up segments until so much more fits in, with what is taken along from the last of them.
    fn make_room(&mut self, more: u32) -> Result<()> {
        loop {
            let index = self.inner.index();
            if index.bytes() + u64::from(more) <= self.inner.limit_bytes() {
                return Ok(());
            }
            let oldest = index.next_to_go(self.active.as_ref().map(|active| active.number));
            drop(index);
            match oldest {
                Some(oldest) => self.give_up(oldest)?,
                None => return Ok(()),
            }
        }
    }

    fn give_up(&mut self, number: u32) -> Result<()> {
        let carried = self.take_along(number);
        let dropped = self.inner.drop_segment(number);
        carried.and(dropped)
    }

    /// Writes again what was read of a segment since it was written. If all was, half of it goes nevertheless, or nothing new
    /// would find room.
    fn take_along(&mut self, number: u32) -> Result<()> {
        let (used, file) = {
            let index = self.inner.index();
            (index.used_in(number), index.file(number))
        };
        let Some(file) = file else { return Ok(()) };
        let mut left = self.inner.segment_bytes / 2;
        for (key, place) in used {
            let Some(rest) = left.checked_sub(u64::from(record_bytes(place.len))) else { break };
            let mut content = vec![0; place.len as usize];
            if layout::read_part(&*file, &key, place, 0, &mut content).unwrap_or(false) {
                self.append(key, &content)?;
                left = rest;
                add(&self.inner.counters.carried, 1);
            }
        }
        Ok(())
    }

    fn append(&mut self, key: Key, bytes: &[u8]) -> Result<()> {
        if self.active.as_ref().is_some_and(|active| self.is_long(active)) {
            self.finish();
        }
        if self.active.is_none() {
            self.begin()?;
        }
        let Some(active) = &mut self.active else { return Ok(()) };
        let at = active.bytes as u32;
        let place = Place { segment: active.number, at, len: bytes.len() as u32 };
        self.buffer.clear();
        layout::put_record(&mut self.buffer, &key, place, bytes);
        active.file.append(&self.buffer, Site::TableAppend)?;
        active.bytes += self.buffer.len() as u64;
        active.records.push((key, place));
        let mut index = self.inner.index();
        index.grow(active.number, self.buffer.len() as u64);
        index.put(key, place);
        Ok(())
    }

    fn is_long(&self, active: &Active) -> bool {
        let records = active.records.len() as u64 * RECORD_BYTES_USUAL;
        active.bytes.max(records) >= self.inner.segment_bytes
    }

    fn begin(&mut self) -> Result<()> {
        self.newest = self.newest.wrapping_add(1);
        let (number, path) = (self.newest, self.inner.path_of(self.newest));
        let files = &self.inner.env.file_system;
        let mut file = files.create(&path, Site::TableCreate)?;
        file.append(&layout::header(number, self.inner.extents.bytes()), Site::TableAppend)?;
        let reader = files.open(&path)?;
        let bytes = u64::from(HEADER_BYTES);
        self.inner.index().add_segment(number, reader, bytes);
        self.active = Some(Active { number, file, bytes, records: Vec::new() });
        Ok(())
    }

    /// Ends the segment with what it contains. If that fails, it is looked through at the next opening.
    fn finish(&mut self) {
        let Some(mut active) = self.active.take() else { return };
        let contents = layout::contents(active.number, &active.records);
        let ended = active.file.append(&contents, Site::TableAppend);
        let closed = active.file.close(Site::TableClose);
        match ended.and(closed) {
            Ok(()) => self.inner.index().grow(active.number, contents.len() as u64),
            Err(_) => add(&self.inner.counters.failed_writes, 1),
        }
    }
}
