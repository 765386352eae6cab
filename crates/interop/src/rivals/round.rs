//! One list: sessions between reopenings, at each of which the engines swap their folders.

use siltstone_sim::TempDir;
use siltstone_sim::differential::operation::{Act, Operation};
use siltstone_sim::differential::order;
use siltstone_sim::differential::reference::{Flaw, Reference};
use siltstone_sim::differential::run::judge::{Checked, Judge, Mismatch};

use super::session::Session;
use crate::leveldb::LevelDb;
use crate::peer::{Database, Engine, Order, Settings};
use crate::rng::Rng;
use crate::workload;

/// One list in so many is in a custom order.
const BACKWARDS_ONE_IN: u64 = 4;

/// What lists did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Operations, each done by both engines.
    pub operations: u64,
    /// How often the engines swapped their folders.
    pub swaps: u64,
    /// Entries that each engine showed of the other's folder just after a swap.
    pub entries: u64,
}

impl Tally {
    /// Sums up.
    pub fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.swaps += other.swaps;
        self.entries += other.entries;
    }
}

pub(super) struct Round {
    engines: [Engine; 2],
    folders: TempDir,
    /// Which folder the first engine is in.
    first: usize,
    seed: u64,
    settings: Settings,
    pub(super) reference: Reference,
    pub(super) judge: Judge,
    tally: Tally,
}

impl Round {
    pub(super) fn new(leveldb: LevelDb, seed: u64, flaw: Flaw) -> Round {
        let (order, same) = match seed % BACKWARDS_ONE_IN {
            0 => (Order::Backwards, order::Order::Reverse),
            _ => (Order::Bytewise, order::Order::Bytewise),
        };
        Round {
            engines: [Engine::LevelDb(leveldb), Engine::Siltstone],
            folders: TempDir::in_memory("rivals"),
            first: 0,
            seed,
            settings: workload::settings(&mut Rng::new(seed), order),
            reference: Reference::new(same, flaw),
            judge: Judge::new(seed, same),
            tally: Tally::default(),
        }
    }

    /// Does all operations, and looks at everything once more after the last swap.
    ///
    /// # Errors
    ///
    /// The first difference and the index of its operation.
    pub(super) fn run(mut self, list: &[Operation]) -> Result<Tally, (usize, Mismatch)> {
        let mut done = 0;
        loop {
            let reopening = self.session(list, &mut done).map_err(|mismatch| (done, mismatch))?;
            self.reference.reopen();
            self.first = 1 - self.first;
            match reopening {
                Some(variant) => self.choose(variant),
                None => break,
            }
        }
        // No operation is left: this one only looks.
        self.session(list, &mut done).map_err(|mismatch| (done, mismatch))?;
        Ok(self.tally)
    }

    /// New options, or those that there are.
    fn choose(&mut self, variant: Option<u32>) {
        if let Some(variant) = variant {
            let mut rng = Rng::new(self.seed.wrapping_add(u64::from(variant)));
            self.settings = workload::settings(&mut rng, self.settings.order);
        }
    }

    /// Opens both databases, does operations from `done` on up to a reopening, and closes them.
    /// Returns the variant of that, or none at the end of the list.
    fn session(
        &mut self,
        list: &[Operation],
        done: &mut usize,
    ) -> Result<Option<Option<u32>>, Mismatch> {
        let dbs = [self.open(0)?, self.open(1)?];
        let reopening = self.between(&dbs, list, done);
        // Also after a difference: LevelDB's thread is to end.
        dbs.into_iter().for_each(|db| db.close());
        reopening
    }

    fn open(&self, engine: usize) -> Result<Box<dyn Database>, Mismatch> {
        let folder = self.folders.path().join(["a", "b"][engine ^ self.first]);
        let engine = self.engines[engine];
        let opened = engine.open(&folder, &self.settings);
        opened.map_err(|error| Mismatch(format!("{} opens: {error}", engine.name())))
    }

    fn between(
        &mut self,
        dbs: &[Box<dyn Database>; 2],
        list: &[Operation],
        done: &mut usize,
    ) -> Result<Option<Option<u32>>, Mismatch> {
        let mut session = Session::new(self, dbs.each_ref().map(|db| &**db));
        let shown = session.look_at_all();
        session.round.tally.swaps += 1;
        session.round.tally.entries += shown?;
        let ended = session.run(list, done);
        session.end_readers();
        session.round.tally.operations += ended.as_ref().map_or(0, |(count, _)| *count);
        ended.map(|(_, variant)| variant)
    }
}

impl Session<'_, '_> {
    /// Does operations up to a reopening. Returns how many, and the variant of that.
    fn run(
        &mut self,
        list: &[Operation],
        done: &mut usize,
    ) -> Result<(u64, Option<Option<u32>>), Mismatch> {
        let mut count = 0;
        while let Some(operation) = list.get(*done) {
            count += 1;
            if let Act::Reopen { variant, .. } = operation.act {
                *done += 1;
                return Ok((count, Some(variant)));
            }
            let applied: Checked = self.apply(&operation.act);
            applied?;
            *done += 1;
        }
        Ok((count, None))
    }
}
