//! M2 and M3 in the paper's five set-ups, and in two more of ours: fills in order and at random, and gets at random from
//! what the latter have left. Sizes are in proportion to the entries, so that each database flushes and merges while it is
//! filled.

mod rig;

use std::time::Instant;

use siltstone::{Result, WriteOptions};

use super::{NO_MOUNT, Places};
use crate::figure::{Figure, Unit, Wanted, median, quantiles};
use crate::processors;
use crate::stage::{Dice, Mode, Plan, key};
use rig::Rig;

/// Each write of some takes a request: fewer tell as much.
const REMOTE_WRITES: u64 = 200;
const READS_MAX: u64 = 20_000;

/// Where a database has what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetUp {
    /// All in a folder.
    Local,
    /// All in a folder of S3FS.
    OnS3fs,
    /// Tables there, and the rest in a folder.
    TablesOnS3fs,
    /// Tables in the bucket, by its own protocol.
    Tiered,
    /// The same, and a worker merges.
    Worker,
    /// The log follows the tables.
    Archive,
    /// Every write is in the bucket before it is acknowledged.
    Remote,
}

impl SetUp {
    const ALL: [SetUp; 7] = [
        SetUp::Local,
        SetUp::OnS3fs,
        SetUp::TablesOnS3fs,
        SetUp::Tiered,
        SetUp::Worker,
        SetUp::Archive,
        SetUp::Remote,
    ];

    fn name(self) -> &'static str {
        match self {
            SetUp::OnS3fs => "all on S3FS",
            SetUp::TablesOnS3fs => "tables on S3FS",
            SetUp::Worker => "tiered + worker",
            _ => self.mode().name(),
        }
    }

    fn mode(self) -> Mode {
        match self {
            SetUp::Local | SetUp::OnS3fs | SetUp::TablesOnS3fs => Mode::Local,
            SetUp::Tiered | SetUp::Worker => Mode::Tiered,
            SetUp::Archive => Mode::Archive,
            SetUp::Remote => Mode::Remote,
        }
    }

    fn is_on_s3fs(self) -> bool {
        matches!(self, SetUp::OnS3fs | SetUp::TablesOnS3fs)
    }
}

/// Fills a database in each set-up, in order and at random, and reads from the latter.
///
/// # Errors
///
/// Whatever a database meets.
pub fn setups(plan: &Plan, places: &Places, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    for (order, name) in [(Order::Ascending, "fillseq"), (Order::Random, "fillrandom")] {
        let can_be = |set_up: &SetUp| places.s3fs.is_some() || !set_up.is_on_s3fs();
        let mut outcomes = SetUp::ALL.map(|set_up| (set_up, Vec::new()));
        for run in 0..plan.runs {
            let plan = Plan { seed: plan.seed + run, ..plan.clone() };
            for (set_up, outcomes) in outcomes.iter_mut().filter(|(set_up, _)| can_be(set_up)) {
                outcomes.push(run_once(&plan, places, (*set_up, order))?);
            }
        }
        for (set_up, outcomes) in &outcomes {
            report(name, (*set_up, outcomes), tell);
        }
        compare(name, places, &outcomes, tell);
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Ascending,
    Random,
}

struct Outcome {
    /// While writes were accepted, and until all was merged and where it belongs: megabytes a second.
    accepted: f64,
    settled: f64,
    /// Microseconds.
    puts: [f64; 2],
    reads: Option<Reads>,
    merges: u64,
    elsewhere: u64,
    came_home: u64,
}

struct Reads {
    megabytes_per_second: f64,
    gets: [f64; 2],
}

fn run_once(plan: &Plan, places: &Places, (set_up, order): (SetUp, Order)) -> Result<Outcome> {
    let rig = Rig::new(plan, places, set_up)?;
    let is_remote = set_up == SetUp::Remote;
    let count = if is_remote { REMOTE_WRITES.min(plan.records) } else { plan.records };
    let mut writer = Writer { rig: &rig, plan, order, dice: Dice(plan.seed), times: Vec::new() };
    let begin = Instant::now();
    writer.put(0..count, WriteOptions { sync: is_remote })?;
    let accepted = begin.elapsed();
    rig.settle()?;
    let settled = begin.elapsed();
    let puts = middle_and_p99(&writer.times);
    let reads = match order {
        Order::Ascending => None,
        Order::Random => {
            // As many entries as elsewhere, for which nobody waits.
            writer.put(count..plan.records, WriteOptions::default())?;
            rig.settle()?;
            Some(read(&rig, plan)?)
        }
    };
    let metrics = rig.db.metrics();
    rig.close()?;
    let bytes = (count * plan.entry_bytes()) as f64 / 1e6;
    Ok(Outcome {
        accepted: bytes / accepted.as_secs_f64(),
        settled: bytes / settled.as_secs_f64(),
        puts,
        reads,
        merges: metrics.merges,
        elsewhere: metrics.merges_away,
        came_home: metrics.merges_come_home,
    })
}

struct Writer<'a> {
    rig: &'a Rig,
    plan: &'a Plan,
    order: Order,
    dice: Dice,
    /// Of each put, in microseconds.
    times: Vec<f64>,
}

