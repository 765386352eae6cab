//! The iterator that every sorted source offers: memtables, blocks, tables, levels, merges.
//!
//! Movement returns a `Result`, so that an error cannot pass as the end. After an error the
//! iterator is invalid until the next successful seek.

use crate::base::error::{Error, Result};
use crate::base::key::KeyHead;

pub(crate) trait InternalIterator: Send {
    /// True when on an entry; only then may `key` and `value` be called.
    fn valid(&self) -> bool;
    fn seek_to_first(&mut self) -> Result<()>;
    fn seek_to_last(&mut self) -> Result<()>;
    /// Moves to the first entry whose internal key is not less than `target`.
    fn seek(&mut self, target: &[u8]) -> Result<()>;
    /// Needs `valid()`.
    fn next(&mut self) -> Result<()>;
    /// As `next`, and returns whether it leads to an entry. If so, `head`, which is of the current key, becomes that of its
    /// key; `is_bytewise` is the order of user keys.
    #[inline]
    fn next_with_head(&mut self, head: &mut KeyHead, is_bytewise: bool) -> Result<bool> {
        self.next()?;
        Ok(self.show_head(head, is_bytewise))
    }
    /// Makes `head` that of the current key, if there is one, and returns whether there is.
    #[inline]
    fn show_head(&self, head: &mut KeyHead, is_bytewise: bool) -> bool {
        let valid = self.valid();
        if valid {
            *head = KeyHead::of(self.key(), is_bytewise);
        }
        valid
    }
    /// Called by a merge when it comes to stand on this source, before it asks for the value: for those who put off what a
    /// seek costs. All others have done it.
    #[inline]
    fn arrive(&mut self) -> Result<()> {
        Ok(())
    }
    /// Needs `valid()`.
    fn prev(&mut self) -> Result<()>;
    /// The internal key (for an index iterator, its separator).
    fn key(&self) -> &[u8];
    fn value(&self) -> &[u8];
    /// The internal key of the entry that [`prev`](Self::prev) leads to, if that is known without going there; while on an entry.
    fn key_before(&self) -> Option<&[u8]> {
        None
    }
    /// The error for a current key that is no internal key; sources in files name the place.
    fn corrupted_key(&self) -> Error {
        Error::corruption("corrupted internal key")
    }
}

impl<I: InternalIterator + ?Sized> InternalIterator for Box<I> {
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn seek_to_first(&mut self) -> Result<()> {
        (**self).seek_to_first()
    }
    fn seek_to_last(&mut self) -> Result<()> {
        (**self).seek_to_last()
    }
    fn seek(&mut self, target: &[u8]) -> Result<()> {
        (**self).seek(target)
    }
    fn next(&mut self) -> Result<()> {
        (**self).next()
    }
    fn arrive(&mut self) -> Result<()> {
        (**self).arrive()
    }
    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }
    fn key(&self) -> &[u8] {
        (**self).key()
    }
    fn value(&self) -> &[u8] {
        (**self).value()
    }
    fn key_before(&self) -> Option<&[u8]> {
        (**self).key_before()
    }
    fn corrupted_key(&self) -> Error {
        (**self).corrupted_key()
    }
}
