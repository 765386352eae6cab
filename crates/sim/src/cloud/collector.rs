//! Collectors: several, some of which wake up long after they have looked.

use siltstone_cloud::{CollectOptions, Collector, ErrorKind};

use super::actor::Actor;
use super::cheat::Mutant;

/// Collects one database after another.
pub(super) fn run(actor: &Actor) {
    let age_min = actor.stage.rules.age_min;
    while !actor.stage.is_over() {
        let roots = actor.stage.ledger().roots();
        let Some(root) = roots.get(actor.stage.roll(roots.len().max(1) as u64) as usize) else {
            actor.rest(600);
            continue;
        };
        let reconcile = actor.one_in(2);
        let batch = 1 + actor.stage.roll(6) as usize;
        let options = CollectOptions { age_min, reconcile, batch, dry_run: actor.one_in(20) };
        let mut collector = Collector::new(&actor.home(root), options);
        for _ in 0..1 + actor.stage.roll(6) {
            actor.client.begin_collection();
            if let Err(error) = collector.collect(actor.stage.token())
                && error.kind() != ErrorKind::Fenced
                && actor.stage.mutant != Some(Mutant::OpenNumbers)
            {
                // With that mutant the collector's own checks find the records wrong; what it does to others counts.
                actor.heed(&error);
            }
            actor.rest(age_min.as_secs());
            if actor.stage.is_over() {
                return;
            }
        }
    }
}
