//! The writer's own way to where a key goes. In a large list a search from the top touches a dozen nodes, far from each
//! other, and memory is slow to bring them. Here the hints of all nodes lie in order, in blocks, and mostly tell the
//! place without a look at any node.
//!
//! Readers know nothing of it, so it needs no care for them. It costs 17 bytes a node, and blocks are half empty at
//! worst.
//!
//! **Invariants.**
//! - F1: it has all nodes of the list, in its order, with hints of one window.
//! - F2: no block is empty, but for the only one.

use std::ptr::NonNull;

use crate::base::prefetch::{prefetch, prefetch_span};
use crate::memtable::skiplist::node::Header;

/// Entries of a block.
const BLOCK_ENTRIES: usize = if cfg!(any(test, loom)) { 8 } else { 128 };

/// So many blocks, of 2 KiB each, are more than the processor keeps near.
const FAR_BLOCKS: usize = if cfg!(any(test, loom)) { 4 } else { 512 };

pub(super) struct Finder {
    /// The first hint of each block.
    firsts: Vec<u64>,
    #[expect(clippy::vec_box, reason = "a block is large, and to part one moves all that follow")]
    blocks: Vec<Box<Block>>,
    spares: Spares,
    /// Where it has looked or inserted last: behind the node that was found or inserted.
    behind_last: Place,
}

struct Block {
    len: usize,
    hints: [u64; BLOCK_ENTRIES],
    heights: [u8; BLOCK_ENTRIES],
    nodes: [Option<NonNull<Header>>; BLOCK_ENTRIES],
}

/// Blocks of a finder that has ended, for the next one: of the heap a writer would have to ask for them one by one, and
/// now and then the heap of the kernel, which keeps it waiting while others have the process's map of memory.
#[derive(Default)]
pub(super) struct Spares(
    #[expect(clippy::vec_box, reason = "as a finder has them")] Vec<Box<Block>>,
);

/// In front of an entry, or behind the last one of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    block: usize,
    at: usize,
}

impl Finder {
    pub(super) fn new(mut spares: Spares) -> Self {
        Finder {
            firsts: vec![0],
            blocks: vec![spares.take()],
            spares,
            behind_last: Place { block: 0, at: 0 },
        }
    }

    /// Ends it. What it had no use for is dropped.
    pub(super) fn into_spares(self) -> Spares {
        Spares(self.blocks)
    }

    /// Behind all nodes that are before a target. Where hints do not tell, `is_before` does.
    #[inline(always)]
    pub(super) fn find(&mut self, hint: u64, is_before: impl Fn(NonNull<Header>) -> bool) -> Place {
        let begins_before = |block: &usize| {
            self.blocks[*block].nodes[0].is_some_and(&is_before) // Only that of an empty list has none.
        };
        let block = before(&self.firsts, hint, begins_before).saturating_sub(1);
        let searched = &*self.blocks[block];
        let is_far = self.blocks.len() >= FAR_BLOCKS;
        if is_far {
            searched.hint_search();
        }
        let Block { len, hints, nodes, .. } = searched;
        let at = before(&hints[..*len], hint, |at| nodes[*at].is_some_and(&is_before));
        if is_far {
            searched.hint_insertion(at);
        }
        self.behind_last = Place { block, at };
        self.behind_last
    }

    /// Behind the last node inserted, or where it was looked for a place since.
    pub(super) fn behind_last(&self) -> Place {
        self.behind_last
    }

    /// The first node behind a place, and its hint.
    #[inline]
    pub(super) fn next(&self, Place { block, at }: Place) -> Option<(NonNull<Header>, u64)> {
        let here = &*self.blocks[block];
        let (block, at) =
            if at < here.len { (here, at) } else { (&**self.blocks.get(block + 1)?, 0) };
        Some((block.nodes[at]?, block.hints[at]))
    }

    /// The last node before a place for each level of `before`; where there is none, that stays as it is.
    #[inline]
    pub(super) fn neighbours(&self, place: Place, before: &mut [NonNull<Header>]) {
        let Place { mut block, mut at } = place;
        let mut level = 0;
        while level < before.len() {
            while at == 0 {
                let Some(earlier) = block.checked_sub(1) else { return };
                (block, at) = (earlier, self.blocks[earlier].len);
            }
            at -= 1;
            let Block { heights, nodes, .. } = &*self.blocks[block];
            while level < before.len() && usize::from(heights[at]) > level {
                before[level] = nodes[at].unwrap_or(before[level]);
                level += 1;
            }
        }
    }

