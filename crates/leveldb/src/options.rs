//! Options as plain data, and their counterparts in the library. Tests fill in the former;
//! opening, reading and writing use the latter.

use std::cmp::Ordering;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::slice;

use super::handle::Handle;
use super::iter::Snapshot;
use super::symbols::{
    RawCache, RawComparator, RawFilter, RawOptions, RawReadOptions, RawWriteOptions, Symbols,
};

/// How table blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None = 0,
    /// With Snappy, where that saves an eighth.
    Snappy = 1,
}

/// An order of keys for LevelDB. It cannot shorten keys: the C API has no way to say how.
#[derive(Clone, Copy, Debug)]
pub struct Comparator {
    /// The name that the database records.
    pub name: &'static CStr,
    /// The order. A panic in it ends the process.
    pub compare: fn(&[u8], &[u8]) -> Ordering,
}

/// What a database is opened with: LevelDB's fields and defaults, save for what the C API hides.
#[derive(Clone, Debug)]
pub struct Options {
    /// Make the database if it is not there.
    pub create_if_missing: bool,
    /// Fail if the database is there.
    pub error_if_exists: bool,
    /// Check more, and stop at the first damage.
    pub paranoid_checks: bool,
    /// Bytes of a memtable.
    pub write_buffer_size: usize,
    /// Files held open.
    pub max_open_files: i32,
    /// Bytes of a table block before compression.
    pub block_size: usize,
    /// Entries between two restart points of a block.
    pub block_restart_interval: i32,
    /// Bytes after which an output of a compaction ends.
    pub max_file_size: usize,
    /// How table blocks are compressed.
    pub compression: Compression,
    /// A Bloom filter of so many bits per key, or none.
    pub bloom_bits_per_key: Option<i32>,
    /// A block cache of so many bytes, or the library's own of 8 MiB.
    pub cache_bytes: Option<usize>,
    /// The order of keys, or bytewise.
    pub comparator: Option<Comparator>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: false,
            error_if_exists: false,
            paranoid_checks: false,
            write_buffer_size: 4 << 20,
            max_open_files: 1000,
            block_size: 4 << 10,
            block_restart_interval: 16,
            max_file_size: 2 << 20,
            compression: Compression::Snappy,
            bloom_bits_per_key: None,
            cache_bytes: None,
            comparator: None,
        }
    }
}

/// How a read is done.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// Check the checksum of every block read from disk.
    pub verify_checksums: bool,
    /// Keep the blocks read in the cache.
    pub fill_cache: bool,
    /// Read the database as it was then, or as it is.
    pub snapshot: Option<&'a Snapshot<'a>>,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions { verify_checksums: false, fill_cache: true, snapshot: None }
    }
}

/// How a write is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// Return only once the write would survive a crash of the machine.
    pub sync: bool,
}

/// The library's options object and all that it points to. The library copies the object but not
/// what it points to, so a database keeps its parts until it is closed (invariant I3).
pub(super) struct Parts {
    options: Handle<RawOptions>,
    _filter: Option<Handle<RawFilter>>,
    _cache: Option<Handle<RawCache>>,
    _comparator: Option<Handle<RawComparator>>,
}

impl Parts {
    pub(super) fn new(symbols: &Symbols, from: &Options) -> Parts {
        // SAFETY: the constructor has no condition and gives the object to us.
        let options = unsafe { Handle::new((symbols.options_create)(), symbols.options_destroy) };
        let filter = from.bloom_bits_per_key.map(|bits| {
            // SAFETY: as above.
            unsafe {
                let raw = (symbols.filterpolicy_create_bloom)(bits);
                Handle::new(raw, symbols.filterpolicy_destroy)
            }
        });
        let cache = from.cache_bytes.map(|bytes| {
            // SAFETY: as above.
            unsafe { Handle::new((symbols.cache_create_lru)(bytes), symbols.cache_destroy) }
        });
        let comparator = from.comparator.map(|order| new_comparator(symbols, order));
        set_scalars(symbols, options.as_ptr(), from);
        let to = options.as_ptr();
        // SAFETY: all objects are alive, and from here on live and go together.
        unsafe {
            if let Some(filter) = &filter {
                (symbols.options_set_filter_policy)(to, filter.as_ptr());
            }
            if let Some(cache) = &cache {
                (symbols.options_set_cache)(to, cache.as_ptr());
            }
            if let Some(comparator) = &comparator {
                (symbols.options_set_comparator)(to, comparator.as_ptr());
            }
        }
        Parts { options, _filter: filter, _cache: cache, _comparator: comparator }
    }

