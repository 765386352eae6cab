//! The cache through its seam, as tables use it.

use super::*;
use crate::format::table::block::Block;
use crate::format::table::cache::KEEPING_BYTES;

/// Of so many blocks of 100 bytes.
const BLOCKS: usize = 1000;
const CHARGE: usize = 100 + size_of::<CachedBlock>() + KEEPING_BYTES;
const CAPACITY: usize = BLOCKS * CHARGE;

fn sized(bytes: usize) -> Arc<CachedBlock> {
    Arc::new(CachedBlock::new(Block::new(vec![0; bytes]).unwrap()))
}

fn block() -> Arc<CachedBlock> {
    sized(100)
}

fn cache_and_shelf(capacity: usize, places: usize) -> (BlockCache, Arc<Shelf>) {
    let cache = BlockCache::new(capacity);
    let shelf = Arc::new(Shelf::new(cache.new_id(), places));
    (cache, shelf)
}

/// Blocks are told by their size.
fn size_at(shelf: &Shelf, place: usize) -> Option<usize> {
    shelf.get(place).map(|cached| cached.block.memory())
}

fn filled(shelf: &Shelf) -> usize {
    (0..shelf.places()).filter(|place| shelf.is_filled(*place)).count()
}

/// As tables do it.
fn read(cache: &BlockCache, shelf: &Arc<Shelf>, place: usize) {
    match shelf.get(place) {
        Some(block) => block.note_use(),
        None if cache.admits(shelf, place) => cache.keep(shelf, place, block()),
        None => {}
    }
}

#[test]
fn keep_replace_clear() {
    let (cache, shelf) = cache_and_shelf(CAPACITY, 8);
    let other = Arc::new(Shelf::new(cache.new_id(), 8));
    assert_eq!(size_at(&shelf, 1), None);
    cache.keep(&shelf, 1, sized(101));
    cache.keep(&shelf, 2, sized(201));
    cache.keep(&other, 2, sized(202));
    assert_eq!((size_at(&shelf, 1), size_at(&shelf, 2)), (Some(101), Some(201)));
    cache.keep(&shelf, 1, sized(102));
    assert_eq!(size_at(&shelf, 1), Some(102));
    let charge = (102 + 201 + 202 + 3 * (CHARGE - 100)) as u64;
    assert_eq!(cache.total_charge(), charge);
    cache.clear(&shelf);
    cache.clear(&shelf);
    assert_eq!((filled(&shelf), size_at(&other, 2)), (0, Some(202)));
    cache.clear(&other);
    assert_eq!(cache.total_charge(), 0);
    cache.keep(&shelf, 8, block());
    assert_eq!((size_at(&shelf, 8), cache.total_charge()), (None, 0), "there is no such place");
}

#[test]
fn blocks_outlive_their_place_in_the_cache() {
    let (cache, shelf) = cache_and_shelf(CAPACITY, 8);
    cache.keep(&shelf, 1, sized(15));
    let held = shelf.get(1).unwrap();
    cache.clear(&shelf);
    assert_eq!(held.block.memory(), 15);
}

#[test]
fn what_is_used_outlives_a_scan() {
    let (cache, shelf) = cache_and_shelf(CAPACITY, 20 * BLOCKS);
    (0..BLOCKS).for_each(|place| read(&cache, &shelf, place));
    let used = 5 * BLOCKS;
    read(&cache, &shelf, used);
    read(&cache, &shelf, used);
    for scanned in 10 * BLOCKS..14 * BLOCKS {
        assert!(shelf.is_filled(used), "before {scanned}");
        read(&cache, &shelf, used);
        read(&cache, &shelf, scanned);
    }
    let kept = (10 * BLOCKS..14 * BLOCKS).filter(|&place| shelf.is_filled(place)).count();
    assert!(kept < BLOCKS / 2, "{kept} blocks of the scan pushed others out");
}

