//! Specs.

use std::sync::Arc;

use prost::Message;

use super::{Checked, all, each, job_bytes, job_id, required};
use crate::grpc::wire;
use crate::job::invalid::{Invalid, at_most};
use crate::job::key::TaggedKey;
use crate::job::limits::RANGES_MAX;
use crate::job::name::{DbId, ObjectName};
use crate::job::spec::{
    Area, Border, Compression, CutRule, InputTable, JobSpec, KeyPart, KeyRange, Layout, SeqRange,
    Slot, Span,
};

impl JobSpec {
    /// As it travels, to be kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        wire_spec(self).encode_to_vec()
    }

    /// Out of [such bytes](Self::to_bytes).
    ///
    /// # Errors
    ///
    /// [`Invalid`] if they are not those of a spec that [makes sense](Self::check).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Invalid> {
        let not_one = |_| Invalid::new("spec", "bytes that are none");
        spec(wire::JobSpec::decode(bytes).map_err(not_one)?).map(Arc::unwrap_or_clone)
    }
}

/// Whole, and [checked](JobSpec::check).
pub(super) fn spec(spec: wire::JobSpec) -> Checked<Arc<JobSpec>> {
    at_most("ranges below", spec.below.iter().map(|slot| slot.ranges.len()).sum(), RANGES_MAX)?;
    let below = |slot: wire::SlotBelow| all(slot.ranges);
    let spec = JobSpec {
        job: job_id(&spec.job)?,
        db: DbId::new(&spec.db)?,
        epoch: spec.epoch,
        features: spec.features,
        inputs: each(spec.inputs)?,
        target: required("target", spec.target)?.try_into()?,
        part: KeyPart { from: spec.part_from, until: spec.part_until },
        snapshots: spec.snapshots,
        below: spec.below.into_iter().map(below).collect(),
        cut: required("cut rule", spec.cut)?.try_into()?,
        layout: required("layout", spec.layout)?.try_into()?,
        place: ObjectName::new(&spec.place)?,
    };
    spec.check()?;
    Ok(Arc::new(spec))
}

pub(super) fn wire_spec(spec: &JobSpec) -> wire::JobSpec {
    let spec = spec.clone();
    wire::JobSpec {
        job: job_bytes(spec.job),
        db: spec.db.to_string(),
        epoch: spec.epoch,
        features: spec.features,
        inputs: all(spec.inputs),
        target: Some(spec.target.into()),
        part_from: spec.part.from,
        part_until: spec.part.until,
        snapshots: spec.snapshots,
        below: spec.below.into_iter().map(|slot| wire::SlotBelow { ranges: all(slot) }).collect(),
        cut: Some(spec.cut.into()),
        layout: Some(spec.layout.into()),
        place: spec.place.to_string(),
    }
}

impl TryFrom<wire::InputTable> for InputTable {
    type Error = Invalid;

    fn try_from(input: wire::InputTable) -> Checked<Self> {
        Ok(InputTable {
            name: ObjectName::new(&input.name)?,
            number: input.number,
            bytes: input.bytes,
            crc32c: input.crc32c,
            slot: required("input's slot", input.slot)?.try_into()?,
            span: required("input's span", input.span)?.try_into()?,
            seqnos: required("input's sequence numbers", input.seqnos)?.try_into()?,
            entries: input.entries,
            live: each(input.live)?,
        })
    }
}

impl From<InputTable> for wire::InputTable {
    fn from(input: InputTable) -> Self {
        wire::InputTable {
            name: input.name.to_string(),
            number: input.number,
            bytes: input.bytes,
            crc32c: input.crc32c,
            slot: Some(input.slot.into()),
            span: Some(input.span.into()),
            seqnos: Some(input.seqnos.into()),
            entries: input.entries,
            live: all(input.live),
        }
    }
}

impl TryFrom<wire::Slot> for Slot {
    type Error = Invalid;

    fn try_from(slot: wire::Slot) -> Checked<Self> {
        let level = slot.level.try_into().map_err(|_| Invalid::new("level", "too large"))?;
        Ok(Slot { level, area: if slot.sst_log { Area::SstLog } else { Area::Tree } })
    }
}

