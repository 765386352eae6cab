//! What a writer writes: batch `n` of writer `w` is a function of the seed, so the killed child and
//! the process that judges what it left need exchange no more than numbers.
//!
//! Each writer has keys of its own, below a letter of its own. Each batch puts a key that no other
//! batch puts, and a much later one deletes it: so of the last thousand batches each can be missed
//! by itself. Other keys are common ones, overwritten and deleted again and again.
//!
//! A value says who wrote it, and its bytes follow from that: see [`Origin`].

use siltstone_interop::peer::Change;
use siltstone_interop::rng::Rng;

/// How many writers there are at most.
pub(crate) const WRITERS_MAX: usize = 3;
/// So many batches later, a batch's own key is deleted.
const KEPT: u64 = 1500;
/// How many of them one batch deletes. Not all batches delete any, so that it is more than one.
const DELETED_TOGETHER: u64 = 8;
const COMMON_KEYS: usize = 300;
/// Enough for chance not to make two values alike.
const LEAST_BYTES: usize = 16;
/// Larger than two blocks of a log.
const LARGE_VALUE_BYTES: usize = 100_000;

/// Everything that will be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) seed: u64,
}

impl Script {
    /// The changes of batch `number` of a writer.
    pub(crate) fn batch(self, writer: usize, number: u64) -> Vec<Change> {
        let mut rng = self.dice(writer, number);
        let mut changes = Changes { script: self, writer, number, changes: Vec::new() };
        changes.put(own_key(writer, number), value_bytes(&mut rng));
        match rng.below(20) {
            0..9 => {}
            9..12 => changes.delete(common_key(writer, &mut rng)),
            _ => {
                for age in KEPT..KEPT + DELETED_TOGETHER {
                    if let Some(old) = number.checked_sub(age) {
                        changes.delete(own_key(writer, old));
                    }
                }
                for _ in 0..rng.below(12) {
                    let key = common_key(writer, &mut rng);
                    match rng.below(4) {
                        0 => changes.delete(key),
                        _ => changes.put(key, value_bytes(&mut rng)),
                    }
                }
            }
        }
        changes.changes
    }

    /// Chance that belongs to one batch.
    pub(crate) fn dice(self, writer: usize, number: u64) -> Rng {
        let mut rng = Rng::new(self.seed ^ number.rotate_left(20) ^ writer as u64);
        // Neighbouring numbers must not begin alike.
        Rng::new(rng.number())
    }

    /// The value that `origin` must have under `key`.
    fn value(self, origin: Origin, key: &[u8]) -> Vec<u8> {
        let mut value = origin.header().to_vec();
        let key_sum: u64 = key.iter().fold(0, |sum, byte| sum * 31 % (1 << 40) + u64::from(*byte));
        let mut rng = Rng::new(self.seed ^ key_sum ^ origin.number.rotate_left(32));
        // Half random, half a repetition: Snappy finds something, and not too much.
        let pattern = rng.bytes(48).repeat(2);
        value.extend(pattern.iter().cycle().take(origin.len as usize));
        value
    }

    /// Who wrote the value; `None` if it is not, byte for byte, what any batch puts under `key`.
    pub(crate) fn origin(self, key: &[u8], value: &[u8]) -> Option<Origin> {
        let origin = Origin::parse(value)?;
        (self.value(origin, key) == value).then_some(origin)
    }
}

/// The first bytes of each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) writer: u8,
    /// The batch.
    pub(crate) number: u64,
    /// The bytes that follow.
    len: u32,
}

const HEADER_BYTES: usize = 1 + 8 + 4;

impl Origin {
    fn header(self) -> [u8; HEADER_BYTES] {
        let mut header = [self.writer; HEADER_BYTES];
        header[1..9].copy_from_slice(&self.number.to_le_bytes());
        header[9..].copy_from_slice(&self.len.to_le_bytes());
        header
    }

    fn parse(value: &[u8]) -> Option<Origin> {
        let (header, rest) = value.split_first_chunk::<HEADER_BYTES>()?;
        let number = u64::from_le_bytes(*header[1..].first_chunk()?);
        let len = u32::from_le_bytes(*header[9..].first_chunk()?);
        (len as usize == rest.len()).then_some(Origin { writer: header[0], number, len })
    }
}

/// A batch in the making.
struct Changes {
    script: Script,
    writer: usize,
    number: u64,
    changes: Vec<Change>,
}

impl Changes {
    fn put(&mut self, key: Vec<u8>, bytes: usize) {
        let origin = Origin { writer: self.writer as u8, number: self.number, len: bytes as u32 };
        let value = self.script.value(origin, &key);
        self.changes.push(Change::Put(key, value));
    }

    fn delete(&mut self, key: Vec<u8>) {
        self.changes.push(Change::Delete(key));
    }
}

/// The letter that all keys of a writer begin with.
pub(crate) fn letter(writer: usize) -> u8 {
    b'a' + writer as u8
}

fn own_key(writer: usize, number: u64) -> Vec<u8> {
    format!("{}/own/{number:010}", letter(writer) as char).into_bytes()
}

fn common_key(writer: usize, rng: &mut Rng) -> Vec<u8> {
    format!("{}/common/{:04}", letter(writer) as char, rng.below(COMMON_KEYS)).into_bytes()
}

fn value_bytes(rng: &mut Rng) -> usize {
    match rng.below(2000) {
        0 => LARGE_VALUE_BYTES,
        1..20 => LEAST_BYTES + rng.below(9000),
        _ => LEAST_BYTES + rng.below(300),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_only_unchanged_and_under_its_own_key() {
        let script = Script { seed: 7 };
        let mut puts = 0;
        for change in (1..200).flat_map(|number| script.batch(1, number)) {
            let Change::Put(key, mut value) = change else { continue };
            puts += 1;
            assert_eq!(script.origin(&key, &value).expect("it is known").writer, 1);
            assert_eq!(script.origin(b"b/other", &value), None);
            assert_eq!(Script { seed: 8 }.origin(&key, &value), None);
            let last = value.len() - 1;
            value[last] ^= 1;
            assert_eq!(script.origin(&key, &value), None);
            assert_eq!(script.origin(&key, &value[..last]), None);
        }
        assert!(puts > 200);
    }

    #[test]
    fn every_batch_puts_its_own_key() {
        let script = Script { seed: 3 };
        for number in 2000..2300 {
            let own = own_key(0, number);
            let puts = script.batch(0, number).into_iter();
            assert!(
                puts.filter(|put| matches!(put, Change::Put(key, _) if *key == own)).count() == 1
            );
        }
    }
}
