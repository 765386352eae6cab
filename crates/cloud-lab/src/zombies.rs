//! M10: owners that are paused, and wake when others have taken over and collected what was theirs. The log of versions and the
//! collector are the real ones; the bucket is in memory, and who goes on at each of its calls is decided by a seed.

mod history;
mod others;
mod owner;
mod turns;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use siltstone::Result;

use crate::figure::{Figure, Unit, Wanted};
use crate::processors;
use crate::stage::{Plan, wrong};
use history::Tally;
use turns::{Seat, Turns};

/// As many as were wanted.
const SCHEDULES_WANTED: f64 = 10_000.0;
/// Two owners, a collector and a reader.
const SEATS: usize = 4;
const COLLECTOR: usize = 2;
const READER: usize = 3;

/// Lives through so many schedules, one seed each.
///
/// # Errors
///
/// If something happens in one that nobody counts: damage, or a mistake in what is measured. The error names its seed.
pub fn zombies(plan: &Plan, schedules: u64, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    let tally = sweep(plan.seed, schedules)?;
    let count = |what: &str, value: u64| Figure::new("M10", what, value as f64, Unit::Count);
    let none = |what: &str, value: u64| count(what, value).wanted(Wanted::AtMost(0.0));
    tell(count("schedules", schedules).wanted(Wanted::AtLeast(SCHEDULES_WANTED)));
    tell(count("calls on the bucket", tally.calls));
    tell(count("pauses longer than garbage waits", tally.long_pauses));
    tell(count("takeovers", tally.takeovers));
    tell(count("objects collected", tally.collected));
    tell(count("commits acknowledged", tally.acknowledged));
    tell(count("commits begun after a takeover", tally.begun_late));
    let refused = count("of these refused", tally.refused_late);
    tell(refused.wanted(Wanted::AtLeast(tally.begun_late as f64)));
    tell(none("commits that got through after a takeover", tally.through));
    tell(none("refused though nobody had taken over", tally.unjust));
    tell(none("committed writes lost", tally.lost));
    tell(none("reads of deleted objects", tally.deleted_reads));
    tell(count("records put where others were collected, counted by nobody", tally.gaps));
    Ok(())
}

/// Schedules from a seed on, on all processors.
fn sweep(first: u64, schedules: u64) -> Result<Tally> {
    let (next, total) = (AtomicU64::new(0), Mutex::new(Ok(Tally::default())));
    std::thread::scope(|scope| {
        for lane in 0..processors::count() {
            let (next, total) = (&next, &total);
            scope.spawn(move || {
                // Of a schedule one thread runs at a time: it is handed on sooner on one processor.
                let _kept = processors::keep_on(lane);
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= schedules || !add(total, live(first.wrapping_add(nth), "")) {
                        return;
                    }
                }
            });
        }
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// False once something has gone wrong, here or elsewhere.
fn add(total: &Mutex<Result<Tally>>, lived: Result<Tally>) -> bool {
    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
    match (&mut *total, lived) {
        (Ok(sum), Ok(tally)) => sum.add(&tally),
        (Ok(_), Err(error)) => *total = Err(error),
        (Err(_), _) => {}
    }
    total.is_ok()
}

/// Lives through the schedule of a seed. Owners' gets of what is called `hidden` find nothing, so that a test sees what comes of
/// it.
fn live(seed: u64, hidden: &'static str) -> Result<Tally> {
    let turns = Arc::new(Turns::new(seed, SEATS));
    std::thread::scope(|scope| {
        for number in 0..SEATS {
            let turns = &turns;
            scope.spawn(move || {
                let hidden = if number < COLLECTOR { hidden } else { "" };
                let seat = Arc::new(Seat::new(turns, number, hidden));
                // Whoever panics must not keep the others from going on.
                let _turn = turns.sit_down(number);
                match number {
                    COLLECTOR => others::collect(&seat),
                    READER => others::read(&seat),
                    _ => owner::own(&seat),
                }
            });
        }
        turns.begin();
    });
    others::look_at_the_end(&turns);
    let history = turns.history();
    match history.mistake() {
        Some(mistake) => Err(wrong(format!("the schedule of seed {seed}: {mistake}"))),
        None => Ok(history.tally),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_wakes_after_a_takeover_commits_nothing() {
        let tally = sweep(42, 150).unwrap();
        assert!(tally.takeovers > 150 && tally.long_pauses > 100, "{tally:?}");
        assert!(tally.begun_late > 100 && tally.refused_late == tally.begun_late, "{tally:?}");
        assert!(tally.acknowledged > 1_000 && tally.collected > 1_000, "{tally:?}");
        let wrong = [tally.through, tally.unjust, tally.lost, tally.deleted_reads];
        assert_eq!(wrong, [0; 4], "{tally:?}");
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let lived = [1, 1, 2].map(|seed| live(seed, "").unwrap());
        assert_eq!(lived[0], lived[1]);
        assert_ne!(lived[0], lived[2]);
    }

    /// Who has committed looks whether collectors have passed the number: without that, zombies get through.
    #[test]
    fn what_gets_through_without_a_look_at_the_boundary_is_counted() {
        let through = (1..=400).any(|seed| {
            let lived = live(seed, "gc/boundary");
            lived.is_ok_and(|tally| tally.through > 0)
        });
        assert!(through);
    }
}
