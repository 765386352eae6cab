//! The model: an ordered map that remembers what each open view sees.
//!
//! A view is a moment: snapshots, iterators and scans read as of one. Versions that no view and no
//! later read can see are forgotten at the next write of their key.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use super::operation::Update;
use super::order::Order;
use super::value::Value;

/// Ways in which the model can be wrong, to prove that the test would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// Deletions outside batches are not heeded.
    ForgetsDeletions,
    /// Views show what was written after them.
    ViewsMove,
    /// The last write before a reopen is gone.
    ReopenLosesTheLastWrite,
}

pub struct Reference {
    order: Order,
    keys: BTreeMap<OrderedKey, Vec<Version>>,
    now: u64,
    /// Open views and how many share each.
    views: BTreeMap<u64, usize>,
    flaw: Flaw,
    last_key: Option<Vec<u8>>,
}

/// What a key was from a moment on. The spelling counts where different bytes are the same key.
struct Version {
    since: u64,
    entry: Option<Entry>,
}

/// A key as it was last spelled, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Box<[u8]>,
    pub value: Value,
}

struct OrderedKey {
    order: Order,
    bytes: Box<[u8]>,
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare(&self.bytes, &other.bytes)
    }
}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedKey {}

impl Reference {
    pub fn new(order: Order, flaw: Flaw) -> Self {
        let (keys, views) = (BTreeMap::new(), BTreeMap::new());
        Reference { order, keys, now: 0, views, flaw, last_key: None }
    }

    pub fn order(&self) -> Order {
        self.order
    }

    fn ordered(&self, key: &[u8]) -> OrderedKey {
        OrderedKey { order: self.order, bytes: key.into() }
    }

    /// The moment that a read without a view sees.
    pub fn now(&self) -> u64 {
        if self.flaw == Flaw::ViewsMove { u64::MAX } else { self.now }
    }

    pub fn open_view(&mut self) -> u64 {
        let view = self.now();
        self.share_view(view);
        view
    }

    pub fn share_view(&mut self, view: u64) {
        *self.views.entry(view).or_default() += 1;
    }

    pub fn close_view(&mut self, view: u64) {
        let shared = self.views.get_mut(&view).expect("a view is closed once");
        *shared -= 1;
        if *shared == 0 {
            self.views.remove(&view);
        }
    }

    /// Applies updates in one step.
    pub fn write(&mut self, updates: &[Update]) {
        self.now += 1;
        for (key, value) in updates {
            let forgotten = self.flaw == Flaw::ForgetsDeletions && updates.len() == 1;
            if value.is_some() || !forgotten {
                self.set(key, *value);
            }
        }
    }

    fn set(&mut self, key: &[u8], value: Option<Value>) {
        if self.flaw == Flaw::ReopenLosesTheLastWrite {
            self.last_key = Some(key.to_vec());
        }
        let since = self.now;
        let entry = value.map(|value| Entry { key: key.into(), value });
        let ordered = self.ordered(key);
        if self.views.is_empty() && entry.is_none() {
            self.keys.remove(&ordered);
            return;
        }
        let versions = self.keys.entry(ordered).or_default();
        versions.push(Version { since, entry });
        let views = &self.views;
        let mut until: Vec<u64> = versions.iter().skip(1).map(|next| next.since).collect();
        until.push(u64::MAX);
        let mut until = until.into_iter();
        versions.retain(|version| {
            let until = until.next().expect("there is one for each version");
            until == u64::MAX || views.range(version.since..until).next().is_some()
        });
    }

    /// The database was closed and opened: there are no views any more.
    pub fn reopen(&mut self) {
        assert!(self.views.is_empty(), "views end before the database does");
        if let Some(key) = self.last_key.take() {
            self.keys.remove(&self.ordered(&key));
        }
        self.keys.retain(|_, versions| {
            versions.drain(..versions.len() - 1);
            versions[0].entry.is_some()
        });
    }

    /// The database was destroyed and made again.
    pub fn clear(&mut self) {
        assert!(self.views.is_empty(), "views end before the database does");
        self.keys.clear();
        self.last_key = None;
    }

    pub fn get(&self, key: &[u8], view: u64) -> Option<&Entry> {
        seen(self.keys.get(&self.ordered(key))?, view)
    }

    /// The first entry at or after `key`.
    pub fn at_or_after(&self, key: &[u8], view: u64) -> Option<&Entry> {
        self.forward(Bound::Included(key), view).next()
    }

    /// The first entry after `key`.
    pub fn after(&self, key: &[u8], view: u64) -> Option<&Entry> {
        self.forward(Bound::Excluded(key), view).next()
    }

    /// The last entry before `key`.
    pub fn before(&self, key: &[u8], view: u64) -> Option<&Entry> {
        let end = Bound::Excluded(self.ordered(key));
        let versions = self.keys.range((Bound::Unbounded, end)).map(|(_, versions)| versions);
        versions.rev().find_map(|versions| seen(versions, view))
    }

    /// Entries in order from a bound on.
    pub fn forward(&self, from: Bound<&[u8]>, view: u64) -> impl Iterator<Item = &Entry> {
        let from = from.map(|key| self.ordered(key));
        let versions = self.keys.range((from, Bound::Unbounded)).map(|(_, versions)| versions);
        versions.filter_map(move |versions| seen(versions, view))
    }

    /// All entries in order.
    pub fn entries(&self, view: u64) -> impl DoubleEndedIterator<Item = &Entry> {
        self.keys.values().filter_map(move |versions| seen(versions, view))
    }
}

fn seen(versions: &[Version], view: u64) -> Option<&Entry> {
    let visible = versions.iter().rev().find(|version| version.since <= view)?;
    visible.entry.as_ref()
}
