//! What LevelDB's API lacks and C programs ask for: `siltstone_*`.
#![expect(unsafe_code, reason = "functions that C calls")]

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use siltstone::{Compaction, Db, Env};

use crate::border::{Data, ErrorSlot, Text};
use crate::db::leveldb_t;
use crate::env::leveldb_env_t;
use crate::file_system::{CFileSystem, siltstone_file_system_t};
use crate::options::{leveldb_options_t, leveldb_readoptions_t};

/// As C reads it.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

#[unsafe(no_mangle)]
extern "C" fn siltstone_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_options_set_reuse_logs(options: &mut leveldb_options_t, value: u8) {
    options.options.reuse_logs = value != 0;
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_options_set_compaction(
    options: &mut leveldb_options_t,
    name: Text<'_>,
    error: ErrorSlot,
) {
    error.catch(|| {
        let name = name.path().to_string_lossy();
        let unknown =
            || siltstone::Error::invalid_argument(format!("no compaction is named {name}"));
        options.options.compaction = Compaction::of_name(&name).ok_or_else(unknown)?;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_drain_logs(db: &leveldb_t, error: ErrorSlot) {
    error.catch(|| db.db.drain_logs());
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_open_read_only(
    options: &leveldb_options_t,
    name: Text<'_>,
    error: ErrorSlot,
) -> Option<Box<leveldb_t>> {
    error.catch(|| {
        let db = Db::open_read_only(name.path(), options.get()?)?;
        Ok(Box::new(leveldb_t { db }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_close(db: Option<Box<leveldb_t>>, error: ErrorSlot) {
    error.catch(|| db.map_or(Ok(()), |db| db.db.close()));
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_read(
    db: &leveldb_t,
    options: &leveldb_readoptions_t,
    key: Data<'_>,
    key_len: usize,
    state: *mut c_void,
    found: unsafe extern "C" fn(*mut c_void, *const u8, usize),
    error: ErrorSlot,
) -> u8 {
    // SAFETY: C6.
    let show = |value: &[u8]| unsafe { found(state, value.as_ptr(), value.len()) };
    let read = error.catch(|| db.db.read(key.of(key_len), &options.borrow(), show));
    u8::from(read.flatten().is_some())
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_flush(db: &leveldb_t, error: ErrorSlot) {
    error.catch(|| db.db.flush());
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_compact_range(
    db: &leveldb_t,
    start: Data<'_>,
    start_len: usize,
    limit: Data<'_>,
    limit_len: usize,
    error: ErrorSlot,
) {
    let (start, limit) = (start.if_given(start_len), limit.if_given(limit_len));
    error.catch(|| db.db.compact_range(start, limit));
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_checkpoint(db: &leveldb_t, path: Text<'_>, error: ErrorSlot) {
    error.catch(|| db.db.checkpoint(path.path()));
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_repair_db(
    options: &leveldb_options_t,
    name: Text<'_>,
    out: Text<'_>,
    error: ErrorSlot,
) {
    error.catch(|| siltstone::repair(name.path(), out.path(), &options.get()?).map(drop));
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_create_memory_env() -> Box<leveldb_env_t> {
    Box::new(leveldb_env_t { env: Env::memory() })
}

#[unsafe(no_mangle)]
extern "C" fn siltstone_create_env(
    file_system: *const siltstone_file_system_t,
    error: ErrorSlot,
) -> Option<Box<leveldb_env_t>> {
    error.catch(|| {
        let file_system = CFileSystem::new(siltstone_file_system_t::copied(file_system))?;
        let env = Env { file_system: Arc::new(file_system), ..Env::posix() };
        Ok(Box::new(leveldb_env_t { env }))
    })
}
