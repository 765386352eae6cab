//! Tests of version edits: their bytes, and what is wrong with broken ones.

use super::*;
use crate::base::key::ValueKind;

fn level(number: u8) -> Level {
    Level::new(number).unwrap()
}

fn key(user: &str, seqno: u64) -> InternalKey {
    InternalKey::new(user.as_bytes(), SeqNo(seqno), ValueKind::Value)
}

fn table(number: u64, smallest: &str, largest: &str) -> NewTable {
    NewTable {
        number: FileNumber(number),
        size: 1 << 40,
        smallest: key(smallest, 1 << 50),
        largest: key(largest, 7),
        live: None,
        hotness: 0,
    }
}

fn full() -> VersionEdit {
    VersionEdit {
        comparator: Some("foo".into()),
        log_number: Some(FileNumber(200)),
        prev_log_number: Some(FileNumber(0)),
        next_file: Some(FileNumber(1 << 50)),
        last_seqno: Some(SEQNO_MAX),
        compact_pointers: vec![(level(0), key("x", 900)), (level(5), key("", 901))],
        removed: vec![(Slot::L0, FileNumber(9)), (Slot::tree(level(4)), FileNumber(1 << 40))],
        added: vec![
            (Slot::tree(level(3)), table(300, "foo", "zoo")),
            (Slot::L0, table(u64::MAX, "", "zoo")),
        ],
    }
}

fn encoded(edit: &VersionEdit) -> Vec<u8> {
    let mut bytes = Vec::new();
    edit.encode(&mut bytes).unwrap();
    bytes
}

fn message(bytes: &[u8]) -> String {
    VersionEdit::decode(bytes).unwrap_err().to_string()
}

#[test]
fn golden_bytes() {
    let edit = VersionEdit {
        comparator: Some("cmp".into()),
        log_number: Some(FileNumber(6)),
        prev_log_number: Some(FileNumber(0)),
        next_file: Some(FileNumber(300)),
        last_seqno: Some(SeqNo(5)),
        compact_pointers: vec![(level(1), key("c", 5))],
        removed: vec![
            (Slot::tree(level(1)), FileNumber(2)),
            (Slot::L0, FileNumber(8)),
            (Slot::L0, FileNumber(5)),
            (Slot::L0, FileNumber(8)),
        ],
        added: vec![(
            Slot::tree(level(2)),
            NewTable {
                number: FileNumber(9),
                size: 144,
                smallest: key("a", 4),
                largest: key("c", 5),
                live: None,
                hotness: 0,
            },
        )],
    };
    let expected: [&[u8]; 10] = [
        b"\x01\x03cmp",
        b"\x02\x06",
        b"\x09\x00",
        b"\x03\xac\x02",
        b"\x04\x05",
        b"\x05\x01\x09c\x01\x05\0\0\0\0\0\0",
        b"\x06\x00\x05",
        b"\x06\x00\x08",
        b"\x06\x01\x02",
        b"\x07\x02\x09\x90\x01\x09a\x01\x04\0\0\0\0\0\0\x09c\x01\x05\0\0\0\0\0\0",
    ];
    assert_eq!(encoded(&edit), expected.concat());
}

#[test]
fn edits_round_trip() {
    for edit in [VersionEdit::default(), full()] {
        assert_eq!(VersionEdit::decode(&encoded(&edit)).unwrap(), edit);
    }
}

/// Every cut is refused or is itself a shorter edit; no cut reads as the whole.
#[test]
fn cut_edits_are_refused() {
    let bytes = encoded(&full());
    let mut whole = 0;
    for len in 0..bytes.len() {
        match VersionEdit::decode(&bytes[..len]) {
            Ok(edit) => {
                whole += 1;
                assert_ne!(edit, full());
            }
            Err(error) => assert!(error.to_string().starts_with("Corruption: VersionEdit: ")),
        }
    }
    assert_eq!(whole, 11, "one cut before each of the eleven fields reads");
}

#[test]
fn wrong_fields_are_named() {
    for (bytes, what) in [
        (&b"\x08\x01"[..], "unknown tag"),
        (b"\x00", "unknown tag"),
        (b"\x0a", "unknown tag"),
        (b"\x80", "invalid tag"),
        (b"\x02\x06\xff", "invalid tag"),
        (b"\x01\x04cmp", "comparator name"),
        (b"\x01\x03cm\xff", "comparator name"),
        (b"\x02\x80", "log number"),
        (b"\x09", "previous log number"),
        (b"\x03", "next file number"),
        (b"\x04\xff", "last sequence number"),
        // One more than 56 bits hold.
        (b"\x04\x80\x80\x80\x80\x80\x80\x80\x80\x01", "last sequence number"),
        (b"\x05\x07\x08\0\0\0\0\0\0\0\0", "compaction pointer"),
        (b"\x05\x01\x07\0\0\0\0\0\0\0", "compaction pointer"),
        (b"\x06\x07\x01", "deleted file"),
        (b"\x06\x80\x02\x01", "deleted file"),
        (b"\x07\x07\x01\x01", "new-file entry"),
        (b"\x07\x01\x01\x01\x07\0\0\0\0\0\0\0", "new-file entry"),
        (b"\x28\x00\x01", "file deleted from a log"),
        (b"\x28\x06\x01", "file deleted from a log"),
        (b"\x28\x01", "file deleted from a log"),
        (b"\x29\x06\x01\x09\x09", "new-log-file entry"),
        (b"\x29\x01\x01\x09\x09\x00", "new-log-file entry"),
        // More of it counts than there is.
        (
            b"\x29\x01\x01\x08\x09\x01\x08\x01\0\0\0\0\0\0\0\x08\x01\0\0\0\0\0\0\0",
            "new-log-file entry",
        ),
        // As many parts as nobody has memory for.
        (b"\x29\x01\x01\x09\x09\xff\xff\xff\xff\x0f", "new-log-file entry"),
    ] {
        assert_eq!(message(bytes), format!("Corruption: VersionEdit: {what}"), "{bytes:x?}");
    }
}

