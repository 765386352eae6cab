//! What is measured of one contestant: durable puts and what a lost machine takes of them, loading, and reading on a machine
//! that has nothing.

use std::time::{Duration, Instant};

use siltstone_cloud_lab::{Plan, Stage, Unit, quantiles};

use crate::load::{Load, Waits, spread};
use crate::side::{Contestant, Result, Role, micros};
use crate::tally::Counts;

/// Who put at the same time, where several do.
const WRITERS: u64 = 16;
/// Gets after an opening, which open tables too.
const FIRST_GETS: u64 = 64;
const COLD_GETS: u64 = 1_000;
const WARM_ROUNDS: u64 = 5;
const IDLE: Duration = Duration::from_secs(15);
/// What opening has left for later is over by then: a request of ours where all is here, and the gets are over at once.
const REST: Duration = Duration::from_secs(1);
const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// One measured number of a contestant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fact {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
}

/// Which of two numbers is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// All of one contestant, each part in a store of its own. `puts` are the durable ones of one writer.
pub(crate) fn measure(contestant: Contestant, plan: &Plan, puts: u64) -> Result<Vec<Fact>> {
    let mut facts = Vec::new();
    if contestant.writes() {
        durable(contestant, plan, puts, &mut facts)?;
    }
    if contestant.loads() {
        let stage = Stage::new(plan);
        loading(contestant, plan, &stage, &mut facts)?;
        if contestant.reads() {
            reading(contestant, plan, &stage, &mut facts)?;
        }
    }
    Ok(facts)
}

fn durable(who: Contestant, plan: &Plan, puts: u64, facts: &mut Vec<Fact>) -> Result<()> {
    let stage = Stage::new(plan);
    let (side, tally) = who.open(&stage, Role::Writes)?;
    let load = Load {
        writers: 1,
        each: puts,
        first: 0,
        value_bytes: plan.value_bytes,
        seed: plan.seed,
        waits: Waits::Durable,
    };
    let before = tally.counts();
    let [p50, p99, _] = quantiles(&side.puts(&load)?);
    // What a machine that is lost right after the last acknowledgement leaves behind.
    let left = stage.as_of_now();
    let asked = tally.counts() - before;
    facts.extend([
        lower("durable put, one writer: p50", p50, Unit::Micros),
        lower("durable put, one writer: p99", p99, Unit::Micros),
        lower("durable put, one writer: PUTs", share(asked.puts, puts), Unit::Count),
        lower("durable put, one writer: bytes sent", share(asked.sent, puts), Unit::Count),
    ]);

    let crowd = Load { writers: WRITERS, each: puts.div_ceil(8), first: puts, ..load };
    let (before, begin) = (tally.counts(), Instant::now());
    let [p50, p99, _] = quantiles(&side.puts(&crowd)?);
    let rate = crowd.entries() as f64 / begin.elapsed().as_secs_f64();
    let asked = tally.counts() - before;
    facts.extend([
        lower("durable put, 16 writers: p50", p50, Unit::Micros),
        lower("durable put, 16 writers: p99", p99, Unit::Micros),
        higher("durable puts, 16 writers: a second", rate, Unit::Count),
        lower("durable put, 16 writers: PUTs", share(asked.puts, crowd.entries()), Unit::Count),
    ]);
    side.close()?;

    let begin = Instant::now();
    let (side, _) = who.open(&left, Role::Reads)?;
    let took = micros(begin);
    let (_, found) = side.gets(&(0..puts).collect::<Vec<_>>())?;
    facts.extend([
        lower(
            "machine lost: acknowledged puts gone, share",
            share(puts - found, puts),
            Unit::Ratio,
        ),
        lower("machine lost: opening on another", took, Unit::Micros),
    ]);
    side.close()
}

