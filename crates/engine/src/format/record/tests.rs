//! LevelDB's cases for its log reader, by subject; then every file we can think of, at random.

use std::sync::Arc;

use proptest::prelude::*;

use super::encoder::RecordEncoder;
use super::mark::find_sync_mark;
use super::reader::{Damage, RecordReader, Step};
use super::testing::{ByteFile, encode_all, read_all};
use super::*;
use crate::base::error::{Error, Result};
use crate::env::fs::RandomAccessFile;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// `text` over and over, cut at `bytes`.
fn filled(text: &str, bytes: usize) -> Vec<u8> {
    text.bytes().cycle().take(bytes).collect()
}

/// The records that `bytes` hold, all of which must be sound and none missing before the end.
fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let steps = read_all(bytes);
    assert!(steps.iter().all(|(step, _)| matches!(step, Step::Record { after_zeros: false, .. })));
    steps.into_iter().map(|(_, record)| record).collect()
}

/// What reading `bytes` tells, in short.
fn story(bytes: &[u8]) -> Vec<String> {
    read_all(bytes)
        .into_iter()
        .map(|(step, record)| match step {
            Step::Record { offset, after_zeros, .. } => {
                let text = String::from_utf8_lossy(&record[..record.len().min(7)]).into_owned();
                let zeros = if after_zeros { " after zeros" } else { "" };
                format!("{offset} {text}{zeros}")
            }
            Step::Damage(Damage { offset, bytes, reason }) => format!("{offset} -{bytes} {reason}"),
            Step::TornTail { offset, bytes } => format!("{offset} torn {bytes}"),
            Step::End => unreachable!("read_all stops at the end"),
        })
        .collect()
}

fn assert_round_trip(originals: &[Vec<u8>]) {
    assert!(records(&encode_all(originals)) == originals);
}

