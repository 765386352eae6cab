//! Records as bytes, and bytes that are none.

use super::*;
use crate::error::ErrorKind;

fn edit() -> Record {
    let job = JobId { epoch: Epoch(2), number: 9 };
    let own = TableId::Own { epoch: Epoch(3), number: 12 };
    let worked = TableId::Worked { job, attempt: Attempt { term: 1, count: 6 }, ordinal: 4 };
    let table = |id| Table { home: 0, id, bytes: 1 << 40, crc32c: 7 };
    Record {
        version: VersionNumber(7),
        kind: Kind::Edit,
        epoch: Epoch(3),
        token: Token(u128::MAX - 1),
        base: VersionNumber(5),
        spans: vec![Span { epoch: Epoch(3), from: 11 }],
        held: vec![job],
        ancestors: Vec::new(),
        tables: vec![(12, table(own)), (13, table(worked))],
        removed: vec![1, u64::MAX],
        payloads: vec![Bytes::from_static(b"one"), Bytes::new()],
    }
}

fn snapshot() -> Record {
    let ancestor = Ancestor {
        root: Root::new("shop/orders").unwrap(),
        version: VersionNumber(3),
        pin: PinName::new("clone").unwrap(),
        token: Token(5),
    };
    let (number, table) = edit().tables[0];
    let tables = vec![(number, Table { home: 1, ..table })];
    let (kind, base, removed) = (Kind::Snapshot, VersionNumber(7), Vec::new());
    Record { kind, base, removed, ancestors: vec![ancestor], tables, ..edit() }
}

fn takeover() -> Record {
    let kind = Kind::Takeover;
    Record { kind, tables: Vec::new(), removed: Vec::new(), payloads: Vec::new(), ..edit() }
}

#[test]
fn records_come_back_as_they_were() {
    for record in [edit(), snapshot(), takeover()] {
        let decoded = Record::decode("v", &record.encode()).unwrap();
        assert_eq!(decoded, record);
    }
}

/// The checksum would catch it all; here it is made right, so that the fields are looked at.
fn with_right_checksum(mut bytes: Vec<u8>) -> Bytes {
    let fields = bytes.len() - 4;
    let crc = crc32c::crc32c(&bytes[..fields]).to_le_bytes();
    bytes[fields..].copy_from_slice(&crc);
    Bytes::from(bytes)
}

#[test]
fn damaged_records_are_told_as_such() {
    for record in [edit(), snapshot(), takeover()] {
        let whole = record.encode();
        for len in 0..whole.len() {
            let error = Record::decode("v/7", &whole.slice(..len)).unwrap_err();
            assert_eq!((error.kind(), error.name()), (ErrorKind::Damaged, "v/7"), "{len} bytes");
        }
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode("v/7", &Bytes::from(bytes)).is_err(), "bit {bit}");
        }
    }
}

/// Whatever the fields say, decoding ends, takes no more memory than the record has, and what comes out goes in again.
#[test]
fn hostile_fields_are_refused_or_mean_themselves() {
    for record in [edit(), snapshot(), takeover()] {
        let whole = record.encode();
        for at in 0..whole.len() - 4 {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.to_vec();
                bytes[at] = byte;
                let bytes = with_right_checksum(bytes);
                match Record::decode("v/7", &bytes) {
                    Ok(decoded) => assert_eq!(decoded.encode(), bytes),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged),
                }
            }
        }
    }
}

#[test]
fn parts_that_a_kind_does_not_have_are_refused() {
    let foreign = snapshot().tables;
    for record in [
        Record { tables: foreign.clone(), ..edit() },
        Record { ancestors: snapshot().ancestors, ..edit() },
        Record { removed: vec![1], ..snapshot() },
        Record { ancestors: Vec::new(), ..snapshot() },
        Record { tables: edit().tables, ..takeover() },
        Record { base: VersionNumber(7), ..edit() },
        Record { base: VersionNumber(5), ..snapshot() },
        Record { base: VersionNumber(0), ..edit() },
        Record { version: VersionNumber(u64::MAX), ..edit() },
    ] {
        assert!(Record::decode("v/7", &record.encode()).is_err(), "{record:?}");
    }
}

#[test]
fn old_spans_make_room() {
    let spans = (0..SPANS_MAX as u64).map(|epoch| Span { epoch: Epoch(epoch), from: 1 }).collect();
    let spans = Record { spans, ..edit() }.spans_for(Epoch(100));
    assert_eq!(spans.len(), SPANS_MAX);
    assert_eq!(spans[0].epoch, Epoch(1));
    assert_eq!(spans[SPANS_MAX - 1], Span { epoch: Epoch(100), from: 0 });
}
