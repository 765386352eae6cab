//! Finding records behind damage, where their borders are no longer known.

use super::{BLOCK_BYTES, FIRST, FULL, Header};
use crate::base::error::Result;
use crate::env::fs::{RandomAccessFile, read_there};
use crate::format::record::reader::Damage;

/// The offset of the first record that begins at or behind `from`: a full one or a first part, with
/// payload and the right checksum.
///
/// Every byte is tried as a start. Each costs a checksum only if it looks like a header, so a block of
/// ordinary bytes costs some hundred of them.
pub(crate) fn find_record(file: &dyn RandomAccessFile, from: u64) -> Result<Option<u64>> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut block_offset = from - from % BLOCK_BYTES as u64;
    let mut start = (from - block_offset) as usize;
    loop {
        let read = file.read_at(&mut block, block_offset)?;
        let bytes = block.get(..read).unwrap_or_default();
        let starts_at = |at: &usize| bytes.get(*at..).is_some_and(starts_record);
        if let Some(at) = (start..bytes.len()).find(starts_at) {
            return Ok(Some(block_offset + at as u64));
        }
        if read < BLOCK_BYTES {
            return Ok(None);
        }
        block_offset += BLOCK_BYTES as u64;
        start = 0;
    }
}

/// How many bytes of a record there are whose process died while it stored them through a map: all but its head, which
/// comes last, and no record behind it. The log may go on with zeros that were to be filled. `None` if that is not what
/// the damage looks like.
pub(crate) fn half_stored(damage: &Damage, file: &dyn RandomAccessFile) -> Result<Option<u64>> {
    if !damage.lacks_its_header() || find_record(file, damage.offset)?.is_some() {
        return Ok(None);
    }
    Ok(Some(last_byte(file)?.saturating_sub(damage.offset)))
}

/// Where the last byte that is not zero ends.
fn last_byte(file: &dyn RandomAccessFile) -> Result<u64> {
    let mut end = file.len();
    let mut block = vec![0; BLOCK_BYTES];
    while let Some(last) = end.checked_sub(1) {
        let start = last - last % BLOCK_BYTES as u64;
        let read = read_there(file, &mut block, start)?;
        let bytes = block.get(..read).unwrap_or_default();
        if let Some(at) = bytes.iter().rposition(|byte| *byte != 0) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn starts_record(bytes: &[u8]) -> bool {
    let Some((header, rest)) = Header::parse(bytes) else { return false };
    let starts = matches!(header.kind, FULL | FIRST) && header.payload_bytes > 0;
    starts && rest.get(..header.payload_bytes).is_some_and(|payload| header.vouches_for(payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::encoder::RecordEncoder;
    use crate::format::record::testing::ByteFile;

    fn find(bytes: &[u8], from: u64) -> Option<u64> {
        find_record(&*ByteFile::new("MANIFEST-000002", bytes), from).unwrap()
    }

    #[test]
    fn records_are_found_wherever_they_begin() {
        for fill in [1, 40, BLOCK_BYTES - 30, BLOCK_BYTES, 3 * BLOCK_BYTES] {
            let mut encoder = RecordEncoder::new(0);
            let mut bytes = Vec::new();
            encoder.encode(&[&vec![b'x'; fill]], &mut bytes);
            let second = bytes.len() as u64;
            encoder.encode(&[b"the second"], &mut bytes);
            let trailer = second.next_multiple_of(BLOCK_BYTES as u64) - second;
            let second = if trailer < 7 { second + trailer } else { second };
            assert_eq!(find(&bytes, 0), Some(0));
            for from in 1..30.min(second) {
                assert_eq!(find(&bytes, from), Some(second), "fill {fill}, from {from}");
            }
            assert_eq!(find(&bytes, second + 1), None);
            bytes.pop();
            assert_eq!(find(&bytes, 1), None, "a part is none");
        }
    }
}
