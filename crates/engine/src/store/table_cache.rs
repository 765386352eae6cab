//! Open tables by number: every read that reaches a table gets it here. Bounded in tables, because
//! each keeps a file descriptor, its index and its filter.
//!
//! **Concurrency.** A hit takes a shard's lock shared. Two threads that miss at the same time may
//! both open the table; one of the two is kept, and both serve.

use std::sync::Arc;

use quick_cache::sync::{Cache as Shards, DefaultLifecycle};
use quick_cache::{OptionsBuilder, UnitWeighter};

use crate::base::error::{Error, Result};
use crate::format::filename::FileNumber;
use crate::format::table::cache::Cache;
use crate::format::table::{ReadSettings, Table};
use crate::store::TableStore;
use crate::store::block_cache::Mixer;

/// With many tables, locks are shared out; with few, exact eviction counts more.
const TABLES_PER_SHARD_MIN: usize = 128;
const SHARDS_MAX: usize = 8;

type Tables = Shards<u64, Arc<Table>, UnitWeighter, Mixer, DefaultLifecycle<u64, Arc<Table>>>;

pub(crate) struct TableCache {
    store: Arc<dyn TableStore>,
    settings: ReadSettings,
    blocks: Arc<dyn Cache>,
    tables: Tables,
}

impl TableCache {
    /// Keeps up to `tables_max` tables of `store` open; their blocks go to `blocks`.
    pub(crate) fn new(
        store: Arc<dyn TableStore>,
        settings: ReadSettings,
        blocks: Arc<dyn Cache>,
        tables_max: usize,
    ) -> Self {
        let options = OptionsBuilder::new()
            .shards(1 << (tables_max / TABLES_PER_SHARD_MIN).clamp(1, SHARDS_MAX).ilog2())
            .weight_capacity(tables_max.max(1) as u64)
            .estimated_items_capacity(tables_max.max(1))
            .build()
            .expect("capacity and estimate are given, which is all the builder asks for");
        let mixer = Mixer::default();
        let tables = Shards::with_options(options, UnitWeighter, mixer, DefaultLifecycle::default());
        TableCache { store, settings, blocks, tables }
    }

    /// The table, opened if need be. `size` is what the manifest says the file has.
    #[inline]
    pub(crate) fn get(&self, number: FileNumber, size: u64) -> Result<Arc<Table>> {
        match self.tables.get(&number.0) {
            Some(table) => Ok(table),
            None => self.open(number, size),
        }
    }

    #[cold]
    fn open(&self, number: FileNumber, size: u64) -> Result<Arc<Table>> {
        let file = self.store.open(number)?;
        if file.len() != size {
            let message = format!("file has {} bytes, the manifest says {size}", file.len());
            return Err(Error::corruption(message).in_file(file.path()));
        }
        let table = Table::open(file, self.settings.clone(), self.blocks.clone())?;
        let table = Arc::new(table);
        self.tables.insert(number.0, table.clone());
        Ok(table)
    }

    /// Forgets a table, because its file is to be removed. Readers that have it go on.
    pub(crate) fn evict(&self, number: FileNumber) {
        self.tables.remove(&number.0);
    }

    /// Tables open here.
    pub(crate) fn len(&self) -> usize {
        self.tables.len()
    }

    /// Where blocks are cached.
    pub(crate) fn blocks(&self) -> &dyn Cache {
        &*self.blocks
    }
}