/// Sets the type of the record at `offset` and mends its checksum.
fn set_kind(bytes: &mut [u8], offset: usize, kind: u8) {
    let (header, _) = Header::parse(&bytes[offset..]).unwrap();
    bytes[offset + 6] = kind;
    let covered = &bytes[offset + 6..offset + HEADER_BYTES + header.payload_bytes];
    let crc = checksum::mask(checksum::crc32c(covered));
    bytes[offset..offset + 4].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn golden_bytes() {
    let bytes = encode_all([&b"foo"[..], b""]);
    let expected = [
        0xdd, 0x5f, 0xb3, 0x7a, 3, 0, 1, b'f', b'o', b'o', // A full record.
        0x05, 0x2b, 0x28, 0x43, 0, 0, 1,
    ];
    assert_eq!(bytes, expected, "{bytes:02x?}");
}

#[test]
fn the_empty_file_holds_nothing() {
    assert_eq!(read_all(&[]), []);
}

#[test]
fn records_round_trip() {
    let bytes = encode_all(["foo", "bar", "", "xxxx"]);
    assert_eq!(story(&bytes), ["0 foo", "10 bar", "20 ", "27 xxxx"]);

    let many: Vec<Vec<u8>> = (0..100_000).map(|n| format!("{n}.").into_bytes()).collect();
    assert_round_trip(&many);
}

#[test]
fn long_records_are_fragmented() {
    let originals = [b"small".to_vec(), filled("medium", 50_000), filled("large", 100_000)];
    assert_round_trip(&originals);
    let bytes = encode_all(&originals);
    assert_eq!(bytes.len(), 150_005 + 7 * (1 + 2 + 4));
    let offsets = read_all(&bytes).into_iter().map(|(step, _)| match step {
        Step::Record { offset, end, .. } => (offset, end),
        other => panic!("{other:?}"),
    });
    assert_eq!(offsets.collect::<Vec<_>>(), [(0, 12), (12, 50_026), (50_026, 150_054)]);
}

#[test]
fn parts_are_one_payload_wherever_they_are_cut() {
    let whole = filled("0123456789", 70_000);
    let expected = encode_all([&whole]);
    for cut in [0, 1, 12, BLOCK_BYTES - HEADER_BYTES, BLOCK_BYTES, 69_999, 70_000] {
        let (head, tail) = whole.split_at(cut);
        let mut bytes = b"kept".to_vec();
        RecordEncoder::new(0).encode(&[b"", head, b"", tail, b""], &mut bytes);
        assert_eq!(&bytes[..4], b"kept");
        assert!(bytes[4..] == expected, "cut at {cut}");
    }
}

/// Room left in the block after the first record: exactly a header's, less, or none.
#[test]
fn records_end_around_a_block_border() {
    for room in 0..=20 {
        let first = filled("foo", BLOCK_BYTES - HEADER_BYTES - room);
        for second in [&b""[..], b"bar"] {
            let originals = [first.clone(), second.to_vec(), b"end".to_vec()];
            assert_round_trip(&originals);
        }
        // The file may also end there.
        assert_round_trip(&[first]);
    }
}

#[test]
fn an_empty_first_fragment_fills_exactly_seven_bytes() {
    let first = filled("foo", BLOCK_BYTES - 2 * HEADER_BYTES);
    let bytes = encode_all([first.as_slice(), b"", b"bar"]);
    assert_eq!(bytes.len(), BLOCK_BYTES + HEADER_BYTES + 3);
    assert_eq!(bytes[BLOCK_BYTES - 1], FULL);

    let bytes = encode_all([first.as_slice(), b"bar"]);
    assert_eq!(bytes[BLOCK_BYTES - 3..BLOCK_BYTES], [0, 0, FIRST]);
    assert_eq!(bytes[BLOCK_BYTES + 6], LAST);
}

#[test]
fn writing_goes_on_where_the_file_ended() {
    for first in [5, BLOCK_BYTES - 20, BLOCK_BYTES - HEADER_BYTES - 3, 100_000] {
        let originals = [filled("first", first), b"second".to_vec()];
        let mut bytes = encode_all(&originals[..1]);
        RecordEncoder::new(bytes.len() as u64).encode(&[&originals[1]], &mut bytes);
        assert!(bytes == encode_all(&originals));
    }
}

#[test]
fn a_read_error_is_an_error() {
    struct Broken;
    impl RandomAccessFile for Broken {
        fn read_at(&self, _: &mut [u8], _: u64) -> Result<usize> {
            Err(Error::corruption("read error"))
        }
        fn len(&self) -> u64 {
            10
        }
        fn path(&self) -> &std::path::Path {
            std::path::Path::new("broken")
        }
    }
    let mut reader = RecordReader::new(Arc::new(Broken));
    for _ in 0..2 {
        let error = reader.next(&mut Vec::new()).unwrap_err();
        assert_eq!(error.message(), "read error");
    }
}

#[test]
fn an_unknown_type_is_damage() {
    let mut bytes = encode_all(["foo", "bar"]);
    set_kind(&mut bytes, 0, 101);
    assert_eq!(story(&bytes), ["0 -3 unknown record type", "10 bar"]);
    // Types just past the last, and zero with a length, are no exceptions.
    for kind in [0, 5, 6] {
        set_kind(&mut bytes, 0, kind);
        assert_eq!(story(&bytes), ["0 -3 unknown record type", "10 bar"]);
    }
}

#[test]
fn an_unknown_type_takes_the_open_record_along() {
    let mut bytes = encode_all(["foo", "bar", "end"]);
    set_kind(&mut bytes, 0, FIRST);
    set_kind(&mut bytes, 10, 9);
    assert_eq!(story(&bytes), ["0 -6 unknown record type", "20 end"]);
}

#[test]
fn a_file_cut_anywhere_has_a_torn_tail_and_no_damage() {
    let bytes = encode_all([b"foo".to_vec(), filled("long", 40_000)]);
    for len in (0..60).chain(BLOCK_BYTES - 10..BLOCK_BYTES + 10).chain([bytes.len() - 1]) {
        let expected: &[String] = match len {
            0 => &[],
            1..10 => &[format!("0 torn {len}")],
            10 => &["0 foo".to_string()],
            _ => &["0 foo".to_string(), format!("10 torn {}", len - 10)],
        };
        assert_eq!(story(&bytes[..len]), expected, "cut at {len}");
    }
}

#[test]
fn the_reader_stays_at_the_end() {
    let bytes = encode_all([b"foo".to_vec(), filled("long", 40_000)]);
    let mut reader = RecordReader::new(ByteFile::new("000003.log", &bytes[..35_000]));
    let mut record = Vec::new();
    assert!(matches!(reader.next(&mut record).unwrap(), Step::Record { .. }));
    assert_eq!(reader.next(&mut record).unwrap(), Step::TornTail { offset: 10, bytes: 34_990 });
    assert_eq!(record, b"");
    for _ in 0..3 {
        assert_eq!(reader.next(&mut record).unwrap(), Step::End);
    }
}

#[test]
fn a_bad_length_drops_the_block() {
    let mut bytes = encode_all([filled("bar", BLOCK_BYTES - HEADER_BYTES), b"foo".to_vec()]);
    bytes[4] += 1; // The least significant byte of the length.
    assert_eq!(story(&bytes), ["0 -32768 bad record length", "32768 foo"]);
}

#[test]
fn a_bad_length_at_the_end_looks_torn() {
    let mut bytes = encode_all(["foo"]);
    bytes[4] += 1;
    assert_eq!(story(&bytes), ["0 torn 10"]);
}

#[test]
fn a_wrong_checksum_drops_the_block() {
    let mut bytes = encode_all([b"foo".to_vec(), filled("long", 40_000), b"end".to_vec()]);
    bytes[0] += 14;
    assert_eq!(
        story(&bytes),
        [
            "0 -32768 checksum mismatch",
            "32768 -7249 missing start of fragmented record",
            "40024 end"
        ]
    );
}

#[test]
fn fragments_without_a_start_are_damage() {
    let mut bytes = encode_all(["foo", "bar"]);
    for kind in [MIDDLE, LAST] {
        set_kind(&mut bytes, 0, kind);
        assert_eq!(story(&bytes), ["0 -3 missing start of fragmented record", "10 bar"]);
    }
}

#[test]
fn a_record_that_never_ends_is_damage_once_the_next_begins() {
    let mut bytes = encode_all(["foo", "bar"]);
    set_kind(&mut bytes, 0, FIRST);
    assert_eq!(story(&bytes), ["0 -3 partial record without end", "10 bar"]);

    let mut bytes = encode_all([b"foo".to_vec(), filled("bar", 100_000)]);
    set_kind(&mut bytes, 0, FIRST);
    assert_eq!(story(&bytes), ["0 -3 partial record without end", "10 barbarb"]);
}

/// Early writers put an empty first fragment at the end of a block and then began anew.
#[test]
fn an_empty_first_fragment_without_a_rest_is_no_damage() {
    let mut bytes = encode_all(["", "foo"]);
    set_kind(&mut bytes, 0, FIRST);
    assert_eq!(story(&bytes), ["7 foo"]);
}

#[test]
fn a_record_without_its_last_fragment_is_torn() {
    let bytes = encode_all([filled("bar", BLOCK_BYTES)]);
    assert_eq!(story(&bytes[..BLOCK_BYTES]), ["0 torn 32768"]);
    assert_eq!(story(&bytes[..bytes.len() - 1]), [format!("0 torn {}", bytes.len() - 1)]);
}

/// Of first(1) last(1) first(2) last(2) the middle two vanish: first(1) and last(2) are no record.
#[test]
fn damage_never_joins_two_records() {
    let originals = [filled("foo", BLOCK_BYTES), filled("bar", BLOCK_BYTES), b"correct".to_vec()];
    let mut bytes = encode_all(&originals);
    bytes[BLOCK_BYTES..2 * BLOCK_BYTES].fill(b'x');
    assert_eq!(
        story(&bytes),
        [
            "32768 -32768 checksum mismatch",
            "0 -32761 error in middle of record",
            "65536 -21 missing start of fragmented record",
            "65564 correct"
        ]
    );

    // Zeros instead, as an unwritten block of an extended file has them.
    bytes[BLOCK_BYTES..2 * BLOCK_BYTES].fill(0);
    assert_eq!(
        story(&bytes),
        [
            "0 -32761 error in middle of record",
            "65536 -21 missing start of fragmented record",
            "65564 correct after zeros"
        ]
    );
}

#[test]
fn zeros_are_passed_over_and_told_of() {
    let mut bytes = encode_all(["foo"]);
    for zeros in [BLOCK_BYTES - bytes.len(), 3 * BLOCK_BYTES - bytes.len()] {
        let mut holed = bytes.clone();
        holed.resize(holed.len() + zeros, 0);
        assert_eq!(story(&holed), ["0 foo"]);
        let second = holed.len();
        RecordEncoder::new(second as u64).encode(&[b"bar"], &mut holed);
        RecordEncoder::new(holed.len() as u64).encode(&[b"end"], &mut holed);
        let [after, next] = [second, second + 10];
        assert_eq!(
            story(&holed),
            ["0 foo".to_string(), format!("{after} bar after zeros"), format!("{next} end")]
        );
    }
    // Zeros up to a file's end, as space allocated in advance leaves them.
    bytes.resize(20_000, 0);
    assert_eq!(story(&bytes), ["0 foo"]);
}

#[test]
fn bytes_behind_a_zeroed_header_are_damage() {
    let mut bytes = encode_all(["foo", "bar", "end"]);
    bytes[10..20].fill(0);
    assert_eq!(story(&bytes), ["0 foo", "10 -20 zeroed header"]);
}

#[test]
fn a_trailer_is_no_hole() {
    for room in 1..HEADER_BYTES {
        let first = filled("foo", BLOCK_BYTES - HEADER_BYTES - room);
        let bytes = encode_all([first.as_slice(), b"bar"]);
        assert_eq!(story(&bytes), ["0 foofoof".to_string(), format!("{BLOCK} bar")]);
        // A crash may leave any part of the trailer.
        for len in BLOCK_BYTES - room..=BLOCK_BYTES {
            assert_eq!(story(&bytes[..len]), ["0 foofoof"]);
        }
    }
}

/// Sizes that are often near a block border.
fn record_bytes() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0usize..40,
        2 => 0usize..3_000,
        1 => BLOCK_BYTES - 40..BLOCK_BYTES + 40,
        1 => 0usize..100_000,
    ]
}

