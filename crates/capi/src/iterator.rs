//! Iterators: `leveldb_iter_*`. The first failure is kept and told by `leveldb_iter_get_error`.
#![expect(unsafe_code, reason = "functions that C calls")]

use std::ptr;

use siltstone::{DbIterator, Error, Result};

use crate::border::{Data, ErrorSlot, Out, caught, quietly};

pub(crate) struct leveldb_iterator_t {
    /// None if it could not be made.
    iter: Option<DbIterator>,
    failure: Option<Error>,
}

impl leveldb_iterator_t {
    pub(crate) fn new(made: Result<DbIterator>) -> Self {
        match made {
            Ok(iter) => leveldb_iterator_t { iter: Some(iter), failure: None },
            Err(error) => leveldb_iterator_t { iter: None, failure: Some(error) },
        }
    }

    #[inline]
    fn valid(&self) -> Option<&DbIterator> {
        self.iter.as_ref().filter(|iter| iter.valid())
    }

    #[inline]
    fn moved(&mut self, movement: impl FnOnce(&mut DbIterator) -> Result<()>) {
        if let Some(iter) = &mut self.iter
            && let Err(error) = caught(|| movement(iter))
        {
            self.failure.get_or_insert(error);
        }
    }

    /// Moves from an entry; from nowhere there is nothing to move to.
    #[inline]
    fn step(&mut self, movement: impl FnOnce(&mut DbIterator) -> Result<()>) {
        self.moved(|iter| if iter.valid() { movement(iter) } else { Ok(()) });
    }
}

/// Hands bytes out that lie in the iterator until it moves; null if it stands nowhere.
#[inline]
fn shown(bytes: Option<&[u8]>, len: Out<'_, usize>) -> *const u8 {
    len.write(bytes.map_or(0, <[u8]>::len));
    bytes.map_or(ptr::null(), <[u8]>::as_ptr)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_destroy(iter: Option<Box<leveldb_iterator_t>>) {
    quietly(|| drop(iter));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_valid(iter: &leveldb_iterator_t) -> u8 {
    u8::from(iter.valid().is_some())
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_first(iter: &mut leveldb_iterator_t) {
    iter.moved(DbIterator::seek_to_first);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek_to_last(iter: &mut leveldb_iterator_t) {
    iter.moved(DbIterator::seek_to_last);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_seek(iter: &mut leveldb_iterator_t, key: Data<'_>, key_len: usize) {
    iter.moved(|iter| iter.seek(key.of(key_len)));
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_next(iter: &mut leveldb_iterator_t) {
    iter.step(DbIterator::next);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_prev(iter: &mut leveldb_iterator_t) {
    iter.step(DbIterator::prev);
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_key(iter: &leveldb_iterator_t, len: Out<'_, usize>) -> *const u8 {
    shown(iter.valid().map(DbIterator::key), len)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_value(iter: &leveldb_iterator_t, len: Out<'_, usize>) -> *const u8 {
    shown(iter.valid().map(DbIterator::value), len)
}

#[unsafe(no_mangle)]
extern "C" fn leveldb_iter_get_error(iter: &leveldb_iterator_t, error: ErrorSlot) {
    if let Some(failure) = &iter.failure {
        error.set(failure);
    }
}

#[cfg(test)]
mod tests {
    use siltstone::{Db, Env, Options};

    use super::*;

    /// P1: the first failure stays, and an iterator that panicked goes on.
    #[test]
    fn a_panic_is_kept_as_the_failure() {
        let options = Options { create_if_missing: true, env: Env::memory(), ..Default::default() };
        let db = Db::open("db", options).unwrap();
        db.put("a", "1").unwrap();
        let mut iter = leveldb_iterator_t::new(db.iter());
        iter.moved(|_| panic!("on purpose"));
        iter.moved(|_| Err(Error::corruption("later")));
        assert!(iter.failure.as_ref().unwrap().to_string().contains("on purpose"));
        iter.moved(DbIterator::seek_to_first);
        assert_eq!(iter.valid().unwrap().key(), b"a");
        assert!(iter.failure.is_some());
    }

    #[test]
    fn one_that_could_not_be_made_stands_nowhere() {
        let mut iter = leveldb_iterator_t::new(Err(Error::corruption("a table")));
        iter.moved(DbIterator::seek_to_first);
        iter.step(DbIterator::next);
        assert!(iter.valid().is_none() && iter.failure.is_some());
    }
}
