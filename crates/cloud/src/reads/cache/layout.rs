//! The bytes of a segment: a header, records one behind the other, and at the end what it contains, so that opening a cache
//! need not go through all of it.
//!
//! I1: no byte of an extent is handed out that its page's checksum does not cover, and that covers whose bytes they are and
//! where they lie, too: an index that is wrong finds nothing, never something else.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | magic `SILTEXT1` |
//! | 8 | 4 | the segment's number |
//! | 12 | 4 | bytes of a whole extent |
//! | 16 | 4 | CRC-32C of all before it |
//! | 20 | | records |
//! | | 28 n | contents: of each record its key (16), extent (4), length (4), and where it begins (4) |
//! | end - 16 | 4 | n |
//! | end - 12 | 4 | CRC-32C of the contents, n, and the segment's number |
//! | end - 8 | 8 | magic `SILTTOC1` |
//!
//! A record:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 16 | key of the object |
//! | 16 | 4 | which extent of it |
//! | 20 | 4 | length of the extent |
//! | 24 | 4 | CRC-32C of all before it, the segment's number, and where the record begins |
//! | 28 | | pages: up to 4096 bytes of the extent, and a CRC-32C (4) |
//!
//! A page's CRC is of the segment's number, where the record begins, key, extent, the page's number in it, and its bytes. Numbers
//! are little-endian. A segment without contents was not finished; its records count up to the first that is not sound.

use crc32c::{crc32c, crc32c_append};
use siltstone::{RandomAccessFile, Result};

use super::Key;
use crate::reads::object::{ObjectKey, copy_from};

const MAGIC: [u8; 8] = *b"SILTEXT1";
const CONTENTS_MAGIC: [u8; 8] = *b"SILTTOC1";
const CRC_BYTES: usize = 4;
pub(super) const HEADER_BYTES: u32 = 20;
pub(super) const HEAD_BYTES: u32 = 28;
const PAGE_BYTES: u32 = 4096;
const PAGE_STRIDE: u32 = PAGE_BYTES + CRC_BYTES as u32;
const ENTRY_BYTES: usize = 28;
const TRAILER_BYTES: usize = 16;

const _: () = assert!(HEADER_BYTES as usize == MAGIC.len() + 4 + 4 + CRC_BYTES);
const _: () = assert!(HEAD_BYTES as usize == 16 + 4 + 4 + CRC_BYTES);
const _: () = assert!(ENTRY_BYTES == 16 + 4 + 4 + 4);
const _: () = assert!(TRAILER_BYTES == 4 + CRC_BYTES + CONTENTS_MAGIC.len());

/// Where an extent lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u32,
    /// Where its record begins.
    pub(super) at: u32,
    /// The extent's length.
    pub(super) len: u32,
}

/// How long the record of an extent is.
pub(super) fn record_bytes(len: u32) -> u32 {
    HEAD_BYTES + len + len.div_ceil(PAGE_BYTES) * CRC_BYTES as u32
}

pub(super) fn header(segment: u32, extent_bytes: u32) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&segment.to_le_bytes());
    out.extend_from_slice(&extent_bytes.to_le_bytes());
    out.extend_from_slice(&crc32c(&out).to_le_bytes());
    out
}

/// Appends the record of an extent to `out`.
pub(super) fn put_record(out: &mut Vec<u8>, key: &Key, place: Place, bytes: &[u8]) {
    out.extend_from_slice(&head(key, place));
    for (page, content) in bytes.chunks(PAGE_BYTES as usize).enumerate() {
        out.extend_from_slice(content);
        out.extend_from_slice(&page_crc(key, place, page as u32, content).to_le_bytes());
    }
}

fn head(key: &Key, place: Place) -> [u8; HEAD_BYTES as usize] {
    let (object, extent) = key;
    let mut head = [0; HEAD_BYTES as usize];
    let fields = [&object.0[..], &extent.to_le_bytes(), &place.len.to_le_bytes()].concat();
    let (to, crc) = head.split_at_mut(fields.len());
    to.copy_from_slice(&fields);
    crc.copy_from_slice(&crc32c_append(crc32c(&fields), &place_bytes(place)).to_le_bytes());
    head
}

fn place_bytes(place: Place) -> [u8; 8] {
    (u64::from(place.segment) << 32 | u64::from(place.at)).to_le_bytes()
}

fn page_crc(key: &Key, place: Place, page: u32, content: &[u8]) -> u32 {
    let (object, extent) = key;
    let of_place = crc32c_append(crc32c(&place_bytes(place)), &object.0);
    let of_page =
        crc32c_append(of_place, &(u64::from(*extent) << 32 | u64::from(page)).to_le_bytes());
    crc32c_append(of_page, content)
}

