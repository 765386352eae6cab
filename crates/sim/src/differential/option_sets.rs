//! The option sets that each operation list is run against.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use siltstone::{
    Background, BlockCache, BloomFilter, Cache, Clock, Compaction, Compression, Env, FilterPolicy,
    Level0Limits, Options,
};

use super::order::{FoldedFilter, Order};

/// A database is reopened with the options of one of these; 0 is the set's own.
pub const VARIANTS: u32 = 8;

/// Where the files are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Memory,
    Disk,
}

/// A named way to open databases.
pub struct OptionSet {
    pub name: &'static str,
    pub place: Place,
    pub background: Background,
    pub order: Order,
    /// Keys are made from numbers below this.
    pub keys: u32,
    adjust: fn(&mut Options),
}

use Background::{ByHand, Lanes};
use Place::{Disk, Memory};

impl OptionSet {
    const fn new(
        name: &'static str,
        place: Place,
        background: Background,
        adjust: fn(&mut Options),
    ) -> Self {
        OptionSet { name, place, background, order: Order::Bytewise, keys: 2500, adjust }
    }

    const fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    const fn keys(mut self, keys: u32) -> Self {
        self.keys = keys;
        self
    }

    /// True if a run is a function of its seed alone.
    pub fn is_deterministic(&self) -> bool {
        self.background == ByHand
    }

    pub fn env(&self) -> Env {
        let env = match self.place {
            Memory => Env::memory(),
            Disk => Env { seed: 0, ..Env::posix() },
        };
        match self.background {
            Lanes => env,
            ByHand => Env { clock: Arc::new(CountingClock::default()), ..env },
        }
    }

    pub fn options(&self, env: &Env, variant: u32) -> Options {
        let mut options = Options {
            create_if_missing: true,
            comparator: self.order.comparator(),
            background: self.background,
            env: env.clone(),
            info_log: false,
            ..Options::default()
        };
        (self.adjust)(&mut options);
        self.vary(&mut options, variant);
        options
    }

    fn vary(&self, options: &mut Options, variant: u32) {
        match variant {
            1 => options.write_buffer_size *= 2,
            2 => {
                options.block_size = 300;
                options.block_restart_interval = 3;
                options.unclamped = true;
            }
            3 => options.compression = Compression::None,
            4 => options.filter_policy = None,
            5 => {
                options.filter_policy = Some(match self.order {
                    Order::Folded => Arc::new(FoldedFilter),
                    // Where there are tables of the other kind, both are read.
                    _ => Arc::new(BloomFilter::wide(4)),
                });
                options.reuse_logs = !options.reuse_logs;
            }
            6 => options.compaction = Compaction::Sliced,
            7 => {
                options.compaction = match options.compaction {
                    Compaction::Sliced => Compaction::L2sm,
                    _ => Compaction::Leveled,
                };
            }
            _ => {}
        }
    }
}

/// Flushes and compacts all the time, on many levels.
fn tiny(options: &mut Options) {
    options.unclamped = true;
    options.write_buffer_size = 4 << 10;
    options.max_file_size = 8 << 10;
    options.level1_bytes = 8 << 10;
    options.block_size = 512;
}

/// The same with logs beside the levels, each of a few tables at least.
fn sliced(options: &mut Options) {
    tiny(options);
    options.max_file_size = 1 << 10;
    options.level1_bytes = 4 << 10;
    options.compaction = Compaction::Sliced;
}

/// LevelDB's smallest buffers, with levels to fit.
fn small(options: &mut Options) {
    options.write_buffer_size = 64 << 10;
    options.level1_bytes = 64 << 10;
}

fn bloom(bits: usize) -> Option<Arc<dyn FilterPolicy>> {
    Some(Arc::new(BloomFilter::new(bits)))
}

/// One cache for all databases of all runs that ask for it.
fn shared_cache() -> Option<Arc<dyn Cache>> {
    static SHARED: std::sync::OnceLock<Arc<BlockCache>> = std::sync::OnceLock::new();
    Some(Arc::clone(SHARED.get_or_init(|| Arc::new(BlockCache::new(1 << 20)))) as Arc<dyn Cache>)
}

