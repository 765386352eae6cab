//! Options: `leveldb_options_*`, `leveldb_readoptions_*`, `leveldb_writeoptions_*`, and the cache.
#![expect(unsafe_code, reason = "functions that C calls")]

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;

use siltstone::{BlockCache, Compression, Error, Options, ReadOptions, Result, WriteOptions};

use crate::comparator::leveldb_comparator_t;
use crate::db::leveldb_snapshot_t;
use crate::env::leveldb_env_t;
use crate::filter::leveldb_filterpolicy_t;

#[derive(Default)]
pub(crate) struct leveldb_options_t {
    pub(crate) options: Options,
    /// A compression that nobody knows: told when the options are used, for setters cannot fail.
    unknown_compression: Option<c_int>,
}

impl leveldb_options_t {
    /// The options for the engine.
    pub(crate) fn get(&self) -> Result<Options> {
        match self.unknown_compression {
            Some(value) => {
                let message =
                    format!("compression {value} is none of 0, 1 (Snappy), 2 (Zstandard)");
                Err(Error::invalid_argument(message))
            }
            None => Ok(self.options.clone()),
        }
    }
}

/// A count that C gives as an `int`; negative ones count as zero.
fn count(value: c_int) -> usize {
    usize::try_from(value).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_create() -> Box<leveldb_options_t> {
    Box::default()
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_destroy(options: Option<Box<leveldb_options_t>>) {
    drop(options);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_comparator(
    options: &mut leveldb_options_t,
    comparator: Option<&leveldb_comparator_t>,
) {
    options.options.comparator = comparator.map(leveldb_comparator_t::share);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_filter_policy(
    options: &mut leveldb_options_t,
    policy: Option<&leveldb_filterpolicy_t>,
) {
    options.options.filter_policy = policy.map(leveldb_filterpolicy_t::share);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_create_if_missing(options: &mut leveldb_options_t, value: u8) {
    options.options.create_if_missing = value != 0;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_error_if_exists(options: &mut leveldb_options_t, value: u8) {
    options.options.error_if_exists = value != 0;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_paranoid_checks(options: &mut leveldb_options_t, value: u8) {
    options.options.paranoid_checks = value != 0;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_env(
    options: &mut leveldb_options_t,
    env: Option<&leveldb_env_t>,
) {
    options.options.env = env.map(|env| env.env.clone()).unwrap_or_default();
}

/// Nothing makes a logger, so it can only be null: the log in the database's folder.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_info_log(
    _options: &mut leveldb_options_t,
    _logger: *mut std::ffi::c_void,
) {
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_write_buffer_size(options: &mut leveldb_options_t, bytes: usize) {
    options.options.write_buffer_size = bytes;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_open_files(options: &mut leveldb_options_t, files: c_int) {
    options.options.max_open_files = count(files);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_cache(
    options: &mut leveldb_options_t,
    cache: Option<&leveldb_cache_t>,
) {
    options.options.block_cache = cache.map(|cache| Arc::clone(&cache.cache) as _);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_size(options: &mut leveldb_options_t, bytes: usize) {
    options.options.block_size = bytes;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_restart_interval(
    options: &mut leveldb_options_t,
    keys: c_int,
) {
    options.options.block_restart_interval = count(keys);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_file_size(options: &mut leveldb_options_t, bytes: usize) {
    options.options.max_file_size = bytes;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_compression(options: &mut leveldb_options_t, value: c_int) {
    let known = match value {
        0 => Some(Compression::None),
        1 => Some(Compression::Snappy),
        2 => Some(Compression::ZSTD),
        _ => None,
    };
    options.unknown_compression = known.is_none().then_some(value);
    options.options.compression = known.unwrap_or(options.options.compression);
}

pub(crate) struct leveldb_readoptions_t {
    /// Without a snapshot.
    options: ReadOptions,
    /// LevelDB's contract: null, or a snapshot that is not released while the options are used.
    snapshot: *const leveldb_snapshot_t,
}

impl leveldb_readoptions_t {
    /// The options for one call. Nothing is counted: threads that read through one snapshot do not
    /// meet here. (To share the snapshot when it is set would keep it, and with it the database's
    /// lock, alive behind `leveldb_release_snapshot`.)
    #[inline]
    pub(crate) fn borrow(&self) -> ManuallyDrop<ReadOptions> {
        let snapshot = (!self.snapshot.is_null()).then(|| {
            // SAFETY: C1: the snapshot lives. This second owner is never dropped, and gone when the
            // call returns.
            unsafe { ptr::read(&raw const (*self.snapshot).snapshot) }
        });
        ManuallyDrop::new(ReadOptions { snapshot, ..self.options })
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_create() -> Box<leveldb_readoptions_t> {
    Box::new(leveldb_readoptions_t { options: ReadOptions::default(), snapshot: ptr::null() })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_destroy(options: Option<Box<leveldb_readoptions_t>>) {
    drop(options);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_verify_checksums(
    options: &mut leveldb_readoptions_t,
    value: u8,
) {
    options.options.verify_checksums = value != 0;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_fill_cache(options: &mut leveldb_readoptions_t, value: u8) {
    options.options.fill_cache = value != 0;
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_snapshot(
    options: &mut leveldb_readoptions_t,
    snapshot: *const leveldb_snapshot_t,
) {
    options.snapshot = snapshot;
}

#[derive(Default)]
pub(crate) struct leveldb_writeoptions_t {
    pub(crate) options: WriteOptions,
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_create() -> Box<leveldb_writeoptions_t> {
    Box::default()
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_destroy(options: Option<Box<leveldb_writeoptions_t>>) {
    drop(options);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_set_sync(options: &mut leveldb_writeoptions_t, value: u8) {
    options.options.sync = value != 0;
}

pub(crate) struct leveldb_cache_t {
    cache: Arc<BlockCache>,
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_create_lru(bytes: usize) -> Box<leveldb_cache_t> {
    Box::new(leveldb_cache_t { cache: Arc::new(BlockCache::new(bytes)) })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_destroy(cache: Option<Box<leveldb_cache_t>>) {
    drop(cache);
}
