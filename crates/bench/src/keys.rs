//! Keys as LevelDB's benchmark writes them: a prefix of the letter a, then a number in sixteen
//! decimal digits. The buffer is made once per thread and filled in for each operation.

const DIGITS: usize = 16;
/// LevelDB keeps keys in a buffer of 1024 bytes.
pub(crate) const PREFIX_BYTES_MAX: usize = 1024 - DIGITS - 1;

/// All pairs of digits, so that a key takes eight steps and not sixteen.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

/// One key, changed in place.
pub(crate) struct KeyBuffer(Vec<u8>);

impl KeyBuffer {
    pub(crate) fn new(prefix_bytes: usize) -> Self {
        let mut bytes = vec![b'a'; prefix_bytes];
        bytes.resize(prefix_bytes + DIGITS, b'0');
        KeyBuffer(bytes)
    }

    /// Makes it the key of `number`, of which the last sixteen digits count, and returns it.
    #[inline]
    pub(crate) fn set(&mut self, number: u64) -> &[u8] {
        let (_, digits) =
            self.0.split_last_chunk_mut::<DIGITS>().expect("made with so many digits");
        // Two halves: dividing 32 bits is cheaper than dividing 64.
        let (high, low) = (number / 100_000_000 % 100_000_000, number % 100_000_000);
        write_eight(&mut digits[..8], high as u32);
        write_eight(&mut digits[8..], low as u32);
        &self.0
    }
}

#[inline]
fn write_eight(digits: &mut [u8], mut number: u32) {
    for pair in digits.as_chunks_mut::<2>().0.iter_mut().rev() {
        *pair = PAIRS[(number % 100) as usize];
        number /= 100;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sixteen_digits_behind_the_prefix() {
        let mut key = KeyBuffer::new(0);
        for number in [0, 7, 99, 12_345_678, 123_456_789, 9_999_999_999_999_999] {
            assert_eq!(key.set(number), format!("{number:016}").as_bytes());
        }
        assert_eq!(key.set(1_0000_0000_0000_0042), b"0000000000000042");
        assert_eq!(KeyBuffer::new(3).set(42), b"aaa0000000000000042");
    }
}