impl Writer<'_> {
    fn put(&mut self, numbers: std::ops::Range<u64>, options: WriteOptions) -> Result<()> {
        let mut value = vec![0; self.plan.value_bytes];
        self.times.reserve((numbers.end - numbers.start) as usize);
        let mut last = Instant::now();
        for number in numbers {
            let number = match self.order {
                Order::Ascending => number,
                Order::Random => self.dice.below(self.plan.records),
            };
            self.dice.fill(&mut value);
            self.rig.db.put_with(key(number), &value, options)?;
            let now = Instant::now();
            self.times.push((now - last).as_secs_f64() * 1e6);
            last = now;
        }
        Ok(())
    }
}

fn read(rig: &Rig, plan: &Plan) -> Result<Reads> {
    let count = plan.records.min(READS_MAX);
    let (mut dice, mut times, mut bytes) = (Dice(plan.seed ^ 1), Vec::new(), 0);
    let begin = Instant::now();
    let mut last = begin;
    for _ in 0..count {
        // Some of them nobody has written: those bring nothing.
        let key = key(dice.below(plan.records));
        bytes += rig.db.get(&key)?.map_or(0, |value| key.len() + value.len());
        let now = Instant::now();
        times.push((now - last).as_secs_f64() * 1e6);
        last = now;
    }
    let megabytes_per_second = bytes as f64 / 1e6 / begin.elapsed().as_secs_f64();
    Ok(Reads { megabytes_per_second, gets: middle_and_p99(&times) })
}

fn middle_and_p99(times: &[f64]) -> [f64; 2] {
    let [p50, p99, _] = quantiles(times);
    [p50, p99]
}

