//! Policies on imaginary tables: lists of numbers in the place of files, and the real rules for all else. Millions of
//! writes take seconds, and each key is looked at in passing: **of the versions of a key that meet in a merge, the one that
//! the search order finds first must be the newest**.
//!
//! What it counts are entries. Blocks, compression, caches and jobs that run side by side are not in it.

mod tables;

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::key::{InternalKey, SEQNO_MAX, SeqNo, ValueKind};
use crate::base::slot::{Area, Slot};
use crate::compaction::accept::accept;
use crate::compaction::hot_map::{HotMap, KeyHash};
use crate::compaction::in_flight::InFlight;
use crate::compaction::leveled::LeveledSettings;
use crate::compaction::policy::{Compaction, CompactionPolicy, PickView};
use crate::format::filename::FileNumber;
use crate::version::builder::{self, Change};
use crate::version::graveyard::Graveyard;
use crate::version::table_meta::TableMeta;
use crate::version::{KeyRange, Tables, Version, check};

/// Sizes of a simulated database, in entries.
#[derive(Clone, Copy, Debug)]
pub struct SimulationOptions {
    /// The policy.
    pub compaction: Compaction,
    /// Entries of a memtable: so many writes, less what is overwritten among them.
    pub memtable: usize,
    /// Entries of a table.
    pub table: u64,
    /// Entries of level 1.
    pub level1: u64,
    /// How many times the one before it each deeper level holds.
    pub growth: u64,
    /// Tables of level 0 at which it is merged.
    pub level0: usize,
}

impl Default for SimulationOptions {
    fn default() -> Self {
        SimulationOptions {
            compaction: Compaction::default(),
            memtable: 4_000,
            table: 1_000,
            level1: 10_000,
            growth: 10,
            level0: 4,
        }
    }
}

/// What was done since the last [`Simulation::reset`], in entries where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulationCounts {
    /// Writes.
    pub written: u64,
    /// Into level 0.
    pub flushed: u64,
    /// By merges.
    pub merged: u64,
    /// By the largest merge.
    pub largest_merge: u64,
    /// How many merges.
    pub merges: u64,
    /// How many tables changed their place without being copied.
    pub moves: u64,
}

/// What a simulated database looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SimulationShape {
    /// Keys.
    pub live: u64,
    /// Entries that tables hold, with those that do not count any more.
    pub stored: u64,
    /// Of these, in SST logs.
    pub logged: u64,
    /// Tables whose range holds a key, up to the one that has it, on average over keys.
    pub probes: f64,
    /// Sorted runs that a scan merges.
    pub runs: u64,
}

/// Bytes that an entry counts for.
const ENTRY_BYTES: u64 = 100;
/// As the engine has it.
const MARKS: usize = 32;
const SAMPLED: usize = 100;

/// A key and when it was written.
type Entry = (u32, u32);

/// A database of imaginary tables. A function of its options and what it is told.
pub struct Simulation {
    options: SimulationOptions,
    order: InternalOrder,
    policy: Box<dyn CompactionPolicy>,
    version: Arc<Version>,
    contents: HashMap<FileNumber, Arc<Vec<Entry>>>,
    memtable: Vec<Entry>,
    /// By key: when it was written last, plus one.
    newest: HashMap<u32, u32>,
    hot_map: Option<HotMap>,
    graveyard: Arc<Graveyard>,
    last_number: u64,
    last_seqno: u32,
    counts: SimulationCounts,
}

impl Simulation {
    /// An empty database.
    pub fn new(options: SimulationOptions) -> Self {
        let hot_map = (options.compaction == Compaction::L2sm).then(HotMap::new);
        Simulation {
            options,
            order: InternalOrder::new(UserOrder::Bytewise),
            policy: options.compaction.policy(settings(&options)),
            version: Arc::default(),
            contents: HashMap::new(),
            memtable: Vec::new(),
            newest: HashMap::new(),
            hot_map,
            graveyard: Arc::new(Graveyard::new()),
            last_number: 0,
            last_seqno: 0,
            counts: SimulationCounts::default(),
        }
    }

