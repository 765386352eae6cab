//! Writes a table front to back. Flushes and merges hand it entries in order; `finish` makes the
//! file durable, and only then may an edit name it.
//!
//! Output gathers in memory and goes out in large pieces: one system call for many blocks.

use crate::base::checksum;
use crate::base::coding::put_fixed32;
use crate::base::comparator::InternalOrder;
use crate::base::error::Result;
use crate::base::key::{InternalKey, TAG_BYTES, ValueKind, seqno_of, tag_of, user_key};
use crate::env::fs::WritableFile;
use crate::env::site::Site;
use crate::format::filename::FileNumber;
use crate::format::table::FILTER_PREFIX;
use crate::format::table::block_builder::BlockBuilder;
use crate::format::table::compress::{self, Compression, Compressor};
use crate::format::table::filter::Filter;
use crate::format::table::filter_block::{FilterBlockBuilder, FilterSpan};
use crate::format::table::handle::{BlockHandle, Footer};
use crate::format::table::properties::{PROPERTIES_KEY, TableProperties};

/// Appended to the file at once, and at multiples of this: a page cache that can (Linux 6.16 and later on ext4, XFS
/// before) keeps such pieces in large folios, from which reads of blocks take a tenth less time.
const PIECE_BYTES: usize = 256 << 10;

/// How tables are laid out.
#[derive(Clone, Debug)]
pub(crate) struct TableSettings {
    pub(crate) order: InternalOrder,
    /// A data block is cut when it has reached this, uncompressed.
    pub(crate) block_bytes: usize,
    pub(crate) restart_interval: usize,
    pub(crate) compression: Compression,
    pub(crate) filter: Option<Filter>,
}

/// What a finished table is, as the manifest records it.
#[derive(Clone, Debug)]
pub(crate) struct TableSummary {
    pub(crate) number: FileNumber,
    /// The file's size.
    pub(crate) bytes: u64,
    pub(crate) properties: TableProperties,
    /// First and last internal key. Empty if the table is.
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
}

pub(crate) struct TableBuilder {
    settings: TableSettings,
    output: Output,
    data: BlockBuilder,
    index: BlockBuilder,
    filter: Option<FilterBlockBuilder>,
    properties: TableProperties,
    smallest: Vec<u8>,
    /// A data block just written. Its index entry waits for the next key, so that the separator
    /// between the two can be as short as possible.
    pending: Option<BlockHandle>,
    separator: Vec<u8>,
    handle_bytes: Vec<u8>,
}

impl TableBuilder {
    /// `number` is the one in the file's name.
    pub(crate) fn new(
        file: Box<dyn WritableFile>,
        number: FileNumber,
        settings: TableSettings,
    ) -> Self {
        TableBuilder {
            output: Output {
                file,
                compression: settings.compression,
                codec: None,
                piece: Vec::new(),
                packed: Vec::new(),
                offset: 0,
            },
            data: BlockBuilder::new(settings.restart_interval),
            index: BlockBuilder::new(1),
            filter: first_filter(&settings, FilterSpan::Table),
            properties: TableProperties { number, ..TableProperties::default() },
            smallest: Vec::new(),
            pending: None,
            separator: Vec::new(),
            handle_bytes: Vec::new(),
            settings,
        }
    }

    /// So many entries will come: what grows with them is asked for at once.
    pub(crate) fn expecting(mut self, entries: u64) -> Self {
        if let Some(filter) = &mut self.filter {
            filter.expect_keys(usize::try_from(entries).unwrap_or(0));
        }
        self
    }

    /// Has filters laid out otherwise. Before the first entry.
    #[cfg(test)]
    pub(crate) fn with_filter_span(mut self, span: FilterSpan) -> Self {
        self.filter = first_filter(&self.settings, span);
        self
    }

    /// True unless the key is less than the last one added.
    pub(crate) fn may_follow(&self, key: &[u8]) -> bool {
        let last = self.data.last_key();
        last.is_empty() || self.settings.order.compare(last, key).is_le()
    }