fn loading(who: Contestant, plan: &Plan, stage: &Stage, facts: &mut Vec<Fact>) -> Result<()> {
    let (side, tally) = who.open(stage, Role::Writes)?;
    let load = Load {
        writers: 1,
        each: plan.records,
        first: 0,
        value_bytes: plan.value_bytes,
        seed: plan.seed,
        waits: Waits::No,
    };
    let (before, begin) = (tally.counts(), Instant::now());
    side.puts(&load)?;
    let accepted = begin.elapsed();
    side.secure()?;
    let secured = begin.elapsed();
    let asked = side.settle()? - before;
    let rate = |time: Duration| load.bytes() as f64 / 1e6 / time.as_secs_f64();
    let million = |count: u64| count as f64 * 1e6 / load.entries() as f64;
    let dollars = asked.dollars() * 1e6 / load.entries() as f64;
    facts.extend([
        higher("ingest: accepted", rate(accepted), Unit::MegabytesPerSecond),
        higher("ingest: safe from the machine's loss", rate(secured), Unit::MegabytesPerSecond),
        lower("ingest of a million, merged: PUTs", million(asked.puts), Unit::Count),
        lower("ingest of a million, merged: GETs", million(asked.gets), Unit::Count),
        lower("ingest of a million, merged: requests' price", dollars, Unit::Dollars),
        lower(
            "ingest, merged: bytes sent to bytes put",
            share(asked.sent, load.bytes()),
            Unit::Ratio,
        ),
        lower(
            "ingest, merged: bytes received to bytes put",
            share(asked.received, load.bytes()),
            Unit::Ratio,
        ),
    ]);
    side.close()
}

fn reading(who: Contestant, plan: &Plan, stage: &Stage, facts: &mut Vec<Fact>) -> Result<()> {
    let begin = Instant::now();
    let (side, tally) = who.open(stage, Role::Reads)?;
    let opened = tally.counts();
    facts.extend([
        lower("opening, nothing here: time", micros(begin), Unit::Micros),
        lower("opening, nothing here: requests", opened.requests() as f64, Unit::Count),
    ]);
    let gets = |numbers: &[u64]| -> Result<(Vec<f64>, Counts)> {
        let before = tally.counts();
        let (times, found) = side.gets(numbers)?;
        if found < numbers.len() as u64 {
            let missing = numbers.len() as u64 - found;
            return Err(format!("{}: {missing} entries are missing", who.name()).into());
        }
        Ok((times, tally.counts() - before))
    };
    let count = COLD_GETS.min(plan.records);
    let each = |asked: u64| share(asked, count);

    let (first, asked) = gets(&spread(count, plan.records, 0)[..FIRST_GETS.min(count) as usize])?;
    let [p50, p99, _] = quantiles(&first);
    facts.extend([
        lower("first 64 gets: p50", p50, Unit::Micros),
        lower("first 64 gets: p99", p99, Unit::Micros),
        lower("first 64 gets: GETs of tables, all", asked.table_gets as f64, Unit::Count),
        lower("first 64 gets: bytes, all", asked.table_received as f64, Unit::Count),
    ]);
    let numbers = spread(count, plan.records, 1);
    let (cold, asked) = gets(&numbers)?;
    let [p50, p99, _] = quantiles(&cold);
    facts.extend([
        lower("cold get: p50", p50, Unit::Micros),
        lower("cold get: p99", p99, Unit::Micros),
        lower("cold get: GETs of tables", each(asked.table_gets), Unit::Count),
        lower("cold get: bytes", each(asked.table_received), Unit::Count),
    ]);
    let mut warm = Vec::new();
    let before = tally.counts();
    for _ in 0..WARM_ROUNDS {
        warm.extend(gets(&numbers)?.0);
    }
    let [p50, p99, _] = quantiles(&warm);
    let asked = tally.counts() - before;
    facts.extend([
        lower("warm get: p50", p50, Unit::Micros),
        lower("warm get: p99", p99, Unit::Micros),
        lower("warm get: GETs of tables", each(asked.table_gets) / WARM_ROUNDS as f64, Unit::Count),
    ]);
    std::thread::sleep(REST);
    let before = tally.counts();
    std::thread::sleep(IDLE);
    let asked = tally.counts() - before;
    let months = MONTH.as_secs_f64() / IDLE.as_secs_f64();
    facts.extend([
        lower(
            "idle: requests a minute",
            asked.requests() as f64 * 60.0 / IDLE.as_secs_f64(),
            Unit::Count,
        ),
        lower("idle: requests' price a month", asked.dollars() * months, Unit::Dollars),
    ]);
    side.close()
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn lower(what: &'static str, value: f64, unit: Unit) -> Fact {
    Fact { what, value, unit, better: Better::Lower }
}

fn higher(what: &'static str, value: f64, unit: Unit) -> Fact {
    Fact { what, value, unit, better: Better::Higher }
}