/// Reads a part of an extent, from `within` on. False if it does not lie there whole and sound.
pub(super) fn read_part(
    file: &dyn RandomAccessFile,
    key: &Key,
    place: Place,
    within: u32,
    buf: &mut [u8],
) -> Result<bool> {
    let end = u64::from(within) + buf.len() as u64;
    if end > u64::from(place.len) || buf.is_empty() {
        return Ok(buf.is_empty());
    }
    // Extents are no longer than 64 KiB, by their settings and by how they are found.
    let (first, last) = (within / PAGE_BYTES, (end as u32 - 1) / PAGE_BYTES);
    let stored_to = (place.len - first * PAGE_BYTES).min((last - first + 1) * PAGE_BYTES);
    let mut stored = vec![0; (stored_to + (last - first + 1) * CRC_BYTES as u32) as usize];
    let from = u64::from(place.at) + u64::from(HEAD_BYTES + first * PAGE_STRIDE);
    if file.read_at(&mut stored, from)? < stored.len() {
        return Ok(false);
    }
    let mut skipped = (within - first * PAGE_BYTES) as usize;
    let mut filled = 0;
    for (page, stored) in (first..).zip(stored.chunks(PAGE_STRIDE as usize)) {
        let Some((content, crc)) = stored.split_last_chunk::<CRC_BYTES>() else { return Ok(false) };
        if page_crc(key, place, page, content) != u32::from_le_bytes(*crc) {
            return Ok(false);
        }
        let content = content.get(skipped..).unwrap_or_default();
        filled += copy_from(content, buf.get_mut(filled..).unwrap_or_default());
        skipped = 0;
    }
    Ok(filled == buf.len())
}

/// The end of a segment that holds these.
pub(super) fn contents(segment: u32, records: &[(Key, Place)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(records.len() * ENTRY_BYTES + TRAILER_BYTES);
    for ((object, extent), place) in records {
        out.extend_from_slice(&object.0);
        [*extent, place.len, place.at]
            .iter()
            .for_each(|field| out.extend_from_slice(&field.to_le_bytes()));
    }
    out.extend_from_slice(&(records.len() as u32).to_le_bytes());
    let crc = crc32c_append(crc32c(&out), &segment.to_le_bytes());
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&CONTENTS_MAGIC);
    out
}

/// What a segment holds, in the order in which it was written. `None` if the file is no segment of this number and extents.
pub(super) fn read_contents(
    file: &dyn RandomAccessFile,
    segment: u32,
    extent_bytes: u32,
) -> Result<Option<Vec<(Key, Place)>>> {
    let mut found = [0; HEADER_BYTES as usize];
    let read = file.read_at(&mut found, 0)?;
    if found.get(..read) != Some(&header(segment, extent_bytes)) {
        return Ok(None);
    }
    match read_index(file, segment, extent_bytes)? {
        Some(records) => Ok(Some(records)),
        None => scan(file, segment, extent_bytes).map(Some),
    }
}

/// The contents at a segment's end, if they are there and sound.
fn read_index(
    file: &dyn RandomAccessFile,
    segment: u32,
    extent_bytes: u32,
) -> Result<Option<Vec<(Key, Place)>>> {
    let mut trailer = [0; TRAILER_BYTES];
    let Some(trailer_at) = file.len().checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let read = file.read_at(&mut trailer, trailer_at)?;
    let mut fields = Fields(trailer.get(..read).unwrap_or_default());
    let (Some(count), Some(crc)) = (fields.u32(), fields.u32()) else { return Ok(None) };
    if fields.0 != CONTENTS_MAGIC {
        return Ok(None);
    }
    // R9: no more is believed than fits into the file.
    let len = u64::from(count) * ENTRY_BYTES as u64;
    let Some(at) = trailer_at.checked_sub(len).filter(|at| *at >= u64::from(HEADER_BYTES)) else {
        return Ok(None);
    };
    let mut entries = vec![0; len as usize];
    let read = file.read_at(&mut entries, at)?;
    let found = crc32c_append(
        crc32c_append(crc32c(&entries), &count.to_le_bytes()),
        &segment.to_le_bytes(),
    );
    if read < entries.len() || found != crc {
        return Ok(None);
    }
    let records = entries.chunks(ENTRY_BYTES).map_while(|entry| {
        let mut fields = Fields(entry);
        let key = (fields.object()?, fields.u32()?);
        let (len, at_record) = (fields.u32()?, fields.u32()?);
        let end = u64::from(at_record) + u64::from(record_bytes_of(len, extent_bytes)?);
        (end <= at).then_some((key, Place { segment, at: at_record, len }))
    });
    Ok(Some(records.collect()))
}

/// Goes from record to record, to the first that is not sound.
fn scan(file: &dyn RandomAccessFile, segment: u32, extent_bytes: u32) -> Result<Vec<(Key, Place)>> {
    let (mut records, mut at) = (Vec::new(), HEADER_BYTES);
    loop {
        let mut found = [0; HEAD_BYTES as usize];
        let read = file.read_at(&mut found, u64::from(at))?;
        let mut fields = Fields(found.get(..read).unwrap_or_default());
        let (Some(object), Some(extent), Some(len)) = (fields.object(), fields.u32(), fields.u32())
        else {
            return Ok(records);
        };
        let (key, place) = ((object, extent), Place { segment, at, len });
        let next = record_bytes_of(len, extent_bytes).and_then(|bytes| at.checked_add(bytes));
        match next.filter(|next| u64::from(*next) <= file.len() && found == head(&key, place)) {
            Some(next) => at = next,
            None => return Ok(records),
        }
        records.push((key, place));
    }
}

/// `None` for a length that no extent has.
fn record_bytes_of(len: u32, extent_bytes: u32) -> Option<u32> {
    (1..=extent_bytes).contains(&len).then(|| record_bytes(len))
}

/// Takes fields off the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*field))
    }

    fn object(&mut self) -> Option<ObjectKey> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(ObjectKey(*field))
    }
}
