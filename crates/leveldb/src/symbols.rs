//! LevelDB's C functions, found by name in the loaded library. Every other file of this folder
//! calls through [`Symbols`].
//!
//! The signatures restate `leveldb/c.h`, which is the same in 1.23 and in the latest source.

use std::error::Error;
use std::ffi::{c_char, c_int, c_void};

use libloading::Library;

/// Types known to us by pointer only.
macro_rules! opaque {
    ($($name:ident),* $(,)?) => {
        $(
            #[repr(C)]
            pub(super) struct $name([u8; 0]);
        )*
    };
}

opaque!(
    RawBatch,
    RawCache,
    RawComparator,
    RawDb,
    RawFilter,
    RawIter,
    RawOptions,
    RawReadOptions,
    RawSnapshot,
    RawWriteOptions,
);

/// Where a call leaves the text of its error: null before, null or a malloc'd C string after.
pub(super) type ErrorSlot = *mut *mut c_char;

/// Declares [`Symbols`] with one field per function, named without the prefix `leveldb_`.
macro_rules! symbols {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, and the library that keeps them callable.
        pub(super) struct Symbols {
            $(
                $(#[$doc])*
                pub(super) $name: unsafe extern "C" fn($($argument: $kind),*) $(-> $result)?,
            )*
            _library: Library,
        }

        impl Symbols {
            fn resolve(library: Library) -> Result<Symbols, libloading::Error> {
                $(
                    // SAFETY: the type restates the declaration of this name in `leveldb/c.h`.
                    let $name = *unsafe { library.get(concat!("leveldb_", stringify!($name))) }?;
                )*
                Ok(Symbols { $($name,)* _library: library })
            }
        }
    };
}

