//! Overlap of ranges with slots, after the cases of LevelDB's version set test, and point reads
//! and level iterators over real tables.

mod reads;

use super::testing::{bounded, key, numbers, sst_log, table, tree, version};
use super::*;

/// What the range from `from` to `to` meets of tables with these bounds: in a sorted slot, and in
/// one that is not, which must agree.
fn met(tables: &[(&str, &str)], from: Option<&str>, to: Option<&str>) -> Vec<u64> {
    let range = KeyRange { from: from.map(str::as_bytes), to: to.map(str::as_bytes) };
    let in_slot = |slot| {
        let bounds = tables.iter().zip(1..);
        let tables = bounds.map(|((smallest, largest), number)| {
            (slot, bounded(number, key(smallest, 100), key(largest, 100)))
        });
        let version = version(tables);
        numbers(version.overlapping(&UserOrder::Bytewise, slot, range))
    };
    let sorted = in_slot(tree(1));
    assert_eq!(sorted, in_slot(sst_log(1)), "sorted or not");
    sorted
}

#[test]
fn empty_slots_meet_nothing() {
    for (from, to) in [(Some("a"), Some("z")), (None, Some("z")), (Some("a"), None), (None, None)] {
        assert_eq!(met(&[], from, to), [0; 0]);
    }
}

#[test]
fn a_single_table_meets_ranges_that_touch_it() {
    let tables = [("p", "q")];
    for (from, to) in [("a", "b"), ("z1", "z2"), ("a", "o"), ("q1", "z")] {
        assert_eq!(met(&tables, Some(from), Some(to)), [0; 0], "{from} to {to}");
    }
    let touching = [
        ("a", "p"),
        ("a", "q"),
        ("a", "z"),
        ("p", "p1"),
        ("p", "q"),
        ("p", "z"),
        ("p1", "p2"),
        ("p1", "z"),
        ("q", "q"),
        ("q", "q1"),
    ];
    for (from, to) in touching {
        assert_eq!(met(&tables, Some(from), Some(to)), [1], "{from} to {to}");
    }
}

#[test]
fn open_ranges_reach_to_the_end() {
    let tables = [("p", "q")];
    assert_eq!(met(&tables, None, Some("j")), [0; 0]);
    assert_eq!(met(&tables, Some("r"), None), [0; 0]);
    for (from, to) in [
        (None, Some("p")),
        (None, Some("p1")),
        (Some("q"), None),
        (None, Some("z")),
        (Some("a"), None),
        (None, None),
    ] {
        assert_eq!(met(&tables, from, to), [1], "{from:?} to {to:?}");
    }
}

const SEVERAL: [(&str, &str); 4] =
    [("150", "200"), ("200a", "250"), ("300", "350"), ("400", "450")];

#[test]
fn gaps_between_tables_meet_nothing() {
    for (from, to) in [("100", "149"), ("251", "299"), ("451", "500"), ("351", "399")] {
        assert_eq!(met(&SEVERAL, Some(from), Some(to)), [0; 0], "{from} to {to}");
    }
    for (from, to, expected) in [
        ("100", "150", &[1][..]),
        ("100", "200", &[1]),
        ("100", "300", &[1, 2, 3]),
        ("100", "400", &[1, 2, 3, 4]),
        ("100", "500", &[1, 2, 3, 4]),
        ("375", "400", &[4]),
        ("450", "450", &[4]),
        ("450", "500", &[4]),
    ] {
        assert_eq!(met(&SEVERAL, Some(from), Some(to)), expected, "{from} to {to}");
    }
}

#[test]
fn open_ranges_over_several_tables() {
    assert_eq!(met(&SEVERAL, None, Some("149")), [0; 0]);
    assert_eq!(met(&SEVERAL, Some("451"), None), [0; 0]);
    assert_eq!(met(&SEVERAL, None, Some("150")), [1]);
    assert_eq!(met(&SEVERAL, None, None), [1, 2, 3, 4]);
    assert_eq!(met(&SEVERAL, Some("450"), None), [4]);
    assert_eq!(met(&SEVERAL, None, Some("500")), [1, 2, 3, 4]);
}

