//! How often keys were written lately, as L2SM tells it: a stack of Bloom filters, of which each has the keys that were
//! seen once more than those of the one before.
//!
//! The paper is "Less is More" (Huang et al., ICDE 2021); numbers it leaves open are those of its public prototype. What
//! is lost when the database closes is learned again.

use crate::base::hash;

/// A key counts as seen so many times at most.
const LAYERS: usize = 5;
/// Distinct keys that a layer takes at first.
const CAPACITY: usize = 500_000;
/// Layers grow with the number of keys that repeat; no further than this, which is 3 MB for each.
const CAPACITY_MAX: usize = 2_000_000;
/// Probes of a filter, for one false answer in a thousand.
const PROBES: u32 = 9;
const SEED: u32 = 0xbc9f_1d34;

pub(crate) struct HotMap {
    /// Never empty.
    layers: Vec<Layer>,
}

/// Keys as layers know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(u32);

impl KeyHash {
    pub(crate) fn of(user: &[u8]) -> Self {
        KeyHash(hash::hash(user, SEED))
    }
}

impl HotMap {
    pub(crate) fn new() -> Self {
        HotMap::with_capacity(CAPACITY)
    }

    pub(crate) fn with_capacity(keys: usize) -> Self {
        HotMap { layers: (0..LAYERS).map(|_| Layer::new(keys)).collect() }
    }

    /// A key was written.
    pub(crate) fn note(&mut self, key: KeyHash) {
        self.rotate();
        // One that is in all of them is as hot as can be.
        if let Some(layer) = self.layers.iter_mut().find(|layer| !layer.has(key)) {
            layer.insert(key);
        }
    }

    /// 0 of a key that was not seen lately; else the sum of the squares up to the number of times.
    pub(crate) fn weight(&self, key: KeyHash) -> u64 {
        let times = self.layers.iter().take_while(|layer| layer.has(key)).count() as u64;
        (1..=times).map(|time| time * time).sum()
    }

    /// Forgets what is too old or does not tell keys apart any more.
    fn rotate(&mut self) {
        if self.layers[0].keys > self.layers[0].capacity {
            let repeat = self.layers.get(1).is_some_and(|layer| layer.is_filled(5));
            let last = self.layers.last().map_or(CAPACITY, |layer| layer.capacity);
            let grown = (last + last / 10).min(CAPACITY_MAX.max(last));
            self.replace(0, if repeat { grown } else { last });
        }
        let is_like_the_next = |above: &usize| {
            let (layer, next) = (&self.layers[*above], &self.layers[above + 1]);
            let share = 0.8f64.powi(*above as i32 + 1);
            layer.is_filled(8) && next.keys as f64 > share * layer.keys as f64
        };
        if let Some(like) = (0..self.layers.len() - 1).find(is_like_the_next) {
            let capacity = self.layers.last().map_or(CAPACITY, |layer| layer.capacity);
            self.replace(like, capacity);
        }
    }

    /// Drops a layer, and puts an empty one at the end.
    fn replace(&mut self, nth: usize, capacity: usize) {
        self.layers.remove(nth);
        self.layers.push(Layer::new(capacity));
    }
}

/// A Bloom filter that counts its keys.
struct Layer {
    bits: Vec<u64>,
    keys: usize,
    capacity: usize,
}

impl Layer {
    fn new(capacity: usize) -> Self {
        let bits = (f64::from(PROBES) * capacity as f64 / std::f64::consts::LN_2) as usize;
        Layer { bits: vec![0; bits / 64 + 1], keys: 0, capacity }
    }

    fn is_filled(&self, percent: usize) -> bool {
        self.keys * 100 > self.capacity * percent
    }

    fn places(&self, KeyHash(hash): KeyHash) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (bits, stride) = (self.bits.len() as u64 * 64, hash.rotate_right(17));
        (0..PROBES).map(move |nth| {
            let bit = u64::from(hash.wrapping_add(stride.wrapping_mul(nth))) % bits;
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    fn has(&self, key: KeyHash) -> bool {
        self.places(key).all(|(word, bit)| self.bits[word] & bit != 0)
    }

    fn insert(&mut self, key: KeyHash) {
        for (word, bit) in self.places(key) {
            self.bits[word] |= bit;
        }
        self.keys += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> KeyHash {
        KeyHash::of(format!("user{number:012}").as_bytes())
    }

    #[test]
    fn weights_grow_with_the_square_of_what_was_seen() {
        let mut map = HotMap::with_capacity(1000);
        let mut weights = Vec::new();
        for _ in 0..7 {
            weights.push(map.weight(key(7)));
            map.note(key(7));
        }
        assert_eq!(weights, [0, 1, 5, 14, 30, 55, 55]);
        assert_eq!(map.weight(key(8)), 0);
    }

    #[test]
    fn few_keys_are_mistaken() {
        let mut map = HotMap::with_capacity(10_000);
        (0..10_000).for_each(|number| map.note(key(number)));
        assert!((0..10_000).all(|number| map.weight(key(number)) > 0));
        let mistaken = (10_000..20_000).filter(|number| map.weight(key(*number)) > 0).count();
        assert!(mistaken < 50, "{mistaken} of 10,000");
    }

    #[test]
    fn what_was_not_written_for_long_is_forgotten() {
        let mut map = HotMap::with_capacity(1000);
        for _ in 0..3 {
            map.note(key(0));
        }
        let mut weights = Vec::new();
        for round in 0..4 {
            (1..=1001).for_each(|number| map.note(key(round * 1001 + number)));
            weights.push(map.weight(key(0)));
        }
        assert!(weights.is_sorted_by(|before, after| before >= after), "{weights:?}");
        assert_eq!(weights.last(), Some(&0), "{weights:?}");
    }

    /// All keys written equally often tell nothing apart, however often that is.
    #[test]
    fn layers_that_are_alike_are_dropped() {
        let mut map = HotMap::with_capacity(1000);
        for _ in 0..20 {
            (0..500).for_each(|number| map.note(key(number)));
        }
        let alike =
            map.layers.windows(2).filter(|pair| pair[0].keys > 80 && pair[0].keys == pair[1].keys);
        assert_eq!(alike.count(), 0);
        assert!(map.layers.iter().all(|layer| layer.capacity == 1000));
    }

    #[test]
    fn layers_grow_when_keys_repeat() {
        let mut map = HotMap::with_capacity(1000);
        for number in 0..20_000 {
            map.note(key(number));
            if number % 5 == 0 {
                map.note(key(number));
            }
        }
        let largest = map.layers.iter().map(|layer| layer.capacity).max();
        assert!(largest > Some(1000), "{largest:?}");
    }
}
