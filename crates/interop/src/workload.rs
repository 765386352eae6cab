//! Random settings, keys and changes, and the comparison of a database with its model. The tests
//! of both engines draw from here, so that they meet the same awkward cases.

use crate::model::Model;
use crate::peer::{Change, Cursor, Durability, Entry, Order, Settings, Step, View};
use crate::rng::Rng;

/// How many common keys there are: few enough that most changes meet an older entry.
const COMMON_KEYS: usize = 4000;

/// Options that both engines allow, small so that a little data makes many blocks and tables.
pub fn settings(rng: &mut Rng, order: Order) -> Settings {
    Settings {
        paranoid: true,
        write_buffer_bytes: rng.pick(&[64 << 10, 128 << 10, 256 << 10, 1 << 20]),
        table_bytes: 1 << 20,
        block_bytes: rng.pick(&[1 << 10, 2 << 10, 4 << 10, 16 << 10]),
        restart_interval: rng.pick(&[1, 2, 16, 64]),
        snappy: rng.one_in(2),
        bloom_bits: rng.pick(&[None, None, Some(1), Some(10), Some(20)]),
        wide_filters: rng.one_in(2),
        reuse_logs: rng.one_in(2),
        order,
    }
}

/// A key. Beside the common ones: short ones at the ends of the order, among them the empty key,
/// and long ones that differ only at their end.
pub fn key(rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(COMMON_KEYS);
    match rng.below(20) {
        0 => (0..rng.below(4)).map(|_| rng.pick(&[0x00, 0x01, b'k', 0xfe, 0xff])).collect(),
        1 | 2 => format!("{}{number:04}", "long".repeat(30)).into_bytes(),
        _ => format!("key{number:05}").into_bytes(),
    }
}

/// A value: empty, compressible, not compressible, or larger than any block.
pub fn value(rng: &mut Rng) -> Vec<u8> {
    match rng.below(200) {
        0 => rng.bytes(40_000),
        1 => vec![b'x'; 70_000],
        2..20 => Vec::new(),
        20..80 => {
            let len = rng.below(300);
            rng.bytes(len)
        }
        _ => {
            let piece = rng.bytes(8);
            piece.repeat(rng.below(30))
        }
    }
}

/// Up to `max` changes, deletes among them.
pub fn changes(rng: &mut Rng, max: usize) -> Vec<Change> {
    let deletes_one_in = rng.pick(&[2, 4, 10, 1000]);
    let change = |rng: &mut Rng| {
        if rng.one_in(deletes_one_in) {
            Change::Delete(key(rng))
        } else {
            Change::Put(key(rng), value(rng))
        }
    };
    (0..rng.below(max + 1)).map(|_| change(rng)).collect()
}

/// Usually [`Durability::Buffered`]: syncs are slow.
pub fn durability(rng: &mut Rng) -> Durability {
    if rng.one_in(20) { Durability::Synced } else { Durability::Buffered }
}

/// The ends of a range, either of which may be open.
pub fn range(rng: &mut Rng, order: Order) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let (mut start, mut limit) = (key(rng), key(rng));
    if (start > limit) == (order == Order::Bytewise) {
        (start, limit) = (limit, start);
    }
    ((!rng.one_in(3)).then_some(start), (!rng.one_in(3)).then_some(limit))
}

/// Steps for a cursor, for any database: whether it stands on an entry is only known while walking,
/// so a step that needs one is taken only then (see [`walk`]).
fn step(rng: &mut Rng) -> Step {
    match rng.below(20) {
        0 => Step::First,
        1 => Step::Last,
        2..6 => Step::Seek(key(rng)),
        6..13 => Step::Next,
        _ => Step::Prev,
    }
}

/// Compares all that `view` shows with `model`: both scans, gets of keys present and absent, and a
/// random walk that often turns around.
///
/// # Panics
///
/// At the first difference; `who` tells whose.
pub fn check(who: &str, view: &dyn View<'_>, model: &Model, rng: &mut Rng) {
    scan(who, view, model, [Step::First, Step::Next]);
    scan(who, view, model, [Step::Last, Step::Prev]);
    for _ in 0..100 {
        let key = key(rng);
        let (found, expected) = (view.get(&key), model.get(&key));
        let key = key.escape_ascii();
        assert!(found.as_deref() == expected, "{who}: get {key}: {}", told(found, expected));
    }
    walk(who, view, model, rng);
}

/// Compares a scan from one end to the other.
fn scan(who: &str, view: &dyn View<'_>, model: &Model, [start, onwards]: [Step; 2]) {
    let (mut cursor, mut expected) = (view.cursor(), model.cursor());
    let mut step = &start;
    loop {
        cursor.step(step);
        expected.step(step);
        compare(who, step, &*cursor, &expected);
        if expected.entry().is_none() {
            return;
        }
        step = &onwards;
    }
}

/// Compares random steps of one cursor.
fn walk(who: &str, view: &dyn View<'_>, model: &Model, rng: &mut Rng) {
    let (mut cursor, mut expected) = (view.cursor(), model.cursor());
    for _ in 0..200 {
        let step = step(rng);
        if expected.entry().is_none() && matches!(step, Step::Next | Step::Prev) {
            continue;
        }
        cursor.step(&step);
        expected.step(&step);
        compare(who, &step, &*cursor, &expected);
    }
}

fn compare(who: &str, step: &Step, cursor: &dyn Cursor, expected: &dyn Cursor) {
    let (found, expected) = (cursor.entry(), expected.entry());
    if found == expected {
        return;
    }
    let place = |entry: Option<Entry<'_>>| match entry {
        None => "no entry".to_string(),
        Some((key, value)) => format!("{} ({} bytes)", key.escape_ascii(), value.len()),
    };
    panic!("{who}: {step:?} leads to {} instead of {}", place(found), place(expected));
}

fn told(found: Option<Vec<u8>>, expected: Option<&[u8]>) -> String {
    let bytes = |len: Option<usize>| len.map_or("nothing".into(), |len| format!("{len} bytes"));
    format!("{} instead of {}", bytes(found.map(|v| v.len())), bytes(expected.map(<[u8]>::len)))
}