#[test]
fn sequence_numbers_do_not_matter_to_overlap() {
    let version = version([(tree(1), bounded(1, key("200", 5000), key("200", 3000)))]);
    let met = |from: &str, to: &str| {
        let range = KeyRange::closed(from.as_bytes(), to.as_bytes());
        version.meeting(&UserOrder::Bytewise, tree(1), range).count()
    };
    assert_eq!((met("199", "199"), met("201", "300")), (0, 0));
    assert_eq!((met("200", "200"), met("190", "200"), met("200", "210")), (1, 1, 1));
}

#[test]
fn tables_that_overlap_each_other_are_all_met() {
    let tables = [(sst_log(1), table(1, "150", "600")), (sst_log(1), table(2, "400", "500"))];
    let version = version(tables);
    let met = |from: &str, to: &str| {
        let range = KeyRange::closed(from.as_bytes(), to.as_bytes());
        numbers(version.overlapping(&UserOrder::Bytewise, sst_log(1), range))
    };
    assert_eq!(met("100", "149"), [0; 0]);
    assert_eq!(met("601", "700"), [0; 0]);
    assert_eq!(met("100", "150"), [1]);
    assert_eq!(met("450", "450"), [1, 2]);
    assert_eq!(met("501", "700"), [1]);
}

#[test]
fn a_border_key_meets_both_its_tables() {
    let left = bounded(1, key("a", 9), key("m", 8));
    let right = bounded(2, key("m", 7), key("z", 6));
    let version = version([(tree(1), left), (tree(1), right)]);
    let met = |user: &[u8]| {
        let range = KeyRange::closed(user, user);
        numbers(version.overlapping(&UserOrder::Bytewise, tree(1), range))
    };
    assert_eq!((met(b"l"), met(b"m"), met(b"n")), (vec![1], vec![1, 2], vec![2]));
}

#[test]
fn a_range_that_ends_before_it_begins_meets_nothing() {
    assert_eq!(met(&SEVERAL, Some("300"), Some("200b")), [0; 0]);
    assert_eq!(met(&SEVERAL, Some("450"), Some("150")), [0; 0]);
}

#[test]
fn the_next_slot_that_holds_a_range_may_be_an_sst_log() {
    let version = version([
        (Slot::L0, table(9, "a", "z")),
        (tree(2), table(1, "a", "c")),
        (sst_log(2), table(2, "c", "f")),
        (tree(5), table(3, "e", "k")),
    ]);
    let next = |after, from: &'static str, to: &'static str| {
        let range = KeyRange::closed(from.as_bytes(), to.as_bytes());
        version.next_meeting(&UserOrder::Bytewise, after, range)
    };
    assert_eq!(next(Slot::L0, "b", "d"), Some(tree(2)));
    assert_eq!(next(tree(2), "b", "d"), Some(sst_log(2)));
    assert_eq!(next(sst_log(2), "b", "d"), None);
    assert_eq!(next(tree(1), "g", "g"), Some(tree(5)));
    assert_eq!(next(tree(5), "a", "z"), None);
}

#[test]
fn places_follow_the_search_order() {
    let version = version([
        (tree(2), table(5, "d", "f")),
        (Slot::L0, table(3, "a", "b")),
        (tree(2), table(4, "a", "c")),
        (Slot::L0, table(7, "a", "b")),
        (sst_log(1), table(6, "x", "y")),
    ]);
    let placed: Vec<(Place, u64)> =
        version.placed().map(|(place, table)| (place, table.number.0)).collect();
    assert!(placed.is_sorted());
    assert_eq!(placed.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [7, 3, 6, 4, 5]);
    for (place, number) in placed {
        assert_eq!(version.table_at(place).number, FileNumber(number));
        assert_eq!(version.find(FileNumber(number)).unwrap().0, place.slot);
    }
    assert!(version.find(FileNumber(1)).is_none());
}