/// Without the admission, which tables ask for and nobody else has to.
#[test]
fn what_is_used_outlives_what_is_not() {
    let (cache, shelf) = cache_and_shelf(CAPACITY, 10 * BLOCKS);
    cache.keep(&shelf, 0, block());
    for place in 1..10 * BLOCKS {
        let used = shelf.get(0).unwrap_or_else(|| panic!("gone before {place}"));
        used.note_use();
        cache.keep(&shelf, place, block());
    }
    assert_eq!(filled(&shelf), BLOCKS);
    // It is not for ever.
    (1..10 * BLOCKS).for_each(|place| cache.keep(&shelf, place, block()));
    assert!(!shelf.is_filled(0));
}

#[test]
fn one_goes_even_if_all_are_used() {
    let (cache, shelf) = cache_and_shelf(CAPACITY, 2 * BLOCKS);
    for place in 0..2 * BLOCKS {
        cache.keep(&shelf, place, block());
        (0..BLOCKS * 2).filter_map(|place| shelf.get(place)).for_each(|block| {
            block.note_use();
        });
        assert!(cache.total_charge() <= CAPACITY as u64);
    }
    assert_eq!(filled(&shelf), BLOCKS);
}

#[test]
fn charges_bound_the_whole() {
    let (cache, shelf) = cache_and_shelf(CAPACITY, 3 * BLOCKS);
    for place in 0..2 * BLOCKS {
        cache.keep(&shelf, place, sized(if place % 2 == 0 { 10 } else { 1000 }));
        assert!(cache.total_charge() <= CAPACITY as u64);
    }
    assert!(cache.total_charge() > CAPACITY as u64 / 2);
    cache.keep(&shelf, 0, sized(20));
    cache.keep(&shelf, 0, sized(CAPACITY + 1));
    assert_eq!(size_at(&shelf, 0), Some(20), "no room, ever");
    let sizes = (0..shelf.places()).filter_map(|place| size_at(&shelf, place));
    let charge: usize = sizes.map(|bytes| bytes + CHARGE - 100).sum();
    assert_eq!(cache.total_charge(), charge as u64);
}

/// Three eighths at the most, and blocks make room as others come.
#[test]
fn what_is_lent_is_not_there_for_blocks() {
    let (cache, shelf) = cache_and_shelf(CAPACITY, 4 * BLOCKS);
    let fill = |from: usize| {
        (from..from + 2 * BLOCKS).for_each(|place| cache.keep(&shelf, place, block()));
        cache.total_charge() / CHARGE as u64
    };
    assert_eq!(fill(0), BLOCKS as u64);
    cache.lend(10 * CHARGE as u64);
    assert_eq!(fill(BLOCKS), BLOCKS as u64 - 10);
    cache.lend(CAPACITY as u64);
    assert_eq!(fill(0), BLOCKS as u64 / 8 * 5);
    cache.take_back(CAPACITY as u64);
    assert_eq!(fill(BLOCKS), BLOCKS as u64 - 10);
    cache.take_back(10 * CHARGE as u64);
    assert_eq!(fill(0), BLOCKS as u64);
}

#[test]
fn capacity_zero_keeps_nothing() {
    let (cache, shelf) = cache_and_shelf(0, 8);
    cache.lend(100);
    cache.take_back(100);
    cache.keep(&shelf, 1, block());
    cache.clear(&shelf);
    cache.prune();
    assert_eq!((filled(&shelf), cache.total_charge()), (0, 0));
    assert!(!cache.admits(&shelf, 1));
}

#[test]
fn a_full_cache_admits_what_is_missed_again() {
    let (cache, shelf) = cache_and_shelf(1 << 20, 100_000);
    assert!(cache.admits(&shelf, 1), "there is room");
    let other = Arc::new(Shelf::new(cache.new_id(), 4096));
    (0..4096).for_each(|place| cache.keep(&other, place, sized(1000)));
    assert!(!cache.admits(&shelf, 1) && cache.admits(&shelf, 1));
    // Misses of very many others wash it out.
    let admitted = (2..100_000).filter(|place| cache.admits(&shelf, *place)).count();
    assert!(!cache.admits(&shelf, 1) && admitted < 100, "{admitted} admitted by mistake");
    cache.clear(&other);
    assert!(cache.admits(&shelf, 2), "there is room again");
}

