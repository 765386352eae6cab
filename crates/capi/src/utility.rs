//! `leveldb_free` and the versions.
#![expect(unsafe_code, reason = "functions that C calls")]

use std::ffi::{c_int, c_void};

/// The release of LevelDB whose API and files these are.
const LEVELDB_VERSION: (c_int, c_int) = (1, 23);

#[unsafe(no_mangle)]
extern "C" fn leveldb_free(memory: *mut c_void) {
    crate::border::free(memory);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_major_version() -> c_int {
    LEVELDB_VERSION.0
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_minor_version() -> c_int {
    LEVELDB_VERSION.1
}
