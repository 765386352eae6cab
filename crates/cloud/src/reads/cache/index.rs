//! Which extents are cached, and where: in memory, some 90 bytes for each. Readers look here first.
//!
//! I1: an extent lies at one place at most. A segment counts how many lie in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use siltstone::RandomAccessFile;

use super::Key;
use super::layout::Place;
use crate::reads::object::ObjectKey;

#[derive(Default)]
pub(super) struct Index {
    extents: BTreeMap<Key, Slot>,
    segments: BTreeMap<u32, Segment>,
    bytes: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    place: Place,
    /// Read since it was written.
    is_used: bool,
}

/// A file of extents.
pub(super) struct Segment {
    file: Arc<dyn RandomAccessFile>,
    bytes: u64,
    /// Extents that lie in it.
    live: u32,
    /// All that were written into it.
    keys: Vec<Key>,
}

impl Index {
    pub(super) fn has(&self, key: &Key) -> bool {
        self.extents.contains_key(key)
    }

    /// Where an extent lies, which counts as a use if it is wanted for itself.
    pub(super) fn find(
        &mut self,
        key: &Key,
        counts: bool,
    ) -> Option<(Place, Arc<dyn RandomAccessFile>)> {
        let slot = self.extents.get_mut(key)?;
        slot.is_used |= counts;
        let segment = self.segments.get(&slot.place.segment)?;
        Some((slot.place, Arc::clone(&segment.file)))
    }

    pub(super) fn add_segment(&mut self, number: u32, file: Arc<dyn RandomAccessFile>, bytes: u64) {
        self.bytes += bytes;
        self.segments.insert(number, Segment { file, bytes, live: 0, keys: Vec::new() });
    }

    /// A segment has become longer.
    pub(super) fn grow(&mut self, number: u32, bytes: u64) {
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.bytes += bytes;
            self.bytes += bytes;
        }
    }

    /// An extent lies there now. Its segment is known.
    pub(super) fn put(&mut self, key: Key, place: Place) {
        let Some(segment) = self.segments.get_mut(&place.segment) else { return };
        segment.live += 1;
        segment.keys.push(key);
        if let Some(old) = self.extents.insert(key, Slot { place, is_used: false }) {
            self.bury(old.place.segment);
        }
    }

    /// An extent lies nowhere any more; if `only_at` is given, unless it has moved from there.
    pub(super) fn remove(&mut self, key: &Key, only_at: Option<Place>) -> bool {
        let is_there = |slot: &Slot| only_at.is_none_or(|place| slot.place == place);
        if !self.extents.get(key).is_some_and(is_there) {
            return false;
        }
        if let Some(slot) = self.extents.remove(key) {
            self.bury(slot.place.segment);
        }
        true
    }

    fn bury(&mut self, segment: u32) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.live -= 1;
        }
    }

    /// All of an object's extents are forgotten.
    pub(super) fn remove_object(&mut self, object: ObjectKey) -> usize {
        let keys = self.keys_of(object);
        keys.iter().for_each(|key| {
            self.remove(key, None);
        });
        keys.len()
    }

    fn keys_of(&self, object: ObjectKey) -> Vec<Key> {
        self.extents.range((object, 0)..=(object, u32::MAX)).map(|(key, _)| *key).collect()
    }

    /// Which extents of an object are cached, in order.
    pub(super) fn extents_of(&self, object: ObjectKey) -> Vec<u32> {
        self.keys_of(object).into_iter().map(|(_, extent)| extent).collect()
    }

    /// What is cached of an object.
    pub(super) fn bytes_of(&self, object: ObjectKey) -> u64 {
        let extents = self.extents.range((object, 0)..=(object, u32::MAX));
        extents.map(|(_, slot)| u64::from(slot.place.len)).sum()
    }

    /// The segment that goes next: one in which nothing lies, else the one that was written first.
    pub(super) fn next_to_go(&self, but: Option<u32>) -> Option<u32> {
        let mut others = self.segments.iter().filter(|(number, _)| Some(**number) != but);
        let empty = others.clone().find(|(_, segment)| segment.live == 0);
        empty.or_else(|| others.next()).map(|(number, _)| *number)
    }

    /// What lies in a segment and was read since it was written.
    pub(super) fn used_in(&self, number: u32) -> Vec<(Key, Place)> {
        let keys = self.segments.get(&number).map(|segment| &segment.keys[..]).unwrap_or_default();
        let used = keys.iter().filter_map(|key| {
            let slot = self.extents.get(key)?;
            (slot.is_used && slot.place.segment == number).then_some((*key, slot.place))
        });
        used.collect()
    }

    pub(super) fn file(&self, number: u32) -> Option<Arc<dyn RandomAccessFile>> {
        self.segments.get(&number).map(|segment| Arc::clone(&segment.file))
    }

    /// A segment goes, and what lies in it. Returns how many extents that were.
    pub(super) fn remove_segment(&mut self, number: u32) -> u32 {
        let Some(segment) = self.segments.remove(&number) else { return 0 };
        self.bytes -= segment.bytes;
        for key in &segment.keys {
            if self.extents.get(key).is_some_and(|slot| slot.place.segment == number) {
                self.extents.remove(key);
            }
        }
        segment.live
    }

    pub(super) fn newest_segment(&self) -> u32 {
        self.segments.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Extents, segments, and what these take on disk.
    pub(super) fn totals(&self) -> (u64, u64, u64) {
        (self.extents.len() as u64, self.segments.len() as u64, self.bytes)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
