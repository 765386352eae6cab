//! Bodies for names of files, CURRENT, and the order of keys.

use std::cmp::Ordering;

use super::pieces;
use crate::base::coding::{Reader, put_varint32, put_varint64};
use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::fences::common_prefix;
use crate::base::key::{InternalKey, SEQNO_MAX, SeqNo, ValueKind, leading_bytes, parse, user_key};
use crate::format::filename::{FileName, FileNumber};
use crate::format::manifest::current::{current_text, parse_current};

/// The input is a name in a folder, the content of CURRENT, and a number.
pub(super) fn names(bytes: &[u8]) {
    let name = std::str::from_utf8(bytes).ok().and_then(FileName::parse);
    if let Some(name) = name {
        assert_eq!(FileName::parse(&name.to_string()), Some(name));
    }
    if let Ok(number) = parse_current(bytes) {
        assert_eq!(current_text(number).as_bytes(), bytes, "one text for each manifest");
    }
    let Some(number) = bytes.first_chunk::<8>() else { return };
    let number = FileNumber(u64::from_le_bytes(*number));
    assert_eq!(parse_current(current_text(number).as_bytes()).ok(), Some(number));
    let kinds = [FileName::Wal, FileName::Table, FileName::OldTable, FileName::Manifest];
    for name in kinds.map(|kind| kind(number)).into_iter().chain([FileName::Temp(number)]) {
        let text = name.to_string();
        assert_eq!(FileName::parse(&text), Some(name));
        assert!(!text.contains(['/', '\\', '\0']), "no name leads out of its folder");
    }
}

/// The input holds three user keys and the tags behind them.
pub(super) fn order(bytes: &[u8]) {
    integers(bytes);
    let Some((tags, rest)) = bytes.split_first_chunk::<4>() else { return };
    let pieces = pieces(rest);
    let key = |at: usize| {
        let kind = if tags[3] >> at & 1 == 0 { ValueKind::Deletion } else { ValueKind::Value };
        let seqno = if tags[at] == 0xff { SEQNO_MAX } else { SeqNo(tags[at].into()) };
        let user = pieces.get(at).copied().unwrap_or_default();
        InternalKey::new(user, seqno, kind).as_bytes().to_vec()
    };
    let mut keys = [key(0), key(1), key(2)];
    let order = InternalOrder::new(UserOrder::Bytewise);
    keys.sort_by(|a, b| order.compare(a, b));
    let [a, b, c] = &keys;
    assert!(order.compare(a, c).is_le(), "the order is transitive");
    assert_eq!(order.compare(a, b).reverse(), order.compare(b, a));
    for (low, high) in [(a, b), (b, c), (a, c)] {
        between(&order, low, high);
    }
}

fn between(order: &InternalOrder, low: &[u8], high: &[u8]) {
    assert!(parse(low).is_some());
    let (low_user, high_user) = (user_key(low), user_key(high));
    let naive = low_user.iter().zip(high_user).take_while(|(a, b)| a == b).count();
    assert_eq!(common_prefix(low_user, high_user), naive);
    assert_ne!(leading_bytes(low_user).cmp(&leading_bytes(high_user)), Ordering::Greater);

    let mut successor = low.to_vec();
    order.short_successor(&mut successor);
    assert!(order.compare(low, &successor).is_le());
    if order.compare(low, high).is_lt() {
        let mut separator = low.to_vec();
        order.shortest_separator(&mut separator, high);
        assert!(order.compare(low, &separator).is_le());
        assert!(order.compare(&separator, high).is_lt());
    }
}

/// What reads as a varint is written as one, no longer than it was.
fn integers(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    if let Some(value) = reader.varint64() {
        let mut again = Vec::new();
        put_varint64(&mut again, value);
        assert_eq!(Reader::new(&again).varint64(), Some(value));
        assert!(again.len() <= bytes.len() - reader.rest().len());
    }
    let mut reader = Reader::new(bytes);
    if let Some(value) = reader.varint32() {
        let mut again = Vec::new();
        put_varint32(&mut again, value);
        assert_eq!(Reader::new(&again).varint32(), Some(value));
        assert!(again.len() <= bytes.len() - reader.rest().len());
    }
}
