//! What is packed comes back through our decoder and through the library's, is never larger than
//! announced, and about as small as the library's.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::format::table::block_builder::BlockBuilder;
use crate::format::table::snappy::unpack;

/// The bytes that a packer makes which has seen nothing.
fn packed(raw: &[u8]) -> Vec<u8> {
    packed_by(&mut Packer::new(), raw)
}

fn packed_by(packer: &mut Packer, raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let len = packer.pack(raw, &mut out).unwrap();
    assert_eq!(out.len(), packed_bytes_max(raw.len()));
    out.truncate(len);
    out
}

fn check(raw: &[u8]) {
    let stored = packed(raw);
    assert!(stored.len() <= snap::raw::max_compress_len(raw.len()));
    let mut out = Vec::new();
    unpack(&stored, raw.len(), &mut out).expect("ours reads it");
    assert!(out == raw, "ours reads {} bytes otherwise", raw.len());
    let theirs = snap::raw::Decoder::new().decompress_vec(&stored);
    assert!(theirs.as_deref() == Ok(raw), "the library reads {} bytes otherwise", raw.len());
}

/// Bytes without repetitions worth the name.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
}

fn noise_of(len: usize, seed: u64) -> Vec<u8> {
    noise(seed).take(len).collect()
}

/// Words in no order, some more often than others.
fn text_of(len: usize, seed: u64) -> Vec<u8> {
    let words: Vec<_> = include_str!("../pack.rs").split_whitespace().collect();
    let mut choices = noise(seed);
    let mut text = Vec::with_capacity(len + 100);
    while text.len() < len {
        let (a, b) = (choices.next().unwrap(), choices.next().unwrap());
        let at = usize::from(a) * (1 + usize::from(b % 4)) % words.len();
        text.extend_from_slice(words[at].as_bytes());
        text.push(b' ');
    }
    text.truncate(len);
    text
}

/// Blocks such as LevelDB's benchmark fills: values are cut from pieces of 100 bytes whose second
/// half repeats the first.
fn blocks_of(value_bytes: usize, key_step: usize) -> Vec<Vec<u8>> {
    let mut printable = noise(301).map(|byte| b' ' + byte % 95);
    let mut pool = Vec::new();
    while pool.len() < 300_000 {
        let half: Vec<_> = printable.by_ref().take(50).collect();
        pool.extend(half.repeat(2));
    }
    let mut seqnos = noise(7);
    let (mut blocks, mut builder) = (Vec::new(), BlockBuilder::new(16));
    for (at, value) in pool.chunks_exact(value_bytes).enumerate() {
        let mut key = format!("{:016}", at * key_step).into_bytes();
        let seqno = (u32::from(seqnos.next().unwrap()) << 8 | 0x1_0000) + at as u32;
        key.extend_from_slice(&(u64::from(seqno) << 8 | 1).to_le_bytes());
        builder.add(&key, value);
        if builder.estimated_bytes() >= 4096 {
            blocks.push(builder.finish().to_vec());
            builder.reset();
        }
    }
    blocks
}

fn bytes_by_library(raw: &[u8]) -> usize {
    snap::raw::Encoder::new().compress_vec(raw).unwrap().len()
}

/// Text of many kinds, up to some 200,000 bytes.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        vec(any::<u8>(), 0..200),
        (vec(any::<u8>(), 1..=70), 1..40usize).prop_map(|(piece, times)| piece.repeat(times)),
        (0..3000usize, any::<u64>()).prop_map(|(len, seed)| noise_of(len, seed)),
        (0..3000usize, any::<u64>()).prop_map(|(len, seed)| text_of(len, seed)),
    ];
    let pieces = vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    prop_oneof![
        6 => pieces.clone(),
        // Of such a length that there are several fragments.
        1 => (pieces, 0..200_000usize).prop_map(|(piece, len)| {
            piece.iter().copied().cycle().take(len).collect()
        }),
    ]
}

