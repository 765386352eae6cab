//! A database with much to merge, and what it holds. Its level 1 lies over all of its level 2: what goes down from there are
//! jobs that may run side by side.

use std::ops::RangeInclusive;

use siltstone::Result;
use siltstone_cloud::LocalCopies;

use super::wait_for_bucket;
use crate::stage::{Dice, Extras, Mode, Plan, Sizes, Stage, key};

/// Tables of level 2: so many or more, ..
const TABLES: RangeInclusive<u64> = 64..=256;
/// .. of this size where there is enough for them: with many jobs it does not matter that some workers have none at the end.
const TABLE_BYTES_USUAL: u64 = 512 << 10;

/// How much lies above.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    /// Entries written once more, at random.
    pub(crate) again: u64,
    /// Tables' worth of them in a flush.
    pub(crate) flush_tables: u64,
}

/// What is written while level 1 has a size.
struct Layer {
    sizes: Sizes,
    records: u64,
    is_random: bool,
}

/// Level 1 holds one table, and all else must go to level 2, which holds whatever comes.
pub(crate) fn deep(plan: &Plan) -> Sizes {
    let tables = (plan.bytes() / TABLE_BYTES_USUAL).clamp(*TABLES.start(), *TABLES.end());
    let table = (plan.bytes() / tables).clamp(16 << 10, 16 << 20);
    Sizes { write_buffer: table, table, level1: table, growth: 1_000 }
}

impl Backlog {
    fn layers(self, plan: &Plan) -> [Layer; 2] {
        let deep = deep(plan);
        // Level 1 holds whatever comes.
        let write_buffer = (deep.table * self.flush_tables).min(16 << 20);
        let shallow = Sizes { write_buffer, level1: 1 << 40, growth: 2, ..deep };
        [
            Layer { sizes: deep, records: plan.records, is_random: false },
            Layer { sizes: shallow, records: self.again, is_random: true },
        ]
    }

    /// A store with such a database.
    pub(crate) fn store(self, plan: &Plan) -> Result<Stage> {
        let stage = Stage::new(plan);
        let machine = stage.machine("backlog")?;
        let mut dice = Dice(plan.seed);
        for layer in self.layers(plan) {
            let extras = Extras { sizes: Some(layer.sizes), ..Extras::default() };
            let db = machine.open_with(Mode::Tiered, LocalCopies::All, extras)?;
            layer.write(plan, &mut dice, &mut |number, value| db.put(key(number), value))?;
            db.flush()?;
            db.wait_for_background()?;
            wait_for_bucket(&db)?;
            db.close()?;
        }
        Ok(stage)
    }

    /// All that is written there, in order.
    pub(crate) fn each(
        self,
        plan: &Plan,
        write: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut dice = Dice(plan.seed);
        self.layers(plan).iter().try_for_each(|layer| layer.write(plan, &mut dice, write))
    }
}

impl Layer {
    fn write(
        &self,
        plan: &Plan,
        dice: &mut Dice,
        write: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut value = vec![0; plan.value_bytes];
        for number in 0..self.records {
            let number = if self.is_random { dice.below(plan.records) } else { number };
            dice.fill(&mut value);
            write(number, &value)?;
        }
        Ok(())
    }
}
