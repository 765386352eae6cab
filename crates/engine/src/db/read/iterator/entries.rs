//! A scan as an iterator of Rust's.

use crate::base::error::{Error, Result};
use crate::db::read::iterator::DbIterator;

/// Owned pairs, forwards; see [`DbIterator::entries`]. After an error there are no more.
pub struct Entries {
    iter: DbIterator,
    failed: Option<Error>,
}

impl Entries {
    /// From the entry that `iter` stands on.
    pub(super) fn of(iter: DbIterator) -> Self {
        Entries { iter, failed: None }
    }
}

impl Iterator for Entries {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        if !self.iter.valid() {
            return None;
        }
        let pair = (self.iter.key().to_vec(), self.iter.value().to_vec());
        // The pair was read well; what failed is the way to the one after it.
        self.failed = self.iter.next().err();
        Some(Ok(pair))
    }
}
