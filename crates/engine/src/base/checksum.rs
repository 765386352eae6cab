//! CRC-32C and LevelDB's mask over it. Records, blocks and filters all store the masked value.
//!
//! The mask exists because data that embeds its own CRCs makes a weak CRC input.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

const MASK_DELTA: u32 = 0xa282_ead8;

/// CRC-32C of `bytes`, in hardware where the processor has the instruction.
#[inline]
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    extend(0, bytes)
}

/// CRC-32C of what `crc` covers followed by `bytes`.
#[inline]
pub(crate) fn extend(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(crc) = x86::extend(crc, bytes) {
        return crc;
    }
    crc32c::crc32c_append(crc, bytes)
}

#[inline]
pub(crate) fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of RFC 3720, section B.4.
    #[test]
    fn standard_vectors() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
    }

    /// Of all lengths up to some streams' worth, wherever they begin within a word, and of what is longer than streams are.
    #[test]
    fn is_what_the_library_says() {
        let bytes: Vec<u8> =
            (0..40_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for len in
            (0..1000).chain((1000..9000).step_by(37)).chain([6143, 6144, 6145, 30_001, 39_992])
        {
            let part = &bytes[len % 8..len % 8 + len];
            assert_eq!(crc32c(part), crc32c::crc32c(part), "{len} bytes");
            let crc = 0x1234_5678 ^ len as u32;
            assert_eq!(extend(crc, part), crc32c::crc32c_append(crc, part), "{len} bytes");
        }
    }

    #[test]
    fn extends_and_masks() {
        assert_eq!(crc32c(b"hello world"), extend(crc32c(b"hello "), b"world"));
        let crc = crc32c(b"foo");
        assert_ne!(crc, mask(crc));
        assert_ne!(crc, mask(mask(crc)));
    }
}