/// To keep one costs more than it brings where none is read more often than others; what is read often is kept soon, the more
/// often the sooner.
#[test]
fn of_blocks_read_at_random_few_are_admitted() {
    let (cache, shelf) = cache_and_shelf(8 << 20, 27_000);
    let other = Arc::new(Shelf::new(cache.new_id(), 1 << 14));
    (0..1 << 14).for_each(|place| cache.keep(&other, place, sized(1000)));
    let mut random = 1_u64;
    let (mut admitted, mut warm_admitted, mut hot_admitted) = (0, 0, 0);
    for round in 0..40_000 {
        random = mix(random, round);
        admitted += usize::from(cache.admits(&shelf, 2 + (random % 26_998) as usize));
        warm_admitted += usize::from(round % 100 == 0 && cache.admits(&shelf, 0));
        hot_admitted += usize::from(round % 20 == 0 && cache.admits(&shelf, 1));
    }
    assert!((100..400).contains(&admitted), "{admitted} of 40,000");
    assert!(warm_admitted > 133, "{warm_admitted} of 400");
    assert!(hot_admitted > 1500, "{hot_admitted} of 2,000");
}

#[test]
fn prune_spares_what_is_held() {
    let (cache, shelf) = cache_and_shelf(CAPACITY, 8);
    cache.keep(&shelf, 1, sized(100));
    cache.keep(&shelf, 2, sized(200));
    let _held = shelf.get(1).unwrap();
    cache.prune();
    assert_eq!((size_at(&shelf, 1), size_at(&shelf, 2)), (Some(100), None));
    assert_eq!(cache.total_charge(), CHARGE as u64);
}

#[test]
fn closed_tables_leave_nothing_behind() {
    let cache = BlockCache::new(CAPACITY);
    for _ in 0..100 {
        let shelf = Arc::new(Shelf::new(cache.new_id(), BLOCKS / 2));
        (0..BLOCKS / 2).for_each(|place| cache.keep(&shelf, place, block()));
        cache.clear(&shelf);
    }
    let queue = cache.shards[0].queue.lock();
    assert_eq!((queue.blocks, queue.weight), (0, 0));
    assert!(queue.line.len() < BLOCKS);
}

#[test]
fn memory_of_closed_tables_is_for_blocks_to_come() {
    let (cache, shelf) = cache_and_shelf(CAPACITY, BLOCKS);
    (0..BLOCKS / 2).for_each(|place| cache.keep(&shelf, place, block()));
    let held = shelf.get(0).unwrap();
    cache.clear(&shelf);
    let spares = || std::iter::from_fn(|| Some(cache.spare()).filter(|spare| spare.capacity() > 0));
    assert_eq!(spares().map(|spare| spare.capacity()).collect::<Vec<_>>(), [100; BLOCKS / 2 - 1]);
    assert_eq!(held.block.memory(), 100, "somebody reads it");
    // No more than half of the capacity.
    (0..BLOCKS).for_each(|place| cache.keep(&shelf, place, sized(1000)));
    cache.clear(&shelf);
    let bytes: usize = spares().map(|spare| spare.capacity()).sum();
    assert!((CAPACITY / 2 - 1000..=CAPACITY / 2).contains(&bytes), "{bytes}");
    assert_eq!(cache.spare().capacity(), 0);
    cache.keep(&shelf, 0, block());
    cache.clear(&shelf);
    cache.prune();
    assert_eq!(cache.spare().capacity(), 0, "who prunes wants memory back");
}

/// However they go, their memory comes back.
#[cfg(not(any(miri, loom)))]
#[test]
fn blocks_of_a_large_cache_lie_in_huge_pages() {
    let (cache, shelf) = cache_and_shelf(HUGE_CAPACITY_MIN, 12_000);
    let heap = cache.heap.clone().unwrap();
    let content = |place: usize| vec![place as u8; 3000 + place % 1000];
    for place in 0..shelf.places() {
        cache.stock_up();
        let bytes = [&content(place)[..], &[0; 4]].concat();
        let block = Block::new(cache.place(bytes.into())).unwrap();
        cache.keep(&shelf, place, Arc::new(CachedBlock::new(block)));
    }
    let held: Vec<_> =
        (0..shelf.places()).filter_map(|place| Some((place, shelf.get(place)?))).collect();
    assert!((7000..shelf.places()).contains(&held.len()), "{}", held.len());
    let blocks: usize = held.iter().map(|(_, block)| block.block.memory()).sum();
    assert!(blocks <= HUGE_CAPACITY_MIN && heap.taken_bytes() == blocks);
    cache.clear(&shelf);
    for (place, block) in held {
        assert_eq!(block.block.slice(0..3000 + place % 1000), content(place));
    }
    assert_eq!((heap.taken_bytes(), cache.spare().capacity()), (0, 0));
    let small = cache_and_shelf(HUGE_CAPACITY_MIN - 1, 1).0;
    assert!(small.heap.is_none() && small.place(vec![1; 10].into())[..] == [1; 10]);
}