    #[inline]
    pub(super) fn insert(
        &mut self,
        place: Place,
        hint: u64,
        (node, height): (NonNull<Header>, usize),
    ) {
        let mut place = place;
        if self.blocks[place.block].len == BLOCK_ENTRIES {
            place = self.make_room(place);
        }
        let Place { block, at } = place;
        self.blocks[block].insert(at, hint, (node, height));
        if at == 0 {
            self.firsts[block] = hint;
        }
        self.behind_last = Place { block, at: at + 1 };
    }

    /// Parts a full block; returns where the place is then.
    #[cold]
    fn make_room(&mut self, Place { block, at }: Place) -> Place {
        // Keys that come in order fill their blocks.
        let kept = if at == BLOCK_ENTRIES { at } else { BLOCK_ENTRIES / 2 };
        let mut behind = self.spares.take();
        self.blocks[block].split(kept, &mut behind);
        self.firsts.insert(block + 1, behind.hints[0]);
        self.blocks.insert(block + 1, behind);
        match at.checked_sub(kept) {
            Some(at) if at > 0 || kept == BLOCK_ENTRIES => Place { block: block + 1, at },
            _ => Place { block, at },
        }
    }

    /// Inserts a node that comes behind all others.
    pub(super) fn append(&mut self, hint: u64, node: (NonNull<Header>, usize)) {
        let block = self.blocks.len() - 1;
        self.insert(Place { block, at: self.blocks[block].len }, hint, node);
    }
}

impl Spares {
    /// One without entries.
    fn take(&mut self) -> Box<Block> {
        let Some(mut block) = self.0.pop() else { return Block::new() };
        (block.len, block.nodes[0]) = (0, None);
        block
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Block {
    fn new() -> Box<Self> {
        Box::new(Block {
            len: 0,
            hints: [0; BLOCK_ENTRIES],
            heights: [0; BLOCK_ENTRIES],
            nodes: [None; BLOCK_ENTRIES],
        })
    }

    /// Asks for all that a search may touch: its misses are then one instead of one after the other.
    #[inline]
    fn hint_search(&self) {
        prefetch(&raw const self.len);
        prefetch_span(self.hints.as_ptr().cast(), size_of_val(&self.hints));
    }

    /// Asks for what an insertion will move, and for the node before it.
    #[inline]
    fn hint_insertion(&self, at: usize) {
        let moved = &self.nodes[at.saturating_sub(1)..self.len];
        prefetch(&raw const self.heights[at.saturating_sub(1)]);
        prefetch_span(moved.as_ptr().cast(), size_of_val(moved));
    }

    #[inline]
    fn insert(&mut self, at: usize, hint: u64, (node, height): (NonNull<Header>, usize)) {
        if at < self.len {
            self.hints.copy_within(at..self.len, at + 1);
            self.heights.copy_within(at..self.len, at + 1);
            self.nodes.copy_within(at..self.len, at + 1);
        }
        self.hints[at] = hint;
        self.heights[at] = height as u8;
        self.nodes[at] = Some(node);
        self.len += 1;
    }

    /// Moves all behind the first `kept` entries to an empty one.
    fn split(&mut self, kept: usize, behind: &mut Block) {
        behind.len = self.len - kept;
        behind.hints[..behind.len].copy_from_slice(&self.hints[kept..self.len]);
        behind.heights[..behind.len].copy_from_slice(&self.heights[kept..self.len]);
        behind.nodes[..behind.len].copy_from_slice(&self.nodes[kept..self.len]);
        self.len = kept;
    }
}

/// How many entries come before a target; `is_before` is asked of those with its hint.
#[inline(always)]
fn before(hints: &[u64], hint: u64, is_before: impl Fn(&usize) -> bool) -> usize {
    let surely = hints.partition_point(|other| *other < hint);
    let alike = match hints.get(surely) {
        Some(other) if *other == hint => hints[surely..].partition_point(|other| *other == hint),
        _ => return surely,
    };
    // A key that is written over and over mostly comes in front of all its older entries.
    if !is_before(&surely) {
        return surely;
    }
    let (mut left, mut right) = (surely + 1, surely + alike);
    while left < right {
        let middle = left + (right - left) / 2;
        if is_before(&middle) {
            left = middle + 1;
        } else {
            right = middle;
        }
    }
    left
}
