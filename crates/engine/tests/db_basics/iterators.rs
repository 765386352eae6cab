//! Scans in both directions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use siltstone::{Comparator, DbIterator, ReadOptions};

use crate::support::{Dice, World, contents, put_all, scan};

/// Where an iterator stands, as LevelDB's tests write it.
fn status(iter: &DbIterator) -> String {
    if !iter.valid() {
        return "(invalid)".to_owned();
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}->{}", text(iter.key()), text(iter.value()))
}

/// Moves by a script: `<` first, `>` last, `+` next, `-` prev, `?key` seek.
#[track_caller]
fn walk(iter: &mut DbIterator, script: &[(&str, &str)]) {
    for (movement, expected) in script {
        match *movement {
            "<" => iter.seek_to_first(),
            ">" => iter.seek_to_last(),
            "+" => iter.next(),
            "-" => iter.prev(),
            seek => iter.seek(seek.strip_prefix('?').expect("a movement")),
        }
        .unwrap();
        assert_eq!(status(iter), *expected, "after {movement} of {script:?}");
    }
}

/// LevelDB's `IterEmpty`.
#[test]
fn nothing_to_scan() {
    let world = World::new();
    let db = world.open();
    let mut iter = db.iter().unwrap();
    assert!(!iter.valid());
    walk(&mut iter, &[("<", "(invalid)"), (">", "(invalid)"), ("?foo", "(invalid)")]);
}

/// LevelDB's `IterSingle`.
#[test]
fn one_key_from_all_sides() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "va")]);
    for _ in 0..2 {
        let mut iter = db.iter().unwrap();
        walk(&mut iter, &[("<", "a->va"), ("+", "(invalid)"), ("<", "a->va"), ("-", "(invalid)")]);
        walk(&mut iter, &[(">", "a->va"), ("+", "(invalid)"), (">", "a->va"), ("-", "(invalid)")]);
        walk(&mut iter, &[("?", "a->va"), ("+", "(invalid)"), ("?a", "a->va"), ("+", "(invalid)")]);
        walk(&mut iter, &[("?b", "(invalid)")]);
        db.flush().unwrap();
    }
}

/// LevelDB's `IterMulti`: turns at every place; and what is written later is not seen.
#[test]
fn several_keys_and_turns() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "va"), ("b", "vb"), ("c", "vc")]);
    for round in 0..3 {
        let mut iter = db.iter().unwrap();
        walk(&mut iter, &[("<", "a->va"), ("+", "b->vb"), ("+", "c->vc"), ("+", "(invalid)")]);
        walk(&mut iter, &[("<", "a->va"), ("-", "(invalid)")]);
        walk(&mut iter, &[(">", "c->vc"), ("-", "b->vb"), ("-", "a->va"), ("-", "(invalid)")]);
        walk(&mut iter, &[(">", "c->vc"), ("+", "(invalid)")]);
        walk(&mut iter, &[("?", "a->va"), ("?a", "a->va"), ("?ax", "b->vb"), ("?b", "b->vb")]);
        walk(&mut iter, &[("?z", "(invalid)")]);
        walk(&mut iter, &[(">", "c->vc"), ("-", "b->vb"), ("-", "a->va"), ("+", "b->vb")]);
        walk(&mut iter, &[("<", "a->va"), ("+", "b->vb"), ("+", "c->vc"), ("-", "b->vb")]);
        walk(&mut iter, &[("+", "c->vc"), ("-", "b->vb"), ("-", "a->va"), ("-", "(invalid)")]);

        put_all(&db, &[("a", "va2"), ("a2", "va3"), ("b", "vb2"), ("c", "vc2")]);
        db.delete("b").unwrap();
        walk(&mut iter, &[("<", "a->va"), ("+", "b->vb"), ("+", "c->vc"), ("+", "(invalid)")]);
        walk(&mut iter, &[(">", "c->vc"), ("-", "b->vb"), ("-", "a->va"), ("-", "(invalid)")]);
        put_all(&db, &[("a", "va"), ("b", "vb"), ("c", "vc")]);
        db.delete("a2").unwrap();
        match round {
            0 => db.flush().unwrap(),
            _ => db.compact_range(None, None).unwrap(),
        }
    }
}

/// LevelDB's `IterSmallAndLargeMix`.
#[test]
fn small_and_large_values() {
    let world = World::new();
    let db = world.open();
    let (b, d, e) = ("b".repeat(100_000), "d".repeat(100_000), "e".repeat(100_000));
    put_all(&db, &[("a", "va"), ("b", &b), ("c", "vc"), ("d", &d), ("e", &e)]);
    let expected = [("a", "va"), ("b", &b), ("c", "vc"), ("d", &d), ("e", &e)];
    assert!(contents(&db).iter().map(|(k, v)| (&k[..], &v[..])).eq(expected));
}

