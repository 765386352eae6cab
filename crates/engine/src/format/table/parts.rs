//! What lies behind a table's data: footer, index, filter, properties. Read once, when it is opened.

use crate::base::coding::Reader;
use crate::base::error::{Error, Result};
use crate::env::fs::{Access, RandomAccessFile};
use crate::format::table::FILTER_PREFIX;
use crate::format::table::block::Block;
use crate::format::table::fetch::{self, Verify};
use crate::format::table::filter_block::FilterBlock;
use crate::format::table::gate::Gate;
use crate::format::table::handle::{BlockHandle, FOOTER_BYTES, Footer};
use crate::format::table::index::Index;
use crate::format::table::properties::{PROPERTIES_KEY, TableProperties};
use crate::format::table::reader::ReadSettings;

/// Read in one go when a table is opened: enough for the parts behind the data of usual tables.
const TAIL_BYTES: u64 = 64 << 10;

/// What `open` finds behind the data.
pub(super) struct Parts {
    pub(super) index: Index,
    pub(super) gate: Gate,
    pub(super) properties: Option<TableProperties>,
    pub(super) metaindex_offset: u64,
}

impl Parts {
    pub(super) fn read(file: &dyn RandomAccessFile, settings: &ReadSettings) -> Result<Self> {
        let tail = Tail::read(file)?;
        let footer = tail.footer()?;
        let index = Index::parse(tail.block(footer.index)?, &settings.order, file.len())
            .map_err(|error| error.at(footer.index.offset))?;
        let reader_of = |key: &[u8]| {
            settings.filter.as_ref()?.named(key.strip_prefix(FILTER_PREFIX.as_bytes())?)
        };
        let (mut filter_at, mut properties_at) = (None, None);
        Block::new(tail.block(footer.metaindex)?)
            .and_then(|metaindex| {
                metaindex.for_each(|key, value| {
                    let handle = BlockHandle::decode(&mut Reader::new(value));
                    if let Some(filter) = reader_of(key) {
                        filter_at = handle.map(|at| (filter, at));
                    } else if key == PROPERTIES_KEY.as_bytes() {
                        properties_at = handle;
                    }
                    Ok(())
                })
            })
            .map_err(|error| error.at(footer.metaindex.offset))?;
        let filter = match filter_at {
            Some((filter, at)) => FilterBlock::parse(filter, tail.block(at)?),
            None => None,
        };
        let properties = match properties_at {
            Some(at) => Some(
                TableProperties::decode(&tail.block(at)?).map_err(|error| error.at(at.offset))?,
            ),
            None => None,
        };
        let metaindex_offset = footer.metaindex.offset;
        let gate = Gate::new(filter, metaindex_offset);
        Ok(Parts { index, gate, properties, metaindex_offset })
    }
}

/// The end of a file, and the way to the rest of it.
struct Tail<'a> {
    file: &'a dyn RandomAccessFile,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Tail<'a> {
    fn read(file: &'a dyn RandomAccessFile) -> Result<Self> {
        let start = file.len().saturating_sub(TAIL_BYTES);
        let mut bytes = vec![0; (file.len() - start) as usize];
        let read = file.read_for(&mut bytes, start, Access::Open)?;
        if read < bytes.len() {
            let message =
                format!("file has {} bytes, expected {}", start + read as u64, file.len());
            return Err(Error::corruption(message));
        }
        Ok(Tail { file, start, bytes })
    }

    fn footer(&self) -> Result<Footer> {
        let start = self.bytes.len().saturating_sub(FOOTER_BYTES);
        let offset = self.file.len().saturating_sub(FOOTER_BYTES as u64);
        let decoded = Footer::decode(self.bytes.get(start..).unwrap_or_default());
        let checked = decoded.and_then(|footer| {
            let is_before = |handle: BlockHandle| handle.end_within(offset).is_some();
            if is_before(footer.metaindex) && is_before(footer.index) {
                Ok(footer)
            } else {
                Err(Error::corruption("block handle in footer does not point before it"))
            }
        });
        checked.map_err(|error| error.at(offset))
    }

    fn block(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        if let Some(stored) = self.stored(handle) {
            match fetch::unpack(stored, Verify::Yes, &mut out) {
                Err(_) if self.file.drop_copy(handle.offset, stored.len()) => {}
                unpacked => return unpacked.map(|()| out).map_err(|error| error.at(handle.offset)),
            }
        }
        fetch::fetch(self.file, handle, (Access::Open, Verify::Yes), &mut out)?;
        Ok(out)
    }

    fn stored(&self, handle: BlockHandle) -> Option<&[u8]> {
        let end = handle.end_within(self.file.len())?;
        let from = usize::try_from(handle.offset.checked_sub(self.start)?).ok()?;
        let to = usize::try_from(end.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..to)
    }
}
