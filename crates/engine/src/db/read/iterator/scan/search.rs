//! Which entry a scan goes to, found one by one: through versions, deletions and what is too new for it.

use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::base::key::{InternalKey, KeyHead, SeqNo, ValueKind, seqno_of, user_key};
use crate::base::merging::MergingIter;
use crate::db::read::iterator::scan::{Scan, Stand, held};
use crate::version::level_iter::Source;

/// So many entries are stepped over; the rest of a key's entries is left by a seek, which costs about as much.
const PASSED_OVER_MAX: u32 = 32;

impl Scan {
    /// From `merged`'s position on, finds the next key that is visible and not deleted. With `skip`,
    /// entries of `passed` are passed over.
    #[inline(never)]
    pub(super) fn find_forward(&mut self, mut skip: bool) -> Result<()> {
        let order = &held(&self.core).settings.order.user;
        let mut passed_over = 0;
        while let Some(head) = self.merged.head() {
            let kind = head.kind().ok_or_else(|| self.merged.corrupted_key())?;
            let user = || user_key(self.merged.key());
            if head.seqno() <= self.seqno && !(skip && self.passed.covers(order, head, user)) {
                if kind == ValueKind::Value {
                    self.stand = Stand::Forward;
                    self.valid = true;
                    return Ok(());
                }
                self.passed.set(order, head, user);
                skip = true;
                passed_over = 0;
            }
            passed_over += 1;
            if passed_over == PASSED_OVER_MAX {
                leap(&mut self.merged, self.seqno)?;
                passed_over = 0;
            } else {
                self.merged.next()?;
            }
        }
        Ok(())
    }

    /// From `merged`'s position backwards, finds the next lower key that is visible and not deleted,
    /// and remembers it (I3) unless it is the last one to look at (I2).
    #[inline(never)]
    pub(super) fn find_backward(&mut self) -> Result<()> {
        let Scan { merged, saved, core, .. } = self;
        let order = &held(core).settings.order.user;
        let mut found = None;
        while let Some(head) = merged.head() {
            let kind = head.kind().ok_or_else(|| merged.corrupted_key())?;
            let user = || user_key(merged.key());
            if found.is_some_and(|found| order.is_before((head, user), (found, || &saved.key))) {
                break;
            }
            if head.seqno() <= self.seqno {
                found = (kind == ValueKind::Value).then_some(head);
                if found.is_some() {
                    if merged.is_last_of_its_user_key() {
                        self.stand = Stand::Backward;
                        self.valid = true;
                        return Ok(());
                    }
                    saved.set_key(user());
                    saved.set_value(merged.value());
                }
            }
            merged.prev()?;
        }
        self.stand = Stand::Before;
        self.valid = found.is_some();
        Ok(())
    }

    /// `merged` stands before the entries of `saved.key`, or nowhere: puts it onto the first entry
    /// after what lies before them.
    pub(super) fn turn_forward(&mut self) -> Result<()> {
        let order = &held(&self.core).settings.order;
        let current = InternalKey::seek_to(&self.saved.key, self.seqno);
        let head = KeyHead::of(current.as_bytes(), order.is_bytewise());
        self.passed.set(&order.user, head, || current.user());
        if self.merged.valid() { self.merged.next() } else { self.merged.seek_to_first() }
    }

    /// `merged` stands on the current entry: moves it before all entries of its user key.
    pub(super) fn turn_backward(&mut self) -> Result<()> {
        let order = &held(&self.core).settings.order.user;
        self.saved.set_key(user_key(self.merged.key()));
        while self.merged.valid()
            && order.compare(user_key(self.merged.key()), &self.saved.key).is_ge()
        {
            self.merged.prev()?;
        }
        Ok(())
    }
}

/// Leaves a key's entries that a read as of `seqno` does not see: those newer than it or else, from one that is hidden by
/// another, all that are left.
#[cold]
fn leap(merged: &mut MergingIter<Source>, seqno: SeqNo) -> Result<()> {
    let key = merged.key();
    let target = match seqno_of(key) > seqno {
        true => InternalKey::seek_to(user_key(key), seqno),
        false => InternalKey::new(user_key(key), SeqNo(0), ValueKind::Deletion),
    };
    match target.as_bytes() == key {
        true => merged.next(),
        false => merged.seek(target.as_bytes()),
    }
}