/// LevelDB's `IterMultiWithDelete` and `IterMultiWithDeleteAndCompaction`.
#[test]
fn deletions_are_passed_over() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("ka", "va"), ("kb", "vb"), ("kc", "vc")]);
    for _ in 0..3 {
        db.delete("kb").unwrap();
        assert_eq!(db.get("kb").unwrap(), None);
        let mut iter = db.iter().unwrap();
        walk(&mut iter, &[("?kc", "kc->vc"), ("-", "ka->va"), ("+", "kc->vc")]);
        walk(&mut iter, &[("?kb", "kc->vc"), (">", "kc->vc"), ("-", "ka->va")]);
        db.compact_range(None, None).unwrap();
    }
}

/// LevelDB's `IteratorPinsRef`: a scan shows its moment, whatever is written, compacted and closed
/// meanwhile.
#[test]
fn an_iterator_pins_its_moment() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("foo", "hello")]);
    let mut iter = db.iter().unwrap();
    put_all(&db, &[("foo", "newvalue1")]);
    for number in 0..100 {
        db.put(format!("key{number:03}"), "v".repeat(10_000)).unwrap();
    }
    put_all(&db, &[("foo", "newvalue2")]);
    db.compact_range(None, None).unwrap();
    while db.run_background_step().unwrap() {}
    drop(db);
    walk(&mut iter, &[("<", "foo->hello"), ("+", "(invalid)")]);
}

#[test]
fn entries_come_as_owned_pairs() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "1"), ("b", "2"), ("c", "3")]);
    let keys = |iter: DbIterator| -> Vec<Vec<u8>> {
        iter.entries().unwrap().map(|entry| entry.unwrap().0).collect()
    };
    assert_eq!(keys(db.iter().unwrap()), [b"a", b"b", b"c"]);
    let mut iter = db.iter().unwrap();
    iter.seek("b").unwrap();
    assert_eq!(keys(iter), [b"b", b"c"]);
}

#[test]
#[should_panic(expected = "stands nowhere")]
fn moving_from_nowhere_is_a_mistake() {
    let _ = World::new().open().iter().unwrap().next();
}

/// Numbers in brackets by their value, as LevelDB's `CustomComparator` has it: `[10]` equals `[0xa]`.
struct ByNumber;

impl ByNumber {
    fn number(key: &[u8]) -> u64 {
        let text = std::str::from_utf8(key).unwrap_or_default();
        let text = text.trim_start_matches('[').trim_end_matches(']');
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap_or(0),
            None => text.parse().unwrap_or(0),
        }
    }
}

impl Comparator for ByNumber {
    fn name(&self) -> &str {
        "test.NumberComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        ByNumber::number(a).cmp(&ByNumber::number(b))
    }
}

#[test]
fn a_custom_order_rules_everywhere() {
    let world = World::new();
    let open = || {
        world.open_with(|options| {
            options.comparator = Some(Arc::new(ByNumber));
            options.write_buffer_size = 1000; // To compact more often.
        })
    };
    let mut db = open();
    put_all(&db, &[("[10]", "ten"), ("[0x14]", "twenty")]);
    for _ in 0..3 {
        for (key, value) in
            [("[10]", "ten"), ("[0xa]", "ten"), ("[20]", "twenty"), ("[0x14]", "twenty")]
        {
            assert_eq!(db.get(key).unwrap().unwrap(), value.as_bytes());
        }
        for missing in ["[15]", "[0xf]"] {
            assert_eq!(db.get(missing).unwrap(), None);
        }
        let mut iter = db.iter().unwrap();
        walk(&mut iter, &[("?[11]", "[0x14]->twenty"), ("-", "[10]->ten")]);
        drop(iter);
        db.compact_range(Some(b"[0]"), Some(b"[9999]")).unwrap();
        drop(db);
        db = open();
    }
    for run in 0..2 {
        for number in 0..1000 {
            let key = format!("[{}]", number * 10);
            db.put(&key, format!("{key} {run}")).unwrap();
        }
        db.compact_range(Some(b"[0]"), Some(b"[1000000]")).unwrap();
    }
    let found = scan(&mut db.iter().unwrap()).unwrap();
    assert_eq!(found.len(), 1000);
    let numbers: Vec<u64> = found.iter().map(|(key, _)| ByNumber::number(key.as_bytes())).collect();
    assert!(numbers.is_sorted());
    assert!(found.iter().all(|(_, value)| value.ends_with(" 1")));
}

