//! LevelDB's tables: sorted entries in compressed, checksummed blocks behind an index. Flushes and
//! compactions write them ([`builder`]), reads search them ([`reader`], [`iter`]).
//!
//! **Layout.**
//!
//! | part | content |
//! | --- | --- |
//! | data blocks | entries, see [`block`] |
//! | filter block | optional, see [`filter_block`]; never compressed |
//! | properties | optional, see [`properties`]; ours, LevelDB passes over it |
//! | metaindex block | names of the two above, sorted, each with its handle |
//! | index block | per data block a key not less than its last, and its handle |
//! | footer | 48 bytes, see [`handle`] |
//!
//! Every block is followed by a trailer of five bytes: the compression's id, and a masked CRC-32C
//! over block and id. Handles do not count the trailer.

pub(crate) mod block;
pub(crate) mod block_builder;
pub(crate) mod block_iter;
pub(crate) mod builder;
pub(crate) mod bytes;
pub(crate) mod cache;
pub(crate) mod compress;
mod directory;
pub(crate) mod dump;
pub(crate) mod fetch;
pub(crate) mod filter;
pub(crate) mod filter_block;
mod foresight;
mod gate;
pub(crate) mod handle;
pub(crate) mod heat;
pub(crate) mod index;
mod interval;
pub(crate) mod iter;
pub(crate) mod key_buf;
mod late_filter;
mod matcher;
mod partial;
mod parts;
mod peek;
mod place;
pub(crate) mod properties;
mod reach;
pub(crate) mod reader;
pub(crate) mod snappy;
mod spare;
pub(crate) mod stretches;
mod stride;
pub(crate) mod verify;

#[cfg(test)]
mod tests;

pub(crate) use builder::{TableBuilder, TableSettings};
pub(crate) use iter::{ScanOptions, TableIter};
pub(crate) use late_filter::Limit;
pub(crate) use reader::{GetOptions, ReadSettings, Table};
pub(crate) use stride::{Answers, Stride};

/// Bytes behind each block: the compression's id and the checksum.
pub(crate) const TRAILER_BYTES: usize = 5;
/// The metaindex key of a filter is this and the policy's name.
pub(crate) const FILTER_PREFIX: &str = "filter.";