    pub(super) fn options(&self) -> *const RawOptions {
        self.options.as_ptr()
    }
}

fn set_scalars(symbols: &Symbols, to: *mut RawOptions, from: &Options) {
    // SAFETY: `to` is alive; the setters store the number that they are given.
    unsafe {
        (symbols.options_set_create_if_missing)(to, from.create_if_missing.into());
        (symbols.options_set_error_if_exists)(to, from.error_if_exists.into());
        (symbols.options_set_paranoid_checks)(to, from.paranoid_checks.into());
        (symbols.options_set_write_buffer_size)(to, from.write_buffer_size);
        (symbols.options_set_max_open_files)(to, from.max_open_files);
        (symbols.options_set_block_size)(to, from.block_size);
        (symbols.options_set_block_restart_interval)(to, from.block_restart_interval);
        (symbols.options_set_max_file_size)(to, from.max_file_size);
        (symbols.options_set_compression)(to, from.compression as c_int);
    }
}

/// The library's object for `order`, which owns a boxed copy of it as its state.
fn new_comparator(symbols: &Symbols, order: Comparator) -> Handle<RawComparator> {
    let state = Box::into_raw(Box::new(order)).cast::<c_void>();
    // SAFETY: the callbacks take `state` for the boxed `Comparator` that it is. The library runs
    // the destructor once, from `comparator_destroy`, and the others before that.
    unsafe {
        let raw = (symbols.comparator_create)(state, drop_state, compare, name);
        Handle::new(raw, symbols.comparator_destroy)
    }
}

/// # Safety
///
/// `state` is a boxed [`Comparator`] that no one uses afterwards.
unsafe extern "C" fn drop_state(state: *mut c_void) {
    // SAFETY: the caller vouches for it.
    drop(unsafe { Box::from_raw(state.cast::<Comparator>()) });
}

/// # Safety
///
/// `state` is a [`Comparator`], and both keys are readable for their lengths.
unsafe extern "C" fn compare(
    state: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: the caller vouches for it. A `Slice` of the library is never null.
    let (order, a, b) = unsafe {
        let a = slice::from_raw_parts(a.cast::<u8>(), a_len);
        (&*state.cast::<Comparator>(), a, slice::from_raw_parts(b.cast::<u8>(), b_len))
    };
    (order.compare)(a, b) as c_int
}

/// # Safety
///
/// `state` is a [`Comparator`].
unsafe extern "C" fn name(state: *mut c_void) -> *const c_char {
    // SAFETY: the caller vouches for it.
    unsafe { &*state.cast::<Comparator>() }.name.as_ptr()
}

/// The library's object for `from`; use it only while the snapshot in `from` is alive.
pub(super) fn read_options(symbols: &Symbols, from: &ReadOptions<'_>) -> Handle<RawReadOptions> {
    // SAFETY: the constructor gives us the object, the setters store what they are given.
    unsafe {
        let raw = (symbols.readoptions_create)();
        (symbols.readoptions_set_verify_checksums)(raw, from.verify_checksums.into());
        (symbols.readoptions_set_fill_cache)(raw, from.fill_cache.into());
        if let Some(snapshot) = from.snapshot {
            (symbols.readoptions_set_snapshot)(raw, snapshot.as_ptr());
        }
        Handle::new(raw, symbols.readoptions_destroy)
    }
}

/// The library's object for `from`.
pub(super) fn write_options(symbols: &Symbols, from: WriteOptions) -> Handle<RawWriteOptions> {
    // SAFETY: the constructor gives us the object, the setter stores what it is given.
    unsafe {
        let raw = (symbols.writeoptions_create)();
        (symbols.writeoptions_set_sync)(raw, from.sync.into());
        Handle::new(raw, symbols.writeoptions_destroy)
    }
}