fn log(number: u8) -> Slot {
    Slot { level: level(number), area: Area::SstLog }
}

fn span(smallest: &str, largest: &str) -> Span {
    Span { smallest: key(smallest, 5), largest: key(largest, 4) }
}

/// A table of a hundred bytes of which two parts count.
fn in_part() -> NewTable {
    let parts = vec![span("b", "d"), span("x", "y")];
    NewTable {
        number: FileNumber(3),
        size: 100,
        smallest: key("b", 5),
        largest: key("y", 4),
        live: Some(Live { bytes: 30, parts }),
        hotness: 0,
    }
}

#[test]
fn golden_bytes_of_sst_logs() {
    let edit = VersionEdit {
        removed: vec![(log(2), FileNumber(3)), (Slot::L0, FileNumber(7))],
        added: vec![(log(1), NewTable { size: 9, ..table(4, "a", "c") }), (log(5), in_part())],
        ..Default::default()
    };
    let expected: [&[u8]; 8] = [
        b"\x06\x00\x07",
        b"\x28\x02\x03",
        b"\x29\x01\x04\x09\x09\x01\x09a\x01\0\0\0\0\0\0\x04",
        b"\x09c\x01\x07\0\0\0\0\0\0",
        b"\x29\x05\x03\x64\x1e\x02",
        b"\x09b\x01\x05\0\0\0\0\0\0\x09d\x01\x04\0\0\0\0\0\0",
        b"\x09x\x01\x05\0\0\0\0\0\0",
        b"\x09y\x01\x04\0\0\0\0\0\0",
    ];
    assert_eq!(encoded(&edit), expected.concat());
    let again = VersionEdit::decode(&encoded(&edit)).unwrap();
    assert_eq!(again.added, edit.added);
    assert_eq!(again.removed, [(Slot::L0, FileNumber(7)), (log(2), FileNumber(3))]);
    let text = VersionEdit { added: vec![(log(5), in_part())], ..Default::default() }.to_string();
    assert_eq!(
        text,
        "VersionEdit {\n  AddFile: L5-log 3 100 'b' @ 5 : 1 .. 'y' @ 4 : 1\n    live: 30 bytes, \
         'b' @ 5 : 1 .. 'd' @ 4 : 1, 'x' @ 5 : 1 .. 'y' @ 4 : 1\n}"
    );
}

/// One part, narrower than the table, is not taken for the whole.
#[test]
fn a_table_cut_at_one_end_stays_cut() {
    let live = Some(Live { bytes: 60, parts: vec![span("b", "d")] });
    let cut = NewTable { smallest: key("b", 5), largest: key("d", 4), live, ..in_part() };
    let edit = VersionEdit { added: vec![(log(1), cut)], ..Default::default() };
    assert_eq!(VersionEdit::decode(&encoded(&edit)).unwrap(), edit);
}

#[test]
fn outside_of_sst_logs_tables_are_whole() {
    let edit = VersionEdit { added: vec![(Slot::L0, in_part())], ..Default::default() };
    let error = edit.encode(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert_eq!(error.message(), "table 3 counts in part only, which L0 cannot say");
}

#[test]
fn the_text_is_that_of_the_dumps() {
    assert_eq!(VersionEdit::default().to_string(), "VersionEdit {\n}");
    let text = full().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "VersionEdit {",
            "  Comparator: foo",
            "  LogNumber: 200",
            "  PrevLogNumber: 0",
            "  NextFile: 1125899906842624",
            "  LastSeq: 72057594037927935",
            "  CompactPointer: 0 'x' @ 900 : 1",
            "  CompactPointer: 5 '' @ 901 : 1",
            "  RemoveFile: 0 9",
            "  RemoveFile: 4 1099511627776",
            "  AddFile: 3 300 1099511627776 'foo' @ 1125899906842624 : 1 .. 'zoo' @ 7 : 1",
            "  AddFile: 0 18446744073709551615 1099511627776 '' @ 1125899906842624 : 1 .. \
             'zoo' @ 7 : 1",
            "}",
        ]
    );
}
