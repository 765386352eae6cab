//! Cuts logical records into physical ones. The WAL writer and the manifest writer call it and
//! then write the bytes to their files themselves.

use super::{BLOCK_BYTES, CRC_BYTES, FIRST, FULL, HEADER_BYTES, LAST, MIDDLE};
use crate::base::checksum;

/// Knows where in a block the file ends. If the caller fails to write what was encoded, the encoder
/// is out of step with its file and both must be given up.
#[derive(Debug)]
pub(crate) struct RecordEncoder {
    block_offset: usize,
}

impl RecordEncoder {
    /// An encoder for the records that follow the first `file_len` bytes of a file.
    pub(crate) fn new(file_len: u64) -> Self {
        RecordEncoder { block_offset: (file_len % BLOCK_BYTES as u64) as usize }
    }

    /// Appends to `out` the physical records of one logical record, whose payload is the `parts`
    /// one after another. They go into `out` directly: a large batch is copied once.
    pub(crate) fn encode(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) {
        let mut left: usize = parts.iter().map(|part| part.len()).sum();
        let headers = left / (BLOCK_BYTES - HEADER_BYTES) + 2;
        out.reserve(left + headers * HEADER_BYTES);

        let mut source = Source { parts, at: 0 };
        let mut is_first = true;
        loop {
            self.fill_trailer(out);
            let payload_bytes = left.min(BLOCK_BYTES - self.block_offset - HEADER_BYTES);
            left -= payload_bytes;
            let kind = match (is_first, left == 0) {
                (true, true) => FULL,
                (true, false) => FIRST,
                (false, false) => MIDDLE,
                (false, true) => LAST,
            };
            emit(kind, payload_bytes, &mut source, out);
            self.block_offset += HEADER_BYTES + payload_bytes;
            is_first = false;
            if left == 0 {
                return;
            }
        }
    }

    /// Leaves at least a header's room in the current block.
    fn fill_trailer(&mut self, out: &mut Vec<u8>) {
        let room = BLOCK_BYTES - self.block_offset;
        if room < HEADER_BYTES {
            out.resize(out.len() + room, 0);
            self.block_offset = 0;
        }
    }
}

/// Appends one physical record.
fn emit(kind: u8, payload_bytes: usize, source: &mut Source<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let length = u16::try_from(payload_bytes).expect("a payload is shorter than a block");
    out.extend_from_slice(&[0; CRC_BYTES]);
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind);
    source.move_to(payload_bytes, out);
    // The checksum covers the type byte and the payload, which now lie side by side.
    let crc = checksum::crc32c(&out[start + HEADER_BYTES - 1..]);
    out[start..start + CRC_BYTES].copy_from_slice(&checksum::mask(crc).to_le_bytes());
}

/// The bytes of `parts` that have not been encoded yet.
struct Source<'a> {
    parts: &'a [&'a [u8]],
    /// How much of the first of `parts` is gone.
    at: usize,
}

impl Source<'_> {
    /// Appends the next `bytes` bytes to `out`; the parts hold as many.
    fn move_to(&mut self, mut bytes: usize, out: &mut Vec<u8>) {
        while bytes > 0 {
            let part = &self.parts[0][self.at..];
            let taken = part.len().min(bytes);
            out.extend_from_slice(&part[..taken]);
            bytes -= taken;
            self.at += taken;
            if taken == part.len() {
                self.parts = &self.parts[1..];
                self.at = 0;
            }
        }
    }
}