fn some_records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec((record_bytes(), 0u8..=255), 0..12).prop_map(|sizes| {
        let record = |(bytes, seed): (usize, u8)| {
            (0..bytes).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect()
        };
        sizes.into_iter().map(record).collect()
    })
}

/// Where each record ends in the file.
fn ends(originals: &[Vec<u8>]) -> Vec<usize> {
    (1..=originals.len()).map(|count| encode_all(&originals[..count]).len()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_records_round_trip(originals in some_records()) {
        prop_assert!(records(&encode_all(&originals)) == originals);
    }

    #[test]
    fn a_cut_keeps_every_whole_record(
        originals in some_records(),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = encode_all(&originals);
        let len = cut.index(bytes.len() + 1);
        let whole = ends(&originals).iter().filter(|&&end| end <= len).count();
        let mut steps = read_all(&bytes[..len]);
        if matches!(steps.last(), Some((Step::TornTail { .. }, _))) {
            steps.pop();
        }
        let kept: Vec<Vec<u8>> = steps.into_iter().map(|(step, record)| {
            assert!(matches!(step, Step::Record { .. }), "{step:?}");
            record
        }).collect();
        prop_assert!(kept == originals[..whole]);
    }

    /// A changed byte costs records, but makes none: what comes back is in the original order, and
    /// all that lay before the byte's block is there.
    #[test]
    fn a_flipped_byte_is_found(
        originals in some_records(),
        at in any::<prop::sample::Index>(),
        flip in 1u8..=255,
    ) {
        let mut bytes = encode_all(&originals);
        prop_assume!(!bytes.is_empty());
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let before = ends(&originals).iter().filter(|&&end| end <= at).count();
        let read: Vec<Vec<u8>> = read_all(&bytes)
            .into_iter()
            .filter(|(step, _)| matches!(step, Step::Record { .. }))
            .map(|(_, record)| record)
            .collect();
        prop_assert!(read.len() >= before && read[..before] == originals[..before]);
        let mut rest = originals.iter();
        prop_assert!(read.iter().all(|record| rest.any(|original| original == record)));
    }

    #[test]
    fn any_bytes_are_read_to_their_end(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        blocks in 0usize..3,
        from in 0u64..200,
    ) {
        bytes.resize(bytes.len() + blocks * BLOCK_BYTES, 0);
        read_all(&bytes);
        find_sync_mark(&*ByteFile::new("000003.log", bytes), from).unwrap();
    }
}
