//! Benchmarks without a database: the checksum and the codecs that tables are written with.

use std::hint::black_box;

use super::{Job, Worker};
use crate::benchmark::{BLOCK_BYTES, CHECKSUM_OPERATIONS, CODEC_OPERATIONS, Codec};
use crate::engine::Result;

/// What LevelDB compresses with in its benchmark.
const ZSTD_LEVEL: i32 = 1;

pub(super) fn checksum(worker: &mut Worker) -> Result<()> {
    let block = [b'x'; BLOCK_BYTES];
    for _ in 0..CHECKSUM_OPERATIONS {
        black_box(crc32c::crc32c(black_box(&block)));
        worker.stats.finished_op();
    }
    worker.stats.add_bytes(CHECKSUM_OPERATIONS * BLOCK_BYTES as u64);
    worker.stats.add_message("(4K per op)");
    Ok(())
}

pub(super) fn compress<D>(job: &Job<'_, D>, worker: &mut Worker, codec: Codec) -> Result<()> {
    let block = job.pool.values().next(BLOCK_BYTES);
    let mut coder = Coder::new(codec);
    let mut output = vec![0; coder.output_bytes_max()];
    let mut produced = 0;
    for _ in 0..CODEC_OPERATIONS {
        let Some(len) = coder.compress(black_box(block), &mut output) else {
            worker.stats.add_message(codec.failure());
            return Ok(());
        };
        produced += len as u64;
        worker.stats.finished_op();
    }
    let bytes = CODEC_OPERATIONS * BLOCK_BYTES as u64;
    worker.stats.add_message(&format!("(output: {:.1}%)", produced as f64 * 100.0 / bytes as f64));
    worker.stats.add_bytes(bytes);
    Ok(())
}

pub(super) fn uncompress<D>(job: &Job<'_, D>, worker: &mut Worker, codec: Codec) -> Result<()> {
    let block = job.pool.values().next(BLOCK_BYTES);
    let mut coder = Coder::new(codec);
    let mut compressed = vec![0; coder.output_bytes_max()];
    let len = coder.compress(block, &mut compressed).unwrap_or(0);
    compressed.truncate(len);
    let mut output = [0; BLOCK_BYTES];
    for _ in 0..CODEC_OPERATIONS {
        if coder.uncompress(black_box(&compressed), &mut output) != Some(BLOCK_BYTES) {
            worker.stats.add_message(codec.failure());
            return Ok(());
        }
        worker.stats.finished_op();
    }
    worker.stats.add_bytes(CODEC_OPERATIONS * BLOCK_BYTES as u64);
    Ok(())
}

/// A codec with what it keeps between blocks, as the engine keeps it.
enum Coder {
    Snappy(Box<snap::raw::Encoder>),
    Zstd(zstd::bulk::Compressor<'static>, zstd::bulk::Decompressor<'static>),
    /// Its library refused to begin.
    Broken,
}

impl Coder {
    fn new(codec: Codec) -> Self {
        match codec {
            Codec::Snappy => Coder::Snappy(Box::new(snap::raw::Encoder::new())),
            Codec::Zstd => {
                match (zstd::bulk::Compressor::new(ZSTD_LEVEL), zstd::bulk::Decompressor::new()) {
                    (Ok(compressor), Ok(decompressor)) => Coder::Zstd(compressor, decompressor),
                    _ => Coder::Broken,
                }
            }
        }
    }

    fn output_bytes_max(&self) -> usize {
        snap::raw::max_compress_len(BLOCK_BYTES).max(zstd::zstd_safe::compress_bound(BLOCK_BYTES))
    }

    /// Returns the length of what it wrote.
    fn compress(&mut self, block: &[u8], output: &mut [u8]) -> Option<usize> {
        match self {
            Coder::Snappy(encoder) => encoder.compress(block, output).ok(),
            Coder::Zstd(compressor, _) => compressor.compress_to_buffer(block, output).ok(),
            Coder::Broken => None,
        }
    }

    fn uncompress(&mut self, compressed: &[u8], output: &mut [u8]) -> Option<usize> {
        match self {
            Coder::Snappy(_) => snap::raw::Decoder::new().decompress(compressed, output).ok(),
            Coder::Zstd(_, decompressor) => {
                decompressor.decompress_to_buffer(compressed, output).ok()
            }
            Coder::Broken => None,
        }
    }
}