    /// Writes a key. When the memtable is full it is flushed, and the policy gets all that it wants.
    ///
    /// # Errors
    ///
    /// What was wrong if an older version of a key came before a newer one, or a rule of versions was broken.
    pub fn put(&mut self, key: u32) -> Result<(), String> {
        self.last_seqno += 1;
        self.counts.written += 1;
        self.memtable.push((key, self.last_seqno));
        self.newest.insert(key, self.last_seqno);
        if self.memtable.len() < self.options.memtable {
            return Ok(());
        }
        self.flush()?;
        self.settle()
    }

    /// Writes what is in memory as a table, merges what SST logs hold, and goes on as with [`Compaction::Leveled`].
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn drain(&mut self) -> Result<(), String> {
        self.policy = Compaction::Leveled.policy(settings(&self.options));
        self.flush()?;
        self.settle()
    }

    /// What was done since the last reset.
    pub fn counts(&self) -> SimulationCounts {
        self.counts
    }

    /// Begins to count anew.
    pub fn reset(&mut self) {
        self.counts = SimulationCounts::default();
    }

    /// Reads every key.
    ///
    /// # Errors
    ///
    /// Names the first key of which a read does not find the newest version.
    pub fn check(&self) -> Result<(), String> {
        let mut unflushed = self.memtable.clone();
        unflushed.sort_unstable();
        let wrong = self.newest.iter().find(|(key, newest)| {
            let is_there = unflushed.binary_search(&(**key, **newest)).is_ok();
            !is_there && self.read(**key).0 != Some(**newest)
        });
        wrong.map_or(Ok(()), |(key, newest)| {
            Err(format!("key {key}: {:?} is read, {newest} was written", self.read(*key).0))
        })
    }

    /// What it looks like now.
    pub fn shape(&self) -> SimulationShape {
        let stored =
            |(_, table): &(Slot, &Arc<TableMeta>)| self.contents[&table.number].len() as u64;
        let logged = |(slot, _): &(Slot, &Arc<TableMeta>)| slot.area == Area::SstLog;
        let tables = || self.version.tables();
        let sampled = self.newest.keys().take(20_000);
        let (mut probes, mut keys) = (0, 0);
        for key in sampled {
            probes += self.read(*key).1;
            keys += 1;
        }
        let sources = |(slot, tables): (Slot, &Tables)| tables.sources(slot, &self.order.user);
        let runs = self.version.filled_slots().map(sources);
        SimulationShape {
            live: self.newest.len() as u64,
            stored: tables().map(|table| stored(&table)).sum(),
            logged: tables().filter(logged).map(|table| stored(&table)).sum(),
            probes: f64::from(probes) / f64::from(keys.max(1)),
            runs: runs.sum::<usize>() as u64,
        }
    }

    /// The version that tables have of a key, and how many had to be asked.
    fn read(&self, key: u32) -> (Option<u32>, u32) {
        let user = key.to_be_bytes();
        let mut probes = 0;
        for slot in Slot::all() {
            let range = KeyRange::closed(&user, &user);
            for (_, table) in self.version.meeting(&self.order.user, slot, range) {
                if !table.counts(&self.order.user, &user) {
                    continue;
                }
                probes += 1;
                let entries = &self.contents[&table.number];
                if let Ok(at) = entries.binary_search_by_key(&key, |entry| entry.0) {
                    return (Some(entries[at].1), probes);
                }
            }
        }
        (None, probes)
    }

    fn flush(&mut self) -> Result<(), String> {
        let mut entries = std::mem::take(&mut self.memtable);
        if let Some(map) = &mut self.hot_map {
            entries.iter().for_each(|(key, _)| map.note(KeyHash::of(&key.to_be_bytes())));
        }
        entries.sort_unstable_by_key(|(key, seqno)| (*key, std::cmp::Reverse(*seqno)));
        entries.dedup_by_key(|(key, _)| *key);
        if entries.is_empty() {
            return Ok(());
        }
        self.counts.flushed += entries.len() as u64;
        let table = self.store(entries);
        self.install(Change { removed: Vec::new(), added: vec![(Slot::L0, table)] })
    }

