//! Jobs and tables as the engine has them and as they travel, both ways. What cannot be told the other way is an error, by
//! which a job stays at home, or an attempt fails.

use std::fmt::Display;

use siltstone::service::{
    FilterLayout, JobInput, JobSpec, JobTable, KeyPart, KeyRange, KeySpan, TableCut, TableLayout,
};
use siltstone::{Area, Compression, FileNumber, Level, SeqNo, Slot};
use siltstone_remote as remote;
use siltstone_remote::{
    Border, CutRule, DbId, InputTable, JobId, Layout, ObjectName, OutputTable, SeqRange, Span,
    TaggedKey,
};

use crate::tables::{ObjectRef, Tables};

/// LevelDB's tables, with our properties.
pub(crate) const FORMAT: u32 = 0;

/// Why something cannot be told, for people.
pub(crate) type Told<T> = Result<T, String>;

/// What a spec has that a job does not say.
pub(crate) struct Ticket {
    pub(crate) job: JobId,
    pub(crate) db: DbId,
    pub(crate) epoch: u64,
    pub(crate) place: ObjectName,
}

/// The engine's spec, to travel. Fails if a table is not in the bucket.
pub(crate) fn to_remote(
    spec: &JobSpec,
    ticket: Ticket,
    tables: &dyn Tables,
) -> Told<remote::JobSpec> {
    let input = |input: &JobInput| {
        let missing = || format!("table {} is not in the bucket", input.number);
        input_to_remote(input, tables.object_of(input.number.0).ok_or_else(missing)?)
    };
    let range =
        |range: &KeyRange| remote::KeyRange { low: range.low.clone(), high: range.high.clone() };
    let spec = remote::JobSpec {
        job: ticket.job,
        db: ticket.db,
        epoch: ticket.epoch,
        features: Vec::new(),
        inputs: spec.inputs.iter().map(input).collect::<Told<_>>()?,
        target: slot_to_remote(spec.target),
        part: remote::KeyPart { from: spec.part.from.clone(), until: spec.part.until.clone() },
        snapshots: spec.snapshots.iter().map(|snapshot| snapshot.0).collect(),
        below: spec.below.iter().map(|slot| slot.iter().map(range).collect()).collect(),
        cut: cut_to_remote(&spec.cut)?,
        layout: layout_to_remote(&spec.layout)?,
        place: ticket.place,
    };
    spec.check().map_err(told)?;
    Ok(spec)
}

fn input_to_remote(input: &JobInput, object: ObjectRef) -> Told<InputTable> {
    if object.bytes != input.bytes {
        return Err(format!("table {} has another size in the bucket", input.number));
    }
    Ok(InputTable {
        name: object.name,
        number: input.number.0,
        bytes: input.bytes,
        crc32c: object.crc32c,
        slot: slot_to_remote(input.slot),
        span: span_to_remote(&input.span)?,
        seqnos: SeqRange { smallest: 0, largest: input.largest_seqno.0 },
        entries: input.entries,
        live: input.live.iter().map(span_to_remote).collect::<Told<_>>()?,
    })
}

fn slot_to_remote(slot: Slot) -> remote::Slot {
    let area = match slot.area {
        Area::Tree => remote::Area::Tree,
        Area::SstLog => remote::Area::SstLog,
    };
    remote::Slot { level: slot.level.number(), area }
}

fn span_to_remote(span: &KeySpan) -> Told<Span> {
    Ok(Span { smallest: key(&span.smallest)?, largest: key(&span.largest)? })
}

fn key(bytes: &[u8]) -> Told<TaggedKey> {
    TaggedKey::from_bytes(bytes.to_vec()).map_err(told)
}

fn cut_to_remote(cut: &TableCut) -> Told<CutRule> {
    let border =
        |(largest, bytes): &(Vec<u8>, u64)| Ok(Border { largest: key(largest)?, bytes: *bytes });
    Ok(CutRule {
        table_bytes: cut.table_bytes,
        grandparent_bytes: cut.grandparent_bytes,
        borders: cut.borders.iter().map(border).collect::<Told<_>>()?,
    })
}