/// All sets.
pub static SETS: [OptionSet; 38] = [
    OptionSet::new("hand-small", Memory, ByHand, small),
    OptionSet::new("hand-tiny", Memory, ByHand, tiny),
    OptionSet::new("hand-tiny-wide", Memory, ByHand, tiny).keys(12_000),
    OptionSet::new("hand-tiny-narrow", Memory, ByHand, tiny).keys(60),
    OptionSet::new("hand-default", Memory, ByHand, |_| {}),
    OptionSet::new("hand-bloom", Memory, ByHand, |options| {
        tiny(options);
        options.filter_policy = bloom(10);
    }),
    OptionSet::new("hand-restart-1", Memory, ByHand, |options| {
        tiny(options);
        options.block_restart_interval = 1;
        options.compression = Compression::None;
    }),
    OptionSet::new("hand-restart-2-zstd", Memory, ByHand, |options| {
        small(options);
        options.block_restart_interval = 2;
        options.compression = Compression::ZSTD;
    }),
    OptionSet::new("hand-blocks-of-one", Memory, ByHand, |options| {
        tiny(options);
        options.block_size = 1;
        options.filter_policy = bloom(1);
    })
    .keys(800),
    OptionSet::new("hand-huge-blocks", Memory, ByHand, |options| {
        tiny(options);
        options.block_size = 1 << 20;
        options.max_file_size = 64 << 10;
    }),
    OptionSet::new("hand-reverse", Memory, ByHand, tiny).order(Order::Reverse),
    OptionSet::new("hand-reverse-bloom", Memory, ByHand, |options| {
        small(options);
        options.filter_policy = bloom(10);
        options.seek_compaction = true;
    })
    .order(Order::Reverse),
    OptionSet::new("hand-folded", Memory, ByHand, tiny).order(Order::Folded),
    OptionSet::new("hand-folded-filter", Memory, ByHand, |options| {
        tiny(options);
        options.filter_policy = Some(Arc::new(FoldedFilter));
    })
    .order(Order::Folded)
    .keys(600),
    OptionSet::new("hand-reuse-logs", Memory, ByHand, |options| {
        small(options);
        options.reuse_logs = true;
        options.paranoid_checks = true;
    }),
    OptionSet::new("hand-reuse-logs-tiny", Memory, ByHand, |options| {
        tiny(options);
        options.reuse_logs = true;
    }),
    OptionSet::new("hand-seeks", Memory, ByHand, |options| {
        tiny(options);
        options.seek_compaction = true;
    }),
    OptionSet::new("hand-no-cache-few-files", Memory, ByHand, |options| {
        tiny(options);
        options.block_cache = Some(Arc::new(BlockCache::new(0)));
        options.max_open_files = 12;
    }),
    OptionSet::new("hand-level0", Memory, ByHand, |options| {
        tiny(options);
        options.level0 = Level0Limits { compact: 1, slow_down: 1, stop: 2 };
        options.max_immutable_memtables = 4;
    }),
    OptionSet::new("lanes-small", Memory, Lanes, small),
    OptionSet::new("lanes-tiny", Memory, Lanes, |options| {
        tiny(options);
        options.compaction_lanes = 4;
        options.max_immutable_memtables = 4;
    }),
    OptionSet::new("lanes-tiny-wide", Memory, Lanes, |options| {
        tiny(options);
        options.block_cache = shared_cache();
        options.filter_policy = bloom(10);
        options.compaction_lanes = 4;
    })
    .keys(12_000),
    OptionSet::new("lanes-one", Memory, Lanes, |options| {
        tiny(options);
        options.compaction_lanes = 1;
        options.max_immutable_memtables = 1;
        options.seek_compaction = true;
        options.compression = Compression::ZSTD;
    }),
    OptionSet::new("lanes-folded", Memory, Lanes, |options| {
        tiny(options);
        options.filter_policy = Some(Arc::new(FoldedFilter));
        options.block_cache = shared_cache();
    })
    .order(Order::Folded),
    OptionSet::new("disk-hand-small", Disk, ByHand, |options| {
        small(options);
        options.paranoid_checks = true;
        options.filter_policy = bloom(10);
    }),
    OptionSet::new("disk-hand-16k", Disk, ByHand, |options| {
        tiny(options);
        options.write_buffer_size = 16 << 10;
        options.max_open_files = 14;
        options.block_cache = Some(Arc::new(BlockCache::new(0)));
    }),
    OptionSet::new("disk-hand-reverse", Disk, ByHand, |options| {
        small(options);
        options.reuse_logs = true;
        options.compression = Compression::ZSTD;
    })
    .order(Order::Reverse),
    OptionSet::new("disk-lanes-small", Disk, Lanes, |options| {
        small(options);
        options.info_log = true;
        options.block_cache = shared_cache();
    }),
    OptionSet::new("disk-lanes-16k", Disk, Lanes, |options| {
        tiny(options);
        options.write_buffer_size = 16 << 10;
        options.filter_policy = bloom(10);
        options.compaction_lanes = 4;
    }),
    OptionSet::new("hand-cursor", Memory, ByHand, |options| {
        tiny(options);
        options.compaction = Compaction::Cursor;
    }),
    OptionSet::new("hand-sliced", Memory, ByHand, sliced),
    OptionSet::new("hand-sliced-wide", Memory, ByHand, |options| {
        sliced(options);
        options.seek_compaction = true;
    })
    .keys(12_000),
    OptionSet::new("hand-sliced-folded", Memory, ByHand, sliced).order(Order::Folded),
    OptionSet::new("hand-l2sm", Memory, ByHand, |options| {
        sliced(options);
        options.compaction = Compaction::L2sm;
    })
    .keys(6_000),
    OptionSet::new("lanes-sliced", Memory, Lanes, |options| {
        sliced(options);
        options.compaction_lanes = 4;
    })
    .keys(6_000),
    OptionSet::new("lanes-l2sm", Memory, Lanes, |options| {
        sliced(options);
        options.compaction = Compaction::L2sm;
    }),
    OptionSet::new("disk-lanes-sliced", Disk, Lanes, |options| {
        sliced(options);
        options.filter_policy = bloom(10);
        options.block_cache = shared_cache();
    })
    .keys(12_000),
    OptionSet::new("disk-lanes-default", Disk, Lanes, |options| {
        options.info_log = true;
        options.reuse_logs = true;
    }),
];

/// A clock that moves by being looked at, so that runs do not depend on the machine's speed.
#[derive(Default)]
struct CountingClock(AtomicU64);

impl Clock for CountingClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.fetch_add(1, Relaxed))
    }

    fn wall_micros(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn sleep(&self, time: Duration) {
        self.0.fetch_add(time.as_micros() as u64, Relaxed);
    }
}