    /// Does all that the policy wants.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            let in_flight = InFlight::default();
            let view = PickView {
                version: &self.version,
                order: &self.order.user,
                in_flight: &in_flight,
                oldest_read: SEQNO_MAX,
            };
            let Some(plan) = self.policy.pick(&view) else { return Ok(()) };
            let Some(accepted) = accept(&self.order.user, &self.version, &in_flight, &plan) else {
                return Err(format!("{plan:?} cannot be done"));
            };
            let change = if accepted.moves {
                self.counts.moves += accepted.closed.tables.len() as u64;
                self.moved(&accepted.closed, accepted.to)
            } else {
                self.merged(&accepted.closed, accepted.to)?
            };
            self.install(change)?;
        }
    }

    fn install(&mut self, change: Change) -> Result<(), String> {
        let removed: Vec<FileNumber> = change.removed.iter().map(|(_, number)| *number).collect();
        let next = builder::apply(&self.order, &self.version, change);
        let next = next.map_err(|error| error.to_string())?;
        check::check(&self.order, &next).map_err(|error| error.to_string())?;
        for number in removed {
            if next.find(number).is_none() {
                self.contents.remove(&number);
            }
        }
        self.version = Arc::new(next);
        Ok(())
    }
}

fn internal(entry: &Entry) -> InternalKey {
    InternalKey::new(&entry.0.to_be_bytes(), SeqNo(u64::from(entry.1)), ValueKind::Value)
}

/// The key that an internal key is of.
fn number(key: &InternalKey) -> u32 {
    key.user().try_into().map_or(0, u32::from_be_bytes)
}

fn settings(options: &SimulationOptions) -> LeveledSettings {
    LeveledSettings {
        l0_trigger: options.level0,
        l0_trigger_if_large: options.level0,
        l0_first: usize::MAX,
        level1_bytes: options.level1 * ENTRY_BYTES,
        level_growth: options.growth,
        table_bytes: options.table * ENTRY_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::testing::Random;

    fn options(compaction: Compaction) -> SimulationOptions {
        SimulationOptions {
            compaction,
            memtable: 200,
            table: 50,
            level1: 500,
            growth: 10,
            level0: 2,
        }
    }

    /// Uniform updates; what merges wrote of each.
    fn run(compaction: Compaction) -> (SimulationCounts, SimulationShape) {
        let mut simulation = Simulation::new(options(compaction));
        let mut random = Random::new(7);
        for nth in 0..200_000 {
            simulation.put(random.below(20_000) as u32).unwrap();
            if nth % 20_000 == 0 {
                simulation.check().unwrap();
            }
        }
        simulation.check().unwrap();
        let (counts, shape) = (simulation.counts(), simulation.shape());
        simulation.drain().unwrap();
        simulation.check().unwrap();
        assert_eq!(simulation.shape().logged, 0, "{compaction:?}");
        (counts, shape)
    }

    #[test]
    fn no_policy_ever_finds_an_older_version_first() {
        for compaction in Compaction::ALL {
            let (counts, shape) = run(compaction);
            assert!(counts.merges > 1_000, "{compaction:?} {counts:?}");
            let is_logged = matches!(compaction, Compaction::Sliced | Compaction::L2sm);
            assert_eq!(shape.logged > 0, is_logged, "{compaction:?} {shape:?}");
        }
    }

    #[test]
    fn slices_write_less() {
        let merged = |compaction| run(compaction).0.merged as f64;
        let controls = [Compaction::Leveled, Compaction::Cursor].map(merged);
        let sliced = merged(Compaction::Sliced);
        assert!(controls.iter().all(|control| sliced < 0.8 * control), "{sliced} of {controls:?}");
    }
}