/// Through tables, as users have it: where there is housekeeping, by its help.
#[cfg(not(any(miri, loom)))]
#[test]
fn a_database_reads_what_lies_in_huge_pages() {
    reads_what_lies_in_huge_pages(crate::Background::Lanes);
    reads_what_lies_in_huge_pages(crate::Background::ByHand);
}

#[cfg(not(any(miri, loom)))]
fn reads_what_lies_in_huge_pages(background: crate::Background) {
    let by_hand = background == crate::Background::ByHand;
    let cache = Arc::new(BlockCache::new(HUGE_CAPACITY_MIN));
    let heap = cache.heap.clone().unwrap();
    let options = crate::Options {
        create_if_missing: true,
        env: crate::Env::memory(),
        block_cache: Some(cache),
        background,
        ..Default::default()
    };
    let db = crate::Db::open("db", options).unwrap();
    let entry = |n: u32| (format!("{:08}", n * 7919 % 20_011), vec![n as u8; 50 + n as usize % 90]);
    for (key, value) in (0..20_000).map(entry) {
        db.put(key, value).unwrap();
    }
    db.flush().unwrap();
    // The first block that is read has housekeeping make room for all of them.
    db.get(entry(0).0).unwrap();
    let is_ready = || by_hand || heap.has_unused();
    assert!((0..50_000_000).any(|_| is_ready() || {
        std::thread::yield_now();
        false
    }));
    for (key, value) in (0..20_000).chain(0..20_000).map(entry) {
        assert_eq!(db.get(key).unwrap(), Some(value));
    }
    assert!(heap.taken_bytes() > 1 << 20, "{}", heap.taken_bytes());
    let mut iter = db.iter().unwrap();
    iter.seek_to_first().unwrap();
    let mut all: Vec<_> = (0..20_000).map(entry).collect();
    all.sort();
    for (key, value) in &all {
        assert_eq!((iter.key(), iter.value()), (key.as_bytes(), &value[..]));
        iter.next().unwrap();
    }
    drop((iter, db));
    assert_eq!(heap.taken_bytes(), 0);
}

#[test]
fn ids_are_never_repeated() {
    let cache = BlockCache::new(CAPACITY);
    assert_ne!(cache.new_id(), cache.new_id());
}

#[test]
fn places_spread_over_the_shards() {
    let cache = BlockCache::new(16 << 20);
    let mut counts = [0; 16];
    for id in 0..7 {
        let shelf = Arc::new(Shelf::new(id, 3000));
        for place in 0..2286 {
            let shard = cache.shard(hash_of(&shelf, place)).unwrap();
            let index = cache.shards.iter().position(|other| std::ptr::eq(other, shard));
            counts[index.unwrap()] += 1;
        }
    }
    assert!(counts.iter().all(|&count| (700..1300).contains(&count)), "{counts:?}");
}

/// Readers beside keepers of the same places: what is found is whole, and the sum holds in the end.
#[test]
fn many_threads() {
    let (cache, shelf) = cache_and_shelf(200 * CHARGE, BLOCKS);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (cache, shelf) = (&cache, &shelf);
            scope.spawn(move || {
                for round in 0..20 * BLOCKS {
                    let place = (round * 7 + thread * 13) % BLOCKS;
                    match shelf.get(place) {
                        Some(block) => assert_eq!(block.block.memory(), 100),
                        None => cache.keep(shelf, place, block()),
                    }
                }
            });
        }
    });
    assert_eq!(cache.total_charge(), (filled(&shelf) * CHARGE) as u64);
}
