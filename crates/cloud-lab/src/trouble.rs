//! M11: a store in trouble for a while. Writes go on, reads of what is not here are answered late or fail and say so, and all
//! recovers by itself.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use siltstone::{Db, ErrorKind, Result};
use siltstone_cloud::LocalCopies;
use siltstone_s3::{BrownOut, Faults};

use crate::figure::{Figure, Unit, Wanted, micros};
use crate::stage::{Dice, Mode, Opened, Plan, Stage, key, wrong};

/// Shares of all requests that fail.
const FAILING: [f64; 3] = [0.1, 0.5, 1.0];
/// Trouble begins so long after a machine has found its bucket: the database is open by then.
const BEFORE: Duration = Duration::from_secs(2);
/// No request is answered sooner meanwhile than by so many times what it took.
const SLOWER: f64 = 3.0;
/// A request that hangs ends then.
const HANGS: Duration = Duration::from_secs(2);
/// Puts between two rests of the writer, a third of what the folder takes: what waits shall tell of the store, not of a budget.
const PUTS: u64 = 100;
const REST: Duration = Duration::from_millis(2);
/// Between two gets.
const PAUSE: Duration = Duration::from_millis(20);
const WITHIN: Duration = Duration::from_secs(120);
/// Gets once all is well.
const GETS_AFTERWARDS: u64 = 50;

/// Writes and reads a database while a tenth, half and all requests fail, each for so long.
///
/// # Errors
///
/// What a write meets: none should. What reads meet is counted.
pub fn trouble(plan: &Plan, lasts: Duration, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    let stage = Stage::new(plan);
    load(&stage, plan)?;
    FAILING.iter().try_for_each(|failing| brown_out(&stage.as_of_now(), (*failing, lasts), tell))
}

/// What is read: all keys that are even. The others are written.
fn load(stage: &Stage, plan: &Plan) -> Result<()> {
    let machine = stage.machine("load")?;
    let db = machine.open(Mode::Tiered, LocalCopies::All)?;
    for number in (0..plan.records).step_by(2) {
        db.put(key(number), value_of(plan, number))?;
    }
    db.flush()?;
    db.wait_for_background()?;
    db.close()
}

fn value_of(plan: &Plan, number: u64) -> Vec<u8> {
    let mut value = vec![0; plan.value_bytes];
    Dice(plan.seed ^ number).fill(&mut value);
    value
}

fn brown_out(
    stage: &Stage,
    (failing, lasts): (f64, Duration),
    tell: &mut dyn FnMut(Figure),
) -> Result<()> {
    let plan = stage.plan().clone();
    let until = BEFORE + lasts;
    let trouble = BrownOut { from: BEFORE, until, failing, slower: SLOWER };
    let faults = Faults { hang: HANGS, brown_outs: vec![trouble], ..Faults::default() };
    let stage = stage.as_of_now().with_faults(faults);
    let begin = Instant::now();
    let machine = stage.machine("trouble")?;
    // Nothing stays here but what is to be uploaded: a get of all else asks the bucket.
    let db = machine.open_in_memory(Mode::Tiered, 0)?;
    std::thread::sleep(BEFORE.saturating_sub(begin.elapsed()));
    let over = AtomicBool::new(false);
    let (written, read) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&db, &plan, &over));
        let written = write(&db, &plan, lasts);
        over.store(true, Relaxed);
        let read = reader.join().map_err(|_| wrong("the reader has panicked"));
        (written, read)
    });
    let (written, read) = (written?, read?);
    let name = format!("{:.0} % fail for {lasts:?}", failing * 100.0);
    written.report(&name, tell);
    read.report(&name, tell);
    recover(&db, &plan, &name, tell)?;
    db.close()
}

struct Written {
    a_second: f64,
    longest: Duration,
}

fn write(db: &Db, plan: &Plan, lasts: Duration) -> Result<Written> {
    let (mut dice, mut value) = (Dice(plan.seed), vec![0; plan.value_bytes]);
    let begin = Instant::now();
    let (mut longest, mut puts) = (Duration::ZERO, 0_u64);
    while begin.elapsed() < lasts {
        dice.fill(&mut value);
        let number = dice.below(plan.records) | 1;
        let began = Instant::now();
        db.put(key(number), &value)?;
        longest = longest.max(began.elapsed());
        puts += 1;
        if puts.is_multiple_of(PUTS) {
            std::thread::sleep(REST);
        }
    }
    Ok(Written { a_second: puts as f64 / begin.elapsed().as_secs_f64(), longest })
}

