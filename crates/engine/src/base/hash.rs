//! LevelDB's 32-bit seeded hash (murmur-like), and a faster and better one of 64 bits. Bits of Bloom filters depend on both,
//! so that they are part of the table format.

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

/// Whoever knows the seed can make keys collide. Tables in memory have a seed of their own each; the wide Bloom filter's is
/// known, and what collides there is read in vain.
#[inline]
pub(crate) fn hash64(bytes: &[u8], seed: u64) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let start = seed ^ bytes.len() as u64;
    let mut h = words.iter().fold(start, |h, word| mix(h, u64::from_le_bytes(*word)));
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        h = mix(h, u64::from_le_bytes(last));
    }
    h
}

/// Mixes two words into one.
#[inline]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ b ^ 0x9e37_79b9_7f4a_7c15) * u128::from(0xd6e8_feb8_6659_fd93_u64);
    product as u64 ^ (product >> 64) as u64
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

    /// Tables rest on it.
    #[test]
    fn known_wide_values() {
        assert_eq!(hash64(b"", 1), 1);
        assert_eq!(hash64(b"slate", 1), 0xb993_22c2_d434_82c2);
        assert_eq!(hash64(b"0123456789abcdef!", 2), 0x72ad_c7d7_6788_53bf);
    }

    #[test]
    fn wide_hashes_spread() {
        let mut low = [0; 64];
        for number in 0..6400u32 {
            low[hash64(format!("{number:016}").as_bytes(), 1) as usize % 64] += 1;
        }
        assert!(low.iter().all(|&count| (50..160).contains(&count)), "{low:?}");
        assert_ne!(hash64(b"a", 1), hash64(b"a\0", 1));
        assert_ne!(hash64(b"a", 1), hash64(b"a", 2));
    }
}