symbols! {
    fn major_version() -> c_int;
    fn minor_version() -> c_int;
    /// Declared for characters, since strings and values are all that we free.
    fn free(memory: *mut c_char);

    fn open(options: *const RawOptions, name: *const c_char, error: ErrorSlot) -> *mut RawDb;
    fn close(db: *mut RawDb);
    fn put(db: *mut RawDb, options: *const RawWriteOptions, key: *const c_char, key_len: usize,
        value: *const c_char, value_len: usize, error: ErrorSlot);
    fn delete(db: *mut RawDb, options: *const RawWriteOptions, key: *const c_char,
        key_len: usize, error: ErrorSlot);
    fn write(db: *mut RawDb, options: *const RawWriteOptions, batch: *mut RawBatch,
        error: ErrorSlot);
    fn get(db: *mut RawDb, options: *const RawReadOptions, key: *const c_char, key_len: usize,
        value_len: *mut usize, error: ErrorSlot) -> *mut c_char;
    fn create_iterator(db: *mut RawDb, options: *const RawReadOptions) -> *mut RawIter;
    fn create_snapshot(db: *mut RawDb) -> *const RawSnapshot;
    fn release_snapshot(db: *mut RawDb, snapshot: *const RawSnapshot);
    fn property_value(db: *mut RawDb, name: *const c_char) -> *mut c_char;
    fn approximate_sizes(db: *mut RawDb, ranges: c_int, starts: *const *const c_char,
        start_lens: *const usize, limits: *const *const c_char, limit_lens: *const usize,
        sizes: *mut u64);
    fn compact_range(db: *mut RawDb, start: *const c_char, start_len: usize,
        limit: *const c_char, limit_len: usize);
    fn destroy_db(options: *const RawOptions, name: *const c_char, error: ErrorSlot);
    fn repair_db(options: *const RawOptions, name: *const c_char, error: ErrorSlot);

    fn iter_destroy(iter: *mut RawIter);
    fn iter_valid(iter: *const RawIter) -> u8;
    fn iter_seek_to_first(iter: *mut RawIter);
    fn iter_seek_to_last(iter: *mut RawIter);
    fn iter_seek(iter: *mut RawIter, key: *const c_char, key_len: usize);
    fn iter_next(iter: *mut RawIter);
    fn iter_prev(iter: *mut RawIter);
    fn iter_key(iter: *const RawIter, len: *mut usize) -> *const c_char;
    fn iter_value(iter: *const RawIter, len: *mut usize) -> *const c_char;
    fn iter_get_error(iter: *const RawIter, error: ErrorSlot);

    fn writebatch_create() -> *mut RawBatch;
    fn writebatch_destroy(batch: *mut RawBatch);
    fn writebatch_clear(batch: *mut RawBatch);
    fn writebatch_put(batch: *mut RawBatch, key: *const c_char, key_len: usize,
        value: *const c_char, value_len: usize);
    fn writebatch_delete(batch: *mut RawBatch, key: *const c_char, key_len: usize);
    fn writebatch_append(batch: *mut RawBatch, source: *const RawBatch);

    fn options_create() -> *mut RawOptions;
    fn options_destroy(options: *mut RawOptions);
    fn options_set_comparator(options: *mut RawOptions, comparator: *mut RawComparator);
    fn options_set_filter_policy(options: *mut RawOptions, filter: *mut RawFilter);
    fn options_set_cache(options: *mut RawOptions, cache: *mut RawCache);
    fn options_set_create_if_missing(options: *mut RawOptions, value: u8);
    fn options_set_error_if_exists(options: *mut RawOptions, value: u8);
    fn options_set_paranoid_checks(options: *mut RawOptions, value: u8);
    fn options_set_write_buffer_size(options: *mut RawOptions, value: usize);
    fn options_set_max_open_files(options: *mut RawOptions, value: c_int);
    fn options_set_block_size(options: *mut RawOptions, value: usize);
    fn options_set_block_restart_interval(options: *mut RawOptions, value: c_int);
    fn options_set_max_file_size(options: *mut RawOptions, value: usize);
    fn options_set_compression(options: *mut RawOptions, value: c_int);

    fn comparator_create(
        state: *mut c_void,
        destructor: unsafe extern "C" fn(*mut c_void),
        compare: unsafe extern "C" fn(
            *mut c_void, *const c_char, usize, *const c_char, usize) -> c_int,
        name: unsafe extern "C" fn(*mut c_void) -> *const c_char
    ) -> *mut RawComparator;
    fn comparator_destroy(comparator: *mut RawComparator);
    fn filterpolicy_create_bloom(bits_per_key: c_int) -> *mut RawFilter;
    fn filterpolicy_destroy(filter: *mut RawFilter);
    fn cache_create_lru(bytes: usize) -> *mut RawCache;
    fn cache_destroy(cache: *mut RawCache);

    fn readoptions_create() -> *mut RawReadOptions;
    fn readoptions_destroy(options: *mut RawReadOptions);
    fn readoptions_set_verify_checksums(options: *mut RawReadOptions, value: u8);
    fn readoptions_set_fill_cache(options: *mut RawReadOptions, value: u8);
    fn readoptions_set_snapshot(options: *mut RawReadOptions, snapshot: *const RawSnapshot);
    fn writeoptions_create() -> *mut RawWriteOptions;
    fn writeoptions_destroy(options: *mut RawWriteOptions);
    fn writeoptions_set_sync(options: *mut RawWriteOptions, value: u8);
}

impl Symbols {
    /// Loads the first of `names` that is there and whole, or tells why none is.
    pub(super) fn load(names: &[&str]) -> Result<Symbols, String> {
        let mut reasons = Vec::new();
        for &name in names {
            // SAFETY: loading runs the library's initialisers. We load what the developer named,
            // or what the system has installed as LevelDB.
            match unsafe { Library::new(name) }.and_then(Symbols::resolve) {
                Ok(symbols) => return Ok(symbols),
                Err(reason) => reasons.push(match reason.source() {
                    // The source tells which file or function is missing.
                    Some(source) => format!("{name}: {reason}: {source}"),
                    None => format!("{name}: {reason}"),
                }),
            }
        }
        Err(reasons.join("; "))
    }
}
