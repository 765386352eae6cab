//! Builds one block: entries whose keys share their beginnings, restart points among them. The
//! table builder keeps one and resets it; [`block`](super::block) describes the layout.

use crate::base::coding::{length_u32, put_fixed32, write_varint32};
use crate::base::fences::common_prefix;

pub(crate) struct BlockBuilder {
    restart_interval: usize,
    buffer: Vec<u8>,
    restarts: Vec<u32>,
    since_restart: usize,
    /// Of the block before, as long as this one is empty.
    last_key: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) fn new(restart_interval: usize) -> Self {
        BlockBuilder {
            restart_interval: restart_interval.max(1),
            buffer: Vec::new(),
            restarts: vec![0],
            since_restart: 0,
            last_key: Vec::new(),
        }
    }

    /// Keys come in order; the builder of the table checks that.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        let shared = if self.buffer.is_empty() {
            0
        } else if self.since_restart < self.restart_interval {
            common_prefix(&self.last_key, key)
        } else {
            // Blocks are cut near their target size; only a single huge entry exceeds it, and one
            // entry needs no second restart.
            self.restarts.push(length_u32(&self.buffer));
            self.since_restart = 0;
            0
        };
        let suffix = &key[shared..];
        self.put_lengths([shared as u32, length_u32(suffix), length_u32(value)]);
        self.buffer.extend_from_slice(suffix);
        self.buffer.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(suffix);
        self.since_restart += 1;
    }

    fn put_lengths(&mut self, lengths: [u32; 3]) {
        if lengths.iter().all(|&length| length < 0x80) {
            self.buffer.extend_from_slice(&lengths.map(|length| length as u8));
            return;
        }
        let mut header = [0; 15];
        let mut end = 0;
        for length in lengths {
            end += write_varint32(&mut header[end..], length);
        }
        self.buffer.extend_from_slice(&header[..end]);
    }

    /// What was added last, perhaps before it was [reset](Self::reset).
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// The size that the finished block would have now.
    pub(crate) fn estimated_bytes(&self) -> usize {
        self.buffer.len() + (self.restarts.len() + 1) * size_of::<u32>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Appends the restart points and returns the whole block. Call `reset` before the next `add`.
    pub(crate) fn finish(&mut self) -> &[u8] {
        for &restart in &self.restarts {
            put_fixed32(&mut self.buffer, restart);
        }
        let count = u32::try_from(self.restarts.len()).expect("restarts are 32-bit offsets apart");
        put_fixed32(&mut self.buffer, count);
        &self.buffer
    }

    pub(crate) fn reset(&mut self) {
        self.buffer.clear();
        self.restarts.truncate(1);
        self.since_restart = 0;
    }

    /// A whole block of these entries.
    #[cfg(test)]
    pub(crate) fn build<'a>(
        restart_interval: usize,
        entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Vec<u8> {
        let mut builder = BlockBuilder::new(restart_interval);
        for (key, value) in entries {
            builder.add(key, value);
        }
        builder.finish().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_block() {
        let entries = [(&b"apple"[..], &b"1"[..]), (b"apply", b"22"), (b"b", b"")];
        let block = BlockBuilder::build(2, entries);
        let mut expected = Vec::new();
        expected.extend_from_slice(b"\x00\x05\x01apple1");
        expected.extend_from_slice(b"\x04\x01\x02y22");
        expected.extend_from_slice(b"\x00\x01\x00b");
        expected.extend_from_slice(&[0, 0, 0, 0, 15, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(block, expected);
    }

    #[test]
    fn estimates_are_exact_and_reset_forgets() {
        let mut builder = BlockBuilder::new(3);
        for round in 0..2 {
            for at in 0..100u32 {
                builder.add(format!("key{at:05}").as_bytes(), &vec![b'v'; at as usize * 3]);
            }
            let estimated = builder.estimated_bytes();
            assert_eq!(builder.finish().len(), estimated, "round {round}");
            builder.reset();
            assert!(builder.is_empty());
        }
    }
}
