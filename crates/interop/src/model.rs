//! What a database should hold: an ordered map with the same steps. Tests compare both engines
//! with it.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::peer::{Change, Cursor, Entry, Order, Step};

/// An ordered map that takes changes as a database does. A clone is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Model {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    order: Order,
}

impl Model {
    /// An empty model.
    pub fn new(order: Order) -> Model {
        Model { entries: BTreeMap::new(), order }
    }

    /// Makes the changes, in turn.
    pub fn write(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(key, value) => self.entries.insert(key.clone(), value.clone()),
                Change::Delete(key) => self.entries.remove(key),
            };
        }
    }

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.entries.get(key).map(Vec::as_slice)
    }

    /// The order of the keys.
    pub fn order(&self) -> Order {
        self.order
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A cursor, standing nowhere yet.
    pub fn cursor(&self) -> ModelCursor<'_> {
        ModelCursor { model: self, entry: None }
    }

    /// The entry next to `bound` in bytewise order.
    fn neighbour(&self, bound: Bound<&[u8]>, direction: Direction) -> Option<Entry<'_>> {
        let entry = match direction {
            Direction::Up => self.entries.range::<[u8], _>((bound, Bound::Unbounded)).next(),
            Direction::Down => self.entries.range::<[u8], _>((Bound::Unbounded, bound)).next_back(),
        };
        entry.map(|(key, value)| (key.as_slice(), value.as_slice()))
    }
}

/// A way through the map, which is always in bytewise order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// A place in a model.
#[derive(Clone, Debug)]
pub struct ModelCursor<'a> {
    model: &'a Model,
    entry: Option<Entry<'a>>,
}

impl Cursor for ModelCursor<'_> {
    fn step(&mut self, step: &Step) {
        let here = self.entry.map(|(key, _)| key);
        let ahead = matches!(step, Step::First | Step::Seek(_) | Step::Next);
        let bound = match step {
            Step::First | Step::Last => Bound::Unbounded,
            Step::Seek(key) => Bound::Included(key.as_slice()),
            Step::Next | Step::Prev => Bound::Excluded(here.expect("the cursor is on an entry")),
        };
        let up = ahead == (self.model.order == Order::Bytewise);
        let direction = if up { Direction::Up } else { Direction::Down };
        self.entry = self.model.neighbour(bound, direction);
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.entry
    }
}
