//! The rules of [`closure`](crate::compaction::closure) once more, as plainly as they can be said,
//! so that each part can be left out; and rules that forget something else.

use std::sync::Arc;

use super::{Cuts, RULES, Random, Rules, run_all};
use crate::base::comparator::UserOrder;
use crate::base::key::SeqNo;
use crate::base::slot::Slot;
use crate::compaction::closure::{self, Closed, hull, range_of};
use crate::compaction::job::Job;
use crate::compaction::parts::Part;
use crate::compaction::slice;
use crate::format::filename::FileNumber;
use crate::version::table_meta::TableMeta;
use crate::version::testing::{bounded, key, order, sst_log, tree, version};
use crate::version::{KeyRange, Place, Tables, Version};

/// Which parts of the closure are on.
#[derive(Clone, Copy)]
struct Parts {
    /// Older tables on the way come along.
    leapfrog: bool,
    /// Tables of a sorted target that overlap come along.
    target: Target,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Those that meet the hull.
    Hull,
    /// Those that meet a table carried.
    Tables,
    Nothing,
}

const ALL: Parts = Parts { leapfrog: true, target: Target::Hull };

/// Takes tables until none is missing, looking at all of them each time.
fn plain_close(
    user: &UserOrder,
    version: &Version,
    (seed, to, parts): (&[FileNumber], Slot, Parts),
) -> Option<Closed> {
    let (mut taken, mut rest): (Vec<_>, Vec<_>) = version
        .placed()
        .filter(|(place, _)| place.slot <= to)
        .map(|(place, table)| (place, Arc::clone(table)))
        .partition(|(_, table)| seed.contains(&table.number));
    if !seed.iter().all(|number| taken.iter().any(|(_, table)| table.number == *number)) {
        return None;
    }
    if !to.is_sorted() && (to == Slot::L0 || taken.iter().any(|(place, _)| place.slot == to)) {
        return None;
    }
    loop {
        let (low, high) = hull(user, taken.iter().map(|(_, table)| &**table));
        let hull = KeyRange::closed(low, high);
        let overlaps = |table: &TableMeta, before: Option<Place>| {
            let earlier = |place: &Place| before.is_none_or(|before| *place < before);
            let carried = taken.iter().filter(|(place, _)| earlier(place));
            carried.into_iter().any(|(_, other)| range_of(other).meets(user, table))
        };
        let missing = rest.iter().position(|(place, table)| {
            let in_target = place.slot == to && to.is_sorted();
            let wanted = match parts.target {
                Target::Hull => hull.meets(user, table),
                Target::Tables => overlaps(table, None),
                Target::Nothing => false,
            };
            let on_the_way = parts.leapfrog && place.slot < to;
            (in_target && wanted) || (on_the_way && overlaps(table, Some(*place)))
        });
        match missing {
            Some(at) => taken.push(rest.swap_remove(at)),
            None => break,
        }
    }
    taken.sort_by_key(|(place, _)| *place);
    Some(Closed { tables: taken, ..Closed::default() })
}

#[test]
fn the_closure_is_what_the_plain_rules_say() {
    let user = order().user;
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let version = random_version(&mut random);
        let all: Vec<FileNumber> = version.tables().map(|(_, table)| table.number).collect();
        let seed: Vec<FileNumber> = (0..=random.below(3)).map(|_| *random.pick(&all)).collect();
        for to in Slot::all() {
            let numbers = |closed: Option<Closed>| {
                closed.map(|closed| closed.tables.iter().map(|(_, t)| t.number).collect::<Vec<_>>())
            };
            let expected = plain_close(&user, &version, (&seed, to, ALL));
            let got = closure::close(&user, &version, &seed, to);
            assert_eq!(numbers(got), numbers(expected), "{seed:?} -> {to}");
        }
    }
}

/// Sorted slots are cut from one ascending run of keys, and often share a border key.
fn random_version(random: &mut Random) -> Version {
    let mut tables = Vec::new();
    for slot in [Slot::L0, tree(1), sst_log(1), tree(2), sst_log(2), tree(3)] {
        let mut low = random.below(6);
        for _ in 0..random.below(7) {
            if !slot.is_sorted() {
                low = random.below(40);
            }
            let high = low + 1 + random.below(8);
            let number = tables.len() as u64 + 1;
            let (smallest, largest) = (format!("{low:02}"), format!("{high:02}"));
            tables.push((slot, bounded(number, key(&smallest, 50), key(&largest, 60))));
            low = high + random.below(4);
        }
    }
    if tables.is_empty() {
        tables.push((Slot::L0, bounded(1, key("00", 2), key("01", 1))));
    }
    version(tables)
}

/// Some history breaks when the rules are these.
fn breaks(rules: Rules) {
    let broken = run_all(0..2_000, rules);
    assert!(broken.is_err(), "no history notices");
}

#[test]
fn the_plain_rules_keep_every_history() {
    let close = |user: &_, version: &_, seed: &_, to| plain_close(user, version, (seed, to, ALL));
    run_all(0..300, Rules { close, ..RULES }).unwrap();
}

#[test]
fn leapfrogging_is_noticed() {
    breaks(Rules {
        close: |user, version, seed, to| {
            plain_close(user, version, (seed, to, Parts { leapfrog: false, ..ALL }))
        },
        ..RULES
    });
}

#[test]
fn a_forgotten_target_is_noticed() {
    breaks(Rules {
        close: |user, version, seed, to| {
            plain_close(user, version, (seed, to, Parts { target: Target::Nothing, ..ALL }))
        },
        ..RULES
    });
}

#[test]
fn gaps_of_the_hull_are_noticed() {
    breaks(Rules {
        close: |user, version, seed, to| {
            plain_close(user, version, (seed, to, Parts { target: Target::Tables, ..ALL }))
        },
        ..RULES
    });
}

#[test]
fn jobs_with_one_target_hull_are_noticed() {
    breaks(Rules {
        admits: |in_flight, _, closed, _| {
            !closed.metas().any(|table| in_flight.is_busy(table.number))
        },
        ..RULES
    });
}

#[test]
fn deletions_dropped_too_soon_are_noticed() {
    breaks(Rules { job: |_, job| job.below.clear(), ..RULES });
}

#[test]
fn sst_logs_forgotten_below_are_noticed() {
    let job = |version: &Version, job: &mut Job| {
        let is_sorted = |tables: &Tables| {
            let (slot, _) = version.find(tables[0].number).unwrap();
            slot.is_sorted()
        };
        job.below.retain(is_sorted);
    };
    breaks(Rules { job, ..RULES });
}

#[test]
fn forgotten_snapshots_are_noticed() {
    let job = |_: &Version, job: &mut Job| {
        let visible: SeqNo = *job.snapshots.last().unwrap();
        job.snapshots = vec![visible];
    };
    breaks(Rules { job, ..RULES });
}

#[test]
fn keys_split_over_tables_are_noticed() {
    breaks(Rules { cuts: Cuts::Anywhere, ..RULES });
}

#[test]
fn slices_that_leave_an_older_table_behind_are_noticed() {
    let slice = |order: &UserOrder, version: &Version, from: Slot, part: &Part| {
        let mut closed = slice::close(order, version, from, part)?;
        let logged = closed.tables.iter().filter(|(place, _)| place.slot == from).count();
        if logged > 1 {
            closed.tables.remove(logged - 1);
        }
        Some(closed)
    };
    breaks(Rules { slice, ..RULES });
}

#[test]
fn tables_that_go_on_counting_as_a_whole_are_noticed() {
    breaks(Rules { narrows: false, ..RULES });
}
