//! Seeds: the files of a real database, taken apart into an input for every body.

use crate::base::coding::Reader;
use crate::format::filename::FileName;
use crate::format::record::reader::{RecordReader, Step};
use crate::format::record::testing::ByteFile;
use crate::format::table::TRAILER_BYTES;
use crate::format::table::block::Block;
use crate::format::table::fetch::{Verify, unpack};
use crate::format::table::handle::{BlockHandle, FOOTER_BYTES, Footer};

/// Targets' names, each with an input that one of the files holds.
pub fn seeds(files: &[(String, Vec<u8>)]) -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, bytes) in files {
        seeds.push(("names", name.clone().into_bytes()));
        match FileName::parse(name) {
            Some(FileName::Wal(_)) => seeds.extend(records(bytes, "batch")),
            Some(FileName::Manifest(_)) => {
                seeds.push(("manifest", bytes.clone()));
                seeds.extend(records(bytes, "edit"));
            }
            Some(FileName::Table(_) | FileName::OldTable(_)) => {
                seeds.push(("table", bytes.clone()));
                seeds.extend(blocks(bytes).unwrap_or_default());
            }
            Some(FileName::Current) => seeds.push(("names", bytes.clone())),
            _ => {}
        }
    }
    seeds
}

/// The file for the reader of records, each record for `target`.
fn records(bytes: &[u8], target: &'static str) -> Vec<(&'static str, Vec<u8>)> {
    let mut reader = RecordReader::new(ByteFile::new("000003.log", bytes));
    let mut seeds = vec![("record", bytes.to_vec())];
    let mut record = Vec::new();
    while let Ok(Step::Record { .. }) = reader.next(&mut record) {
        seeds.push((target, record.clone()));
    }
    seeds
}

/// A table's parts.
fn blocks(bytes: &[u8]) -> Option<Vec<(&'static str, Vec<u8>)>> {
    let stored = bytes.get(bytes.len().checked_sub(FOOTER_BYTES)?..)?;
    let footer = Footer::decode(stored).ok()?;
    let mut seeds = vec![("footer", stored.to_vec())];
    for (handle, is_index) in [(footer.index, true), (footer.metaindex, false)] {
        let content = content(bytes, handle)?.1;
        seeds.push(("block", content.clone()));
        Block::new(content)
            .and_then(|block| {
                block.for_each(|key, value| {
                    seeds.push(("order", [&[1, 2, 3, 7, key.len() as u8], key].concat()));
                    let handle = BlockHandle::decode(&mut Reader::new(value));
                    seeds.extend(handle.and_then(|handle| part(bytes, handle, is_index, key)));
                    Ok(())
                })
            })
            .ok()?;
    }
    Some(seeds)
}

/// What a handle of the index or the metaindex leads to.
fn part(
    bytes: &[u8],
    handle: BlockHandle,
    is_data: bool,
    key: &[u8],
) -> Option<(&'static str, Vec<u8>)> {
    let (stored, content) = content(bytes, handle)?;
    match key {
        // Of every other data block the stored form, with its type in front.
        _ if is_data && handle.offset % 2 == 1 => {
            let (packed, trailer) = stored.split_at(stored.len() - TRAILER_BYTES);
            Some(("decompress", [&trailer[..1], packed].concat()))
        }
        _ if is_data => Some(("block", content)),
        _ if key.starts_with(b"filter.") => Some(("filter", [&[10], &content[..]].concat())),
        _ => Some(("footer", content)),
    }
}

/// A block as it is stored, and what it holds.
fn content(bytes: &[u8], handle: BlockHandle) -> Option<(&[u8], Vec<u8>)> {
    let end = handle.end_within(bytes.len() as u64)?;
    let stored = bytes.get(usize::try_from(handle.offset).ok()?..usize::try_from(end).ok()?)?;
    let mut content = Vec::new();
    unpack(stored, Verify::Yes, &mut content).ok()?;
    Some((stored, content))
}
