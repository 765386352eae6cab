//! Which calls fail: the running numbers of calls, and the rules that pick some of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use siltstone::Site;

use super::kind::{Fault, NAMED, Op};
use crate::Dice;

/// A call that changed the disk, or tried to: where from, and the name of the file or folder.
pub type Call = (Site, String);

/// A call that failed by a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired {
    /// Its running number among all calls; the first call is 1.
    pub number: u64,
    pub op: Op,
    /// Where it came from, if it changes the disk.
    pub site: Option<Site>,
    pub fault: Fault,
    /// The rule was made for that place, not for calls in general.
    pub by_place: bool,
}

#[derive(Default)]
pub(super) struct Rules(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub(super) calls: BTreeMap<Site, u64>,
    pub(super) trace: Vec<Call>,
    /// All calls so far, reads as well.
    pub(super) all: Vec<(Op, Option<Site>)>,
    rules: Vec<Rule>,
    chance: Option<(Dice, u64)>,
    pub(super) unreadable: Vec<String>,
    pub(super) fired: Vec<Fired>,
    /// Files and locks that are open now.
    pub(super) open: u64,
    /// Calls neither count nor fail.
    pub(super) aside: bool,
    pub(super) calls_max: Option<u64>,
}

/// What a rule counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// The calls from one place.
    From(Site),
    /// All calls; those that the fault does not suit are passed over.
    All,
}

struct Rule {
    counted: Counted,
    /// The number from which on calls fail.
    first: u64,
    /// So many of them.
    left: u64,
    fault: Fault,
}

impl Rules {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `count` calls fail, from the `n`-th from now on.
    pub(super) fn add(&self, counted: Counted, n: u64, count: u64, fault: Fault) {
        assert!(n > 0, "the next call is the first");
        let mut state = self.state();
        let before = match counted {
            Counted::From(site) => state.calls.get(&site).copied().unwrap_or(0),
            Counted::All => state.all.len() as u64,
        };
        state.rules.push(Rule { counted, first: before + n, left: count, fault });
    }

    /// Makes one call in `one_in` fail, in a way that suits it.
    pub(super) fn add_chance(&self, seed: u64, one_in: u64) {
        self.state().chance = Some((Dice::new(seed), one_in));
    }

    pub(super) fn clear(&self) {
        let mut state = self.state();
        state.rules.clear();
        state.unreadable.clear();
        state.chance = None;
    }

    /// Counts and notes a call, and tells how it is to fail.
    pub(super) fn next(&self, op: Op, site: Option<Site>, path: &Path) -> Option<Fault> {
        let mut state = self.state();
        if state.aside {
            return None;
        }
        state.note(op, site, path);
        let number = state.all.len() as u64;
        if state.calls_max.is_some_and(|most| number > most) && !std::thread::panicking() {
            drop(state);
            panic!("{number} calls and no end: it goes round in circles");
        }
        let (fault, by_place) = state.fault_for(op, site)?;
        state.fired.push(Fired { number, op, site, fault, by_place });
        Some(fault)
    }
}

impl State {
    fn note(&mut self, op: Op, site: Option<Site>, path: &Path) {
        self.all.push((op, site));
        if let Some(site) = site {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            self.trace.push((site, name.into_owned()));
            *self.calls.entry(site).or_default() += 1;
        }
    }

    /// How a call fails, and whether a rule for its place says so.
    fn fault_for(&mut self, op: Op, site: Option<Site>) -> Option<(Fault, bool)> {
        let (all, calls) = (self.all.len() as u64, &self.calls);
        let hit = self.rules.iter_mut().find(|rule| {
            let number = match rule.counted {
                Counted::All => rule.fault.suits(op).then_some(all),
                Counted::From(place) if site == Some(place) => calls.get(&place).copied(),
                Counted::From(_) => None,
            };
            rule.left > 0 && number.is_some_and(|number| number >= rule.first)
        });
        if let Some(rule) = hit {
            rule.left -= 1;
            return Some((rule.fault, rule.counted != Counted::All));
        }
        let (dice, one_in) = self.chance.as_mut()?;
        if dice.roll(*one_in) > 0 {
            return None;
        }
        let suiting: Vec<Fault> =
            NAMED.iter().map(|(_, fault)| *fault).filter(|fault| fault.suits(op)).collect();
        Some((suiting[dice.roll(suiting.len() as u64) as usize], false))
    }
}
