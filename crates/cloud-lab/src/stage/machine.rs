//! A machine of a stage, and the databases that it opens.

use std::path::PathBuf;
use std::sync::Arc;

use siltstone::{BlockCache, Cache, Db, Options, Result};
use siltstone_cloud::{
    CacheOptions, CloudDb, CloudOptions, ExtentCache, Home, LocalCopies, RemoteOptions,
    sized_for_buckets,
};
use siltstone_s3::S3Bucket;

use super::{Extras, Mode, Sizes, remove};

/// A cache that holds all.
pub(crate) const CACHE_BYTES: u64 = 4 << 30;

/// A machine: a folder, and its way to the store. The folder goes with it.
pub struct Machine {
    pub(crate) bucket: Arc<S3Bucket>,
    pub(crate) home: Home,
    pub(crate) folder: PathBuf,
    block_bytes: usize,
}

/// What a database has near of what lies in the bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    /// Bytes of blocks in memory.
    pub(crate) blocks: usize,
    /// Bytes of extents on the disk.
    pub(crate) cache: Option<u64>,
    pub(crate) local: LocalCopies,
}

impl Machine {
    pub(super) fn new(bucket: Arc<S3Bucket>, home: Home, folder: PathBuf) -> Self {
        Machine { bucket, home, folder, block_bytes: Options::default().block_size }
    }

    /// The same, whose databases end a block of a table when it has so many bytes.
    #[must_use]
    pub fn with_blocks_of(mut self, block_bytes: usize) -> Self {
        self.block_bytes = block_bytes;
        self
    }

    /// Opens the database; [`Mode::Local`] knows no bucket.
    ///
    /// # Errors
    ///
    /// Whatever a database meets.
    pub fn open(&self, mode: Mode, local: LocalCopies) -> Result<Opened> {
        self.open_with(mode, local, Extras::default())
    }

    /// Opens a database that keeps up to so many bytes of blocks in memory, and nothing of what it reads on a disk.
    ///
    /// # Errors
    ///
    /// Whatever a database meets.
    pub fn open_in_memory(&self, mode: Mode, block_bytes: usize) -> Result<Opened> {
        let near = Near { blocks: block_bytes, cache: None, local: LocalCopies::UpTo(0) };
        self.open_near(mode, near, Extras::default())
    }

    /// Opens a database in the bucket that has so much near.
    pub(crate) fn open_near(&self, mode: Mode, near: Near, extras: Extras) -> Result<Opened> {
        let block_cache = Some(Arc::new(BlockCache::new(near.blocks)) as Arc<dyn Cache>);
        let options = Options { block_cache, block_size: self.block_bytes, ..engine(extras.sizes) };
        let options = match near.blocks {
            // Nor tables.
            0 => Options { resident_bytes: 0, ..options },
            _ => options,
        };
        let reads = self.reads(&options, near.cache)?;
        let cloud = CloudOptions::default().with_log(mode.log()).with_local(near.local);
        let mut cloud = cloud.with_reads(reads);
        (cloud.prepare, cloud.announce) = (extras.prepare, extras.announce);
        CloudDb::open(&self.home, &self.folder, options, cloud).map(Opened::There)
    }

    pub(crate) fn open_with(
        &self,
        mode: Mode,
        local: LocalCopies,
        extras: Extras,
    ) -> Result<Opened> {
        let listeners = extras.listener.into_iter().collect();
        let table_store = extras.table_store;
        let block_size = self.block_bytes;
        let options = Options { listeners, table_store, block_size, ..engine(extras.sizes) };
        if mode == Mode::Local {
            return Db::open(&self.folder, options).map(Opened::Here);
        }
        let reads = self.reads(&options, Some(CACHE_BYTES))?;
        let cloud = CloudOptions::default().with_log(mode.log()).with_local(local);
        let mut cloud = cloud.with_reads(reads);
        (cloud.prepare, cloud.announce) = (extras.prepare, extras.announce);
        CloudDb::open(&self.home, &self.folder, options, cloud).map(Opened::There)
    }

    /// With a cache of so many bytes, if any, beside the folder.
    pub(crate) fn reads(
        &self,
        options: &Options,
        cache_bytes: Option<u64>,
    ) -> Result<RemoteOptions> {
        let (env, folder) = (&options.env, self.folder.join("cache"));
        let open = |bytes| ExtentCache::open(env, &folder, CacheOptions::new(bytes));
        let cache = cache_bytes.map(open).transpose()?;
        let threads = Some(Arc::clone(&env.threads));
        Ok(RemoteOptions { cache, threads, ..RemoteOptions::default() })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// As all databases here are opened.
pub(crate) fn engine(sizes: Option<Sizes>) -> Options {
    let options = Options { create_if_missing: true, info_log: false, ..Options::default() };
    let options = sized_for_buckets(options);
    let Some(sizes) = sizes else { return options };
    let in_memory = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Options {
        write_buffer_size: in_memory(sizes.write_buffer),
        max_file_size: in_memory(sizes.table),
        level1_bytes: sizes.level1,
        level_growth: sizes.growth,
        unclamped: true,
        ..options
    }
}

/// An open database, wherever it is.
pub enum Opened {
    /// In a folder.
    Here(Db),
    /// In the bucket.
    There(CloudDb),
}

impl std::ops::Deref for Opened {
    type Target = Db;

    fn deref(&self) -> &Db {
        match self {
            Opened::Here(db) => db,
            Opened::There(db) => db,
        }
    }
}

impl Opened {
    /// Closes it, with all in the bucket that belongs there.
    ///
    /// # Errors
    ///
    /// Whatever a database meets.
    pub fn close(self) -> Result<()> {
        match self {
            Opened::Here(db) => db.close(),
            Opened::There(db) => db.close(),
        }
    }
}
