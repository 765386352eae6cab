//! Manifests as they should be, and as nobody should have written them: the answer is always a
//! version that keeps the rules, or a typed error.

use super::*;
use crate::base::coding::{put_length_prefixed, put_varint32, put_varint64};
use crate::base::comparator::{Comparator, UserOrder};
use crate::base::key::SEQNO_MAX;
use crate::format::manifest::edit::NewTable;
use crate::format::record::testing::encode_all;
use crate::version::testing::files::{DIR, put_file, spied};
use crate::version::testing::{key, level, numbers, order, tree};

/// Recovers from raw bytes of CURRENT and of manifest 5.
fn recover_from(current: &[u8], manifest: &[u8], order: &InternalOrder) -> Result<Recovered> {
    let (fs, _) = spied();
    put_file(&*fs, FileName::Current, current);
    put_file(&*fs, FileName::Manifest(FileNumber(5)), manifest);
    recover(&*fs, Path::new(DIR), order, &Arc::new(Graveyard::new()))
}

fn recover_records(records: &[Vec<u8>]) -> Result<Recovered> {
    recover_from(b"MANIFEST-000005\n", &encode_all(records), &order())
}

fn recover_edits(edits: &[VersionEdit]) -> Result<Recovered> {
    let encoded = edits.iter().map(|edit| {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes).unwrap();
        bytes
    });
    recover_records(&encoded.collect::<Vec<_>>())
}

fn added(number: u64, size: u64, (from, to): (&str, &str)) -> NewTable {
    NewTable {
        number: FileNumber(number),
        size,
        smallest: key(from, 9),
        largest: key(to, 9),
        live: None,
        hotness: 0,
    }
}

/// The least that a manifest must say.
fn header() -> VersionEdit {
    VersionEdit {
        comparator: Some("leveldb.BytewiseComparator".to_owned()),
        log_number: Some(FileNumber(3)),
        next_file: Some(FileNumber(6)),
        last_seqno: Some(SeqNo(40)),
        ..VersionEdit::default()
    }
}

fn message(recovered: Result<Recovered>) -> String {
    let error = recovered.err().expect("no such database can be opened");
    assert!(error.is_corruption(), "{error}");
    assert!(error.file().is_some(), "{error} names its file");
    error.message().to_owned()
}

#[test]
fn edits_add_up() {
    let edits = [
        VersionEdit { prev_log_number: Some(FileNumber(2)), ..header() },
        VersionEdit {
            added: vec![(Slot::L0, added(8, 10, ("a", "c"))), (tree(1), added(7, 10, ("a", "c")))],
            compact_pointers: vec![(level(1), key("b", 3)), (level(2), key("x", 3))],
            ..VersionEdit::default()
        },
        VersionEdit {
            log_number: Some(FileNumber(9)),
            prev_log_number: Some(FileNumber(0)),
            next_file: Some(FileNumber(20)),
            last_seqno: Some(SeqNo(50)),
            compact_pointers: vec![(level(1), key("c", 3))],
            removed: vec![(tree(1), FileNumber(7)), (tree(4), FileNumber(99))],
            added: vec![(Slot::L0, added(11, 10, ("a", "c"))), (tree(2), added(7, 10, ("a", "c")))],
            ..VersionEdit::default()
        },
    ];
    let recovered = recover_edits(&edits).unwrap();
    assert_eq!(numbers(recovered.version.slot(Slot::L0)), [11, 8]);
    assert_eq!(numbers(recovered.version.slot(tree(1))), [0; 0]);
    assert_eq!(numbers(recovered.version.slot(tree(2))), [7]);
    assert_eq!((recovered.manifest, recovered.next_file), (FileNumber(5), FileNumber(20)));
    assert_eq!(recovered.last_seqno, SeqNo(50));
    for (number, needed) in [(2, false), (8, false), (9, true), (10, true)] {
        assert_eq!(recovered.needs_wal(FileNumber(number)), needed, "{number}");
    }
}