proptest! {
    #[test]
    fn what_was_packed_comes_back(raw in texts()) {
        check(&raw);
    }

    /// K1.
    #[test]
    fn what_was_packed_before_does_not_show(before in vec(texts(), 0..3), raw in texts()) {
        let mut packer = Packer::new();
        before.iter().for_each(|raw| drop(packed_by(&mut packer, raw)));
        prop_assert!(packed_by(&mut packer, &raw) == packed(&raw));
    }
}

#[test]
fn lengths_at_which_something_changes() {
    let mut lengths: Vec<usize> = (0..=140).collect();
    for edge in [0x100, 0x400, 0x2000, FRAGMENT_BYTES, 2 * FRAGMENT_BYTES] {
        lengths.extend(edge - 20..=edge + 20);
    }
    let longest = 2 * FRAGMENT_BYTES + 20;
    let kinds =
        [vec![0; longest], noise_of(longest, 1), text_of(longest, 2), noise_of(50, 3).repeat(3000)];
    for raw in &kinds {
        lengths.iter().for_each(|&len| check(&raw[..len]));
    }
}

#[test]
fn copies_of_every_period_and_length() {
    let head = noise_of(70, 1);
    for period in 1..=70 {
        for len in 0..=140 {
            let mut raw = head[..period].to_vec();
            raw.extend((0..len).map(|at| head[at % period]));
            raw.extend(noise(2).take(40));
            check(&raw);
        }
    }
}

#[test]
fn literals_and_offsets_of_every_kind() {
    // What lies between something and its repetition decides on both.
    for gap in (50..70).chain(240..270).chain(2030..2060).chain([65_400, 65_500, 65_530, 65_600]) {
        for len in [4, 5, 11, 12, 60, 64, 65, 67, 68] {
            let (piece, gap) = (noise_of(len, 9), noise_of(gap, 8));
            check(&[&noise_of(20, 7), &piece[..], &gap, &piece, &noise_of(30, 6)].concat());
        }
    }
}

/// The output grows most where short copies leave short literals between them.
#[test]
fn what_grows_most_stays_within_bounds() {
    let word = noise_of(4, 1);
    for gap in 1..70 {
        let raw: Vec<u8> =
            (0..1000).flat_map(|seed| [&word[..], &noise_of(gap, seed + 2)].concat()).collect();
        check(&raw);
    }
}

#[test]
fn the_output_is_never_made_shorter() {
    let mut out = vec![0xa5; 10_000];
    let len = Packer::new().pack(b"abcabcabc", &mut out).unwrap();
    assert_eq!(out.len(), 10_000);
    assert_eq!(&out[..len], packed(b"abcabcabc"));
}

/// Users' files must not become larger than LevelDB's.
#[test]
fn blocks_are_no_larger_than_by_the_library() {
    for value_bytes in [100, 1000, 2000] {
        for key_step in [1, 3, 70] {
            let blocks = blocks_of(value_bytes, key_step);
            let ours: usize = blocks.iter().map(|raw| packed(raw).len()).sum();
            let theirs: usize = blocks.iter().map(|raw| bytes_by_library(raw)).sum();
            assert!(ours <= theirs, "{value_bytes} {key_step}: {ours} bytes against {theirs}");
        }
    }
}

#[test]
fn texts_are_about_as_small_as_by_the_library() {
    let source = include_bytes!("../pack.rs");
    let words = text_of(300_000, 1);
    for block_bytes in [1000, 4096, 20_000, 100_000] {
        for (kind, raw) in [("source", &source[..]), ("words", &words)] {
            let ours: usize = raw.chunks(block_bytes).map(|raw| packed(raw).len()).sum();
            let theirs: usize = raw.chunks(block_bytes).map(bytes_by_library).sum();
            let bound = theirs + theirs * 3 / 100;
            assert!(ours <= bound, "{kind} by {block_bytes}: {ours} bytes against {theirs}");
        }
    }
}

/// The same bytes on every machine, and after every change that is not meant to alter them.
#[test]
fn a_block_in_bytes() {
    let raw = b"prefix/0001 prefix/0002 prefix/0003 and the end of it";
    let expected = b"\x35\x2cprefix/0001 \x19\x0c\x002\x1d\x0c\x483 and the end of it";
    assert_eq!(packed(raw), expected);
}
