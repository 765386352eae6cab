//! The built-in block cache: sharded, weighed in bytes, and cheap to hit. Databases make a private
//! one unless their options share one.
//!
//! **Concurrency.** A hit takes its shard's lock shared and marks the block with an atomic; only
//! inserting and erasing take it exclusively. Blocks that are asked for again outlive those of a
//! single scan (a CLOCK-like policy), where LevelDB's strict LRU would let a scan wash them out.
//!
//! **Admission.** Once the cache is full, a point read keeps a block only if another has missed it not
//! long before: keeping costs memory, an eviction and a few locks, and most blocks that are read once
//! are not read again before they would be gone.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};

use quick_cache::sync::{self, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::base::hash::mix;
use crate::format::table::cache::{Cache, CacheKey, CachedBlock};

/// Shards are no smaller than this, so that blocks with large values fit in, ..
const SHARD_BYTES_MIN: usize = 1 << 20;
/// .. and no more than this.
const SHARDS_MAX: usize = 16;
/// For sizing tables only: about what a block of 4 KiB takes.
const BLOCK_BYTES_USUAL: usize = 4 << 10;

type Shards = sync::Cache<CacheKey, Kept, ByCharge, Mixer, DefaultLifecycle<CacheKey, Kept>>;

/// A block cache of fixed capacity, to be shared by databases: `Arc<BlockCache>`.
///
/// Blocks in use by readers live on when the cache forgets them, and count no more. A block larger
/// than a shard (a sixteenth of the capacity, but at least 1 MiB or the whole capacity) is not
/// kept.
pub struct BlockCache {
    /// None: capacity 0, nothing is kept.
    shards: Option<Shards>,
    misses: RecentMisses,
    /// Inserted so far, to look at the weight now and then.
    inserted: AtomicU64,
    is_full: AtomicBool,
    last_id: AtomicU64,
}

/// Looking at the weight takes all shards' locks: it is done at one insertion in so many.
const WEIGHED_EVERY: u64 = 16;

/// Remembers about as many misses as blocks fit, each by a part of its hash.
struct RecentMisses(Box<[AtomicU16]>);

impl RecentMisses {
    fn new(capacity_bytes: usize) -> Self {
        let places = (capacity_bytes / BLOCK_BYTES_USUAL).next_power_of_two().max(64);
        RecentMisses(std::iter::repeat_with(AtomicU16::default).take(places).collect())
    }

    /// True if this miss is remembered already. A wrong yes or no costs little.
    fn note(&self, key: CacheKey) -> bool {
        let hash = Mixer::default().hash_one(key);
        let mark = (hash as u16).max(1);
        let place = (hash >> 16) as usize & (self.0.len() - 1);
        let Some(place) = self.0.get(place) else { return true };
        let again = place.load(Relaxed) == mark;
        if !again {
            place.store(mark, Relaxed);
        }
        again
    }
}

#[derive(Clone)]
struct Kept {
    block: Arc<CachedBlock>,
    charge: u64,
}

impl BlockCache {
    /// A cache of so many bytes; 0 turns caching off.
    pub fn new(capacity_bytes: usize) -> Self {
        BlockCache {
            shards: (capacity_bytes > 0).then(|| shards(capacity_bytes)),
            misses: RecentMisses::new(capacity_bytes),
            inserted: AtomicU64::new(0),
            is_full: AtomicBool::new(capacity_bytes == 0),
            last_id: AtomicU64::new(0),
        }
    }
}

fn shards(capacity_bytes: usize) -> Shards {
    let shards = (capacity_bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
    // Rounded down, for the crate would round up to a power of two.
    let shards = 1 << shards.ilog2();
    let options = OptionsBuilder::new()
        .shards(shards)
        .weight_capacity(capacity_bytes as u64)
        .estimated_items_capacity((capacity_bytes / BLOCK_BYTES_USUAL).max(32 * shards))
        .build()
        .expect("capacity and estimate are given, which is all the builder asks for");
    Shards::with_options(options, ByCharge, Mixer::default(), DefaultLifecycle::default())
}

impl Cache for BlockCache {
    fn get(&self, key: CacheKey) -> Option<Arc<CachedBlock>> {
        Some(self.shards.as_ref()?.get(&key)?.block)
    }

    fn insert(&self, key: CacheKey, block: Arc<CachedBlock>, charge: u64) {
        if let Some(shards) = &self.shards {
            shards.insert(key, Kept { block, charge });
            if self.inserted.fetch_add(1, Relaxed).is_multiple_of(WEIGHED_EVERY) {
                let is_full = shards.weight() >= shards.capacity() / 8 * 7;
                self.is_full.store(is_full, Relaxed);
            }
        }
    }

    fn admits(&self, key: CacheKey) -> bool {
        self.shards.is_some() && (!self.is_full.load(Relaxed) || self.misses.note(key))
    }

    fn erase(&self, key: CacheKey) {
        if let Some(shards) = &self.shards {
            shards.remove(&key);
        }
    }

    fn total_charge(&self) -> u64 {
        self.shards.as_ref().map_or(0, Shards::weight)
    }

    fn new_id(&self) -> u64 {
        // Only uniqueness counts, which a single atomic has in any order.
        self.last_id.fetch_add(1, Relaxed) + 1
    }

    fn prune(&self) {
        if let Some(shards) = &self.shards {
            shards.retain(|_, kept| Arc::strong_count(&kept.block) > 1);
        }
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let capacity = self.shards.as_ref().map_or(0, Shards::capacity);
        f.debug_struct("BlockCache")
            .field("capacity", &capacity)
            .field("total_charge", &self.total_charge())
            .finish()
    }
}

#[derive(Clone)]
struct ByCharge;

impl Weighter<CacheKey, Kept> for ByCharge {
    fn weight(&self, _: &CacheKey, kept: &Kept) -> u64 {
        kept.charge.max(1) // The crate lets weightless entries stay for ever.
    }
}

/// Mixes the two numbers of a key; they come from this process, so no one can aim for collisions.
#[derive(Clone, Default)]
pub(crate) struct Mixer(u64);

impl BuildHasher for Mixer {
    type Hasher = Mixer;

    #[inline]
    fn build_hasher(&self) -> Mixer {
        Mixer(0)
    }
}

impl Hasher for Mixer {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0, number);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::table::block::Block;

    const CAPACITY: usize = 1000;

    /// Blocks are told by their size.
    fn block(id: usize) -> Arc<CachedBlock> {
        Arc::new(CachedBlock::new(Block::new(vec![0; id + 4]).unwrap()))
    }

    fn key(offset: u64) -> CacheKey {
        CacheKey { table_id: 1, offset }
    }

    fn id_of(cache: &BlockCache, offset: u64) -> Option<usize> {
        cache.get(key(offset)).map(|cached| cached.block.memory() - 4)
    }

    #[test]
    fn hit_miss_replace_erase() {
        let cache = BlockCache::new(CAPACITY);
        assert_eq!(id_of(&cache, 100), None);
        cache.insert(key(100), block(101), 1);
        cache.insert(key(200), block(201), 1);
        assert_eq!((id_of(&cache, 100), id_of(&cache, 200)), (Some(101), Some(201)));
        assert!(cache.get(CacheKey { table_id: 2, offset: 100 }).is_none());
        cache.insert(key(100), block(102), 1);
        assert_eq!(id_of(&cache, 100), Some(102));
        assert_eq!(cache.total_charge(), 2);
        cache.erase(key(100));
        cache.erase(key(100));
        assert_eq!((id_of(&cache, 100), id_of(&cache, 200)), (None, Some(201)));
    }

    #[test]
    fn blocks_outlive_their_place_in_the_cache() {
        let cache = BlockCache::new(CAPACITY);
        cache.insert(key(1), block(11), 1);
        let held = cache.get(key(1)).unwrap();
        cache.erase(key(1));
        assert_eq!(held.block.memory(), 15);
    }

    #[test]
    fn what_is_used_outlives_a_scan() {
        let cache = BlockCache::new(CAPACITY);
        for offset in 0..CAPACITY as u64 {
            cache.insert(key(offset), block(1), 1);
        }
        cache.insert(key(5_000), block(101), 1);
        for offset in 0..4 * CAPACITY as u64 {
            assert_eq!(id_of(&cache, 5_000), Some(101), "after {offset} others");
            cache.insert(key(10_000 + offset), block(1), 1);
        }
        let scanned = 10_000..10_000 + 4 * CAPACITY as u64;
        let kept = scanned.filter(|&offset| id_of(&cache, offset).is_some()).count();
        assert!(kept < CAPACITY / 2, "{kept} blocks of the scan pushed others out");
    }

    #[test]
    fn weights_bound_the_whole() {
        let cache = BlockCache::new(CAPACITY);
        for offset in 0..2 * CAPACITY as u64 {
            cache.insert(key(offset), block(1), if offset % 2 == 0 { 1 } else { 10 });
            assert!(cache.total_charge() <= CAPACITY as u64);
        }
        assert!(cache.total_charge() > CAPACITY as u64 / 2);
        cache.insert(key(7_000), block(1), CAPACITY as u64 + 1);
        assert_eq!(id_of(&cache, 7_000), None);
    }

    #[test]
    fn capacity_zero_keeps_nothing() {
        let cache = BlockCache::new(0);
        cache.insert(key(1), block(1), 1);
        assert_eq!((id_of(&cache, 1), cache.total_charge()), (None, 0));
    }

    #[test]
    fn a_full_cache_admits_what_is_missed_again() {
        let cache = BlockCache::new(1 << 20);
        assert!(cache.admits(key(1)), "there is room");
        for offset in 0..4096 {
            cache.insert(key(offset << 12), block(1000), 1000);
        }
        assert!(!cache.admits(key(1)) && cache.admits(key(1)));
        // Misses of very many others wash it out.
        let admitted = (1..100_000u64).filter(|n| cache.admits(key(n * 4099))).count();
        assert!(!cache.admits(key(1)) && admitted < 100, "{admitted} admitted by mistake");
        assert!(!BlockCache::new(0).admits(key(1)));
    }

    #[test]
    fn prune_spares_what_is_held() {
        let cache = BlockCache::new(CAPACITY);
        cache.insert(key(1), block(100), 1);
        cache.insert(key(2), block(200), 1);
        let _held = cache.get(key(1)).unwrap();
        cache.prune();
        assert_eq!((id_of(&cache, 1), id_of(&cache, 2)), (Some(100), None));
    }

    #[test]
    fn ids_are_never_repeated() {
        let cache = BlockCache::new(CAPACITY);
        assert_ne!(cache.new_id(), cache.new_id());
    }

    #[test]
    fn keys_spread_over_the_shards() {
        let cache = BlockCache::new(16 << 20);
        let shards = cache.shards.as_ref().unwrap();
        let mut counts = [0; 16];
        for at in 0..16_000u64 {
            counts[shards.shard_index(&CacheKey { table_id: at % 7, offset: at * 4096 })] += 1;
        }
        assert!(counts.iter().all(|&count| (700..1300).contains(&count)), "{counts:?}");
    }
}
