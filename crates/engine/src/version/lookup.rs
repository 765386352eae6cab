//! Point reads over a version: slot by slot in the search order, table by table, until one holds
//! the key. By A3 the first hit is the newest.

use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::key::{self, ValueKind};
use crate::base::slot::Slot;
use crate::format::table::filter::FilterKey;
use crate::format::table::{GetOptions, Table};
use crate::store::table_cache::TableCache;
use crate::version::candidates::{Candidate, Candidates};
use crate::version::table_meta::TableMeta;
use crate::version::{Tables, Version};

/// What a read asks for: a user key, and the internal key at which its search starts.
pub(crate) struct Target<'a> {
    pub(crate) user: &'a [u8],
    pub(crate) seek: &'a [u8],
    filter: FilterKey<'a>,
}

impl<'a> Target<'a> {
    #[inline]
    pub(crate) fn new(user: &'a [u8], seek: &'a [u8]) -> Self {
        Target { user, seek, filter: FilterKey::new(user) }
    }

    /// What filters know the key by; any other order of bits would do as well for a sample of keys.
    #[inline]
    pub(crate) fn filter_hash(&self) -> u32 {
        self.filter.hash()
    }
}

/// What a table says about a key.
pub(crate) enum Hit<R> {
    Value(R),
    Deleted,
}

/// The answer, and whether the search went through more than one table: then the first one cost a
/// seek for nothing, which LevelDB's seek compaction counts.
pub(crate) struct Answer<'v, R> {
    pub(crate) hit: Option<Hit<R>>,
    pub(crate) wasted: Option<(Slot, &'v Arc<TableMeta>)>,
    /// A table has just earned itself a filter, which lanes are to make.
    pub(crate) wants_filter: bool,
}

pub(crate) struct Lookup<'a> {
    pub(crate) order: &'a InternalOrder,
    pub(crate) cache: &'a TableCache,
    pub(crate) options: GetOptions,
    /// Whether [wasted](Answer::wasted) seeks are to be told.
    pub(crate) counts_seeks: bool,
}

impl Lookup<'_> {
    /// Finds the newest entry visible to `target` and hands its value to `found`.
    pub(crate) fn get<'v, R>(
        &self,
        version: &'v Version,
        target: &Target<'_>,
        mut found: impl FnMut(&[u8]) -> R,
    ) -> Result<Answer<'v, R>> {
        let mut answer = Answer { hit: None, wasted: None, wants_filter: false };
        let mut first = None;
        for of_slot in version.filled_slots() {
            for candidate in Candidates::of(self.order, of_slot, target) {
                if self.counts_seeks {
                    if !candidate.covers(self.order, target) {
                        continue;
                    }
                    answer.wasted = first;
                    first = first.or(Some((candidate.slot, candidate.table)));
                }
                match self.ask(&candidate, target, &mut found)? {
                    Asked::Hit(hit) => return Ok(Answer { hit: Some(hit), ..answer }),
                    Asked::Nothing { wants_filter } => answer.wants_filter |= wants_filter,
                }
            }
        }
        Ok(answer)
    }

    /// How many tables reach over a key.
    pub(crate) fn tables_over(
        order: &InternalOrder,
        version: &Version,
        target: &Target<'_>,
    ) -> usize {
        version.filled_slots().map(|of_slot| Self::tables_within(order, of_slot, target)).sum()
    }

    /// How many tables of a slot do.
    pub(crate) fn tables_within(
        order: &InternalOrder,
        of_slot: (Slot, &Tables),
        target: &Target<'_>,
    ) -> usize {
        let candidates = Candidates::of(order, of_slot, target);
        candidates.filter(|candidate| candidate.covers(order, target)).count()
    }

    /// Asks a table, which is opened if need be.
    #[inline]
    fn ask<R>(
        &self,
        candidate: &Candidate<'_>,
        target: &Target<'_>,
        found: &mut impl FnMut(&[u8]) -> R,
    ) -> Result<Asked<R>> {
        let nothing = Ok(Asked::Nothing { wants_filter: false });
        let covers = || candidate.covers(self.order, target);
        let look = candidate.table.place().look();
        let opened;
        let table = match look.as_ref() {
            Some(open) => open,
            None if !covers() => return nothing,
            None => {
                opened = candidate.table.open(self.cache)?;
                &opened
            }
        };
        if !table.may_have(&target.filter) || !covers() {
            return nothing;
        }
        if let Some(hit) = self.probe(table, target, found)? {
            return Ok(Asked::Hit(hit));
        }
        let wants_filter = table.note_vain_search();
        if wants_filter {
            self.cache.want_filter(candidate.table.number, candidate.table.size);
        }
        Ok(Asked::Nothing { wants_filter })
    }

    fn probe<R>(
        &self,
        table: &Table,
        target: &Target<'_>,
        found: &mut impl FnMut(&[u8]) -> R,
    ) -> Result<Option<Hit<R>>> {
        let entry = table.get_unfiltered(target.seek, self.options, |internal, value| {
            let Some(parsed) = key::parse(internal) else {
                return Some(Err(Error::corruption("corrupted internal key")));
            };
            if self.order.user.compare(parsed.user, target.user).is_ne() {
                return None;
            }
            Some(Ok(match parsed.kind {
                ValueKind::Value => Hit::Value(found(value)),
                ValueKind::Deletion => Hit::Deleted,
            }))
        })?;
        match entry.flatten() {
            None => Ok(None),
            Some(Ok(hit)) => Ok(Some(hit)),
            Some(Err(error)) => Err(error.in_file(table.path())),
        }
    }
}

/// What came of a table.
enum Asked<R> {
    Hit(Hit<R>),
    Nothing { wants_filter: bool },
}
