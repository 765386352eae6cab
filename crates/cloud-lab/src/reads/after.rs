//! M6: the first gets after a merge beside the last before it, of a database that has more or less of its tables near; merged at home
//! and by a worker.

use std::fs;
use std::time::{Duration, Instant};

use siltstone::Result;
use siltstone_cloud::{LocalCopies, Purpose};
use siltstone_s3::{Snapshot, Verb};

use super::{GETS, open_tables, time_gets};
use crate::crew::{Crew, Workers};
use crate::figure::{Figure, Unit, Wanted, median, quantiles};
use crate::merges::{extras, wait_for_bucket};
use crate::processors;
use crate::stage::{Dice, Extras, Machine, Mode, Near, Opened, Plan, Stage, key, wrong};

/// What is read lies in this part of the keys.
const HOT: u64 = 20;
/// One in so many of its keys is written anew before the merge.
const WRITTEN: u64 = 50;
/// More than a processor's caches hold.
const PROCESSOR_CACHE_BYTES: usize = 128 << 20;
const GONE_WITHIN: Duration = Duration::from_secs(30);
/// Of gets' middle time: two passes over the same keys differ by as much.
const NO_WORSE: f64 = 1.1;
/// Of one get: some that are late are asked for twice.
const MORE_GETS: f64 = 0.05;

/// What a database has near.
struct Kind {
    name: &'static str,
    near: Near,
}

fn kinds(plan: &Plan) -> [Kind; 4] {
    let kind = |name, share: Option<u64>, local| {
        let cache = share.map(|share| (plan.bytes() / share).max(1 << 20));
        Kind { name, near: Near { blocks: 0, cache, local } }
    };
    [
        kind("nothing near", None, LocalCopies::UpTo(0)),
        kind("a tenth cached", Some(10), LocalCopies::UpTo(0)),
        // With room for what merges replace.
        kind("all cached", Some(1), LocalCopies::UpTo(0)),
        kind("copies of all", None, LocalCopies::All),
    ]
}

/// Measures each kind on the same database, which others have left in a store.
pub(super) fn after_merges(loaded: &Stage, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    for kind in kinds(loaded.plan()) {
        for by_worker in [false, true] {
            let run = |run| merge_between(&loaded.as_of_now().seeded_by(run), kind.near, by_worker);
            let runs: Vec<Run> = (0..loaded.plan().runs).map(run).collect::<Result<_>>()?;
            let place = if by_worker { "by a worker" } else { "at home" };
            report(&format!("{}, merged {place}", kind.name), &runs, tell);
        }
    }
    Ok(())
}

/// One pass over the keys.
struct Pass {
    times: Vec<f64>,
    /// Of one get.
    gets: f64,
}

impl Pass {
    fn over(keys: &[u64], machine: &Machine, db: &Opened) -> Result<Self> {
        let before = readers_gets(&machine.bucket.meter());
        empty_processor_caches();
        let times = time_gets(db, keys)?;
        let gets = readers_gets(&machine.bucket.meter()) - before;
        Ok(Pass { times, gets: gets as f64 / keys.len() as f64 })
    }
}

struct Run {
    cold: Pass,
    before: Pass,
    after: Pass,
}

fn merge_between(stage: &Stage, near: Near, by_worker: bool) -> Result<Run> {
    let plan = stage.plan();
    let crew = match by_worker {
        true => Some(Crew::start(stage, Workers { count: 1, slots: 1 })?),
        false => None,
    };
    let _kept = processors::keep_on(0);
    let client = crew.as_ref().map(|crew| crew.client(plan.seed)).transpose()?;
    let extras = client.as_ref().map_or_else(Extras::default, |client| extras(None, client));
    let machine = stage.machine("after")?;
    let db = machine.open_near(Mode::Tiered, near, extras)?;
    open_tables(&db)?;

    let hot = plan.records / 2..plan.records / 2 + (plan.records / HOT).max(1);
    let mut dice = Dice(plan.seed ^ 2);
    let any = |dice: &mut Dice| hot.start + dice.below(hot.end - hot.start);
    let keys: Vec<u64> = (0..GETS).map(|_| any(&mut dice)).collect();
    let cold = Pass::over(&keys, &machine, &db)?;
    let before = Pass::over(&keys, &machine, &db)?;
    for _ in 0..((hot.end - hot.start) / WRITTEN).max(1) {
        db.put(key(any(&mut dice)), vec![0; plan.value_bytes])?;
    }
    db.flush()?;
    wait_for_bucket(&db)?;
    let merges = db.metrics().merges;
    let (from, to) = (key(hot.start), key(hot.end));
    db.compact_range(Some(from.as_bytes()), Some(to.as_bytes()))?;
    if db.metrics().merges == merges {
        return Err(wrong("there was nothing to merge"));
    }
    db.wait_for_background()?;
    wait_for_bucket(&db)?;
    if near.local == LocalCopies::UpTo(0) {
        wait_until_gone(&machine)?;
    }
    let after = Pass::over(&keys, &machine, &db)?;
    db.close()?;
    Ok(Run { cold, before, after })
}

