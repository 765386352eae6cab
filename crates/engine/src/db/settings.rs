//! Options -> what each floor needs to know. Options are read here and nowhere else.

use std::sync::Arc;

use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::error::{Error, Result};
use crate::compaction::job::JobLimits;
use crate::compaction::leveled::LeveledSettings;
use crate::db::options::{Level0Limits, Options};
use crate::format::table::cache::Cache;
use crate::format::table::filter::{BloomFilter, Filter};
use crate::format::table::{ReadSettings, TableSettings};
use crate::store::block_cache::BlockCache;

/// LevelDB's default for a private block cache.
const BLOCK_CACHE_BYTES: usize = 8 << 20;
/// Files other than tables that a database keeps open; LevelDB takes them off `max_open_files`.
const OTHER_FILES: usize = 10;
/// Bits per key of the filters that upper tables have even if the user asks for none.
const UPPER_FILTER_BITS: usize = 10;

/// Resolved settings of one open database.
pub(crate) struct Settings {
    pub(crate) order: InternalOrder,
    /// Tables below which there is nothing.
    pub(crate) bottom_table: TableSettings,
    /// All others.
    pub(crate) upper_table: TableSettings,
    pub(crate) read: ReadSettings,
    pub(crate) leveled: LeveledSettings,
    pub(crate) job: JobLimits,
    pub(crate) level0: Level0Limits,
    pub(crate) write_buffer_bytes: usize,
    pub(crate) immutables_max: usize,
    pub(crate) open_tables_max: usize,
    pub(crate) block_cache: Arc<dyn Cache>,
    pub(crate) seek_compaction: bool,
    pub(crate) scan_compaction: bool,
}

/// Moves numbers into LevelDB's ranges.
pub(crate) fn clamp(mut options: Options) -> Options {
    if options.unclamped {
        return options;
    }
    options.write_buffer_size = options.write_buffer_size.clamp(64 << 10, 1 << 30);
    options.max_open_files = options.max_open_files.clamp(64 + OTHER_FILES, 50_000);
    options.block_size = options.block_size.clamp(1 << 10, 4 << 20);
    options.max_file_size = options.max_file_size.clamp(1 << 20, 1 << 30);
    options.block_restart_interval = options.block_restart_interval.max(1);
    options.max_immutable_memtables = options.max_immutable_memtables.clamp(1, 16);
    options.compaction_lanes = options.compaction_lanes.clamp(1, 16);
    options.level_growth = options.level_growth.clamp(2, 1000);
    options
}

impl Settings {
    pub(crate) fn resolve(options: &Options) -> Result<Self> {
        check(options)?;
        let user = UserOrder::new(options.comparator.clone());
        let order = InternalOrder::new(user);
        let table_bytes = options.max_file_size as u64;
        let filter = options.filter_policy.clone().map(Filter::from);
        let upper_filter = filter.clone().or_else(|| default_filter(&order));
        let leveled = LeveledSettings {
            l0_trigger: options.level0.compact,
            l0_trigger_if_large: match upper_filter {
                Some(_) if options.scan_compaction => large_trigger(options),
                _ => options.level0.compact,
            },
            // Without a service merges of level 1 are short.
            l0_first: match options.compaction_service {
                Some(_) => options.level0.filling(),
                None => usize::MAX,
            },
            level1_bytes: options.level1_bytes,
            level_growth: options.level_growth,
            table_bytes,
        };
        let bottom_table = TableSettings {
            order: order.clone(),
            block_bytes: options.block_size,
            restart_interval: options.block_restart_interval,
            compression: options.compression,
            filter,
        };
        Ok(Settings {
            upper_table: TableSettings { filter: upper_filter.clone(), ..bottom_table.clone() },
            bottom_table,
            read: ReadSettings { order: order.clone(), filter: upper_filter, check_places: true },
            order,
            leveled,
            job: JobLimits { table_bytes, grandparent_bytes: leveled.grandparent_limit() },
            level0: options.level0,
            write_buffer_bytes: options.write_buffer_size,
            immutables_max: options.max_immutable_memtables,
            open_tables_max: options.max_open_files.saturating_sub(OTHER_FILES).max(1),
            block_cache: options
                .block_cache
                .clone()
                .unwrap_or_else(|| Arc::new(BlockCache::new(BLOCK_CACHE_BYTES))),
            seek_compaction: options.seek_compaction,
            scan_compaction: options.scan_compaction,
        })
    }
}

/// A filter for tables that newer data lies in, when the user asks for none. Most reads pass through
/// them on the way down and find nothing; a filter saves them a block each. It is a hundredth of the
/// data (the bottom has none), and LevelDB reads such tables as it reads its own.
///
/// Not for foreign comparators: keys that they call equal may differ in the bytes that a filter sees.
fn default_filter(order: &InternalOrder) -> Option<Filter> {
    let bytewise = matches!(order.user, UserOrder::Bytewise);
    bytewise.then(|| Filter::Bloom(BloomFilter::new(UPPER_FILTER_BITS)))
}

/// Where write buffers are large, to merge level 0 rewrites so much for each table that it pays to let twice as many gather: filters
/// spare gets most of them, and scans may have them merged sooner. Who wants each table merged gets that.
fn large_trigger(options: &Options) -> usize {
    let Level0Limits { compact, slow_down, .. } = options.level0;
    if compact == 1 { compact } else { (2 * compact).min(slow_down) }
}

fn check(options: &Options) -> Result<()> {
    options.compression.check()?;
    let Level0Limits { compact, slow_down, stop } = options.level0;
    if compact == 0 || slow_down < compact || stop < slow_down {
        let message = format!("level0: {compact} <= {slow_down} <= {stop} does not hold from 1 on");
        return Err(Error::invalid_argument(message));
    }
    if options.block_restart_interval == 0 || options.max_immutable_memtables == 0 {
        let message = "block_restart_interval and max_immutable_memtables must not be 0";
        return Err(Error::invalid_argument(message));
    }
    if options.level_growth == 0 {
        return Err(Error::invalid_argument("level_growth must not be 0"));
    }
    Ok(())
}