#[test]
fn the_log_before_the_log_may_be_needed() {
    let edit = VersionEdit { prev_log_number: Some(FileNumber(2)), ..header() };
    let recovered = recover_edits(&[edit]).unwrap();
    let needed = [1, 2, 3, 4].map(|number| recovered.needs_wal(FileNumber(number)));
    assert_eq!(needed, [false, true, true, true]);
}

#[test]
fn missing_fields_are_named() {
    let without = |change: fn(&mut VersionEdit)| {
        let mut edit = header();
        change(&mut edit);
        message(recover_edits(&[edit]))
    };
    assert_eq!(without(|edit| edit.next_file = None), "no meta-nextfile entry in descriptor");
    assert_eq!(without(|edit| edit.log_number = None), "no meta-lognumber entry in descriptor");
    let seqno = without(|edit| edit.last_seqno = None);
    assert_eq!(seqno, "no last-sequence-number entry in descriptor");
    assert_eq!(message(recover_edits(&[])), "no meta-nextfile entry in descriptor");
    // LevelDB takes a manifest that names no comparator.
    recover_edits(&[VersionEdit { comparator: None, ..header() }]).unwrap();
}

#[test]
fn comparators_must_match() {
    struct Reverse;
    impl Comparator for Reverse {
        fn name(&self) -> &str {
            "test.Reverse"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            b.cmp(a)
        }
    }
    let reverse = InternalOrder::new(UserOrder::new(Some(Arc::new(Reverse))));
    let mut bytes = Vec::new();
    header().encode(&mut bytes).unwrap();
    let error = recover_from(b"MANIFEST-000005\n", &encode_all([bytes]), &reverse).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    let expected = "leveldb.BytewiseComparator does not match existing comparator : test.Reverse";
    assert_eq!(error.message(), expected);
}

#[test]
fn numbers_in_use_are_never_given_again() {
    for (edit, next) in [
        (VersionEdit { next_file: Some(FileNumber(0)), ..header() }, 6),
        (VersionEdit { log_number: Some(FileNumber(70)), ..header() }, 71),
        (VersionEdit { prev_log_number: Some(FileNumber(80)), ..header() }, 81),
        (VersionEdit { added: vec![(tree(3), added(90, 1, ("a", "b")))], ..header() }, 91),
    ] {
        assert_eq!(recover_edits(&[edit]).unwrap().next_file, FileNumber(next));
    }
}

#[test]
fn huge_numbers_are_refused() {
    for edit in [
        VersionEdit { next_file: Some(FileNumber(u64::MAX)), ..header() },
        VersionEdit { log_number: Some(FileNumber(u64::MAX)), ..header() },
        VersionEdit { prev_log_number: Some(FileNumber(u64::MAX - 1)), ..header() },
        VersionEdit { added: vec![(tree(3), added(u64::MAX, 1, ("a", "b")))], ..header() },
    ] {
        assert!(message(recover_edits(&[edit])).ends_with("is out of range"));
    }
    let half = u64::MAX / 4 + 1;
    let sizes = vec![(tree(3), added(7, half, ("a", "b"))), (tree(3), added(8, half, ("c", "d")))];
    let edit = VersionEdit { added: sizes, ..header() };
    assert!(message(recover_edits(&[edit])).contains("cannot have"));
    let edit = VersionEdit { added: vec![(tree(1), added(7, u64::MAX, ("a", "b")))], ..header() };
    assert!(message(recover_edits(&[edit])).contains("cannot have"));

    let mut seqno = Vec::new();
    put_varint32(&mut seqno, 4);
    put_varint64(&mut seqno, SEQNO_MAX.0 + 1);
    assert!(message(recover_records(&[seqno])).contains("last sequence number"));
}

#[test]
fn levels_past_the_last_are_refused() {
    for number in [7, 8, 255, 256, 263, u32::MAX] {
        for tag in [5, 6, 7] {
            let mut record = Vec::new();
            put_varint32(&mut record, tag);
            put_varint32(&mut record, number);
            for _ in 0..4 {
                put_length_prefixed(&mut record, b"12345678");
            }
            message(recover_records(&[record]));
        }
    }
}

