//! Both kinds: their bits, and how often they are wrong.

use super::*;

fn filter_of(keys: &[Vec<u8>]) -> Vec<u8> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let mut filter = Vec::new();
    BloomFilter::new(10).create_filter(&keys, &mut filter);
    filter
}

fn may_match(key: &[u8], filter: &[u8]) -> bool {
    BloomFilter::new(10).may_match(key, filter)
}

#[test]
fn empty_filters_match_nothing() {
    assert!(!may_match(b"hello", &filter_of(&[])));
    assert!(!may_match(b"hello", b""));
    assert!(!may_match(b"hello", b"\x06"));
}

#[test]
fn small() {
    let filter = filter_of(&[b"hello".to_vec(), b"world".to_vec()]);
    assert!(may_match(b"hello", &filter) && may_match(b"world", &filter));
    assert!(!may_match(b"x", &filter) && !may_match(b"foo", &filter));
}

/// LevelDB 1.23's own filter for the same keys: eight bytes, then the probe count.
#[test]
fn golden_bits() {
    let filter = filter_of(&[b"hello".to_vec(), b"world".to_vec()]);
    assert_eq!(filter, [0x11, 0x40, 0x00, 0x41, 0x44, 0x10, 0x40, 0x10, 6]);
}

#[test]
fn probe_counts_of_the_future_always_match() {
    assert!(may_match(b"x", &[0, 0, 0, 0, 0, 0, 0, 0, 31]));
    assert!(!may_match(b"x", &[0, 0, 0, 0, 0, 0, 0, 0, 30]));
}

/// The wide kind's own bits: they are a format.
#[test]
fn golden_wide_bits() {
    let mut filter = Vec::new();
    BloomFilter::wide(10).create_filter(&[b"hello", b"world"], &mut filter);
    assert_eq!(filter, [93, 0, 16, 0, 8, 0, 24, 73, 6]);
}

/// Decimal keys, that LevelDB's hash spreads badly, and random ones: near what theory says of perfect hashes.
#[test]
fn wide_filters_are_as_sharp_as_can_be() {
    let decimal = |n: u64| format!("{n:016}").into_bytes();
    let random = |n: u64| crate::base::hash::mix(n, 7).to_le_bytes().to_vec();
    for (bits, passes_max) in [(10, 1_050), (14, 180)] {
        for key in [&decimal as &dyn Fn(u64) -> Vec<u8>, &random] {
            let filter = BloomFilter::wide(bits);
            let keys: Vec<Vec<u8>> = (0..20_000).map(|n| key(2 * n)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut made = Vec::new();
            filter.create_filter(&keys, &mut made);
            assert!(keys.iter().all(|key| filter.may_match(key, &made)));
            let passed = (0..100_000).filter(|n| filter.may_match(&key(2 * n + 1), &made)).count();
            assert!(passed <= passes_max, "{passed} of 100000 with {bits} bits");
        }
    }
}

#[test]
fn either_kind_is_found_by_its_name() {
    for filter in [BloomFilter::new(12), BloomFilter::wide(12)] {
        for other in [BloomFilter::new(12), BloomFilter::wide(12)] {
            assert_eq!(filter.named(other.name().as_bytes()), Some(other));
        }
        assert_eq!(filter.named(b"siltstone.BloomFilter65"), None);
    }
}

#[test]
fn probe_counts_are_clamped() {
    for (bits, probes) in [(0, 1), (1, 1), (10, 6), (43, 29), (100, 30)] {
        assert_eq!(BloomFilter::new(bits).probes, probes);
    }
}

#[test]
fn false_positives_stay_rare_at_every_length() {
    let lengths = (1..10).chain((10..100).step_by(10)).chain((100..1000).step_by(100));
    let (mut mediocre, mut good) = (0, 0);
    for length in lengths.chain((1000..=10_000).step_by(1000)) {
        let keys: Vec<Vec<u8>> = (0..length as u32).map(|n| n.to_le_bytes().into()).collect();
        let filter = filter_of(&keys);
        assert!(filter.len() <= length * 10 / 8 + 40);
        assert!(keys.iter().all(|key| may_match(key, &filter)));
        let absent = (0..10_000u32).map(|n| (n + 1_000_000_000).to_le_bytes());
        let hits = absent.filter(|key| may_match(key, &filter)).count();
        assert!(hits <= 200, "{hits} of 10000 at {length} keys");
        if hits > 125 { mediocre += 1 } else { good += 1 }
    }
    assert!(mediocre <= good / 5, "{mediocre} mediocre, {good} good");
}
