//! Comparators that C brings: `leveldb_comparator_*`.
#![expect(unsafe_code, reason = "functions that C calls, and that call C")]

use std::cmp::Ordering;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use siltstone::Comparator;

use crate::border::{Destructor, State, Text};

type Compare = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> c_int;

pub(crate) struct leveldb_comparator_t {
    comparator: Arc<CComparator>,
}

impl leveldb_comparator_t {
    pub(crate) fn share(&self) -> Arc<dyn Comparator> {
        Arc::clone(&self.comparator) as _
    }
}

struct CComparator {
    state: State,
    compare: Compare,
    name: String,
}

impl Comparator for CComparator {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let state = self.state.get();
        // SAFETY: C6.
        let order = unsafe { (self.compare)(state, a.as_ptr(), a.len(), b.as_ptr(), b.len()) };
        order.cmp(&0)
    }
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<Destructor>,
    compare: Compare,
    name: unsafe extern "C" fn(*mut c_void) -> Text<'static>,
) -> Box<leveldb_comparator_t> {
    // SAFETY: C6.
    let name = unsafe { name(state) }.lossy();
    let state = State::new(state, destructor);
    Box::new(leveldb_comparator_t { comparator: Arc::new(CComparator { state, compare, name }) })
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_destroy(comparator: Option<Box<leveldb_comparator_t>>) {
    drop(comparator);
}
