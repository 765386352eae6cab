//! Which extents passed by lately and were not kept. One that passes again is worth keeping.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use super::Key;

/// Remembers keys, each by a part of its hash: a wrong yes or no costs little.
pub(super) struct Ghosts(Box<[AtomicU16]>);

impl Ghosts {
    /// As many as extents are cached, about.
    pub(super) fn new(extents: u64) -> Self {
        let places = extents.clamp(64, 1 << 22).next_power_of_two() as usize;
        Ghosts(std::iter::repeat_with(AtomicU16::default).take(places).collect())
    }

    /// True if it is remembered already.
    pub(super) fn note(&self, key: &Key) -> bool {
        let hash = hash(key);
        let mark = (hash as u16).max(1);
        let place = (hash >> 16) as usize & (self.0.len() - 1);
        let Some(place) = self.0.get(place) else { return true };
        // Nothing else hangs on it.
        place.swap(mark, Relaxed) == mark
    }
}

/// Keys of objects are hashes; the extent is mixed in.
fn hash((object, extent): &Key) -> u64 {
    let half = object.0.first_chunk().map_or(0, |half| u64::from_le_bytes(*half));
    let mixed = (half ^ u64::from(*extent)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}