impl Written {
    fn report(&self, name: &str, tell: &mut dyn FnMut(Figure)) {
        let what = |figure: &str| format!("{name}: {figure}");
        tell(Figure::new("M11", what("writes a second"), self.a_second, Unit::Count));
        let figure = Figure::new("M11", what("longest put"), micros(self.longest), Unit::Micros);
        tell(figure.wanted(Wanted::AtMost(100_000.0)));
    }
}

#[derive(Default)]
struct Read {
    answered: u64,
    /// With an error that says that the bucket could not be asked.
    failed: u64,
    /// With another answer than what was written, or another error.
    wrong: u64,
    longest: Duration,
}

fn read(db: &Db, plan: &Plan, over: &AtomicBool) -> Read {
    let (mut dice, mut read) = (Dice(plan.seed ^ 1), Read::default());
    while !over.load(Relaxed) {
        read.get(db, plan, dice.below(plan.records));
        std::thread::sleep(PAUSE);
    }
    read
}

impl Read {
    fn get(&mut self, db: &Db, plan: &Plan, number: u64) {
        let number = number & !1;
        let begin = Instant::now();
        let got = db.get(key(number));
        self.longest = self.longest.max(begin.elapsed());
        match got {
            Ok(got) if got.as_ref() == Some(&value_of(plan, number)) => self.answered += 1,
            Err(error) if error.kind() == ErrorKind::Io => self.failed += 1,
            Ok(_) | Err(_) => self.wrong += 1,
        }
    }

    fn report(&self, name: &str, tell: &mut dyn FnMut(Figure)) {
        let count = |figure: &str, value: u64| {
            Figure::new("M11", format!("{name}: {figure}"), value as f64, Unit::Count)
        };
        tell(count("gets that were answered", self.answered));
        tell(count("gets that failed, and said why", self.failed));
        let wrong = count("gets with a wrong answer or another error", self.wrong);
        tell(wrong.wanted(Wanted::AtMost(0.0)));
        let what = format!("{name}: longest get");
        tell(Figure::new("M11", what, micros(self.longest), Unit::Micros));
    }
}

/// All is well again: nobody has to open the database anew for that.
fn recover(db: &Opened, plan: &Plan, name: &str, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    let healed = Instant::now();
    db.flush()?;
    if let Opened::There(db) = db {
        let failures = db.cloud_metrics().failures;
        let what = format!("{name}: uploads and commits tried again");
        tell(Figure::new("M11", what, failures as f64, Unit::Count));
        db.wait_for_bucket(WITHIN)?;
    }
    let what = format!("{name}: until all is in the bucket");
    tell(Figure::new("M11", what, micros(healed.elapsed()), Unit::Micros));
    let (mut dice, mut after) = (Dice(plan.seed ^ 2), Read::default());
    (0..GETS_AFTERWARDS).for_each(|_| after.get(db, plan, dice.below(plan.records)));
    let what = format!("{name}: gets of {GETS_AFTERWARDS} afterwards that were answered");
    let figure = Figure::new("M11", what, after.answered as f64, Unit::Count);
    tell(figure.wanted(Wanted::AtLeast(GETS_AFTERWARDS as f64)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::small;

    #[test]
    fn writes_go_on_reads_say_why_they_fail_and_all_recovers() {
        let plan = small("trouble");
        let mut figures = Vec::new();
        trouble(&plan, Duration::from_secs(1), &mut |figure| figures.push(figure)).unwrap();
        let of = |what: &str| {
            let figure = figures.iter().find(|figure| figure.what == what);
            figure.unwrap_or_else(|| panic!("{what}: {figures:?}")).value
        };
        for share in ["10", "50", "100"] {
            let of = |what: &str| of(&format!("{share} % fail for 1s: {what}"));
            assert!(of("writes a second") > 0.0);
            assert_eq!(of("gets with a wrong answer or another error"), 0.0, "{figures:?}");
            assert_eq!(of("gets of 50 afterwards that were answered"), 50.0);
            let gets = of("gets that were answered") + of("gets that failed, and said why");
            assert!(gets > 0.0);
        }
        let answered = of("10 % fail for 1s: gets that were answered");
        assert!(answered > 0.0, "{figures:?}");
    }
}
