//! M8: how fast workers merge, one, two and four of them, and how soon one begins with a job. M5: what they ask the bucket for.

pub(crate) mod backlog;

use std::time::{Duration, Instant};

use siltstone::Result;
use siltstone_cloud::LocalCopies;

use crate::crew::{Client, Crew, Workers};
use crate::figure::{Figure, Unit, Wanted, median, quantile};
use crate::processors;
use crate::stage::{Extras, Mode, Opened, Plan, Sizes, Stage, key, wrong};
use crate::usage::Usage;
use backlog::{Backlog, deep};

/// Jobs one after the other, none of which waits for another.
const JOBS: u64 = 200;
const WITHIN: Duration = Duration::from_secs(120);
/// Workers that merge a backlog.
const CREWS: [(usize, &str); 3] = [(1, "one worker"), (2, "two workers"), (4, "four workers")];
/// MB/s that a processor merges, a slow one.
const BUSY_RATE: f64 = 100.0;

/// Merges at workers: jobs one by one, and many at once for one, two and four workers.
///
/// # Errors
///
/// Whatever a database meets.
pub fn merges(plan: &Plan, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    pick_ups(plan, JOBS, tell)?;
    let backlog = over_half(plan).store(plan)?;
    let mut outcomes = CREWS.map(|_| Vec::new());
    for _ in 0..plan.runs {
        for ((count, _), outcomes) in CREWS.iter().zip(&mut outcomes) {
            outcomes.push(work_off(&backlog, *count)?);
        }
    }
    let mut one = None;
    for ((count, name), outcomes) in CREWS.iter().zip(&outcomes) {
        let rate = median(outcomes.iter().map(|of| of.megabytes_per_second).collect());
        report(name, rate, outcomes, tell);
        let one = *one.get_or_insert(rate);
        if *count > 1 {
            let efficiency = rate / (*count as f64 * one).max(1e-9);
            let what = format!("{name} to {count} times one");
            let efficiency = Figure::new("M8", what, efficiency, Unit::Ratio);
            let are_enough = have_processors(*count, one);
            tell(if are_enough { efficiency.wanted(Wanted::AtLeast(0.85)) } else { efficiency });
        }
    }
    Ok(())
}

/// Whether so many workers, each of which merges so much alone, hold each other up by nothing but what is measured: each has a
/// processor, and the database one; or all of them together need less than one.
fn have_processors(count: usize, megabytes_per_second: f64) -> bool {
    processors::count() > count || count as f64 * megabytes_per_second < BUSY_RATE
}

fn report(name: &str, rate: f64, outcomes: &[Outcome], tell: &mut dyn FnMut(Figure)) {
    let what = |figure: &str| format!("{name}: {figure}");
    tell(Figure::new("M8", what("merged"), rate, Unit::MegabytesPerSecond));
    if let Some(outcome) = outcomes.last() {
        tell(Figure::new("M8", what("jobs"), outcome.jobs as f64, Unit::Count));
        let home = outcome.came_home as f64;
        tell(Figure::new("M8", what("jobs that came home"), home, Unit::Count));
        outcome.usage.tell(&format!("job of {name}"), outcome.jobs as u64, tell);
    }
}

/// How long a job takes from the database to a worker with nothing to do.
fn pick_ups(plan: &Plan, jobs: u64, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    let stage = Stage::new(plan);
    let crew = Crew::start(&stage, Workers { count: 1, slots: 1 })?;
    let _kept = processors::keep_on(0);
    let client = crew.client(plan.seed)?;
    let machine = stage.machine("pick-ups")?;
    let db = machine.open_with(Mode::Tiered, LocalCopies::All, extras(None, &client))?;
    for round in 0..jobs {
        // Over all keys, so that it meets the table that is there.
        for end in [0, plan.records] {
            db.put(key(end), round.to_le_bytes())?;
        }
        db.flush()?;
        wait_for_bucket(&db)?;
        db.compact_range(None, None)?;
    }
    db.close()?;
    let times = crew.jobs().pick_ups();
    tell(Figure::new("M8", "jobs one by one", times.len() as f64, Unit::Count));
    let p50 = quantile(&times, 0.5);
    tell(Figure::new("M8", "a free worker begins with a job: p50", p50, Unit::Micros));
    let p99 = quantile(&times, 0.99);
    let figure = Figure::new("M8", "a free worker begins with a job: p99", p99, Unit::Micros);
    tell(figure.wanted(Wanted::AtMost(10_000.0)));
    Ok(())
}

/// Settings for a database that gives its merges to a crew.
pub(crate) fn extras(sizes: Option<Sizes>, client: &Client) -> Extras {
    Extras { sizes, prepare: Some(client.prepare()), ..Extras::default() }
}

pub(crate) fn wait_for_bucket(db: &Opened) -> Result<()> {
    match db {
        Opened::There(db) => db.wait_for_bucket(WITHIN),
        Opened::Here(_) => Ok(()),
    }
}

/// For each two tables of level 2 one above: each is a job.
fn over_half(plan: &Plan) -> Backlog {
    Backlog { again: plan.records / 2, flush_tables: 4 }
}

struct Outcome {
    megabytes_per_second: f64,
    jobs: usize,
    came_home: u64,
    /// The workers'.
    usage: Usage,
}

/// Has so many workers merge the backlog, on another machine than the one that has left it.
fn work_off(backlog: &Stage, count: usize) -> Result<Outcome> {
    let stage = backlog.as_of_now();
    let plan = stage.plan();
    let crew = Crew::start(&stage, Workers { count, slots: 1 })?;
    let _kept = processors::keep_on(0);
    let client = crew.client(plan.seed)?;
    let machine = stage.machine("merges")?;
    let extras = extras(Some(deep(plan)), &client);
    let db = machine.open_with(Mode::Tiered, LocalCopies::UpTo(0), extras)?;
    db.wait_for_background()?;
    let end = Instant::now();
    let jobs = crew.jobs();
    let since = jobs.since().ok_or_else(|| wrong("there are too few entries to merge any"))?;
    let megabytes_per_second = jobs.bytes() as f64 / 1e6 / (end - since).as_secs_f64();
    let came_home = db.metrics().merges_come_home;
    let (jobs, usage) = (jobs.done(), Usage::of(&crew.meters()));
    db.close()?;
    Ok(Outcome { megabytes_per_second, jobs, came_home, usage })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::small;

    #[test]
    fn workers_merge_all_of_a_backlog() {
        let plan = small("backlog");
        let backlog = over_half(&plan).store(&plan).unwrap();
        for workers in [1, 4] {
            let outcome = work_off(&backlog, workers).unwrap();
            assert!(outcome.jobs >= 4 && outcome.megabytes_per_second > 0.0, "{}", outcome.jobs);
            assert_eq!(outcome.came_home, 0, "all of it was in the bucket");
        }
    }

    #[test]
    fn each_job_of_a_series_is_picked_up() {
        let plan = small("pick-ups");
        let mut figures = Vec::new();
        pick_ups(&plan, 8, &mut |figure| figures.push(figure)).unwrap();
        let values: Vec<f64> = figures.iter().map(|figure| figure.value).collect();
        assert_eq!(values[0], 8.0, "{figures:?}");
        assert!(0.0 < values[1] && values[1] <= values[2], "{figures:?}");
    }
}
