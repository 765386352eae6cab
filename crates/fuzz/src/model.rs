//! What a database must show after writes of which some were refused: all that was acknowledged,
//! and of the refused ones, after a reopen, each whole or not at all.

use std::collections::BTreeMap;

use crate::reading::Pairs;

pub(crate) type Update = (Vec<u8>, Option<Vec<u8>>);
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
pub(crate) struct Model {
    acknowledged: Map,
    /// Batches refused since the last acknowledged one. They are not visible, but a reopen may
    /// show them.
    refused: Vec<Vec<Update>>,
    /// Values made so far.
    values: u64,
}

/// More refused batches than these are too many to tell apart.
const REFUSED_MAX: usize = 5;

impl Model {
    /// Whether one more batch may be tried.
    pub(crate) fn can_tell(&self) -> bool {
        self.refused.len() < REFUSED_MAX
    }

    pub(crate) fn wrote(&mut self, batch: Vec<Update>, acknowledged: bool) {
        if acknowledged {
            apply(&mut self.acknowledged, &batch);
            self.refused.clear();
        } else {
            self.refused.push(batch);
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Vec<u8>> {
        self.acknowledged.get(key)
    }

    pub(crate) fn now(&self) -> Pairs {
        self.acknowledged.clone().into_iter().collect()
    }

    /// Checks what a reopen shows, which stays from then on.
    pub(crate) fn adopt(&mut self, found: Pairs) {
        let found: Map = found.into_iter().collect();
        let known = (0..1u32 << self.refused.len()).any(|chosen| {
            let mut expected = self.acknowledged.clone();
            for (at, batch) in self.refused.iter().enumerate() {
                if chosen >> at & 1 == 1 {
                    apply(&mut expected, batch);
                }
            }
            expected == found
        });
        assert!(
            known,
            "a reopen shows {found:?}\nacknowledged was {:?}\nrefused was {:?}",
            self.acknowledged, self.refused
        );
        self.acknowledged = found;
        self.refused.clear();
    }

    /// A value that no other write has, of about `len` bytes. It says which key it is for.
    pub(crate) fn new_value(&mut self, key: &[u8], len: usize) -> Vec<u8> {
        self.values += 1;
        value(key, self.values, len)
    }

    /// Whether a value was ever written to that key.
    pub(crate) fn ever_wrote(&self, key: &[u8], found: &[u8]) -> bool {
        let mut parts = found.split(|&byte| byte == b':');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
        let (Some(count), Some(len)) = (number(), number()) else { return false };
        count <= self.values && value(key, count, len as usize) == found
    }
}

fn value(key: &[u8], count: u64, len: usize) -> Vec<u8> {
    let mut value = format!("{count}:{len}:{}:", key.escape_ascii()).into_bytes();
    value.resize(value.len() + len, b'v');
    value
}

fn apply(map: &mut Map, batch: &[Update]) {
    for (key, value) in batch {
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}
