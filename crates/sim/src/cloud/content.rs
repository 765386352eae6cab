//! What the databases of this world hold: some keys, each with its last write. Tables and version edits are made of such
//! writes, so that what a version holds can be told from its edits, and again from its tables, and must be the same.

use std::collections::BTreeMap;

use bytes::Bytes;

/// So many keys there are.
pub(super) const KEYS: u64 = 24;
const ENTRY_BYTES: usize = 17;

/// A write: its sequence number, and the epoch it was made in. The later of two is the larger.
pub(super) type Write = (u64, u64);
/// Writes by their keys.
pub(super) type Content = BTreeMap<u8, Write>;

/// What a version edit does to the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Adds the writes of a flush.
    Flush,
    /// Only tables change.
    Merge,
    /// It is all there is.
    Whole,
}

/// Writes as a table.
pub(super) fn table(content: &Content) -> Bytes {
    let mut bytes = Vec::with_capacity(content.len() * ENTRY_BYTES);
    for (key, (seqno, epoch)) in content {
        bytes.push(*key);
        bytes.extend_from_slice(&seqno.to_le_bytes());
        bytes.extend_from_slice(&epoch.to_le_bytes());
    }
    Bytes::from(bytes)
}

/// A table's writes.
pub(super) fn read_table(bytes: &[u8]) -> Content {
    let entry = |entry: &[u8]| {
        let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap());
        (entry[0], (number(1), number(9)))
    };
    bytes.chunks_exact(ENTRY_BYTES).map(entry).collect()
}

/// A version edit's payload.
pub(super) fn payload(change: Change, content: &Content) -> Bytes {
    let mut bytes = vec![match change {
        Change::Flush => b'F',
        Change::Merge => b'M',
        Change::Whole => b'W',
    }];
    bytes.extend_from_slice(&table(content));
    Bytes::from(bytes)
}

/// What a payload makes of a content.
pub(super) fn apply(content: &mut Content, payload: &[u8]) {
    match payload.split_first() {
        Some((b'W', rest)) => *content = read_table(rest),
        Some((b'F', rest)) => merge(content, &read_table(rest)),
        _ => {}
    }
}

/// What a list of payloads makes up.
pub(super) fn replayed(payloads: &[Bytes]) -> Content {
    let mut content = Content::new();
    payloads.iter().for_each(|payload| apply(&mut content, payload));
    content
}

/// Adds writes; the later one of a key stays.
pub(super) fn merge(content: &mut Content, more: &Content) {
    for (key, write) in more {
        let last = content.entry(*key).or_default();
        *last = (*last).max(*write);
    }
}
