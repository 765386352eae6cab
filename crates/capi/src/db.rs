//! Databases: `leveldb_open` to `leveldb_repair_db`.
#![expect(unsafe_code, reason = "functions that C calls")]

use std::ffi::{c_char, c_int};
use std::ptr;

use siltstone::{Db, Snapshot};

use crate::batch::leveldb_writebatch_t;
use crate::border::{Data, ErrorSlot, Out, Text, c_copy, c_text, caught, quietly};
use crate::iterator::leveldb_iterator_t;
use crate::options::{leveldb_options_t, leveldb_readoptions_t, leveldb_writeoptions_t};

pub(crate) struct leveldb_t {
    pub(crate) db: Db,
}

pub(crate) struct leveldb_snapshot_t {
    pub(crate) snapshot: Snapshot,
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_open(
    options: &leveldb_options_t,
    name: Text<'_>,
    error: ErrorSlot,
) -> Option<Box<leveldb_t>> {
    error.catch(|| Ok(Box::new(leveldb_t { db: Db::open(name.path(), options.get()?)? })))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_close(db: Option<Box<leveldb_t>>) {
    // A failure goes to the info log, as in LevelDB; `siltstone_close` tells it.
    quietly(|| db.map(|db| db.db.close()));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_put(
    db: &leveldb_t,
    options: &leveldb_writeoptions_t,
    key: Data<'_>,
    key_len: usize,
    value: Data<'_>,
    value_len: usize,
    error: ErrorSlot,
) {
    error.catch(|| db.db.put_with(key.of(key_len), value.of(value_len), options.options));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_delete(
    db: &leveldb_t,
    options: &leveldb_writeoptions_t,
    key: Data<'_>,
    key_len: usize,
    error: ErrorSlot,
) {
    error.catch(|| db.db.delete_with(key.of(key_len), options.options));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_write(
    db: &leveldb_t,
    options: &leveldb_writeoptions_t,
    batch: &leveldb_writebatch_t,
    error: ErrorSlot,
) {
    error.catch(|| db.db.write(&batch.batch, options.options));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_get(
    db: &leveldb_t,
    options: &leveldb_readoptions_t,
    key: Data<'_>,
    key_len: usize,
    value_len: Out<'_, usize>,
    error: ErrorSlot,
) -> *mut c_char {
    let copy = |value: &[u8]| (c_copy(value), value.len());
    let found = error.catch(|| db.db.read(key.of(key_len), &options.borrow(), copy)).flatten();
    let (value, len) = found.unwrap_or((ptr::null_mut(), 0));
    value_len.write(len);
    value
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_iterator(
    db: &leveldb_t,
    options: &leveldb_readoptions_t,
) -> Box<leveldb_iterator_t> {
    Box::new(leveldb_iterator_t::new(caught(|| db.db.iter_with(&options.borrow()))))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_create_snapshot(db: &leveldb_t) -> Option<Box<leveldb_snapshot_t>> {
    quietly(|| Box::new(leveldb_snapshot_t { snapshot: db.db.snapshot() }))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_release_snapshot(_db: &leveldb_t, snapshot: Option<Box<leveldb_snapshot_t>>) {
    quietly(|| drop(snapshot));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_property_value(db: &leveldb_t, name: Text<'_>) -> *mut c_char {
    let value = quietly(|| name.str().and_then(|name| db.db.property(name))).flatten();
    value.map_or(ptr::null_mut(), |value| c_text(value.as_bytes()))
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_approximate_sizes(
    db: &leveldb_t,
    count: c_int,
    starts: *const Data<'_>,
    start_lens: *const usize,
    limits: *const Data<'_>,
    limit_lens: *const usize,
    sizes: *mut u64,
) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: C3: each array has `count` members.
        let (start, limit) = unsafe {
            ((*starts.add(at)).of(*start_lens.add(at)), (*limits.add(at)).of(*limit_lens.add(at)))
        };
        let size = caught(|| db.db.approximate_sizes(&[(start, limit)]));
        // SAFETY: as above.
        unsafe { sizes.add(at).write(size.map_or(0, |sizes| sizes[0])) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_compact_range(
    db: &leveldb_t,
    start: Data<'_>,
    start_len: usize,
    limit: Data<'_>,
    limit_len: usize,
) {
    // A failure goes to the info log, and ends writing; `siltstone_compact_range` tells it.
    let _ = caught(|| db.db.compact_range(start.if_given(start_len), limit.if_given(limit_len)));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_destroy_db(options: &leveldb_options_t, name: Text<'_>, error: ErrorSlot) {
    error.catch(|| siltstone::destroy(name.path(), &options.get()?));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_repair_db(options: &leveldb_options_t, name: Text<'_>, error: ErrorSlot) {
    error.catch(|| siltstone::repair_in_place(name.path(), &options.get()?).map(drop));
}
