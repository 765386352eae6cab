//! Gets the fuzzer past checksums: files whose bytes are hostile and whose checksums match. Written
//! from the formats' descriptions alone, for the engine's own encoders would refuse.

use siltstone_sim::log_file::append_record;

use crate::input::Input;

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
const FOOTER_BYTES: usize = 48;
const TRAILER_BYTES: usize = 5;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// Blocks of a table that are sealed.
const BLOCKS_MAX: usize = 64;

/// Bit of an input's first byte: give every record its checksum.
pub(crate) const SEALED: u8 = 1;
/// Bit: behind a record that fills its block up to a few bytes (the next byte says how many).
const AT_BORDER: u8 = 2;
/// Bit: what follows are payloads, each behind a byte that tells its length.
const FRAMED: u8 = 4;

/// A file of records. The first byte says how the rest is to be taken.
pub(crate) fn record_file(input: &[u8]) -> Vec<u8> {
    let mut input = Input(input);
    let mode = input.byte();
    let mut file = Vec::new();
    if mode & AT_BORDER != 0 {
        let short = usize::from(input.byte());
        append_record(&mut file, &vec![b'x'; BLOCK_BYTES - HEADER_BYTES - short]);
    }
    fill(file, mode, input)
}

/// As [`record_file`], but never more than a block: recovery tries every byte behind damage as the
/// start of a mark.
pub(crate) fn short_record_file(input: &[u8]) -> Vec<u8> {
    let mut input = Input(input);
    let mode = input.byte();
    fill(Vec::new(), mode, input)
}

/// Appends what the input holds.
fn fill(mut file: Vec<u8>, mode: u8, mut input: Input<'_>) -> Vec<u8> {
    let start = file.len();
    if mode & FRAMED != 0 {
        while !input.is_empty() {
            let len = usize::from(input.byte());
            append_record(&mut file, input.bytes(len));
        }
    } else {
        file.extend_from_slice(input.0);
        if mode & SEALED != 0 {
            seal_records(&mut file, start);
        }
    }
    file
}

/// Gives each physical record from `at` on the checksum of its bytes.
pub(crate) fn seal_records(file: &mut [u8], mut at: usize) {
    loop {
        let block_end = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        if at + HEADER_BYTES > block_end {
            at = block_end;
        }
        let Some(length) = file.get(at + 4..at + 6) else { return };
        let end = at + HEADER_BYTES + usize::from(u16::from_le_bytes([length[0], length[1]]));
        if end > file.len() || end > block_end {
            at = block_end;
            continue;
        }
        seal(file, at, at + 6, end);
        at = end;
    }
}

/// Writes the masked checksum of `from..to` to `at`.
fn seal(file: &mut [u8], at: usize, from: usize, to: usize) {
    let masked = crc32c::crc32c(&file[from..to]).rotate_right(15).wrapping_add(0xa282_ead8);
    file[at..at + 4].copy_from_slice(&masked.to_le_bytes());
}

/// A table. The first byte says whether it is sealed.
pub(crate) fn table_file(input: &[u8]) -> Vec<u8> {
    let mut input = Input(input);
    let mode = input.byte();
    let mut file = input.0.to_vec();
    if mode & SEALED != 0 {
        seal_table(&mut file);
    }
    file
}

/// Gives a table its magic number, and every block that can be reached its checksum.
pub(crate) fn seal_table(file: &mut [u8]) {
    let Some(footer_at) = file.len().checked_sub(FOOTER_BYTES) else { return };
    let magic_at = file.len() - 8;
    file[magic_at..].copy_from_slice(&MAGIC.to_le_bytes());
    let mut footer = Input(&file[footer_at..magic_at]);
    let roots = [handle(&mut footer), handle(&mut footer)];
    for root in roots.into_iter().flatten() {
        let Some(content) = seal_block(file, root) else { continue };
        for inner in handles_in(&content).into_iter().take(BLOCKS_MAX) {
            seal_block(file, inner);
        }
    }
}

/// Seals the block and returns what it holds.
fn seal_block(file: &mut [u8], (offset, size): (u64, u64)) -> Option<Vec<u8>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    if end.checked_add(TRAILER_BYTES)? > file.len() {
        return None;
    }
    seal(file, end + 1, start, end + 1);
    let stored = &file[start..end];
    match file[end] {
        0 => Some(stored.to_vec()),
        1 if snap::raw::decompress_len(stored).is_ok_and(|len| len < 1 << 16) => {
            snap::raw::Decoder::new().decompress_vec(stored).ok()
        }
        _ => None,
    }
}

/// The handles that the entries of an index or a metaindex hold.
fn handles_in(content: &[u8]) -> Vec<(u64, u64)> {
    let mut handles = Vec::new();
    let mut input = Input(content);
    while let (Some(_), Some(suffix), Some(value)) =
        (varint(&mut input), varint(&mut input), varint(&mut input))
    {
        let (Ok(suffix), Ok(value)) = (usize::try_from(suffix), usize::try_from(value)) else {
            break;
        };
        input.bytes(suffix);
        handles.extend(handle(&mut Input(input.bytes(value))));
    }
    handles
}

fn handle(input: &mut Input<'_>) -> Option<(u64, u64)> {
    Some((varint(input)?, varint(input)?))
}

fn varint(input: &mut Input<'_>) -> Option<u64> {
    let mut value = 0;
    for at in 0..10 {
        if input.is_empty() {
            return None;
        }
        let byte = input.byte();
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
