//! Scans: all sources merged, versions and deletions collapsed, both directions.
//!
//! **Invariants.**
//! - I1: going forward, `merged` stands on the current entry; its key and value are the answer.
//! - I2: going backward, too, where it is seen that the entry before is of another key.
//! - I3: else `merged` stands before the current key's entries, and `saved` holds the answer: the newest
//!   visible version is met last, so it has to be remembered.

pub(crate) mod entries;
mod passed;
mod sources;

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::base::key::{InternalKey, KeyHead, SeekKey, SeqNo, ValueKind, seqno_of, user_key};
use crate::base::merging::MergingIter;
use crate::db::core::Core;
use crate::db::options::ReadOptions;
use crate::db::read::iterator::entries::Entries;
use crate::db::read::iterator::passed::Passed;
use crate::db::read::iterator::sources::sources;
use crate::db::read::sampling::Sampler;
use crate::db::read::snapshot::Snapshot;
use crate::db::super_version::SuperVersion;
use crate::version::level_iter::Source;

/// So many entries are stepped over; the rest of a key's entries is left by a seek, which costs about as much.
const PASSED_OVER_MAX: u32 = 32;

/// A position in the database's keys, as of one moment: it does not see later writes.
///
/// A new iterator stands nowhere: seek first. Movement reads blocks as it needs them and never waits for
/// writers. It takes no lock, but for a moment when scans have paid for a merge
/// ([`Options::scan_compaction`](crate::Options::scan_compaction)). It returns an error (`Corruption`, `Io`) if bytes could not be read;
/// the iterator then stands nowhere until the next seek. It keeps the database open and the files it
/// reads on disk. An iterator is used by one thread at a time, and may be sent to another.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let options = siltstone::Options {
/// #     create_if_missing: true, env: siltstone::Env::memory(), ..Default::default()
/// # };
/// let db = siltstone::Db::open("fruit", options)?;
/// db.put("apple", "red")?;
/// db.put("banana", "yellow")?;
/// let mut iter = db.iter()?;
/// iter.seek("b")?;
/// assert!(iter.valid());
/// assert_eq!((iter.key(), iter.value()), (&b"banana"[..], &b"yellow"[..]));
/// iter.prev()?;
/// assert_eq!(iter.key(), b"apple");
/// # Ok(())
/// # }
/// ```
pub struct DbIterator {
    merged: MergingIter<Source>,
    seqno: SeqNo,
    stand: Stand,
    valid: bool,
    /// Going forward: the key before the current one, at least.
    passed: Passed,
    saved: Saved,
    core: Arc<Core>,
    pinned: Arc<SuperVersion>,
    /// Present if scans count for seek compaction.
    sampler: Option<Sampler>,
    _snapshot: Option<Snapshot>,
}

/// Where the last movement led.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// Forward, to the current entry (I1).
    Forward,
    /// Backward, to the current entry (I2).
    Backward,
    /// Backward, to before the current key's entries (I3).
    Before,
}

/// A remembered entry; its buffers are reused.
#[derive(Default)]
struct Saved {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Saved {
    fn set_key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    fn set_value(&mut self, value: &[u8]) {
        self.value.clear();
        self.value.extend_from_slice(value);
    }
}

impl DbIterator {
    pub(crate) fn new(core: &Arc<Core>, options: &ReadOptions) -> Result<Self> {
        core.readers.note();
        // Pin first, then the number; see `View::visible`.
        let pinned = core.view.load_full();
        let seqno = core.read_seqno(options);
        let sources = sources(core, &pinned, options)?;
        Ok(DbIterator {
            merged: MergingIter::new(core.settings.order.clone(), sources),
            seqno,
            stand: Stand::Forward,
            valid: false,
            passed: Passed::default(),
            saved: Saved::default(),
            core: Arc::clone(core),
            pinned,
            sampler: core.settings.seek_compaction.then(|| Sampler::new(core.next_seed())),
            _snapshot: options.snapshot.clone(),
        })
    }

    /// True when on an entry; only then may the other methods but the seeks be called.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The current key.
    ///
    /// # Panics
    ///
    /// If the iterator is not [`valid`](Self::valid).
    #[inline]
    pub fn key(&self) -> &[u8] {
        assert!(self.valid, "key() of an iterator that stands nowhere");
        match self.stand {
            Stand::Forward | Stand::Backward => user_key(self.merged.key()),
            Stand::Before => &self.saved.key,
        }
    }

    /// The current value.
    ///
    /// # Panics
    ///
    /// If the iterator is not [`valid`](Self::valid).
    #[inline]
    pub fn value(&self) -> &[u8] {
        assert!(self.valid, "value() of an iterator that stands nowhere");
        match self.stand {
            Stand::Forward | Stand::Backward => self.merged.value(),
            Stand::Before => &self.saved.value,
        }
    }