/// A pass meets what the one before has left there, else, and who comes first after a merge what it has left.
fn empty_processor_caches() {
    let mut memory = vec![1u8; PROCESSOR_CACHE_BYTES];
    memory.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
    std::hint::black_box(&memory);
}

/// Waits until no table is left in the folder: what is read then is not here by chance.
fn wait_until_gone(machine: &Machine) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < GONE_WITHIN {
        let mut names = fs::read_dir(&machine.folder).map_err(wrong)?.flatten();
        if !names.any(|name| name.path().extension().is_some_and(|suffix| suffix == "ldb")) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(wrong("tables stay in the folder"))
}

fn readers_gets(now: &Snapshot) -> u64 {
    let readers = [Purpose::Get, Purpose::Scan];
    readers.iter().map(|purpose| now.of(*purpose).verb(Verb::Get).requests).sum()
}

type PassOf = fn(&Run) -> &Pass;

/// The middle ones of all runs.
fn report(what: &str, runs: &[Run], tell: &mut dyn FnMut(Figure)) {
    let figure =
        |figure: &str, value, unit| Figure::new("M6", format!("{what}: {figure}"), value, unit);
    let of = |value: &dyn Fn(&Run) -> f64| median(runs.iter().map(value).collect());
    let passes: [(&str, PassOf); 3] = [
        ("cold", |run| &run.cold),
        ("before", |run| &run.before),
        ("first after", |run| &run.after),
    ];
    for (name, pass) in passes {
        for (at, quantile) in ["p50", "p99", "p99.9"].into_iter().enumerate() {
            let value = of(&|run| quantiles(&pass(run).times)[at]);
            tell(figure(&format!("{name}: {quantile}"), value, Unit::Micros));
        }
        let gets = of(&|run| pass(run).gets);
        tell(figure(&format!("{name}: GETs"), gets, Unit::Count));
    }
    let middle = |pass: &Pass| quantiles(&pass.times)[0].max(1e-3);
    let ratio = of(&|run| middle(&run.after) / middle(&run.before));
    let ratio = figure("first after to before: p50", ratio, Unit::Ratio);
    tell(ratio.wanted(Wanted::AtMost(NO_WORSE)));
    let more = of(&|run| run.after.gets - run.before.gets);
    tell(figure("more GETs than before", more, Unit::Count).wanted(Wanted::AtMost(MORE_GETS)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::small;

    #[test]
    fn merges_leave_near_what_was() {
        let plan = Plan { records: 20_000, value_bytes: 1_000, ..(*small("after")).clone() };
        let stage = super::super::loaded(&plan).unwrap();
        let mut figures = Vec::new();
        after_merges(&stage, &mut |figure| figures.push(figure)).unwrap();
        assert_eq!(figures.len(), 8 * 14, "{figures:?}");
        let more = figures.iter().filter(|figure| figure.what.ends_with("more GETs than before"));
        assert!(more.clone().all(Figure::is_met), "{:?}", more.collect::<Vec<_>>());
        let value = |name: &str| figures.iter().find(|figure| figure.what == name).unwrap().value;
        assert!(value("nothing near, merged by a worker: first after: GETs") >= 0.9);
        assert_eq!(value("copies of all, merged by a worker: first after: GETs"), 0.0);
    }
}