    /// Adds an entry; keys must not descend. Equal keys in a row are taken, as LevelDB takes them.
    /// After an error only `abandon` makes sense.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        debug_assert!(key.len() >= TAG_BYTES);
        debug_assert!(self.may_follow(key), "keys of a table must not descend");
        if let Some(handle) = self.pending.take() {
            self.begin_separator();
            self.settings.order.shortest_separator(&mut self.separator, key);
            self.add_index_entry(handle);
        }
        if let Some(filter) = &mut self.filter {
            filter.add_key(user_key(key));
        }
        self.count(key, value);
        self.data.add(key, value);
        if self.data.estimated_bytes() >= self.settings.block_bytes {
            self.flush_block()?;
        }
        Ok(())
    }

    fn count(&mut self, key: &[u8], value: &[u8]) {
        let properties = &mut self.properties;
        let seqno = seqno_of(key);
        if properties.entries == 0 {
            self.smallest.extend_from_slice(key);
            properties.smallest_seqno = seqno;
        }
        properties.entries += 1;
        properties.deletions += u64::from(tag_of(key) as u8 == ValueKind::Deletion as u8);
        properties.raw_key_bytes += key.len() as u64;
        properties.raw_value_bytes += value.len() as u64;
        properties.smallest_seqno = properties.smallest_seqno.min(seqno);
        properties.largest_seqno = properties.largest_seqno.max(seqno);
    }

    /// Ends the current data block, if it has entries.
    fn flush_block(&mut self) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        self.pending = Some(self.output.write_block(self.data.finish())?);
        self.data.reset();
        self.properties.data_blocks += 1;
        if let Some(filter) = &mut self.filter {
            filter.start_block(self.output.offset);
        }
        Ok(())
    }

    /// It is made of the last key of the block.
    fn begin_separator(&mut self) {
        self.separator.clear();
        self.separator.extend_from_slice(self.data.last_key());
    }

    /// Under the separator.
    fn add_index_entry(&mut self, handle: BlockHandle) {
        self.handle_bytes.clear();
        handle.encode(&mut self.handle_bytes);
        self.index.add(&self.separator, &self.handle_bytes);
    }

    /// What the data takes so far: written blocks as compressed, the current one as it is.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        let current = if self.data.is_empty() { 0 } else { self.data.estimated_bytes() };
        self.output.offset + current as u64
    }

    /// Writes what remains, then syncs and closes the file. Its name is not durable yet: that
    /// takes a sync of the folder. After an error the file is to be removed.
    pub(crate) fn finish(mut self) -> Result<TableSummary> {
        self.flush_block()?;
        if let Some(handle) = self.pending.take() {
            self.begin_separator();
            self.settings.order.short_successor(&mut self.separator);
            self.add_index_entry(handle);
        }
        let mut metaindex: Vec<(Vec<u8>, BlockHandle)> = Vec::new();
        if let (Some(builder), Some(filter)) = (self.filter.take(), &self.settings.filter) {
            let handle = self.output.write_raw_block(&builder.finish())?;
            metaindex.push(([FILTER_PREFIX.as_bytes(), filter.name().as_bytes()].concat(), handle));
        }
        let handle = self.output.write_raw_block(&self.properties.encode())?;
        metaindex.push((PROPERTIES_KEY.as_bytes().to_vec(), handle));

        let footer = Footer {
            metaindex: self.output.write_metaindex(&metaindex)?,
            index: self.output.write_block(self.index.finish())?,
        };
        let bytes = self.output.end(&footer)?;
        Ok(TableSummary {
            number: self.properties.number,
            bytes,
            properties: self.properties,
            smallest: InternalKey::from_bytes(&self.smallest).unwrap_or_default(),
            largest: InternalKey::from_bytes(self.data.last_key()).unwrap_or_default(),
        })
    }

    /// Gives up. The caller removes the file.
    pub(crate) fn abandon(mut self) {
        // The file is rubbish whether or not closing it works.
        let _ = self.output.file.close(Site::TableClose);
    }
}

fn first_filter(settings: &TableSettings, span: FilterSpan) -> Option<FilterBlockBuilder> {
    let mut filter = FilterBlockBuilder::new(settings.filter.clone()?, span);
    filter.start_block(0);
    Some(filter)
}

/// The file, and what is on its way there.
struct Output {
    file: Box<dyn WritableFile>,
    compression: Compression,
    /// Made for the first block, unless there is no compression.
    codec: Option<Box<dyn Compressor>>,
    /// Blocks not yet appended.
    piece: Vec<u8>,
    /// Where a block is compressed: never shrinks, so that it is cleared only once.
    packed: Vec<u8>,
    /// Of the next block in the file.
    offset: u64,
}

impl Output {
    /// Writes a block, compressed if that is worth it.
    fn write_block(&mut self, raw: &[u8]) -> Result<BlockHandle> {
        if self.codec.is_none() {
            self.codec = self.compression.compressor()?;
        }
        let packed = self.codec.as_mut().and_then(|codec| {
            let len = compress::compress_if_worth(&mut **codec, raw, &mut self.packed)?;
            Some((len, codec.id()))
        });
        match packed {
            Some((len, id)) => {
                self.piece.extend_from_slice(&self.packed[..len]);
                self.seal_block(len, id)
            }
            None => self.write_raw_block(raw),
        }
    }

    fn write_raw_block(&mut self, raw: &[u8]) -> Result<BlockHandle> {
        self.piece.extend_from_slice(raw);
        self.seal_block(raw.len(), compress::RAW)
    }

    /// Puts the trailer behind the last `len` bytes.
    fn seal_block(&mut self, len: usize, id: u8) -> Result<BlockHandle> {
        self.piece.push(id);
        let covered = &self.piece[self.piece.len() - len - 1..];
        let crc = checksum::mask(checksum::crc32c(covered));
        put_fixed32(&mut self.piece, crc);
        let handle = BlockHandle { offset: self.offset, size: len as u64 };
        self.offset += (len + super::TRAILER_BYTES) as u64;
        if self.piece.len() >= PIECE_BYTES {
            let whole_pieces = self.piece.len() / PIECE_BYTES * PIECE_BYTES;
            self.append(whole_pieces)?;
        }
        Ok(handle)
    }

    fn write_metaindex(&mut self, entries: &[(Vec<u8>, BlockHandle)]) -> Result<BlockHandle> {
        debug_assert!(entries.is_sorted_by(|(a, _), (b, _)| a < b));
        let mut block = BlockBuilder::new(1);
        for (key, handle) in entries {
            let mut value = Vec::new();
            handle.encode(&mut value);
            block.add(key, &value);
        }
        self.write_block(block.finish())
    }

    /// Appends the first so many bytes of what is kept.
    fn append(&mut self, bytes: usize) -> Result<()> {
        self.file.append(&self.piece[..bytes], Site::TableAppend)?;
        self.piece.drain(..bytes);
        Ok(())
    }

    /// Footer, last piece, sync, close; returns the file's size.
    fn end(&mut self, footer: &Footer) -> Result<u64> {
        footer.encode(&mut self.piece);
        self.append(self.piece.len())?;
        self.file.sync(Site::TableSync)?;
        self.file.close(Site::TableClose)?;
        Ok(self.offset + crate::format::table::handle::FOOTER_BYTES as u64)
    }
}
