//! Times of the engine's parts by themselves: `cargo xtask bench [NAME]`.
//!
//! They tell where a change in `db_bench` comes from. What the parts are stands in
//! `crates/engine/src/benches`, which only builds with `--cfg benches` have.

#![allow(clippy::disallowed_methods, reason = "a program's edge: files are real")]

#[cfg(not(benches))]
fn main() {
    eprintln!("the parts are not in this build: cargo xtask bench");
}

#[cfg(benches)]
fn main() {
    parts::all();
}

#[cfg(benches)]
mod parts {
    use std::hint::black_box;

    use criterion::{BatchSize, Criterion, Throughput};
    use siltstone::benches::{
        CachedTable, Entries, InternalTarget, Log, LogKind, Memtable, Merge, Packing, SortedBlock,
        Unpacking, block_bytes, crc32c,
    };
    use siltstone::{BloomFilter, FilterPolicy};

    const VALUE: [u8; 100] = [b'v'; 100];
    /// Entries of a write buffer of 4 MiB, or nearly.
    const MEMTABLE_ENTRIES: u64 = 25_000;
    /// Entries of a block of 4 KiB.
    const BLOCK_ENTRIES: u64 = 36;

    pub(super) fn all() {
        let mut criterion = Criterion::default().configure_from_args();
        memtable(&mut criterion);
        reads(&mut criterion);
        writes(&mut criterion);
        criterion.final_summary();
    }

    fn key(number: u64) -> Vec<u8> {
        format!("{number:016}").into_bytes()
    }

    fn entries(numbers: impl Iterator<Item = u64>) -> Entries {
        numbers.map(|number| (key(number), VALUE.to_vec())).collect()
    }

    /// A block's worth of values that compress to half, piece by piece as LevelDB's benchmark makes them.
    fn compressible(value_bytes: usize, seed: u64) -> Entries {
        let mut state = seed;
        let mut printable = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            b' ' + (state >> 33) as u8 % 95
        });
        let halves = std::iter::repeat_with(|| printable.by_ref().take(50).collect::<Vec<_>>());
        let bytes: Vec<_> = halves.take(60).flat_map(|half| half.repeat(2)).collect();
        let values = bytes.chunks_exact(value_bytes).take(4096_usize.div_ceil(value_bytes));
        let keys = (seed..).map(|number| key(number * 7_919 * 1_000_003));
        keys.zip(values.map(<[u8]>::to_vec)).collect()
    }

    /// The numbers below `count`, each once, in an order that looks like none.
    fn scattered(count: u64) -> impl Iterator<Item = u64> {
        // A prime that divides none of the counts used here.
        (0..count).map(move |number| number * 7_919 % count)
    }

    fn memtable(criterion: &mut Criterion) {
        for (name, ascending) in [("memtable_insert", false), ("memtable_insert_ascending", true)] {
            let keys: Vec<_> = if ascending {
                (0..MEMTABLE_ENTRIES).map(key).collect()
            } else {
                scattered(MEMTABLE_ENTRIES).map(key).collect()
            };
            let mut group = criterion.benchmark_group(name);
            group.throughput(Throughput::Elements(MEMTABLE_ENTRIES)).sample_size(20);
            group.bench_function("fill", |bencher| {
                let fill = |mut memtable: Memtable| {
                    keys.iter().for_each(|key| memtable.insert(key, &VALUE));
                    memtable
                };
                bencher.iter_batched(Memtable::new, fill, BatchSize::PerIteration);
            });
            group.finish();
        }
        let mut memtable = Memtable::new();
        scattered(MEMTABLE_ENTRIES).for_each(|number| memtable.insert(&key(number), &VALUE));
        let keys: Vec<_> = scattered(MEMTABLE_ENTRIES).map(key).collect();
        let mut next = keys.iter().cycle();
        criterion.bench_function("memtable_get", |bencher| {
            bencher.iter(|| memtable.get(next.next().expect("a cycle has no end")));
        });
    }

    fn reads(criterion: &mut Criterion) {
        let mut block = SortedBlock::new(&entries(0..BLOCK_ENTRIES));
        let targets: Vec<_> =
            (0..BLOCK_ENTRIES).map(|number| InternalTarget::new(&key(number * 7 % 36))).collect();
        let mut next = targets.iter().cycle();
        criterion.bench_function("block_seek", |bencher| {
            bencher.iter(|| block.seek(next.next().expect("a cycle has no end")));
        });

        let table = CachedTable::new(&entries(0..MEMTABLE_ENTRIES));
        let numbers = scattered(MEMTABLE_ENTRIES);
        let targets: Vec<_> = numbers.map(|number| InternalTarget::new(&key(number))).collect();
        let mut next = targets.iter().cycle();
        criterion.bench_function("table_get_cached", |bencher| {
            bencher.iter(|| table.get(next.next().expect("a cycle has no end")));
        });

        for runs in [1_u64, 2, 8] {
            let run = |at| entries((0..1000).map(move |number| number * runs + at));
            let mut merge = Merge::new(&(0..runs).map(run).collect::<Vec<_>>());
            criterion.bench_function(&format!("merge_next/{runs}"), |bencher| {
                bencher.iter(|| {
                    merge.next();
                    black_box(merge.key());
                });
            });
        }

        let filter = BloomFilter::new(10);
        let keys: Vec<_> = (0..10_000).map(key).collect();
        let mut bits = Vec::new();
        filter.create_filter(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut bits);
        for (name, first) in [("filter_hit", 0), ("filter_miss", 10_000)] {
            let keys: Vec<_> = (first..first + 10_000).map(key).collect();
            let mut next = keys.iter().cycle();
            criterion.bench_function(name, |bencher| {
                bencher.iter(|| filter.may_match(next.next().expect("a cycle has no end"), &bits));
            });
        }
    }

    fn writes(criterion: &mut Criterion) {
        let block = vec![b'x'; 4096];
        let mut group = criterion.benchmark_group("crc32c");
        for len in [140, 4096] {
            group.throughput(Throughput::Bytes(len as u64));
            group.bench_function(len.to_string(), |bencher| {
                bencher.iter(|| crc32c(black_box(&block[..len])));
            });
        }
        group.finish();

        let mut packing = Packing::new();
        let mut group = criterion.benchmark_group("snappy_pack");
        for value_bytes in [100, 1000, 2000] {
            let block = block_bytes(&compressible(value_bytes, 1));
            group.throughput(Throughput::Bytes(block.len() as u64));
            group.bench_function(value_bytes.to_string(), |bencher| {
                bencher.iter(|| packing.pack(black_box(&block)));
            });
        }
        group.finish();

        let mut group = criterion.benchmark_group("snappy_unpack");
        for value_bytes in [100, 1000, 2000] {
            let blocks = (1..500).map(|seed| block_bytes(&compressible(value_bytes, seed)));
            let mut unpacking = Unpacking::new(blocks);
            group.throughput(Throughput::Bytes(unpacking.unpack() as u64));
            group.bench_function(value_bytes.to_string(), |bencher| {
                bencher.iter(|| unpacking.unpack());
            });
        }
        group.finish();

        let folder = std::env::temp_dir().join(format!("siltstone-parts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder takes a folder");
        for (name, kind) in
            [("wal_append", LogKind::Mapped), ("wal_append_written", LogKind::Written)]
        {
            let mut log = Log::new(&folder, kind);
            criterion.bench_function(name, |bencher| {
                bencher.iter(|| log.append(black_box(&block[..140])));
            });
        }
        std::fs::remove_dir_all(&folder).expect("it was just made");
    }
}