impl From<Slot> for wire::Slot {
    fn from(slot: Slot) -> Self {
        wire::Slot { level: slot.level.into(), sst_log: slot.area == Area::SstLog }
    }
}

impl TryFrom<wire::Span> for Span {
    type Error = Invalid;

    fn try_from(span: wire::Span) -> Checked<Self> {
        let (smallest, largest) = (span.smallest, span.largest);
        Ok(Span {
            smallest: TaggedKey::from_bytes(smallest)?,
            largest: TaggedKey::from_bytes(largest)?,
        })
    }
}

impl From<Span> for wire::Span {
    fn from(span: Span) -> Self {
        wire::Span {
            smallest: span.smallest.as_bytes().to_vec(),
            largest: span.largest.as_bytes().to_vec(),
        }
    }
}

impl TryFrom<wire::SeqRange> for SeqRange {
    type Error = Invalid;

    fn try_from(range: wire::SeqRange) -> Checked<Self> {
        let range = SeqRange { smallest: range.smallest, largest: range.largest };
        range.check("sequence numbers")?;
        Ok(range)
    }
}

impl From<SeqRange> for wire::SeqRange {
    fn from(SeqRange { smallest, largest }: SeqRange) -> Self {
        wire::SeqRange { smallest, largest }
    }
}

impl From<wire::KeyRange> for KeyRange {
    fn from(wire::KeyRange { low, high }: wire::KeyRange) -> Self {
        KeyRange { low, high }
    }
}

impl From<KeyRange> for wire::KeyRange {
    fn from(KeyRange { low, high }: KeyRange) -> Self {
        wire::KeyRange { low, high }
    }
}

impl TryFrom<wire::CutRule> for CutRule {
    type Error = Invalid;

    fn try_from(rule: wire::CutRule) -> Checked<Self> {
        Ok(CutRule {
            table_bytes: rule.table_bytes,
            grandparent_bytes: rule.grandparent_bytes,
            borders: each(rule.borders)?,
        })
    }
}

impl From<CutRule> for wire::CutRule {
    fn from(rule: CutRule) -> Self {
        wire::CutRule {
            table_bytes: rule.table_bytes,
            grandparent_bytes: rule.grandparent_bytes,
            borders: all(rule.borders),
        }
    }
}

impl TryFrom<wire::Border> for Border {
    type Error = Invalid;

    fn try_from(border: wire::Border) -> Checked<Self> {
        Ok(Border { largest: TaggedKey::from_bytes(border.largest)?, bytes: border.bytes })
    }
}

impl From<Border> for wire::Border {
    fn from(border: Border) -> Self {
        wire::Border { largest: border.largest.as_bytes().to_vec(), bytes: border.bytes }
    }
}

impl TryFrom<wire::Layout> for Layout {
    type Error = Invalid;

    fn try_from(layout: wire::Layout) -> Checked<Self> {
        use wire::layout::Compression as Wire;
        let compression = match layout.compression() {
            Wire::None => Compression::None,
            Wire::Snappy => Compression::Snappy,
            Wire::Zstd => Compression::Zstd(layout.compression_level),
            Wire::Unspecified => {
                return Err(Invalid::new("compression", "not one that is known here"));
            }
        };
        Ok(Layout {
            comparator: layout.comparator,
            filter: layout.filter.map(|name| (name, layout.filter_bits)),
            compression,
            block_bytes: layout.block_bytes,
            restart_interval: layout.restart_interval,
            format: layout.format,
        })
    }
}

impl From<Layout> for wire::Layout {
    fn from(layout: Layout) -> Self {
        use wire::layout::Compression as Wire;
        let (compression, compression_level) = match layout.compression {
            Compression::None => (Wire::None, 0),
            Compression::Snappy => (Wire::Snappy, 0),
            Compression::Zstd(level) => (Wire::Zstd, level),
        };
        let (filter, filter_bits) = layout.filter.unzip();
        wire::Layout {
            comparator: layout.comparator,
            filter,
            filter_bits: filter_bits.unwrap_or_default(),
            compression: compression.into(),
            compression_level,
            block_bytes: layout.block_bytes,
            restart_interval: layout.restart_interval,
            format: layout.format,
        }
    }
}
