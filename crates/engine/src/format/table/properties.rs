//! What a table says about itself, beyond LevelDB: a block of its own, named in the metaindex,
//! which LevelDB passes over. Written by the builder; tables that LevelDB wrote have none.
//!
//! **Layout.** Varints: version, then the fields of [`TableProperties`] in order. Later versions
//! may only append fields, so what follows the last one known is passed over. Version 1 ends before
//! the file number.

use crate::base::coding::{Reader, put_varint64};
use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::format::filename::FileNumber;

/// The metaindex key. Sorts behind every `filter.`, as the metaindex wants it.
pub(crate) const PROPERTIES_KEY: &str = "siltstone.properties";
const VERSION: u64 = 2;
/// The first version that tells the file number.
const VERSION_WITH_NUMBER: u64 = 2;

/// Counts and bounds of a table's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableProperties {
    pub(crate) entries: u64,
    /// How many of the entries are deletions.
    pub(crate) deletions: u64,
    /// Bytes of all internal keys, before blocks shorten them.
    pub(crate) raw_key_bytes: u64,
    pub(crate) raw_value_bytes: u64,
    pub(crate) data_blocks: u64,
    /// Of an empty table, both are zero.
    pub(crate) smallest_seqno: SeqNo,
    pub(crate) largest_seqno: SeqNo,
    /// The number in the name of the file that this was written to; zero if that is not told.
    pub(crate) number: FileNumber,
}

impl TableProperties {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint64(&mut out, VERSION);
        for field in [
            self.entries,
            self.deletions,
            self.raw_key_bytes,
            self.raw_value_bytes,
            self.data_blocks,
            self.smallest_seqno.0,
            self.largest_seqno.0,
            self.number.0,
        ] {
            put_varint64(&mut out, field);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let mut field = || reader.varint64().ok_or_else(|| Error::corruption("bad properties"));
        let version = field()?;
        if version == 0 {
            return Err(Error::corruption("properties of version 0"));
        }
        Ok(TableProperties {
            entries: field()?,
            deletions: field()?,
            raw_key_bytes: field()?,
            raw_value_bytes: field()?,
            data_blocks: field()?,
            smallest_seqno: SeqNo(field()?),
            largest_seqno: SeqNo(field()?),
            number: FileNumber(if version >= VERSION_WITH_NUMBER { field()? } else { 0 }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: TableProperties = TableProperties {
        entries: 1000,
        deletions: 10,
        raw_key_bytes: 24_000,
        raw_value_bytes: u64::MAX,
        data_blocks: 31,
        smallest_seqno: SeqNo(1),
        largest_seqno: SeqNo(1 << 50),
        number: FileNumber(300),
    };

    #[test]
    fn properties_round_trip_and_later_fields_are_passed_over() {
        let mut bytes = SAMPLE.encode();
        assert_eq!(TableProperties::decode(&bytes).unwrap(), SAMPLE);
        bytes[0] = VERSION as u8 + 1;
        bytes.extend_from_slice(b"\x01\x02");
        assert_eq!(TableProperties::decode(&bytes).unwrap(), SAMPLE);
    }

    #[test]
    fn properties_of_version_1_name_no_file() {
        let sample = TableProperties { number: FileNumber(0), ..SAMPLE };
        let mut bytes = sample.encode();
        bytes[0] = 1;
        bytes.pop();
        assert_eq!(TableProperties::decode(&bytes).unwrap(), sample);
    }

    #[test]
    fn cut_properties_are_corruption() {
        let bytes = SAMPLE.encode();
        for cut in 0..bytes.len() {
            assert!(TableProperties::decode(&bytes[..cut]).unwrap_err().is_corruption());
        }
        assert!(TableProperties::decode(&[0; 9]).is_err());
    }
}