/// Every way through a few keys of many versions, against a map: seeks and turns at random.
#[test]
fn random_walks_agree_with_a_map() {
    let world = World::new();
    let db = world.open_with(|options| {
        options.write_buffer_size = 2 << 10;
        options.max_file_size = 2 << 10;
        options.level1_bytes = 8 << 10;
    });
    let mut dice = Dice::new(88_172_645_463_325_252);
    let mut model: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..3_000 {
        let key = format!("{:02}", dice.roll(60));
        if dice.roll(3) == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = format!("{round}").repeat(5);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        if dice.roll(10) == 0 {
            db.run_background_step().unwrap();
        }
        if round % 10 != 0 {
            continue;
        }
        let mut iter = db.iter().unwrap();
        let mut at: Option<String> = None;
        for _ in 0..20 {
            let movement = if at.is_none() { 2 + dice.roll(3) } else { dice.roll(5) };
            let target = format!("{:02}", dice.roll(62));
            at = movement_in_both(movement, &target, &mut iter, (&model, at));
            let expected = at.as_ref().map(|key| format!("{key}->{}", model[key]));
            assert_eq!(status(&iter), expected.unwrap_or("(invalid)".to_owned()));
        }
    }
}

/// Moves an iterator, and finds where it then has to stand, in a map whose key `at` it stood on.
fn movement_in_both(
    movement: u64,
    target: &str,
    iter: &mut DbIterator,
    (model, at): (&BTreeMap<String, String>, Option<String>),
) -> Option<String> {
    match movement {
        0 => {
            iter.next().unwrap();
            let behind = (Bound::Excluded(at.unwrap()), Bound::Unbounded);
            model.range(behind).next().map(|entry| entry.0.clone())
        }
        1 => {
            iter.prev().unwrap();
            model.range(..at.unwrap()).next_back().map(|entry| entry.0.clone())
        }
        2 => {
            iter.seek(target).unwrap();
            model.range(target.to_owned()..).next().map(|entry| entry.0.clone())
        }
        3 => {
            iter.seek_to_first().unwrap();
            model.keys().next().cloned()
        }
        _ => {
            iter.seek_to_last().unwrap();
            model.keys().next_back().cloned()
        }
    }
}

/// As scans are: many steps one way, then as many the other, over few versions and many, in one table and in several,
/// with keys and values that are gone over in strides and such that are not.
#[test]
fn long_walks_agree_with_a_map() {
    let mut dice = Dice::new(6_364_136_223_846_793_005);
    for shape in 0..12 {
        let world = World::new();
        let db = world.open_with(|options| {
            options.write_buffer_size = 16 << 10;
            options.max_file_size = 16 << 10;
            options.level1_bytes = 64 << 10;
            options.block_restart_interval = [16, 1, 3, 40][shape % 4];
        });
        let mut model = BTreeMap::new();
        let prefix =
            ["", "tenant/7/", "a prefix that is longer than what a piece holds/"][shape % 3];
        for round in 0..2_000 {
            let key = format!("{prefix}{}", dice.roll(700));
            if dice.roll(8) == 0 {
                db.delete(&key).unwrap();
                model.remove(&key);
            } else {
                let lens = if dice.roll(20) == 0 { 5 } else { 4 };
                let bytes = [3, 100, 130, 300, 17_000][dice.roll(lens) as usize];
                let value = format!("{round}").repeat(bytes)[..bytes].to_owned();
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            if dice.roll(10) == 0 {
                db.run_background_step().unwrap();
            }
        }
        // What comes later it does not see.
        let snapshot = Some(db.snapshot());
        for number in (0..700).step_by(9) {
            db.put(format!("{prefix}{number}"), "later").unwrap();
        }
        if shape >= 6 {
            db.compact_range(None, None).unwrap();
        }
        let mut iter = db.iter_with(&ReadOptions { snapshot, ..Default::default() }).unwrap();
        let mut at = None;
        for _ in 0..300 {
            let movement = if at.is_none() {
                2 + dice.roll(3)
            } else {
                [0, 1, 0, 1, 0, 1, 2][dice.roll(7) as usize]
            };
            let steps = if movement < 2 { dice.roll(150) } else { 1 };
            for _ in 0..steps {
                let target = format!("{prefix}{}", dice.roll(700));
                at = movement_in_both(movement, &target, &mut iter, (&model, at));
                let expected = at.as_ref().map(|key| format!("{key}->{}", model[key]));
                assert_eq!(status(&iter), expected.unwrap_or("(invalid)".to_owned()));
                if at.is_none() {
                    break;
                }
            }
        }
    }
}
