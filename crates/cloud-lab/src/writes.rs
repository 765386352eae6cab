//! M2, M3 and M5: what writes take, in each mode beside a folder alone, and what a bucket is asked for them.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use siltstone::{Result, WriteOptions};
use siltstone_cloud::{LocalCopies, Purpose};

use crate::figure::{Figure, Unit, Wanted, median};
use crate::stage::{Dice, Mode, Plan, Stage, key};
use crate::usage::Usage;

/// Each write takes a request then: fewer tell as much.
const REMOTE_WRITES: u64 = 200;
/// No write takes longer than a minute.
const LONGEST_NANOS: u64 = 60_000_000_000;

#[derive(Default)]
struct Outcome {
    megabytes_per_second: Vec<f64>,
    quantiles: [Vec<f64>; 3],
    longest_gap: Vec<f64>,
    dollars_per_million: Vec<f64>,
    requests: Vec<f64>,
    /// Of the last run.
    usage: Option<(Usage, u64)>,
}

/// Fills databases in order and at random, in all modes in turn.
///
/// # Errors
///
/// Whatever a database meets.
pub fn writes(plan: &Plan, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    for (order, name) in [(false, "fillseq"), (true, "fillrandom")] {
        let mut outcomes: Vec<Outcome> = Mode::ALL.iter().map(|_| Outcome::default()).collect();
        for run in 0..plan.runs {
            for (mode, outcome) in Mode::ALL.iter().zip(&mut outcomes) {
                fill(plan, (*mode, order, plan.seed + run), outcome)?;
            }
        }
        report(name, &outcomes, tell);
    }
    Ok(())
}

fn fill(plan: &Plan, (mode, random, seed): (Mode, bool, u64), outcome: &mut Outcome) -> Result<()> {
    let stage = Stage::new(plan);
    let machine = stage.machine("writes")?;
    let db = machine.open(mode, LocalCopies::All)?;
    let count = if mode == Mode::Remote { REMOTE_WRITES.min(plan.records) } else { plan.records };
    let options = WriteOptions { sync: mode == Mode::Remote };
    let mut times = Histogram::<u64>::new_with_bounds(1, LONGEST_NANOS, 3).map_err(|error| {
        siltstone::Error::new(siltstone::ErrorKind::InvalidArgument, error.to_string())
    })?;
    let (mut dice, mut value) = (Dice(seed), vec![0; plan.value_bytes]);
    let begin = Instant::now();
    let (mut last, mut longest) = (begin, Duration::ZERO);
    for number in 0..count {
        let number = if random { dice.below(count) } else { number };
        dice.fill(&mut value);
        db.put_with(key(number), &value, options)?;
        let now = Instant::now();
        let took = now - last;
        times.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        (last, longest) = (now, longest.max(took));
    }
    let took = begin.elapsed();
    db.flush()?;
    db.wait_for_background()?;
    db.close()?;
    let bytes = (count * (16 + plan.value_bytes as u64)) as f64;
    outcome.megabytes_per_second.push(bytes / 1e6 / took.as_secs_f64());
    for (at, quantile) in [0.5, 0.99, 0.999].into_iter().enumerate() {
        outcome.quantiles[at].push(times.value_at_quantile(quantile) as f64 / 1e3);
    }
    outcome.longest_gap.push(longest.as_secs_f64() * 1e6);
    let meter = machine.bucket.meter();
    outcome.dollars_per_million.push(meter.dollars() * 1e6 / count as f64);
    outcome.usage = Some((Usage::until(&meter), count));
    let manifest = meter.of(Purpose::Manifest).requests();
    outcome.requests.push((meter.requests() - manifest) as f64 * 1e6 / count as f64);
    Ok(())
}

fn report(name: &str, outcomes: &[Outcome], tell: &mut dyn FnMut(Figure)) {
    let of = |values: &[f64]| median(values.to_vec());
    let local = &outcomes[0];
    for (mode, outcome) in Mode::ALL.iter().zip(outcomes) {
        let what = |figure: &str| format!("{name}, {}: {figure}", mode.name());
        for (at, quantile) in ["p50", "p99", "p99.9"].into_iter().enumerate() {
            let value = of(&outcome.quantiles[at]);
            tell(Figure::new("M2", what(quantile), value, Unit::Micros));
            let figure = |bound: f64| {
                let ratio = value / of(&local.quantiles[at]).max(1e-3);
                let what = what(&format!("{quantile} to local"));
                Figure::new("M2", what, ratio, Unit::Ratio).wanted(Wanted::AtMost(bound))
            };
            match (mode, at) {
                (Mode::Tiered, 0) => tell(figure(1.1)),
                (Mode::Tiered, 1) => tell(figure(2.0)),
                _ => {}
            }
        }
        let longest = of(&outcome.longest_gap);
        tell(Figure::new("M2", what("longest put"), longest, Unit::Micros));
        let rate = of(&outcome.megabytes_per_second);
        tell(Figure::new("M3", what("rate"), rate, Unit::MegabytesPerSecond));
        if *mode == Mode::Tiered {
            let ratio = rate / of(&local.megabytes_per_second).max(1e-9);
            let figure = Figure::new("M3", what("rate to local"), ratio, Unit::Ratio);
            tell(figure.wanted(Wanted::AtLeast(0.85)));
        }
        if *mode != Mode::Local {
            let dollars = of(&outcome.dollars_per_million);
            let figure = Figure::new("M5", what("price of a million"), dollars, Unit::Dollars);
            let is_bulk = *mode == Mode::Tiered;
            tell(if is_bulk { figure.wanted(Wanted::AtMost(0.002)) } else { figure });
            let what = what("requests of a million, but for versions'");
            tell(Figure::new("M5", what, of(&outcome.requests), Unit::Count));
            if let Some((usage, puts)) = &outcome.usage {
                usage.tell(&format!("{name}, {}", mode.name()), *puts, tell);
            }
        }
    }
}
