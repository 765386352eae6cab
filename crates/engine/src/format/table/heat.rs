//! How often a table's blocks were read from its file lately: by that [`Residents`](crate::store::residents::Residents) tell
//! which tables are worth their memory.
//!
//! **Concurrency.** Readers count, one housekeeper at a time looks. Threads that count at the same time may count once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Called by a reader when it is time to look which tables are read most.
pub(crate) type Ring = Arc<dyn Fn() + Send + Sync>;

/// A new table has been read so often when it first rings.
pub(crate) const READS_TO_RING: u32 = 64;

#[derive(Default)]
pub(crate) struct Heat {
    ring: Option<Ring>,
    reads: AtomicU32,
    /// Rings at so many; at 0, never.
    rings_at: AtomicU32,
    /// The number at the last look, ..
    looked_at: AtomicU32,
    /// .. and what the looks until then have left: reads, of which each look forgets half.
    warmth: AtomicU32,
    is_resident: AtomicBool,
}

impl Heat {
    /// Of a table whose readers ring.
    pub(crate) fn with_ring(ring: Ring) -> Self {
        Heat { ring: Some(ring), rings_at: AtomicU32::new(READS_TO_RING), ..Heat::default() }
    }

    /// Counts a block that a reader needed and the block cache did not have.
    #[inline]
    pub(crate) fn note_read(&self) {
        let reads = self.reads.load(Relaxed).wrapping_add(1);
        self.reads.store(reads, Relaxed);
        if reads == self.rings_at.load(Relaxed) {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        if let Some(ring) = &self.ring {
            ring();
        }
    }

    /// A look: what was read lately.
    pub(crate) fn look(&self) -> u32 {
        let reads = self.reads.load(Relaxed);
        let new = reads.wrapping_sub(self.looked_at.swap(reads, Relaxed));
        let warmth = (self.warmth.load(Relaxed) / 2).saturating_add(new);
        self.warmth.store(warmth, Relaxed);
        warmth
    }

    pub(crate) fn is_resident(&self) -> bool {
        self.is_resident.load(Relaxed)
    }

    /// Says whether the table's bytes are in memory, and after how many more reads it rings if they are not.
    pub(crate) fn settle(&self, is_resident: bool, reads_to_ring: u32) {
        self.is_resident.store(is_resident, Relaxed);
        let at = self.reads.load(Relaxed).wrapping_add(reads_to_ring);
        self.rings_at.store(if is_resident { 0 } else { at }, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often the readers of so many blocks ring.
    fn rings(heat: &Heat, rung: &AtomicU32, reads: u32) -> u32 {
        let before = rung.load(Relaxed);
        (0..reads).for_each(|_| heat.note_read());
        rung.load(Relaxed) - before
    }

    #[test]
    fn readers_ring_once_and_again_after_a_look() {
        let rung = Arc::new(AtomicU32::new(0));
        let ringing = Arc::clone(&rung);
        let heat =
            Heat::with_ring(Arc::new(move || ringing.store(ringing.load(Relaxed) + 1, Relaxed)));
        assert_eq!(rings(&heat, &rung, READS_TO_RING - 1), 0);
        assert_eq!(rings(&heat, &rung, 1000), 1);
        heat.settle(false, 200);
        assert_eq!((rings(&heat, &rung, 199), rings(&heat, &rung, 1000)), (0, 1));
        heat.settle(true, 200);
        assert_eq!(rings(&heat, &rung, 1000), 0, "a resident");
    }

    #[test]
    fn each_look_forgets_half() {
        let heat = Heat::default();
        (0..100).for_each(|_| heat.note_read());
        assert_eq!((heat.look(), heat.look(), heat.look()), (100, 50, 25));
        heat.note_read();
        assert_eq!(heat.look(), 13);
    }
}
