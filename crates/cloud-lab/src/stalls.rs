//! M4: what puts take while merges run, on a machine of one processor: with the merges on it, or at a worker that has
//! another.

mod timeline;

use std::sync::Arc;
use std::time::{Duration, Instant};

use siltstone::Result;
use siltstone_cloud::LocalCopies;

use crate::crew::{Client, Crew, Workers};
use crate::figure::{Figure, Unit, Wanted, median, micros};
use crate::processors;
use crate::stage::{Dice, Extras, Machine, Mode, Opened, Plan, Sizes, Stage, key};
use timeline::{Merges, Timeline};

/// Each entry is written so often, on average, once all are there.
const ROUNDS: u64 = 2;
/// Of write buffers, in one of these rounds: some ten merges.
const FLUSHES: u64 = 32;
/// More than a processor merges at once: most of the time a job waits for the bucket.
const SLOTS: u32 = 4;
const WITHIN: Duration = Duration::from_secs(120);

/// Where merges run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Where the writer is, and all tables.
    Local,
    /// Tables are in a bucket, and a worker merges.
    Worker,
}

impl Way {
    const ALL: [Way; 2] = [Way::Local, Way::Worker];

    fn name(self) -> &'static str {
        match self {
            Way::Local => "local",
            Way::Worker => "tiered + worker",
        }
    }
}

/// When a put begins.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// When the one before has ended.
    FlatOut,
    /// So many in a second, each when it is its time.
    Half(f64),
    Quarter(f64),
}

impl Pace {
    fn name(self) -> &'static str {
        match self {
            Pace::FlatOut => "flat out",
            Pace::Half(_) => "at half of that",
            Pace::Quarter(_) => "at a quarter",
        }
    }
}

/// Writes at random over a database, flat out, and at half and a quarter of the rate that the folder alone takes, each way in turn.
///
/// # Errors
///
/// Whatever a database meets.
pub fn stalls(plan: &Plan, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    let processors = processors::count().min(2);
    let what = "processors: the first the database's, the second the worker's";
    tell(Figure::new("M4", what, processors as f64, Unit::Count));
    let local_rate = measure(plan, Pace::FlatOut, tell)?;
    measure(plan, Pace::Half(local_rate / 2.0), tell)?;
    measure(plan, Pace::Quarter(local_rate / 4.0), tell)?;
    Ok(())
}

/// Returns what the folder alone took in a second.
fn measure(plan: &Plan, pace: Pace, tell: &mut dyn FnMut(Figure)) -> Result<f64> {
    let mut outcomes = Way::ALL.map(|_| Vec::new());
    for run in 0..plan.runs {
        for (way, outcomes) in Way::ALL.iter().zip(&mut outcomes) {
            let plan = Plan { seed: plan.seed + run, ..plan.clone() };
            outcomes.push(run_once(&plan, *way, pace)?);
        }
    }
    let [local, worker] = &outcomes;
    report((Way::Local, pace), local, tell);
    report((Way::Worker, pace), worker, tell);
    compare(pace, [local, worker], tell);
    Ok(of(local, |outcome| outcome.timeline.rate()))
}

struct Outcome {
    timeline: Timeline,
    /// How long writers were held back on purpose.
    held_back: Duration,
    merges: u64,
    elsewhere: u64,
    came_home: u64,
}

fn run_once(plan: &Plan, way: Way, pace: Pace) -> Result<Outcome> {
    let stage = Stage::new(plan);
    let workers = Workers { count: 1, slots: SLOTS };
    let crew = (way == Way::Worker).then(|| Crew::start(&stage, workers)).transpose()?;
    let _kept = processors::keep_on(0);
    let machine = stage.machine("stalls")?;
    let client = crew.as_ref().map(|crew| crew.client(plan.seed)).transpose()?;
    let merges = Arc::new(Merges::default());
    let extras = Extras {
        sizes: Some(Sizes::of(plan, FLUSHES)),
        listener: Some(Arc::clone(&merges) as _),
        prepare: client.as_ref().map(Client::prepare),
        ..Extras::default()
    };
    let db = open(&machine, way, extras)?;
    load(&db, plan)?;
    let before = db.metrics();
    let timeline = write(&db, plan, (pace, &merges))?;
    // All merges that the writes bring about, those that writers did not wait for included.
    db.flush()?;
    db.wait_for_background()?;
    let after = db.metrics();
    db.close()?;
    let held = |metrics: &siltstone::Metrics| {
        metrics.stall_l0_slowdown_micros
            + metrics.stall_l0_stop_micros
            + metrics.stall_flush_slowdown_micros
            + metrics.stall_memtables_full_micros
    };
    Ok(Outcome {
        timeline,
        held_back: Duration::from_micros(held(&after) - held(&before)),
        merges: after.merges - before.merges,
        elsewhere: after.merges_away - before.merges_away,
        came_home: after.merges_come_home - before.merges_come_home,
    })
}

fn open(machine: &Machine, way: Way, extras: Extras) -> Result<Opened> {
    match way {
        Way::Local => machine.open_with(Mode::Local, LocalCopies::All, extras),
        Way::Worker => machine.open_with(Mode::Tiered, LocalCopies::All, extras),
    }
}

/// All entries, in order, and rest.
fn load(db: &Opened, plan: &Plan) -> Result<()> {
    let (mut dice, mut value) = (Dice(plan.seed), vec![0; plan.value_bytes]);
    for number in 0..plan.records {
        dice.fill(&mut value);
        db.put(key(number), &value)?;
    }
    db.flush()?;
    db.wait_for_background()?;
    if let Opened::There(db) = db {
        db.wait_for_bucket(WITHIN)?;
    }
    Ok(())
}

