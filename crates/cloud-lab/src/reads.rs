//! M5 to M7: what reads take on a machine that has nothing of the database but what it reads, and what the bucket is
//! asked for them.

mod after;

use std::time::{Duration, Instant};

use siltstone::Result;
use siltstone_cloud::{Bucket, Call, LocalCopies, Part, Purpose};
use siltstone_s3::{Snapshot, Verb};

use crate::figure::{Figure, Unit, Wanted, median, quantiles};
use crate::stage::{Dice, Machine, Mode, Opened, Plan, Stage, key};
use crate::usage::Usage;

const GETS: u64 = 200;
const PROBES: u64 = 100;
const SCANS: u64 = 50;
const IDLE: Duration = Duration::from_secs(3);

/// Gets of one key each: cold, when nothing is here, and again; and before and after merges.
///
/// # Errors
///
/// Whatever a database meets.
pub fn reads(plan: &Plan, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    let stage = loaded(plan)?;
    let machine = stage.machine("reads")?;
    let injected = injected(&machine)?;
    tell(Figure::new("M6", "one GET of 4 KiB: p50", injected, Unit::Micros));
    let probed = machine.bucket.meter().requests();
    let db = machine.open(Mode::Tiered, LocalCopies::UpTo(0))?;
    let opened = machine.bucket.meter();
    let requests = opened.requests() - probed;
    tell(Figure::new("M6", "opening: requests", requests as f64, Unit::Count));
    open_tables(&db)?;
    let tables: usize = db.levels().iter().map(|level| level.tables.len()).sum();
    let before = machine.bucket.meter();
    let each = gets(&before, &opened) / tables.max(1) as f64;
    let figure = Figure::new("M6", "opening a table: GETs", each, Unit::Count);
    tell(figure.wanted(Wanted::AtMost(1.1)));

    let mut dice = Dice(plan.seed ^ 1);
    let keys: Vec<u64> = (0..GETS).map(|_| dice.below(plan.records)).collect();
    let cold = time_gets(&db, &keys)?;
    let after = machine.bucket.meter();
    let per_get = gets(&after, &before) / GETS as f64;
    let figure = Figure::new("M5", "cold get: GETs", per_get, Unit::Count);
    tell(figure.wanted(Wanted::AtMost(1.05)));
    Usage::between(&before, &after).tell("cold get", GETS, tell);
    let [p50, p99, _] = quantiles(&cold);
    tell(Figure::new("M6", "cold get: p50", p50, Unit::Micros));
    let ratio = Figure::new("M6", "cold get: p50 to one GET", p50 / injected.max(1.0), Unit::Ratio);
    // Where a store takes no time, what is left is not the store's.
    let takes_time = injected > 1000.0;
    tell(if takes_time { ratio.wanted(Wanted::AtMost(1.2)) } else { ratio });
    tell(Figure::new("M6", "cold get: p99", p99, Unit::Micros));
    let warm = time_gets(&db, &keys)?;
    let [p50, p99, p999] = quantiles(&warm);
    for (name, value) in [("p50", p50), ("p99", p99), ("p99.9", p999)] {
        tell(Figure::new("M6", format!("warm get: {name}"), value, Unit::Micros));
    }
    let last = machine.bucket.meter();
    tell(Figure::new("M6", "warm get: GETs", gets(&last, &after) / GETS as f64, Unit::Count));
    std::thread::sleep(IDLE);
    let idle = machine.bucket.meter().requests() - last.requests();
    let figure = Figure::new("M5", "idle for 3 s: requests", idle as f64, Unit::Count);
    tell(figure.wanted(Wanted::AtMost(0.0)));
    db.close()?;
    after::after_merges(&stage, tell)
}

