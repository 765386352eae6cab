//! Gets of a table's extents: one for all who want them at the same time, into the cache, and ahead of who reads on.
//!
//! I1: bytes come from an object of the size that the table must have, from the place that was asked for, and from one object as long as
//! the table is open; else there is an error. Whether they are what was written, the checksums of blocks tell.
//! I2: an extent that is on its way is not asked for again.
//! I3: what was got is in the cache, or on its way there, before its flight is over: who comes later finds one or the other.
//!
//! **Concurrency.** The lock of the flights is held for a look; no call is made under it.

use std::ops::Range;
use std::sync::{Arc, MutexGuard, PoisonError};

use bytes::Bytes;
use crc32c::crc32c_append;
use siltstone::{Access, Error, ErrorKind, Result};

use super::cache::Fill;
use super::counters::add;
use super::flight::Flight;
use super::remote_table::Core;
use super::run::RunId;
use crate::bucket::{BucketError, Call, Failure, Part, Purpose, Tag};

/// An object is looked at in such pieces.
const CHECK_BYTES: u64 = 8 << 20;

impl Core {
    /// Gets extents, or waits for a get that brings the one that is needed. `None` if that is near by now.
    pub(super) fn get_once(
        &self,
        needed: u32,
        wanted: Range<u32>,
        access: Access,
    ) -> Result<Option<(Range<u32>, Bytes)>> {
        let wanted = self.without_cached_ends(wanted, needed);
        let mut flights = self.flights();
        if let Some(flight) = flights.iter().find(|flight| flight.covers(needed)).cloned() {
            drop(flights);
            add(&self.shared.counters.joined, 1);
            return match flight.wait() {
                // What was read ahead in vain is tried again by who needs it.
                Err(_) if flight.is_ahead => Ok(None),
                landed => Ok(Some((flight.extents.clone(), landed?))),
            };
        }
        // I3: whoever had it on its way may have landed since we looked.
        if self.is_cached(needed) {
            return Ok(None);
        }
        let flight = Arc::new(Flight::new(wanted.clone()));
        flights.push(Arc::clone(&flight));
        drop(flights);
        let bytes = self.fly(&flight, access)?;
        Ok(Some((wanted, bytes)))
    }

    /// Gets what a listed flight is for, puts it into the cache, and ends the flight.
    fn fly(&self, flight: &Arc<Flight>, access: Access) -> Result<Bytes> {
        let mut landing = Landing::new(self, flight);
        let (purpose, fill) = match access {
            Access::Open => (self.tail().purpose, Some(Fill::Wanted)),
            Access::Get => (Purpose::Get, Some(Fill::Wanted)),
            Access::Scan => (Purpose::Scan, Some(Fill::PassedBy)),
            // Readers of what it writes have other tables.
            Access::Merge => (Purpose::CompactIn, None),
        };
        let outcome = self.get(&flight.extents, purpose);
        match (&outcome, fill) {
            (Ok(bytes), Some(fill)) => self.keep(&flight.extents, bytes, fill),
            (Ok(_), None) => {}
            (Err(error), _) => landing.error = error.clone(),
        }
        if outcome.is_ok() {
            flight.land(outcome.clone());
        }
        outcome
    }

    pub(super) fn get(&self, extents: &Range<u32>, purpose: Purpose) -> Result<Bytes> {
        let range = self.shared.extents.bytes_of(extents, self.object.bytes);
        let (body, tag) = self.ask(&range, purpose)?;
        self.check_tag(tag)?;
        Ok(body)
    }

    /// One get.
    fn ask(&self, range: &Range<u64>, purpose: Purpose) -> Result<(Bytes, Tag)> {
        let (offset, len) = (range.start, range.end - range.start);
        self.shared.counters.note_get(purpose, len);
        let part = Part::Range { offset, len };
        let got = self.shared.bucket.get(&self.object.name, part, Call::new(purpose));
        let checked = got.map_err(|failed| told(&failed)).and_then(|object| {
            let expected = self.object.bytes;
            if object.bytes != expected {
                let message = format!("object has {} bytes, expected {expected}", object.bytes);
                return Err(Error::corruption(message));
            }
            if object.offset != offset || object.body.len() as u64 != len {
                let (got, from) = (object.body.len(), object.offset);
                let message = format!("get: {got} bytes from {from} came, expected {len}");
                return Err(Error::new(ErrorKind::Io, message));
            }
            Ok((object.body, object.tag))
        });
        checked.map_err(|error| {
            add(&self.shared.counters.failed_gets, 1);
            error.at(offset).in_file(&self.path)
        })
    }

