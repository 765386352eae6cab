//! Filters, built in or brought by C: `leveldb_filterpolicy_*`.
#![expect(unsafe_code, reason = "functions that C calls, and that call C")]

use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::Arc;

use siltstone::{BloomFilter, FilterPolicy};

use crate::border::{Destructor, State, Text, free};

type Create =
    unsafe extern "C" fn(*mut c_void, *const *const u8, *const usize, c_int, *mut usize) -> *mut u8;
type MayMatch = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> u8;

pub(crate) struct leveldb_filterpolicy_t {
    policy: Arc<dyn FilterPolicy>,
}

impl leveldb_filterpolicy_t {
    pub(crate) fn share(&self) -> Arc<dyn FilterPolicy> {
        Arc::clone(&self.policy)
    }
}

struct CFilter {
    state: State,
    create: Create,
    may_match: MayMatch,
    name: String,
}

impl FilterPolicy for CFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn create_filter(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
        let starts: Vec<*const u8> = keys.iter().map(|key| key.as_ptr()).collect();
        let lens: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let count = c_int::try_from(keys.len()).expect("a table has fewer keys than 2^31");
        let mut len = 0;
        // SAFETY: C6; the arrays have `count` members.
        let filter = unsafe {
            (self.create)(self.state.get(), starts.as_ptr(), lens.as_ptr(), count, &mut len)
        };
        if !filter.is_null() {
            // SAFETY: the callback returns bytes from `malloc`, as many as it says.
            out.extend_from_slice(unsafe { slice::from_raw_parts(filter, len) });
            free(filter.cast());
        }
    }

    #[inline]
    fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
        let state = self.state.get();
        // SAFETY: C6.
        let answer = unsafe {
            (self.may_match)(state, key.as_ptr(), key.len(), filter.as_ptr(), filter.len())
        };
        answer != 0
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Option<Destructor>,
    create: Create,
    may_match: MayMatch,
    name: unsafe extern "C" fn(*mut c_void) -> Text<'static>,
) -> Box<leveldb_filterpolicy_t> {
    // SAFETY: C6.
    let name = unsafe { name(state) }.lossy();
    let state = State::new(state, destructor);
    Box::new(leveldb_filterpolicy_t {
        policy: Arc::new(CFilter { state, create, may_match, name }),
    })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create_bloom(
    bits_per_key: c_int,
) -> Box<leveldb_filterpolicy_t> {
    let bits = usize::try_from(bits_per_key).unwrap_or(0);
    Box::new(leveldb_filterpolicy_t { policy: Arc::new(BloomFilter::new(bits)) })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_destroy(policy: Option<Box<leveldb_filterpolicy_t>>) {
    drop(policy);
}