fn layout_to_remote(layout: &TableLayout) -> Told<Layout> {
    let compression = match layout.compression {
        Compression::None => remote::Compression::None,
        Compression::Snappy => remote::Compression::Snappy,
        Compression::Zstd(level) => remote::Compression::Zstd(level),
        _ => return Err("a compression that no worker knows".to_owned()),
    };
    let filter = layout.filter.as_ref();
    Ok(Layout {
        comparator: layout.comparator.clone(),
        filter: filter.map(|filter| (filter.name.clone(), filter.bits_per_key)),
        compression,
        block_bytes: u32::try_from(layout.block_bytes).map_err(told)?,
        restart_interval: u32::try_from(layout.restart_interval).map_err(told)?,
        format: FORMAT,
    })
}

/// A spec that has travelled, as the engine runs it. The engine looks whether it makes sense.
pub(crate) fn to_engine(spec: &remote::JobSpec) -> Told<JobSpec> {
    let range =
        |range: &remote::KeyRange| KeyRange { low: range.low.clone(), high: range.high.clone() };
    let border = |border: &Border| (border.largest.as_bytes().to_vec(), border.bytes);
    Ok(JobSpec {
        number: FileNumber(0),
        inputs: spec.inputs.iter().map(input_to_engine).collect::<Told<_>>()?,
        target: slot_to_engine(spec.target)?,
        part: KeyPart { from: spec.part.from.clone(), until: spec.part.until.clone() },
        snapshots: spec.snapshots.iter().copied().map(SeqNo).collect(),
        below: spec.below.iter().map(|slot| slot.iter().map(range).collect()).collect(),
        cut: TableCut {
            table_bytes: spec.cut.table_bytes,
            grandparent_bytes: spec.cut.grandparent_bytes,
            borders: spec.cut.borders.iter().map(border).collect(),
        },
        layout: layout_to_engine(&spec.layout)?,
    })
}

fn input_to_engine(input: &InputTable) -> Told<JobInput> {
    Ok(JobInput {
        number: FileNumber(input.number),
        bytes: input.bytes,
        slot: slot_to_engine(input.slot)?,
        span: span_to_engine(&input.span),
        live: input.live.iter().map(span_to_engine).collect(),
        entries: input.entries,
        largest_seqno: SeqNo(input.seqnos.largest),
    })
}

fn slot_to_engine(slot: remote::Slot) -> Told<Slot> {
    let area = match slot.area {
        remote::Area::Tree => Area::Tree,
        remote::Area::SstLog => Area::SstLog,
    };
    let level =
        Level::new(slot.level).ok_or_else(|| format!("there is no level {}", slot.level))?;
    Ok(Slot { level, area })
}

fn span_to_engine(span: &Span) -> KeySpan {
    KeySpan {
        smallest: span.smallest.as_bytes().to_vec(),
        largest: span.largest.as_bytes().to_vec(),
    }
}

fn layout_to_engine(layout: &Layout) -> Told<TableLayout> {
    if layout.format != FORMAT {
        return Err(format!("a table format {} that is not known here", layout.format));
    }
    let filter = |(name, bits_per_key): &(String, u32)| FilterLayout {
        name: name.clone(),
        bits_per_key: *bits_per_key,
    };
    Ok(TableLayout {
        comparator: layout.comparator.clone(),
        filter: layout.filter.as_ref().map(filter),
        compression: match layout.compression {
            remote::Compression::None => Compression::None,
            remote::Compression::Snappy => Compression::Snappy,
            remote::Compression::Zstd(level) => Compression::Zstd(level),
        },
        block_bytes: u64::from(layout.block_bytes),
        restart_interval: u64::from(layout.restart_interval),
    })
}

/// A table that a worker has made and uploaded.
pub(crate) fn output(name: ObjectName, crc32c: u32, table: &JobTable) -> Told<OutputTable> {
    Ok(OutputTable {
        name,
        bytes: table.bytes,
        crc32c,
        smallest: key(&table.span.smallest)?,
        largest: key(&table.span.largest)?,
        seqnos: SeqRange { smallest: table.smallest_seqno.0, largest: table.largest_seqno.0 },
        entries: table.entries,
        deletions: table.deletions,
        index: None,
        filter: None,
    })
}

/// The same, as the database will have it.
pub(crate) fn table(output: &OutputTable) -> JobTable {
    JobTable {
        bytes: output.bytes,
        span: KeySpan {
            smallest: output.smallest.as_bytes().to_vec(),
            largest: output.largest.as_bytes().to_vec(),
        },
        entries: output.entries,
        deletions: output.deletions,
        smallest_seqno: SeqNo(output.seqnos.smallest),
        largest_seqno: SeqNo(output.seqnos.largest),
    }
}

