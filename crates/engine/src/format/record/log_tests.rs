//! Logs that are longer than what was written, and logs that are being written to.

use std::path::Path;
use std::sync::Arc;

use super::BLOCK_BYTES;
use super::reader::{RecordReader, Step};
use super::testing::{ByteFile, encode_all};
use crate::base::error::Result;
use crate::base::sync::{Mutex, Rank};
use crate::env::fs::RandomAccessFile;

/// The records of a log up to its end, and where a torn one begins and how long it is.
fn read_log(file: Arc<dyn RandomAccessFile>) -> (Vec<Vec<u8>>, Option<(u64, u64)>) {
    let mut reader = RecordReader::of_log(file);
    let (mut records, mut record) = (Vec::new(), Vec::new());
    loop {
        match reader.next(&mut record).unwrap() {
            Step::Record { .. } => records.push(record.clone()),
            Step::Damage(damage) => panic!("{damage:?} after {} records", records.len()),
            Step::TornTail { offset, bytes } => {
                assert_eq!(reader.next(&mut record).unwrap(), Step::End);
                return (records, Some((offset, bytes)));
            }
            Step::End => return (records, None),
        }
    }
}

/// Records of many lengths, over several blocks.
fn some_records() -> Vec<Vec<u8>> {
    let len = |index: usize| [1, 30, 200, 5000, 40_000, 7, BLOCK_BYTES - 7][index % 7];
    (0..21).map(|index| vec![index as u8 + 1; len(index)]).collect()
}

#[test]
fn zeros_behind_a_log_are_its_end() {
    let records = some_records();
    for zeros in [1, 6, 7, 1000, 3 * BLOCK_BYTES] {
        let mut bytes = encode_all(&records);
        bytes.resize(bytes.len() + zeros, 0);
        let (found, torn) = read_log(ByteFile::new("000003.log", bytes));
        assert!(found == records, "{} records before {zeros} zeros", found.len());
        assert_eq!(torn, None);
    }
}

/// However far an append got, what was there before is found, and the rest is no damage.
#[test]
fn an_append_cut_short_before_zeros_is_torn() {
    for before in [0, 1, 40, BLOCK_BYTES - 7 - 30, BLOCK_BYTES - 7 - 12, 2 * BLOCK_BYTES] {
        for last in [1, 40, 300, 2 * BLOCK_BYTES + 99] {
            let first: Vec<_> = (before > 0).then(|| vec![1; before]).into_iter().collect();
            let whole = encode_all(first.iter().cloned().chain([vec![2; last]]));
            let start = encode_all(&first).len();
            for cut in (start.max(1)..whole.len()).step_by(1 + last / 40) {
                let mut bytes = whole.clone();
                bytes[cut..].fill(0);
                // The zeros reach to the end of a block, at the latest of the next but two.
                for blocks in [cut.div_ceil(BLOCK_BYTES), whole.len().div_ceil(BLOCK_BYTES) + 3] {
                    if whole.len() == blocks * BLOCK_BYTES {
                        continue; // It fills the file: nothing shows that that was longer.
                    }
                    bytes.resize(blocks * BLOCK_BYTES, 0);
                    let (found, torn) = read_log(ByteFile::new("000003.log", &bytes[..]));
                    assert!(found == first, "cut at {cut} of {}", whole.len());
                    assert!(torn.is_none_or(|(at, len)| at + len <= cut as u64), "{torn:?} {cut}");
                }
            }
        }
    }
}

/// A mapped log gets a record's first bytes last.
#[test]
fn a_record_without_its_head_before_zeros_is_torn() {
    let first = vec![vec![1; 100]];
    let start = encode_all(&first).len();
    let whole = encode_all([vec![1; 100], vec![2; 200]]);
    for cut in start + 8..whole.len() {
        let mut bytes = whole.clone();
        bytes[start..start + 8].fill(0);
        bytes[cut..].fill(0);
        bytes.resize(2 * BLOCK_BYTES, 0);
        let (found, torn) = read_log(ByteFile::new("000003.log", bytes));
        assert!(found == first && torn.is_some() == (cut > start + 8), "cut at {cut}");
    }
}

#[test]
fn damage_with_records_behind_it_is_not_torn() {
    let mut bytes = encode_all([vec![1; 100], vec![2; BLOCK_BYTES], vec![3; 100]]);
    bytes[50] ^= 1;
    bytes.resize(bytes.len() + BLOCK_BYTES, 0);
    let mut reader = RecordReader::of_log(ByteFile::new("000003.log", bytes));
    assert!(matches!(reader.next(&mut Vec::new()), Ok(Step::Damage(_))));
}

/// Shows more of its bytes with each read, as a log does that is written to meanwhile.
struct Growing {
    bytes: Vec<u8>,
    shown: Mutex<usize>,
    step: usize,
}

impl RandomAccessFile for Growing {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut shown = self.shown.lock();
        let from = (offset as usize).min(self.bytes.len());
        let read = buf.len().min(self.bytes.len() - from);
        for (at, byte) in buf[..read].iter_mut().enumerate() {
            *byte = if from + at < *shown { self.bytes[from + at] } else { 0 };
        }
        *shown += self.step;
        Ok(read)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn path(&self) -> &Path {
        Path::new("000003.log")
    }
}

/// A reader beside the writer finds a beginning of the log, without holes and without damage.
#[test]
fn a_log_that_grows_meanwhile_shows_a_beginning() {
    let records = some_records();
    let written = encode_all(&records);
    for start in (0..written.len()).step_by(1777) {
        for step in [1, 100, 3001, BLOCK_BYTES, 2 * BLOCK_BYTES + 5] {
            let mut bytes = written.clone();
            bytes.resize(written.len() + 2 * BLOCK_BYTES, 0);
            let shown = Mutex::new(Rank::Leaf, start);
            let (found, _) = read_log(Arc::new(Growing { bytes, shown, step }));
            assert!(found == records[..found.len()], "from {start} by {step}");
            let there = |count: usize| encode_all(&records[..count]).len() <= start;
            assert!(found.len() == records.len() || !there(found.len() + 1));
        }
    }
}
