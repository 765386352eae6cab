//! Point reads over a version: slot by slot in the search order, table by table, until one holds
//! the key. By A3 the first hit is the newest.

use std::sync::Arc;

use crate::base::comparator::InternalOrder;
use crate::base::error::{Error, Result};
use crate::base::key::{self, ValueKind};
use crate::base::slot::{Area, Slot};
use crate::format::table::{GetOptions, Table};
use crate::store::table_cache::TableCache;
use crate::version::strata::Layer;
use crate::version::table_meta::TableMeta;
use crate::version::{Tables, Version};

/// What a read asks for: a user key, and the internal key at which its search starts.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) user: &'a [u8],
    pub(crate) seek: &'a [u8],
}

/// What a table says about a key.
pub(crate) enum Hit<R> {
    Value(R),
    Deleted,
}

/// The tables of one slot that may hold a key, newest first.
enum Candidates<T, L> {
    Tree(T),
    Logged(L),
}

impl<I, T: Iterator<Item = I>, L: Iterator<Item = I>> Iterator for Candidates<T, L> {
    type Item = I;

    #[inline]
    fn next(&mut self) -> Option<I> {
        match self {
            Candidates::Tree(tables) => tables.next(),
            Candidates::Logged(tables) => tables.next(),
        }
    }
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
}

impl Lookup<'_> {
    /// Finds the newest entry visible to `target` and hands its value to `found`.
    pub(crate) fn get<'v, R>(
        &self,
        version: &'v Version,
        target: Target<'_>,
        mut found: impl FnMut(&[u8]) -> R,
    ) -> Result<Answer<'v, R>> {
        let mut answer = Answer { hit: None, wasted: None, wants_filter: false };
        let mut first: Option<(Slot, &Arc<TableMeta>)> = None;
        for (slot, tables) in version.filled_slots() {
            for table in candidates(self.order, (slot, tables), target) {
                answer.wasted = first;
                let open = self.cache.get(table.number, table.size)?;
                answer.hit = self.probe(&open, target, &mut found)?;
                if answer.hit.is_some() {
                    return Ok(answer);
                }
                if open.note_vain_search() {
                    self.cache.want_filter(table.number, table.size);
                    answer.wants_filter = true;
                }
                first = first.or(Some((slot, table)));
            }
        }
        Ok(answer)
    }

    /// How many tables reach over a key.
    pub(crate) fn tables_over(
        order: &InternalOrder,
        version: &Version,
        target: Target<'_>,
    ) -> usize {
        let of_slot = |slot| candidates(order, slot, target).count();
        version.filled_slots().map(of_slot).sum()
    }

    fn probe<R>(
        &self,
        table: &Table,
        target: Target<'_>,
        found: &mut impl FnMut(&[u8]) -> R,
    ) -> Result<Option<Hit<R>>> {
        let entry = table.get(target.seek, self.options, |internal, value| {
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

/// The tables of a slot that may hold a key, newest first.
#[inline]
fn candidates<'v>(
    order: &InternalOrder,
    (slot, tables): (Slot, &'v Tables),
    target: Target<'_>,
) -> impl Iterator<Item = &'v Arc<TableMeta>> {
    match slot.area {
        Area::Tree => Candidates::Tree(in_tree(order, (slot, tables), target)),
        Area::SstLog => Candidates::Logged(in_log(order, tables, target)),
    }
}

/// One in a sorted slot (two at a border key that LevelDB split), any number elsewhere.
#[inline]
fn in_tree<'v>(
    order: &InternalOrder,
    (slot, tables): (Slot, &'v Tables),
    target: Target<'_>,
) -> impl Iterator<Item = &'v Arc<TableMeta>> {
    let user = &order.user;
    let sorted = slot.is_sorted();
    let start = if sorted { tables.first_not_before(order, target.seek) } else { 0 };
    tables[start..]
        .iter()
        .take_while(move |table| {
            !sorted || user.compare(table.smallest.user(), target.user).is_le()
        })
        .filter(move |table| {
            sorted
                || (user.compare(table.smallest.user(), target.user).is_le()
                    && user.compare(table.largest.user(), target.user).is_ge())
        })
}

#[inline]
fn in_log<'v>(
    order: &InternalOrder,
    tables: &'v Tables,
    target: Target<'_>,
) -> impl Iterator<Item = &'v Arc<TableMeta>> {
    let layers = tables.strata(&order.user).over(&order.user, target.user);
    let reaches = move |layer: &Layer| {
        let table = &tables[layer.table as usize];
        let (_, largest) = table.stretch(layer.stretch as usize)?;
        order.compare(largest.as_bytes(), target.seek).is_ge().then_some(table)
    };
    layers.iter().filter_map(reaches)
}