/// The part that is measured.
fn write(db: &Opened, plan: &Plan, (pace, merges): (Pace, &Merges)) -> Result<Timeline> {
    let (mut dice, mut value) = (Dice(plan.seed ^ 1), vec![0; plan.value_bytes]);
    let mut timeline = Timeline::begin()?;
    for number in 0..plan.records * ROUNDS {
        let key = key(dice.below(plan.records));
        dice.fill(&mut value);
        let since = match pace {
            Pace::FlatOut => timeline.last(),
            Pace::Half(rate) | Pace::Quarter(rate) => {
                wait_until(timeline.start(), number as f64 / rate)
            }
        };
        let met = merges.are_running();
        db.put(key, &value)?;
        timeline.note(since, met || merges.are_running());
    }
    Ok(timeline)
}

/// Returns when it was to be, which is when it began for who has waited for it.
fn wait_until(start: Instant, seconds: f64) -> Instant {
    let due = start + Duration::from_secs_f64(seconds);
    let early = due.saturating_duration_since(Instant::now());
    if !early.is_zero() {
        std::thread::sleep(early);
    }
    due
}

/// The median of all runs.
fn of(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> f64 {
    median(outcomes.iter().map(value).collect())
}

fn report((way, pace): (Way, Pace), outcomes: &[Outcome], tell: &mut dyn FnMut(Figure)) {
    let figure = |what: &str, unit, value: &dyn Fn(&Outcome) -> f64| {
        let what = format!("{}, {}: {what}", pace.name(), way.name());
        Figure::new("M4", what, of(outcomes, value), unit)
    };
    tell(figure("puts a second", Unit::Count, &|outcome| outcome.timeline.rate()));
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        let what = format!("put while merges run: {name}");
        let value = |outcome: &Outcome| outcome.timeline.while_merging(share);
        tell(figure(&what, Unit::Micros, &value));
    }
    tell(figure("put: p99", Unit::Micros, &|outcome| outcome.timeline.at_any_time(0.99)));
    let longest = |outcome: &Outcome| micros(outcome.timeline.longest());
    let longest = figure("longest time without a write", Unit::Micros, &longest);
    tell(longest.wanted(Wanted::AtMost(100_000.0)));
    tell(figure("puts that met a merge", Unit::Ratio, &|outcome| outcome.timeline.met()));
    let held_back = |outcome: &Outcome| micros(outcome.held_back);
    tell(figure("writers were held back", Unit::Micros, &held_back));
    tell(figure("merges", Unit::Count, &|outcome| outcome.merges as f64));
    if way == Way::Worker {
        tell(figure("merges elsewhere", Unit::Count, &|outcome| outcome.elsewhere as f64));
        tell(figure("merges that came home", Unit::Count, &|outcome| outcome.came_home as f64));
    }
}

fn compare(pace: Pace, [local, worker]: [&[Outcome]; 2], tell: &mut dyn FnMut(Figure)) {
    let p99 = |outcomes: &[Outcome]| of(outcomes, |outcome| outcome.timeline.while_merging(0.99));
    let what = format!("{}: p99 while merges run, worker to local", pace.name());
    let figure = Figure::new("M4", what, p99(worker) / p99(local).max(1e-3), Unit::Ratio);
    let elsewhere = of(worker, |outcome| outcome.elsewhere as f64);
    let merges = of(worker, |outcome| outcome.merges as f64);
    // With one processor for both there is nothing to be gained; and where most merges came home, it is not a worker that is
    // beside the folder.
    let tells_of_workers = processors::count() > 1 && elsewhere > merges / 2.0;
    // Flat out local's is what a put takes by itself: no worker can shorten that.
    let most = if matches!(pace, Pace::FlatOut) { 1.0 } else { 0.7 };
    tell(if tells_of_workers { figure.wanted(Wanted::AtMost(most)) } else { figure });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::small;

    #[test]
    fn merges_run_where_they_should_while_puts_are_timed() {
        let plan = small("stalls");
        let mut figures = Vec::new();
        stalls(&plan, &mut |figure| figures.push(figure)).unwrap();
        let of = |what: &str| {
            let figure = figures.iter().find(|figure| figure.what == what);
            figure.unwrap_or_else(|| panic!("{what}: {figures:?}")).value
        };
        let mut left = 0.0;
        for pace in ["flat out", "at half of that", "at a quarter"] {
            for way in ["local", "tiered + worker"] {
                let of = |what: &str| of(&format!("{pace}, {way}: {what}"));
                assert!(of("merges") > 0.0 && of("puts a second") > 0.0);
                let met = of("puts that met a merge");
                assert!(met > 0.0 && met <= 1.0, "{met}");
                let [p50, p99] =
                    ["p50", "p99"].map(|name| of(&format!("put while merges run: {name}")));
                assert!(p50 > 0.0 && p50 <= p99, "{p50} {p99}");
            }
            let of = |what: &str| of(&format!("{pace}, tiered + worker: {what}"));
            left += of("merges elsewhere") + of("merges that came home");
        }
        // Where level 0 fills none leaves for a while.
        assert!(left > 0.0, "{figures:?}");
        let rate = of("at half of that, local: puts a second");
        assert!(rate < of("flat out, local: puts a second") * 0.6, "{rate}");
    }
}
