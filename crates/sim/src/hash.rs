//! A fast hash for telling disk images and traces apart. Not for hostile input, and its values may
//! change from one version to the next.

use std::hash::Hasher;

/// Hashes eight bytes at a time.
#[derive(Clone, Default)]
pub struct Mixer(u64);

impl Mixer {
    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut mixer = Mixer::default();
        mixer.write(bytes);
        mixer.finish()
    }

    fn mix(&mut self, word: u64) {
        // An odd constant with well-spread bits (from the golden ratio); the rotation brings upper bits
        // back into play.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // The length tells "a" from "a\0".
        self.mix(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn finish(&self) -> u64 {
        // Murmur's finisher: every input bit reaches every output bit.
        let mut hash = self.0;
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ (hash >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_inputs_have_distant_hashes() {
        assert_ne!(Mixer::of(b"a"), Mixer::of(b"a\0"));
        assert_ne!(Mixer::of(b""), Mixer::of(b"\0"));
        let differing = (Mixer::of(b"image 1") ^ Mixer::of(b"image 2")).count_ones();
        assert!(differing > 16, "{differing} bits differ");
    }
}
