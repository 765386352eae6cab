//! Write batches: `leveldb_writebatch_*`.
#![expect(unsafe_code, reason = "functions that C calls")]

use std::ffi::c_void;

use siltstone::{BatchOp, WriteBatch};

use crate::border::{Data, quietly};

pub(crate) struct leveldb_writebatch_t {
    pub(crate) batch: WriteBatch,
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_create() -> Box<leveldb_writebatch_t> {
    Box::new(leveldb_writebatch_t { batch: WriteBatch::new() })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_destroy(batch: Option<Box<leveldb_writebatch_t>>) {
    drop(batch);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_clear(batch: &mut leveldb_writebatch_t) {
    batch.batch.clear();
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_put(
    batch: &mut leveldb_writebatch_t,
    key: Data<'_>,
    key_len: usize,
    value: Data<'_>,
    value_len: usize,
) {
    batch.batch.put(key.of(key_len), value.of(value_len));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_delete(
    batch: &mut leveldb_writebatch_t,
    key: Data<'_>,
    key_len: usize,
) {
    batch.batch.delete(key.of(key_len));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_iterate(
    batch: &leveldb_writebatch_t,
    state: *mut c_void,
    put: unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize),
    deleted: unsafe extern "C" fn(*mut c_void, *const u8, usize),
) {
    quietly(|| {
        for op in batch.batch.iter() {
            match op {
                // SAFETY: C6: the callbacks take what C says they take.
                BatchOp::Put { key, value } => unsafe {
                    put(state, key.as_ptr(), key.len(), value.as_ptr(), value.len());
                },
                // SAFETY: as above.
                BatchOp::Delete { key } => unsafe { deleted(state, key.as_ptr(), key.len()) },
            }
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_append(
    destination: *mut leveldb_writebatch_t,
    source: *const leveldb_writebatch_t,
) {
    // A copy, for the two may be one.
    // SAFETY: C1.
    let source = unsafe { &*source }.batch.clone();
    // SAFETY: C1 and C2; nothing else refers to it here.
    unsafe { &mut *destination }.batch.append(&source);
}