fn told(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    struct All;

    impl Tables for All {
        fn object_of(&self, number: u64) -> Option<ObjectRef> {
            let name = ObjectName::new(&format!("db/s/{number}.ldb")).unwrap();
            (number < 100).then_some(ObjectRef { name, bytes: 1_000 + number, crc32c: Some(5) })
        }

        fn adopt(&self, _: u64, _: &OutputTable, _: &bytes::Bytes) -> siltstone::Result<()> {
            unreachable!("nothing is adopted here")
        }
    }

    fn internal(user: &str, seqno: u64) -> Vec<u8> {
        [user.as_bytes(), &(seqno << 8 | 1).to_le_bytes()].concat()
    }

    fn span(low: &str, high: &str) -> KeySpan {
        KeySpan { smallest: internal(low, 9), largest: internal(high, 3) }
    }

    fn spec() -> JobSpec {
        let slot = |level, area| Slot { level: Level::new(level).unwrap(), area };
        let input = |number, slot, live| JobInput {
            number: FileNumber(number),
            bytes: 1_000 + number,
            slot,
            span: span("c", "x"),
            live,
            entries: 7 * number,
            largest_seqno: SeqNo(40 + number),
        };
        JobSpec {
            number: FileNumber(0),
            inputs: vec![
                input(8, slot(1, Area::SstLog), vec![span("c", "d"), span("f", "x")]),
                input(3, slot(2, Area::Tree), Vec::new()),
            ],
            target: slot(2, Area::Tree),
            part: KeyPart { from: Some(b"d".to_vec()), until: None },
            snapshots: vec![SeqNo(4), SeqNo(50)],
            below: vec![vec![KeyRange { low: b"a".to_vec(), high: b"b".to_vec() }], Vec::new()],
            cut: TableCut {
                table_bytes: 10,
                grandparent_bytes: 20,
                borders: vec![(internal("k", 3), 5)],
            },
            layout: TableLayout {
                comparator: "leveldb.BytewiseComparator".into(),
                filter: Some(FilterLayout { name: "f".into(), bits_per_key: 7 }),
                compression: Compression::Zstd(-3),
                block_bytes: 4_096,
                restart_interval: 16,
            },
        }
    }

    fn ticket() -> Ticket {
        Ticket {
            job: JobId::new(1, 2),
            db: DbId::new("db").unwrap(),
            epoch: 3,
            place: ObjectName::new("db/jobs/3-5").unwrap(),
        }
    }

    pub(crate) fn remote_spec() -> remote::JobSpec {
        to_remote(&spec(), ticket(), &All).unwrap()
    }

    pub(crate) fn job_table() -> JobTable {
        JobTable {
            bytes: 10,
            span: span("a", "b"),
            entries: 5,
            deletions: 2,
            smallest_seqno: SeqNo(3),
            largest_seqno: SeqNo(9),
        }
    }

    #[test]
    fn specs_come_back_as_they_went() {
        let there = remote_spec();
        assert_eq!(there.inputs[0].name.as_str(), "db/s/8.ldb");
        assert_eq!(to_engine(&there).unwrap(), spec());
    }

    #[test]
    fn what_cannot_travel_stays_at_home() {
        let stays = |change: &dyn Fn(&mut JobSpec)| {
            let mut spec = spec();
            change(&mut spec);
            to_remote(&spec, ticket(), &All).unwrap_err()
        };
        assert_eq!(
            stays(&|spec| spec.inputs[0].number = FileNumber(100)),
            "table 000100 is not in the bucket".replace("000100", &FileNumber(100).to_string())
        );
        assert!(stays(&|spec| spec.inputs[0].bytes += 1).contains("another size"));
        assert!(stays(&|spec| spec.layout.block_bytes = 1 << 40).contains("out of range"));
        assert!(stays(&|spec| spec.inputs[0].span.largest.truncate(3)).contains("internal key"));
        assert!(stays(&|spec| spec.snapshots.clear()).contains("snapshots"));
        let mut there = remote_spec();
        there.layout.format = 1;
        assert!(to_engine(&there).unwrap_err().contains("format 1"));
        let mut there = remote_spec();
        there.target.level = 7;
        assert!(to_engine(&there).is_err());
    }

    #[test]
    fn tables_come_back_as_they_went() {
        let made = job_table();
        let name = ObjectName::new("db/jobs/3-5/1-1/000000.ldb").unwrap();
        assert_eq!(table(&output(name, 7, &made).unwrap()), made);
    }
}