    /// Moves to the first key, if there is one.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.moved(|iter| {
            iter.core.note_scan(&iter.pinned);
            iter.merged.seek_to_first()?;
            iter.find_forward(false)
        })
    }

    /// Moves to the last key, if there is one.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.moved(|iter| {
            iter.core.note_scan(&iter.pinned);
            iter.merged.seek_to_last()?;
            iter.find_backward()
        })
    }

    /// Moves to the first key that is not less than `target`, if there is one.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) -> Result<()> {
        let target = SeekKey::new(target.as_ref(), self.seqno);
        self.moved(|iter| {
            iter.core.note_scan(&iter.pinned);
            iter.merged.seek(target.as_bytes())?;
            iter.find_forward(false)
        })
    }

    /// Moves to the next key; past the last one the iterator stands nowhere.
    ///
    /// # Panics
    ///
    /// If the iterator is not [`valid`](Self::valid).
    #[expect(
        clippy::should_implement_trait,
        reason = "LevelDB's name; it moves and yields nothing"
    )]
    pub fn next(&mut self) -> Result<()> {
        assert!(self.valid, "next() of an iterator that stands nowhere");
        self.valid = false;
        if self.stand == Stand::Before {
            return self.moved(|iter| {
                iter.turn_forward()?;
                iter.find_forward(true)
            });
        }
        let before = self.merged.head().unwrap_or_default();
        let order = &self.core.settings.order.user;
        self.passed.set(order, before, || user_key(self.merged.key()));
        let stepped = self.merged.next();
        if stepped.is_ok() && self.stands_on_value_after(before) {
            self.stand = Stand::Forward;
            self.valid = true;
            self.sample();
            return Ok(());
        }
        self.moved(|iter| stepped.and_then(|()| iter.find_forward(true)))
    }

    /// Whether the heads alone tell that `merged` stands on what [`find_forward`](Self::find_forward) would lead to.
    #[inline(always)]
    fn stands_on_value_after(&self, before: KeyHead) -> bool {
        self.merged.head().is_some_and(|head| {
            // Custom orders have no leading words.
            head.leading > before.leading
                && head.kind() == Some(ValueKind::Value)
                && head.seqno() <= self.seqno
        })
    }

    /// Moves to the key before; before the first one the iterator stands nowhere.
    ///
    /// # Panics
    ///
    /// If the iterator is not [`valid`](Self::valid).
    pub fn prev(&mut self) -> Result<()> {
        assert!(self.valid, "prev() of an iterator that stands nowhere");
        self.valid = false;
        let stepped = match self.stand {
            Stand::Forward => self.turn_backward(),
            Stand::Backward => self.merged.prev(),
            Stand::Before => Ok(()),
        };
        if stepped.is_ok() && self.stands_on_last_value() {
            self.stand = Stand::Backward;
            self.valid = true;
            self.sample();
            return Ok(());
        }
        self.moved(|iter| stepped.and_then(|()| iter.find_backward()))
    }

    /// Whether the heads alone tell that `merged` stands on what [`find_backward`](Self::find_backward) would lead to.
    #[inline(always)]
    fn stands_on_last_value(&mut self) -> bool {
        self.merged.head().is_some_and(|head| {
            head.kind() == Some(ValueKind::Value)
                && head.seqno() <= self.seqno
                && self.merged.is_last_by_heads()
        })
    }

    /// The entries from here on as owned pairs; from the first one if the iterator stands nowhere.
    pub fn entries(mut self) -> Result<Entries> {
        if !self.valid {
            self.seek_to_first()?;
        }
        Ok(Entries::of(self))
    }

    /// After an error the iterator stands nowhere.
    #[inline]
    fn moved(&mut self, movement: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.valid = false;
        let moved = movement(self);
        self.valid &= moved.is_ok();
        self.sample();
        moved
    }

    #[inline(always)]
    fn sample(&mut self) {
        if self.sampler.is_some() {
            self.sample_entry();
        }
    }

    #[cold]
    fn sample_entry(&mut self) {
        if !self.valid {
            return;
        }
        let bytes = self.key().len() + self.value().len();
        if self.sampler.as_mut().is_some_and(|sampler| sampler.passes(bytes)) {
            self.core.sample_read(&self.pinned, self.key());
        }
    }

    /// From `merged`'s position on, finds the next key that is visible and not deleted. With `skip`,
    /// entries of `passed` are passed over.
    #[inline(never)]
    fn find_forward(&mut self, mut skip: bool) -> Result<()> {
        let order = &self.core.settings.order.user;
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
    fn find_backward(&mut self) -> Result<()> {
        let DbIterator { merged, saved, core, .. } = self;
        let order = &core.settings.order.user;
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
    fn turn_forward(&mut self) -> Result<()> {
        let order = &self.core.settings.order;
        let current = InternalKey::seek_to(&self.saved.key, self.seqno);
        let head = KeyHead::of(current.as_bytes(), order.is_bytewise());
        self.passed.set(&order.user, head, || current.user());
        if self.merged.valid() { self.merged.next() } else { self.merged.seek_to_first() }
    }

    /// `merged` stands on the current entry: moves it before all entries of its user key.
    fn turn_backward(&mut self) -> Result<()> {
        let order = &self.core.settings.order.user;
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
