//! LevelDB's 32-bit seeded hash (murmur-like). The Bloom filter's bits depend on it, so it is part
//! of the table format.

const MULTIPLIER: u32 = 0xc6a4_a793;

pub(crate) fn hash(bytes: &[u8], seed: u32) -> u32 {
    // The format hashes the length modulo 2^32, as LevelDB's 32-bit arithmetic does.
    let mut h = seed ^ MULTIPLIER.wrapping_mul(bytes.len() as u32);
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        h = h.wrapping_add(u32::from_le_bytes(*word)).wrapping_mul(MULTIPLIER);
        h ^= h >> 16;
    }
    for (at, &byte) in tail.iter().enumerate() {
        h = h.wrapping_add(u32::from(byte) << (8 * at));
    }
    if !tail.is_empty() {
        h = h.wrapping_mul(MULTIPLIER);
        h ^= h >> 24;
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published vectors of LevelDB's hash; the high bytes catch a signed tail.
    #[test]
    fn known_values() {
        let seed = 0xbc9f_1d34;
        assert_eq!(hash(b"", seed), 0xbc9f_1d34);
        assert_eq!(hash(&[0x62], seed), 0xef13_45c4);
        assert_eq!(hash(&[0xc3, 0x97], seed), 0x5b66_3814);
        assert_eq!(hash(&[0xe2, 0x99, 0xa5], seed), 0x323c_078f);
        assert_eq!(hash(&[0xe1, 0x80, 0xb9, 0x32], seed), 0xed21_633a);
    }
}