/// The median of all runs.
fn of(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> f64 {
    median(outcomes.iter().map(value).collect())
}

fn report(name: &str, (set_up, outcomes): (SetUp, &[Outcome]), tell: &mut dyn FnMut(Figure)) {
    let set_up_name = set_up.name();
    if outcomes.is_empty() {
        let what = format!("{name}, {set_up_name}");
        return tell(Figure::missing("M3", &what, NO_MOUNT));
    }
    let mut figure = |id, what: &str, unit, value: &dyn Fn(&Outcome) -> f64| {
        let what = format!("{name}, {set_up_name}: {what}");
        tell(Figure::new(id, what, of(outcomes, value), unit));
    };
    figure("M2", "put, p50", Unit::Micros, &|outcome| outcome.puts[0]);
    figure("M2", "put, p99", Unit::Micros, &|outcome| outcome.puts[1]);
    let rate = Unit::MegabytesPerSecond;
    figure("M3", "rate", rate, &|outcome| outcome.accepted);
    figure("M3", "rate until all is merged, and where it belongs", rate, &|outcome| {
        outcome.settled
    });
    figure("M3", "merges", Unit::Count, &|outcome| outcome.merges as f64);
    if set_up == SetUp::Worker {
        figure("M3", "merges elsewhere", Unit::Count, &|outcome| outcome.elsewhere as f64);
        figure("M3", "merges that came home", Unit::Count, &|outcome| outcome.came_home as f64);
    }
    let reads =
        |outcome: &Outcome, value: fn(&Reads) -> f64| outcome.reads.as_ref().map_or(0.0, value);
    if outcomes.iter().all(|outcome| outcome.reads.is_some()) {
        figure("M3", "readrandom, rate", rate, &|outcome| {
            reads(outcome, |reads| reads.megabytes_per_second)
        });
        figure("M2", "readrandom, p50", Unit::Micros, &|outcome| {
            reads(outcome, |reads| reads.gets[0])
        });
        figure("M2", "readrandom, p99", Unit::Micros, &|outcome| {
            reads(outcome, |reads| reads.gets[1])
        });
    }
}

fn compare(
    name: &str,
    places: &Places,
    outcomes: &[(SetUp, Vec<Outcome>)],
    tell: &mut dyn FnMut(Figure),
) {
    let of = |wanted: SetUp, value: fn(&Outcome) -> f64| {
        let found = outcomes.iter().find(|(set_up, _)| *set_up == wanted);
        found.map_or(0.0, |(_, outcomes)| of(outcomes, value))
    };
    let ratio = |what: &str, (one, other): (SetUp, SetUp), value: fn(&Outcome) -> f64| {
        let what = format!("{name}, {} to {}: {what}", one.name(), other.name());
        Figure::new("M3", what, of(one, value) / of(other, value).max(1e-9), Unit::Ratio)
    };
    let rate = |pair| ratio("rate", pair, |outcome| outcome.accepted);
    let p50 = |pair| {
        let figure = ratio("put, p50", pair, |outcome| outcome.puts[0]);
        Figure { id: "M2", ..figure }
    };
    let p99 = |pair| {
        let figure = ratio("put, p99", pair, |outcome| outcome.puts[1]);
        Figure { id: "M2", ..figure }
    };
    let to_local = (SetUp::Tiered, SetUp::Local);
    tell(rate(to_local).wanted(Wanted::AtLeast(0.85)));
    tell(p50(to_local).wanted(Wanted::AtMost(1.1)));
    tell(p99(to_local).wanted(Wanted::AtMost(2.0)));
    for other in
        [SetUp::OnS3fs, SetUp::TablesOnS3fs].into_iter().filter(|_| places.are_comparable())
    {
        tell(rate((SetUp::Tiered, other)).wanted(Wanted::AtLeast(1.0)));
        tell(p99((SetUp::Tiered, other)).wanted(Wanted::AtMost(1.0)));
    }
    // The paper's last step made writes slower. It tells of a worker only where one has done most of the merging, on a
    // processor that the database does not need.
    let worker = p99((SetUp::Worker, SetUp::Tiered));
    let merges = of(SetUp::Worker, |outcome| outcome.merges as f64);
    let elsewhere = of(SetUp::Worker, |outcome| outcome.elsewhere as f64);
    let tells_of_workers = processors::count() > 1 && elsewhere > merges / 2.0;
    tell(if tells_of_workers { worker.wanted(Wanted::AtMost(1.0)) } else { worker });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::small;

    fn measured(name: &str, is_mounted: bool) -> Vec<Figure> {
        let plan = small(name);
        let s3fs = is_mounted.then(|| plan.folder.join("mount"));
        let places = Places { s3fs, bucket: None };
        let mut figures = Vec::new();
        setups(&plan, &places, &mut |figure| figures.push(figure)).unwrap();
        figures
    }

    #[test]
    fn each_set_up_is_filled_and_merges() {
        let figures = measured("set-ups", true);
        let of = |what: &str| {
            let figure = figures.iter().find(|figure| figure.what == what);
            figure.unwrap_or_else(|| panic!("{what}: {figures:?}")).value
        };
        for set_up in SetUp::ALL {
            for fill in ["fillseq", "fillrandom"] {
                let of = |what: &str| of(&format!("{fill}, {}: {what}", set_up.name()));
                let [p50, p99] = ["put, p50", "put, p99"].map(of);
                assert!(0.0 < p50 && p50 <= p99, "{set_up:?} {p50} {p99}");
                let settled = of("rate until all is merged, and where it belongs");
                assert!(0.0 < settled && settled <= of("rate"), "{set_up:?} {settled}");
            }
            let of = |what: &str| of(&format!("fillrandom, {}: {what}", set_up.name()));
            assert!(of("merges") > 0.0 && of("readrandom, rate") > 0.0, "{set_up:?}");
        }
        assert!(of("fillrandom, tiered + worker: merges elsewhere") > 0.0);
        assert!(figures.iter().all(|figure| !figure.value.is_nan()), "{figures:?}");
    }

    #[test]
    fn without_a_mount_its_set_ups_are_missing_and_no_others() {
        let figures = measured("set-ups-unmounted", false);
        let missing = figures.iter().filter(|figure| figure.value.is_nan());
        let missing: Vec<&str> = missing.map(|figure| figure.what.as_str()).collect();
        let expected = ["fillseq", "fillrandom"].map(|fill| {
            ["all on S3FS", "tables on S3FS"]
                .map(|set_up| format!("{fill}, {set_up}: no mount given"))
        });
        assert_eq!(missing, expected.concat());
    }
}
