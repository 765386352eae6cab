//! Scans: all sources merged, versions and deletions collapsed, both directions.
//!
//! **Invariants.**
//! - I1: going forward, `merged` stands on the current entry; its key and value are the answer.
//! - I2: going backward, too, where it is seen that the entry before is of another key.
//! - I3: else `merged` stands before the current key's entries, and `saved` holds the answer: the newest
//!   visible version is met last, so it has to be remembered.
//! - I4: while `stride` has entries, the current one is among them, and `merged` stands on the last, having gone forward, or
//!   on the first, having gone backward.

mod ahead;
pub(crate) mod entries;
mod passed;
mod search;
mod sources;

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::iter::InternalIterator;
use crate::base::key::{KeyHead, SeekKey, SeqNo, ValueKind, user_key};
use crate::base::merging::MergingIter;
use crate::db::core::Core;
use crate::db::options::ReadOptions;
use crate::db::read::iterator::ahead::Pace;
use crate::db::read::iterator::entries::Entries;
use crate::db::read::iterator::passed::Passed;
use crate::db::read::iterator::sources::sources;
use crate::db::read::sampling::Sampler;
use crate::db::read::snapshot::Snapshot;
use crate::db::super_version::SuperVersion;
use crate::format::table::Stride;
use crate::version::level_iter::Source;

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
    stride: Stride,
    merged: MergingIter<Source>,
    seqno: SeqNo,
    stand: Stand,
    valid: bool,
    /// Going forward: the key before the current one, at least.
    passed: Passed,
    saved: Saved,
    pace: Pace,
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
            stride: Stride::default(),
            merged: MergingIter::new(core.settings.order.clone(), sources),
            seqno,
            stand: Stand::Forward,
            valid: false,
            passed: Passed::default(),
            saved: Saved::default(),
            pace: Pace::new(),
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
        if let Some(key) = self.stride.key() {
            return user_key(key);
        }
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
        if let Some(value) = self.stride.value() {
            return value;
        }
        assert!(self.valid, "value() of an iterator that stands nowhere");
        match self.stand {
            Stand::Forward | Stand::Backward => self.merged.value(),
            Stand::Before => &self.saved.value,
        }
    }

    /// Moves to the first key, if there is one.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.sought(|iter| {
            iter.merged.seek_to_first()?;
            iter.find_forward(false)
        })
    }

    /// Moves to the last key, if there is one.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.sought(|iter| {
            iter.merged.seek_to_last()?;
            iter.find_backward()
        })
    }

    /// Moves to the first key that is not less than `target`, if there is one.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) -> Result<()> {
        let target = SeekKey::new(target.as_ref(), self.seqno);
        self.sought(|iter| {
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
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if self.stride.step() {
            self.sample();
            return Ok(());
        }
        self.next_of_merged()
    }

    #[inline(never)]
    fn next_of_merged(&mut self) -> Result<()> {
        assert!(self.valid, "next() of an iterator that stands nowhere");
        self.valid = false;
        self.leave_stride(Stand::Forward)?;
        if self.run(Stand::Forward) {
            return Ok(());
        }
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
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if self.stride.step_back() {
            self.sample();
            return Ok(());
        }
        self.prev_of_merged()
    }

    #[inline(never)]
    fn prev_of_merged(&mut self) -> Result<()> {
        assert!(self.valid, "prev() of an iterator that stands nowhere");
        self.valid = false;
        self.leave_stride(Stand::Backward)?;
        if self.run(Stand::Backward) {
            return Ok(());
        }
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

    /// A movement that does not begin where the iterator stands.
    fn sought(&mut self, movement: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.begin_scan();
        self.core.note_scan(&self.pinned);
        self.moved(movement)
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
}

impl Drop for DbIterator {
    fn drop(&mut self) {
        self.end_scan();
    }
}
