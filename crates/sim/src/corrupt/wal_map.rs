//! Where in an undamaged file of records each record lies, by the format's description alone: what
//! the engine's decisions are held against must not come from the engine.

use std::ops::Range;

use super::history::History;

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
/// Sequence number and count.
const BATCH_HEADER_BYTES: usize = 12;

/// A logical record of a log.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) bytes: Range<usize>,
    pub(super) is_mark: bool,
    /// The batches of the history that come before it.
    pub(super) batches_before: usize,
}

/// The records of a log that has no damage.
pub(super) fn log_records(log: &[u8], history: &History) -> Vec<Record> {
    let records = payloads(log).into_iter().map(|(bytes, payload)| {
        let seqno = payload.first_chunk().map_or(0, |seqno| u64::from_le_bytes(*seqno));
        let is_mark = payload.len() == BATCH_HEADER_BYTES;
        Record { bytes, is_mark, batches_before: history.batch_at(seqno) }
    });
    records.collect()
}

/// The stretches that records take in a log or manifest without damage.
pub(super) fn stretches(file: &[u8]) -> Vec<Range<usize>> {
    payloads(file).into_iter().map(|(bytes, _)| bytes).collect()
}

fn payloads(file: &[u8]) -> Vec<(Range<usize>, Vec<u8>)> {
    let mut found = Vec::new();
    let (mut at, mut start, mut payload) = (0, None, Vec::new());
    while at < file.len() {
        let room = BLOCK_BYTES - at % BLOCK_BYTES;
        if room < HEADER_BYTES {
            at += room;
            continue;
        }
        let bytes = usize::from(u16::from_le_bytes([file[at + 4], file[at + 5]]));
        let kind = file[at + 6];
        let begun = *start.get_or_insert(at);
        payload.extend_from_slice(&file[at + HEADER_BYTES..at + HEADER_BYTES + bytes]);
        at += HEADER_BYTES + bytes;
        if kind == 1 || kind == 4 {
            found.push((begun..at, std::mem::take(&mut payload)));
            start = None;
        }
    }
    found
}