    /// An object that is written again, by an upload that was tried twice, has another tag and the same bytes. Blocks of another
    /// table would be sound as well, so its bytes are looked at once (I1).
    fn check_tag(&self, tag: Tag) -> Result<()> {
        let known = self.tag().get_or_insert_with(|| tag.clone()).clone();
        if known == tag {
            return Ok(());
        }
        let mut crc = 0;
        for start in (0..self.object.bytes).step_by(CHECK_BYTES as usize) {
            let range = start..self.object.bytes.min(start + CHECK_BYTES);
            let (body, of) = self.ask(&range, Purpose::Tool)?;
            if of != tag {
                let message = "get: the object changes while it is read";
                return Err(Error::new(ErrorKind::Io, message).at(start).in_file(&self.path));
            }
            crc = crc32c_append(crc, &body);
        }
        if crc != self.object.crc32c {
            let message = "object is another than was opened, by its checksum";
            return Err(Error::corruption(message).at(0).in_file(&self.path));
        }
        *self.tag() = Some(tag);
        Ok(())
    }

    fn tag(&self) -> MutexGuard<'_, Option<Tag>> {
        // It is replaced whole.
        self.tag.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, extents: &Range<u32>, bytes: &Bytes, fill: Fill) {
        let Some(cache) = &self.shared.cache else { return };
        let extent_bytes = self.shared.extents.bytes() as usize;
        for (nth, extent) in extents.clone().enumerate() {
            let from = nth * extent_bytes;
            let to = bytes.len().min(from + extent_bytes);
            if from < to {
                cache.keep_part((self.key, extent), bytes, from..to, fill);
            }
        }
    }

    /// Has the crew get the next windows of a run.
    pub(super) fn read_ahead(self: &Arc<Self>, run: RunId, access: Access) {
        let Some(desk) = &self.shared.ahead else { return };
        let windows = &self.shared.windows;
        while let Some(range) = windows.next(run) {
            let Some(flight) = self.list_ahead(&range) else { return };
            let extents = self.shared.extents;
            let bytes = extents.bytes_of(&extents.span(&range), self.object.bytes);
            windows.add_ahead(run, Arc::clone(&flight), bytes);
            let unflown = Unflown { core: Arc::clone(self), flight };
            if !desk.leave(Box::new(move || drop(unflown.fly(access)))) {
                return;
            }
            add(&self.shared.counters.windows_ahead, 1);
        }
    }

    /// A flight for what nobody needs yet; `None` if it begins with what is cached, or comes for others: that is had without.
    fn list_ahead(&self, range: &Range<u64>) -> Option<Arc<Flight>> {
        let wanted = self.shared.extents.span(range);
        let wanted = self.without_cached_ends(wanted.clone(), wanted.start);
        let mut flights = self.flights();
        let comes = flights.iter().any(|flight| flight.covers(wanted.start));
        if comes || self.is_cached(wanted.start) {
            return None;
        }
        let flight = Arc::new(Flight::ahead(wanted));
        flights.push(Arc::clone(&flight));
        Some(flight)
    }

    pub(super) fn is_cached(&self, extent: u32) -> bool {
        self.shared.cache.as_ref().is_some_and(|cache| cache.has(&(self.key, extent)))
    }

    /// Extents around the one that is needed, without those at either end that are cached: they cost no get of their own. What
    /// is cached between others is got again: a second request would cost more than its bytes.
    fn without_cached_ends(&self, extents: Range<u32>, needed: u32) -> Range<u32> {
        let Range { mut start, mut end } = extents;
        while end > needed + 1 && self.is_cached(end - 1) {
            end -= 1;
        }
        while start < needed && self.is_cached(start) {
            start += 1;
        }
        start..end
    }

    fn flights(&self) -> MutexGuard<'_, Vec<Arc<Flight>>> {
        // Pushing and removing leave the list whole.
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a flight, with an error unless it has landed: also if the bucket panics.
struct Landing<'a> {
    core: &'a Core,
    flight: &'a Arc<Flight>,
    error: Error,
}

impl<'a> Landing<'a> {
    fn new(core: &'a Core, flight: &'a Arc<Flight>) -> Self {
        let error = Error::new(ErrorKind::Io, "get: who was at it has given up");
        Landing { core, flight, error: error.in_file(&core.path) }
    }
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        // Who tries again after an error must not find it here.
        self.core.flights().retain(|flight| !Arc::ptr_eq(flight, self.flight));
        self.flight.land(Err(self.error.clone()));
    }
}

/// A flight that a thread of the crew is to fly. If none does, it ends.
struct Unflown {
    core: Arc<Core>,
    flight: Arc<Flight>,
}

impl Unflown {
    fn fly(self, access: Access) -> Result<Bytes> {
        self.core.fly(&self.flight, access)
    }
}

impl Drop for Unflown {
    fn drop(&mut self) {
        drop(Landing::new(&self.core, &self.flight));
    }
}

/// What a failed call means to a reader of tables: `Io` if it may succeed later.
fn told(failed: &BucketError) -> Error {
    let kind = match failed.failure {
        Failure::Missing => ErrorKind::NotFound,
        Failure::Wrong => ErrorKind::InvalidArgument,
        Failure::Unavailable
        | Failure::Denied
        | Failure::Damaged
        | Failure::Unsure
        | Failure::Refused => ErrorKind::Io,
    };
    Error::new(kind, format!("get: {}", failed.message))
}
