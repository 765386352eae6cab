//! Slots: the places of a version where tables lie, in the order in which reads look.
//!
//! ```text
//! L0 > Tree1 > SstLog1 > Tree2 > SstLog2 > ... > Tree6          newer > older
//! ```
//!
//! Level 0 is one slot of overlapping tables, newest first. Each deeper level has a `Tree` slot of
//! disjoint tables; levels 1 to 5 may have an `SstLog` slot of overlapping tables, newest first,
//! whose data is older than its tree's and newer than the next level's.

use std::fmt;

/// Levels of the format: 0 to 6.
pub(crate) const LEVELS: usize = 7;
/// Slots of a version.
pub(crate) const SLOTS: usize = 2 * LEVELS - 2;

/// A level's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    pub(crate) const ZERO: Level = Level(0);
    pub(crate) const LAST: Level = Level(LEVELS as u8 - 1);

    /// The level of that number; `None` past the last.
    pub fn new(number: u8) -> Option<Self> {
        (usize::from(number) < LEVELS).then_some(Level(number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn deeper(self) -> Option<Self> {
        Level::new(self.0 + 1)
    }

    pub(crate) fn all() -> impl DoubleEndedIterator<Item = Level> {
        (0..LEVELS as u8).map(Level)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which part of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// The level proper: disjoint tables (in level 0, the flushed tables).
    Tree,
    /// The level's overflow: overlapping tables, newest first.
    SstLog,
}

/// A place for tables. Slots order as reads search them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The level.
    pub level: Level,
    /// The part of it.
    pub area: Area,
}

impl Slot {
    pub(crate) const L0: Slot = Slot { level: Level::ZERO, area: Area::Tree };

    pub(crate) fn tree(level: Level) -> Self {
        Slot { level, area: Area::Tree }
    }

    /// Position in the search order, `0..SLOTS`.
    pub(crate) fn index(self) -> usize {
        match (self.level.index(), self.area) {
            (0, _) => 0,
            (level, Area::Tree) => 2 * level - 1,
            (level, Area::SstLog) => 2 * level,
        }
    }

    /// All slots in search order.
    pub(crate) fn all() -> impl DoubleEndedIterator<Item = Slot> {
        (0..SLOTS).filter_map(Slot::at)
    }

    /// The slot at a position in the search order; `None` past the last.
    #[inline]
    pub(crate) fn at(index: usize) -> Option<Self> {
        let area = if index == 0 || index % 2 == 1 { Area::Tree } else { Area::SstLog };
        (index < SLOTS).then_some(Slot { level: Level(index.div_ceil(2) as u8), area })
    }

    /// True where tables share no user key.
    pub(crate) fn is_sorted(self) -> bool {
        self.level != Level::ZERO && self.area == Area::Tree
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.area {
            Area::Tree => write!(f, "L{}", self.level),
            Area::SstLog => write!(f, "L{}-log", self.level),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_slots_in_search_order() {
        let names: Vec<String> = Slot::all().map(|slot| slot.to_string()).collect();
        assert_eq!(names.join(" "), "L0 L1 L1-log L2 L2-log L3 L3-log L4 L4-log L5 L5-log L6");
        assert!(Slot::all().enumerate().all(|(index, slot)| slot.index() == index));
        assert!(Slot::all().is_sorted());
    }
}
