//! What was asked of a database, in order, and what may therefore be found after a crash.
//!
//! The contents after each write are kept as a hash, so that a state is looked up among thousands of
//! prefixes at once. Writes that failed may show or not; every choice has a chain of hashes.

use std::collections::BTreeMap;

use crate::hash::Mixer;
use std::hash::Hasher;

/// Keys and their values.
pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key, and its new value or its end.
pub type Update = (Vec<u8>, Option<Vec<u8>>);

/// One change of the database, whole or not at all.
#[derive(Clone, Debug)]
pub enum Effect {
    Batch(Vec<Update>),
    /// The database is destroyed.
    Wipe,
}

/// A hash of contents that an update changes in constant time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StateHash(u64);

impl StateHash {
    pub fn of(contents: &Contents) -> Self {
        StateHash(contents.iter().fold(0, |sum, (key, value)| sum ^ pair_hash(key, value)))
    }
}

fn pair_hash(key: &[u8], value: &[u8]) -> u64 {
    let mut mixer = Mixer::default();
    mixer.write(key);
    mixer.write(value);
    mixer.finish()
}

/// Contents, and their hash.
#[derive(Clone, Default)]
struct State {
    contents: Contents,
    hash: StateHash,
}

impl State {
    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Wipe => *self = State::default(),
            Effect::Batch(updates) => updates.iter().for_each(|(key, value)| self.set(key, value)),
        }
    }

    fn set(&mut self, key: &[u8], value: &Option<Vec<u8>>) {
        let old = match value {
            Some(value) => {
                self.hash.0 ^= pair_hash(key, value);
                self.contents.insert(key.to_vec(), value.clone())
            }
            None => self.contents.remove(key),
        };
        if let Some(old) = old {
            self.hash.0 ^= pair_hash(key, &old);
        }
    }
}

/// Failed writes a history may hold: each doubles the states to be expected.
const FAILED_MAX: usize = 6;

/// All writes since some known contents.
#[derive(Clone)]
pub struct History {
    base: Contents,
    effects: Vec<Effect>,
    /// Writes that failed, and so may show after a crash or not.
    failed: Vec<usize>,
    /// What a reader must see now: failed writes do not show.
    visible: State,
}

impl History {
    pub fn new(base: Contents) -> Self {
        let visible = State { hash: StateHash::of(&base), contents: base.clone() };
        History { base, effects: Vec::new(), failed: Vec::new(), visible }
    }

    /// Writes begun so far.
    pub fn len(&self) -> usize {
        self.effects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// What a reader must see.
    pub fn visible(&self) -> &Contents {
        &self.visible.contents
    }

    pub fn done(&mut self, effect: Effect) {
        self.visible.apply(&effect);
        self.effects.push(effect);
    }

    /// Whether there may be one more failed write.
    pub fn may_fail(&self) -> bool {
        self.failed.len() < FAILED_MAX
    }

    pub fn failed(&mut self, effect: Effect) {
        assert!(self.may_fail(), "a script has few failing writes");
        self.failed.push(self.effects.len());
        self.effects.push(effect);
    }

    /// The states that a crash may show.
    pub fn chain(&self) -> Chain {
        let mut states =
            vec![State { hash: StateHash::of(&self.base), contents: self.base.clone() }];
        let mut hashes = vec![vec![states[0].hash]];
        for (index, effect) in self.effects.iter().enumerate() {
            let without = if self.failed.contains(&index) { states.clone() } else { Vec::new() };
            states.iter_mut().for_each(|state| state.apply(effect));
            // Those without it come first, so that a look for a state finds the likelier one.
            states.splice(0..0, without);
            hashes.push(states.iter().map(|state| state.hash).collect());
        }
        Chain { hashes }
    }

    /// The contents after `count` writes, failed ones left out, for messages.
    pub fn contents_after(&self, count: usize) -> Contents {
        let mut state = State { hash: StateHash::default(), contents: self.base.clone() };
        let effects = self.effects.iter().enumerate().take(count);
        effects.filter(|(index, _)| !self.failed.contains(index)).for_each(|(_, effect)| {
            state.apply(effect);
        });
        state.contents
    }
}

/// For each number of writes, the hashes of the contents that may be found after them.
#[derive(Clone)]
pub struct Chain {
    hashes: Vec<Vec<StateHash>>,
}

/// A part of a chain: at least so many writes, at most so many.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    pub chain: &'a Chain,
    pub from: usize,
    pub to: usize,
}

impl Span<'_> {
    /// How many writes may have led to this state; the greatest number.
    pub fn find(&self, hash: StateHash) -> Option<usize> {
        (self.from..=self.to).rev().find(|count| self.chain.hashes[*count].contains(&hash))
    }

    /// Where else in the history this state was, to tell a loss from a mix-up.
    pub fn find_anywhere(&self, hash: StateHash) -> Option<usize> {
        let all = Span { chain: self.chain, from: 0, to: self.chain.hashes.len() - 1 };
        all.find(hash)
    }

    /// Tells expectations apart.
    pub fn key(&self) -> u64 {
        (self.from as u64) << 32 | self.to as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> Effect {
        Effect::Batch(vec![(key.into(), Some(value.into()))])
    }

    #[test]
    fn prefixes_are_found_and_mixtures_are_not() {
        let mut history = History::new(Contents::new());
        history.done(put("a", "1"));
        history.done(put("b", "2"));
        history.done(Effect::Batch(vec![("a".into(), None), ("c".into(), Some("3".into()))]));
        let chain = history.chain();
        let span = Span { chain: &chain, from: 1, to: 3 };
        for count in 0..=3 {
            let hash = StateHash::of(&history.contents_after(count));
            assert_eq!(span.find(hash), (count > 0).then_some(count));
        }
        let torn: Contents = [("b".into(), "2".into())].into();
        assert_eq!(span.find_anywhere(StateHash::of(&torn)), None);
    }

    #[test]
    fn a_failed_write_may_show_or_not() {
        let mut history = History::new(Contents::new());
        history.done(put("a", "1"));
        history.failed(put("b", "2"));
        history.done(put("c", "3"));
        assert!(!history.visible().contains_key(&b"b"[..]));
        let chain = history.chain();
        let span = Span { chain: &chain, from: 3, to: 3 };
        let mut found = history.visible().clone();
        assert_eq!(span.find(StateHash::of(&found)), Some(3));
        found.insert(b"b".to_vec(), b"2".to_vec());
        assert_eq!(span.find(StateHash::of(&found)), Some(3));
        found.remove(&b"a"[..]);
        assert_eq!(span.find(StateHash::of(&found)), None);
    }
}
