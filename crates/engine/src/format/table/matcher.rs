//! Searches through entries that come one after the other, without rebuilding their keys. Blocks that are whole and blocks
//! that are unpacked on the way are searched by it.

use crate::base::fences::common_prefix;
use crate::base::key::{TAG_BYTES, split, tag_of};

/// Tells on which side of a target entries lie that come one after the other, without rebuilding their
/// keys. In the bytewise order only.
///
/// Keys before the target are told by how much of it they share: `matched` is the length of what the
/// entry before has in common with the target's user key. An entry that shares more with its
/// predecessor than that is on the same side of the target as its predecessor.
pub(crate) struct Matcher<'a> {
    user: &'a [u8],
    tag: u64,
    matched: usize,
    /// Whether the entry before has a byte that differs at `matched`, instead of ending there.
    diverged: bool,
}

/// Where an entry lies.
pub(crate) enum Side {
    Before,
    NotBefore,
    /// It shares part of a tag with the one before it: only whole keys can tell.
    Unclear,
}

impl<'a> Matcher<'a> {
    /// Before a first entry, which shares nothing. `target` is an internal key.
    #[inline]
    pub(crate) fn new(target: &'a [u8]) -> Self {
        let (user, tag) = split(target);
        Matcher { user, tag, matched: 0, diverged: false }
    }

    /// Behind an entry before the target, of whose user key the first `matched` bytes are the target's, and the next
    /// one, which it has, is not.
    #[inline]
    pub(crate) fn behind(target: &'a [u8], matched: usize) -> Self {
        Matcher { matched, diverged: true, ..Matcher::new(target) }
    }

    /// Looks at the next entry: what it shares with the one before, and the rest of its key.
    #[inline]
    pub(crate) fn look(&mut self, shared: usize, suffix: &[u8]) -> Side {
        if shared > self.matched {
            return if self.diverged { Side::Before } else { Side::Unclear };
        }
        let Some((suffix_user, _)) = suffix.split_last_chunk::<TAG_BYTES>() else {
            return Side::Unclear;
        };
        let wanted = self.user.get(shared..).unwrap_or_default();
        let common = common_prefix(suffix_user, wanted);
        let before = match (suffix_user.get(common), wanted.get(common)) {
            (Some(have), Some(want)) => have < want,
            (have, None) if have.is_none() => tag_of(suffix) > self.tag,
            (have, _) => have.is_none(),
        };
        if !before {
            return Side::NotBefore;
        }
        self.matched = shared + common;
        self.diverged = common < suffix_user.len();
        Side::Before
    }
}