/// Scans from any key on: of ten entries, a thousand, and all.
///
/// # Errors
///
/// Whatever a database meets.
pub fn scans(plan: &Plan, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    let stage = loaded(plan)?;
    for (len, scans) in [(10, SCANS), (1_000, SCANS / 5), (plan.records, 1)] {
        let machine = stage.machine("scans")?;
        let db = machine.open(Mode::Tiered, LocalCopies::UpTo(0))?;
        open_tables(&db)?;
        let before = machine.bucket.meter();
        let (mut dice, begin, mut bytes) = (Dice(plan.seed ^ len), Instant::now(), 0);
        for _ in 0..scans {
            let from = if len == plan.records { 0 } else { dice.below(plan.records) };
            bytes += scan(&db, from, len)?;
        }
        let took = begin.elapsed().as_secs_f64();
        let name = if len == plan.records { "all".to_owned() } else { len.to_string() };
        let now = machine.bucket.meter();
        Usage::between(&before, &now).tell(&format!("scan of {name}"), scans, tell);
        let asked = gets(&now, &before) / scans as f64;
        let figure = Figure::new("M7", format!("scan of {name}: GETs"), asked, Unit::Count);
        let levels = db.levels().iter().filter(|level| !level.tables.is_empty()).count();
        tell(if len == 10 { figure.wanted(Wanted::AtMost(2.0 * levels as f64)) } else { figure });
        let rate = bytes as f64 / 1e6 / took;
        let figure =
            Figure::new("M7", format!("scan of {name}: rate"), rate, Unit::MegabytesPerSecond);
        let stream = plan.profile.bytes_per_second.filter(|_| len == plan.records);
        tell(match stream {
            Some(stream) => figure.wanted(Wanted::AtLeast(0.8 * stream as f64 / 1e6)),
            None => figure,
        });
        db.close()?;
    }
    Ok(())
}

/// A store with a database that another machine has filled, at random, and closed.
fn loaded(plan: &Plan) -> Result<Stage> {
    let loader = Stage::new(plan);
    let machine = loader.machine("load")?;
    let db = machine.open(Mode::Tiered, LocalCopies::All)?;
    let (mut dice, mut value) = (Dice(plan.seed), vec![0; plan.value_bytes]);
    let half = plan.records / 2;
    for number in 0..plan.records + half {
        // All of them, and half of them once more.
        let number = if number < plan.records { number } else { dice.below(plan.records) };
        dice.fill(&mut value);
        db.put(key(number), &value)?;
    }
    db.flush()?;
    db.wait_for_background()?;
    db.close()?;
    Ok(loader)
}

/// What a GET takes by itself.
fn injected(machine: &Machine) -> Result<f64> {
    let names = machine.bucket.list("db/s/", "", Call::new(Purpose::Tool));
    let name = names.ok().and_then(|names| names.first().map(|stat| stat.name.clone()));
    let Some(name) = name else { return Ok(0.0) };
    let mut times = Vec::new();
    for number in 0..PROBES {
        let part = Part::Range { offset: number * 4096, len: 4096 };
        let begin = Instant::now();
        if machine.bucket.get(&name, part, Call::new(Purpose::Tool)).is_ok() {
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(median(times))
}

/// Has each table opened: a get of a key beside those that are there, in each.
fn open_tables(db: &Opened) -> Result<()> {
    for level in db.levels() {
        for table in level.tables {
            db.get([&table.smallest[..], b"-"].concat())?;
        }
    }
    Ok(())
}

fn gets(now: &Snapshot, before: &Snapshot) -> f64 {
    let count = |seen: &Snapshot| -> u64 {
        let users = [Purpose::Get, Purpose::Scan, Purpose::Warm, Purpose::CompactIn];
        users.iter().map(|purpose| seen.of(*purpose).verb(Verb::Get).requests).sum()
    };
    (count(now) - count(before)) as f64
}

fn time_gets(db: &Opened, keys: &[u64]) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(keys.len());
    for number in keys {
        let begin = Instant::now();
        db.get(key(*number))?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}

fn scan(db: &Opened, from: u64, len: u64) -> Result<u64> {
    let mut iter = db.iter()?;
    iter.seek(key(from))?;
    let (mut left, mut bytes) = (len, 0);
    while left > 0 && iter.valid() {
        bytes += (iter.key().len() + iter.value().len()) as u64;
        left -= 1;
        iter.next()?;
    }
    Ok(bytes)
}