#[test]
fn tables_that_break_the_rules_are_refused() {
    let with = |added| message(recover_edits(&[VersionEdit { added, ..header() }]));
    let twice = || vec![(tree(1), added(7, 1, ("a", "c"))), (tree(1), added(7, 1, ("a", "c")))];
    assert!(with(twice()).contains("which has it"));
    let elsewhere = vec![(Slot::L0, added(7, 1, ("a", "c"))), (tree(1), added(7, 1, ("a", "c")))];
    assert!(with(elsewhere).contains("in another slot"));
    let overlap = vec![(tree(1), added(7, 1, ("a", "c"))), (tree(1), added(8, 1, ("b", "d")))];
    assert!(with(overlap).contains("overlap in L1"));
    assert!(with(vec![(Slot::L0, added(7, 1, ("c", "a")))]).contains("smallest key after largest"));
    let edit = VersionEdit { added: twice().split_off(1), ..header() };
    assert!(message(recover_edits(&[edit.clone(), edit])).contains("which has it"));
}

/// A table that overlaps another for the time of a few edits is no matter: only the end counts.
#[test]
fn only_the_last_version_must_keep_the_rules() {
    let edits = [
        VersionEdit { added: vec![(tree(1), added(7, 1, ("a", "c")))], ..header() },
        VersionEdit { added: vec![(tree(1), added(8, 1, ("b", "d")))], ..VersionEdit::default() },
        VersionEdit { removed: vec![(tree(1), FileNumber(7))], ..VersionEdit::default() },
    ];
    assert_eq!(numbers(recover_edits(&edits).unwrap().version.slot(tree(1))), [8]);
}

#[test]
fn current_names_a_manifest_here_or_the_database_is_corrupt() {
    let manifest = {
        let mut bytes = Vec::new();
        header().encode(&mut bytes).unwrap();
        encode_all([bytes])
    };
    let with = |current: &[u8]| recover_from(current, &manifest, &order());
    assert!(with(b"MANIFEST-000005\n").is_ok());
    for current in [
        &b""[..],
        b"MANIFEST-000005",
        b"\n",
        b"MANIFEST-5\n",
        b"../x/MANIFEST-000005\n",
        b"./MANIFEST-000005\n",
        b"/db/MANIFEST-000005\n",
        b"MANIFEST-000005\0\n",
        b"MANIFEST-99999999999999999999999\n",
        b"000005.log\n",
        b"\xff\n",
        &[b'x'; 4096],
    ] {
        message(with(current));
    }
    assert_eq!(message(with(b"MANIFEST-000006\n")), "CURRENT points to a non-existent file");

    let (fs, _) = spied();
    let graveyard = Arc::new(Graveyard::new());
    assert!(recover(&*fs, Path::new(DIR), &order(), &graveyard).err().unwrap().is_not_found());
}

/// Any single byte changed, and any length: never a panic, and no database but the right one unless
/// the record's checksum says so.
#[test]
fn damaged_manifests_are_typed_errors() {
    let edits = [
        VersionEdit { added: vec![(tree(1), added(7, 1, ("a", "c")))], ..header() },
        VersionEdit { added: vec![(tree(1), added(8, 1, ("d", "e")))], ..VersionEdit::default() },
    ];
    let records = edits.map(|edit| {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes).unwrap();
        bytes
    });
    // Checksums would catch the flips: this is about what is behind them.
    for (at, record) in records.iter().enumerate() {
        for byte in 0..record.len() {
            for bit in 0..8 {
                let mut damaged = records.clone();
                damaged[at][byte] ^= 1 << bit;
                if let Err(error) = recover_records(&damaged) {
                    let kind = error.kind();
                    assert!(matches!(kind, ErrorKind::Corruption | ErrorKind::Incompatible));
                }
            }
        }
    }
    let whole = encode_all(&records);
    for len in 0..whole.len() {
        match recover_from(b"MANIFEST-000005\n", &whole[..len], &order()) {
            Ok(recovered) => assert!(recovered.version.tables().count() < 2),
            Err(error) => assert!(error.is_corruption()),
        }
    }
}
