//! Values that describe themselves: whose they are, and how long (oracle O8). A value under the wrong
//! key, of another run or cut short is told from the right one without knowing which it should be.
//!
//! | offset | size | field |
//! |-------:|-----:|-------|
//! | 0 | 8 | stamp: a hash of the run's seed, the key, the tag and the length |
//! | 8 | 4 | tag, which no other value of the run has |
//! | 12 | 4 | length |
//! | 16 | | bytes that follow from seed and tag |
//!
//! A value shorter than that holds as much of it as there is room for.

use std::fmt;
use std::hash::Hasher;

use super::order::Order;
use super::random::Random;
use crate::hash::Mixer;

const HEAD: usize = 16;

/// A value in short. Its bytes are a [`Scribe`]'s to write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Value {
    pub tag: u32,
    pub len: u32,
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}({} bytes)", self.tag, self.len)
    }
}

/// Writes the values of one run, and knows its own hand.
#[derive(Clone, Copy)]
pub struct Scribe {
    pub seed: u64,
    pub order: Order,
}

impl Scribe {
    /// Writes the value of a key into `out`: half of the values compress well, the others badly.
    pub fn write(&self, key: &[u8], value: Value, out: &mut Vec<u8>) {
        out.clear();
        let len = value.len as usize;
        out.extend_from_slice(&self.stamp(key, value).to_le_bytes());
        out.extend_from_slice(&value.tag.to_le_bytes());
        out.extend_from_slice(&value.len.to_le_bytes());
        let mut random = Random::new(self.seed ^ u64::from(value.tag));
        if value.tag.is_multiple_of(2) {
            let word = random.next().to_le_bytes();
            out.extend(word.iter().cycle().take(len.saturating_sub(HEAD)));
        } else {
            while out.len() < len {
                out.extend_from_slice(&random.next().to_le_bytes());
            }
        }
        out.truncate(len);
    }

    /// What a value tells of itself, if it is long enough to.
    ///
    /// # Errors
    ///
    /// If it is not a value that this scribe wrote for the key.
    pub fn read(&self, key: &[u8], bytes: &[u8]) -> Result<Option<Value>, String> {
        let Some((head, _)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| head[at + byte]));
        let value = Value { tag: number(8), len: number(12) };
        let stamped = head[..8] == self.stamp(key, value).to_le_bytes();
        if !stamped || value.len as usize != bytes.len() {
            let len = bytes.len();
            return Err(format!("{len} bytes that say they are {value:?}, of another key or run"));
        }
        let mut again = Vec::with_capacity(bytes.len() + 8);
        self.write(key, value, &mut again);
        if again == bytes { Ok(Some(value)) } else { Err(format!("{value:?}, with other bytes")) }
    }

    fn stamp(&self, key: &[u8], value: Value) -> u64 {
        let mut mixer = Mixer::default();
        mixer.write_u64(self.seed);
        mixer.write_u64(u64::from(value.tag) << 32 | u64::from(value.len));
        match self.order {
            // The key asked for and the key found may be spelled differently.
            Order::Folded => mixer.write(&key.to_ascii_lowercase()),
            _ => mixer.write(key),
        }
        mixer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIBE: Scribe = Scribe { seed: 7, order: Order::Bytewise };

    fn written(scribe: Scribe, key: &[u8], tag: u32, len: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        scribe.write(key, Value { tag, len }, &mut bytes);
        assert_eq!(bytes.len(), len as usize);
        bytes
    }

    #[test]
    fn a_value_tells_whose_it_is() {
        for (tag, len) in [(1, 16), (2, 17), (3, 200), (4, 3000)] {
            let bytes = written(SCRIBE, b"key", tag, len);
            assert_eq!(SCRIBE.read(b"key", &bytes), Ok(Some(Value { tag, len })));
            assert!(SCRIBE.read(b"kez", &bytes).is_err(), "another key's");
            let other = Scribe { seed: 8, ..SCRIBE };
            assert!(other.read(b"key", &bytes).is_err(), "another run's");
            let longer = [&bytes[..], b"x"].concat();
            assert!(SCRIBE.read(b"key", &longer).is_err(), "too long");
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x20;
                assert!(SCRIBE.read(b"key", &damaged).is_err(), "damaged at {at}");
            }
        }
    }

    #[test]
    fn short_values_say_nothing() {
        for len in 0..HEAD as u32 {
            assert_eq!(SCRIBE.read(b"key", &written(SCRIBE, b"key", 5, len)), Ok(None));
        }
    }

    #[test]
    fn case_does_not_count_where_it_does_not_in_keys() {
        let folded = Scribe { order: Order::Folded, ..SCRIBE };
        assert!(folded.read(b"KEY", &written(folded, b"key", 1, 50)).is_ok());
        assert!(SCRIBE.read(b"KEY", &written(SCRIBE, b"key", 1, 50)).is_err());
    }
}
