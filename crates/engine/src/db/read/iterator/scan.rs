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
use crate::db::read::iterator::scan::ahead::Pace;
use crate::db::read::iterator::scan::passed::Passed;
use crate::db::read::iterator::scan::sources::sources;
use crate::db::read::kept::Asked;
use crate::db::read::sampling::Sampler;
use crate::db::read::snapshot::Snapshot;
use crate::db::super_version::SuperVersion;
use crate::format::table::Stride;
use crate::version::level_iter::Source;

/// What an iterator is. In a box, so that the next one may have it as it is.
pub(crate) struct Scan {
    stride: Stride,
    merged: MergingIter<Source>,
    seqno: SeqNo,
    stand: Stand,
    valid: bool,
    /// Going forward: the key before the current one, at least.
    passed: Passed,
    saved: Saved,
    pace: Pace,
    /// None while it is kept: what a database keeps does not keep it open.
    core: Option<Arc<Core>>,
    pinned: Arc<SuperVersion>,
    /// The number of the view at which it was pinned, or an earlier one.
    view: u64,
    asked: Asked,
    /// Present if scans count for seek compaction.
    sampler: Option<Sampler>,
    snapshot: Option<Snapshot>,
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

impl Scan {
    /// For an iterator that is made: what an earlier one has left, if there is such.
    pub(super) fn begin(core: &Arc<Core>, options: &ReadOptions) -> Result<Box<Self>> {
        let asked = Asked::of(options);
        let mut scan = match kept(core, options, asked) {
            Some(kept) => kept,
            None => Scan::new(core, options, asked)?,
        };
        scan.core = Some(Arc::clone(core));
        if options.snapshot.is_some() {
            scan.snapshot.clone_from(&options.snapshot);
        }
        Ok(scan)
    }

    /// Its iterator is gone. It is kept for the next one, if there is a place for it.
    pub(super) fn end(mut self: Box<Self>) {
        self.end_scan();
        // A comparator that has panicked may have left anything.
        if let Some(core) = self.core.take()
            && !std::thread::panicking()
        {
            core.kept_scans.keep(self, &core.view);
        }
    }

    fn new(core: &Arc<Core>, options: &ReadOptions, asked: Asked) -> Result<Box<Self>> {
        let view = core.view.number();
        // Pin first, then the number; see `View::visible`.
        let pinned = core.view.load_full();
        let seqno = core.read_seqno(options);
        let sources = sources(core, &pinned, options)?;
        Ok(Box::new(Scan {
            stride: Stride::default(),
            merged: MergingIter::new(core.settings.order.clone(), sources),
            seqno,
            stand: Stand::Forward,
            valid: false,
            passed: Passed::default(),
            saved: Saved::default(),
            pace: Pace::new(),
            core: None,
            pinned,
            view,
            asked,
            sampler: core.settings.seek_compaction.then(|| Sampler::new(core.next_seed())),
            snapshot: None,
        }))
    }

    pub(in crate::db::read) fn view(&self) -> u64 {
        self.view
    }

    pub(in crate::db::read) fn asked(&self) -> Asked {
        self.asked
    }

    /// Stands nowhere, as it did when it was made, and holds no more than it did then.
    pub(in crate::db::read) fn rest(&mut self) {
        self.merged.release_by(Source::release);
        (self.stand, self.valid) = (Stand::Forward, false);
        self.passed = Passed::default();
        self.saved = Saved::default();
        self.snapshot = None;
        self.pace = Pace::new();
    }

    #[inline]
    pub(super) fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        if let Some(key) = self.stride.key() {
            return user_key(key);
        }
        assert!(self.valid, "key() of an iterator that stands nowhere");
        match self.stand {
            Stand::Forward | Stand::Backward => user_key(self.merged.key()),
            Stand::Before => &self.saved.key,
        }
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        if let Some(value) = self.stride.value() {
            return value;
        }
        assert!(self.valid, "value() of an iterator that stands nowhere");
        match self.stand {
            Stand::Forward | Stand::Backward => self.merged.value(),
            Stand::Before => &self.saved.value,
        }
    }

    pub(super) fn seek_to_first(&mut self) -> Result<()> {
        self.sought(|iter| {
            iter.merged.seek_to_first()?;
            iter.find_forward(false)
        })
    }

    pub(super) fn seek_to_last(&mut self) -> Result<()> {
        self.sought(|iter| {
            iter.merged.seek_to_last()?;
            iter.find_backward()
        })
    }

    pub(super) fn seek(&mut self, target: &[u8]) -> Result<()> {
        let target = SeekKey::new(target, self.seqno);
        self.sought(|iter| {
            iter.merged.seek(target.as_bytes())?;
            iter.find_forward(false)
        })
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<()> {
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
        let order = &held(&self.core).settings.order.user;
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

    #[inline]
    pub(super) fn prev(&mut self) -> Result<()> {
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

    /// A movement that does not begin where the iterator stands.
    fn sought(&mut self, movement: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.begin_scan();
        held(&self.core).note_scan(&self.pinned);
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
            held(&self.core).sample_read(&self.pinned, self.key());
        }
    }
}

/// What an earlier scan has left, for a read up to a number of its own.
fn kept(core: &Core, options: &ReadOptions, asked: Asked) -> Option<Box<Scan>> {
    let mut kept = core.kept_scans.take(asked)?;
    // The number first: then whether it is still the view that has all of it. What compactions have dropped since it was pinned,
    // it has, too.
    kept.seqno = core.read_seqno(options);
    (kept.view == core.view.number()).then_some(kept)
}

/// Of a scan that is not kept at the moment.
#[inline(always)]
fn held(core: &Option<Arc<Core>>) -> &Core {
    core.as_ref().expect("a scan that moves is an iterator's")
}
