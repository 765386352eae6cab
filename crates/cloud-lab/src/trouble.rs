//! M11: a store in trouble for a while. Writes go on, reads of what is not here fail and say so, and all recovers.

use std::time::{Duration, Instant};

use siltstone::Result;
use siltstone_cloud::LocalCopies;
use siltstone_s3::{BrownOut, Faults};

use crate::figure::{Figure, Unit, Wanted};
use crate::stage::{Dice, Mode, Plan, Stage, key};

/// Fills a database while `failing` of all requests fail, from the first second on for `lasts`.
///
/// # Errors
///
/// What a write meets: none should.
pub fn brown_out(
    plan: &Plan,
    (failing, lasts): (f64, Duration),
    tell: &mut dyn FnMut(Figure),
) -> Result<()> {
    let from = Duration::from_secs(1);
    let trouble = BrownOut { from, until: from + lasts, failing, slower: 3.0 };
    let faults =
        Faults { hang: Duration::from_secs(2), brown_outs: vec![trouble], ..Faults::default() };
    let stage = Stage::new(plan).with_faults(faults);
    let machine = stage.machine("trouble")?;
    let db = machine.open(Mode::Tiered, LocalCopies::All)?;
    let (mut dice, mut value) = (Dice(plan.seed), vec![0; plan.value_bytes]);
    let begin = Instant::now();
    let (mut last, mut longest, mut written) = (begin, Duration::ZERO, 0_u64);
    // At a third of what the folder takes, so that what waits tells of the store and not of the budget.
    while begin.elapsed() < from + lasts {
        dice.fill(&mut value);
        db.put(key(dice.below(plan.records)), &value)?;
        written += 1;
        longest = longest.max(last.elapsed());
        if written.is_multiple_of(100) {
            std::thread::sleep(Duration::from_millis(2));
        }
        last = Instant::now();
    }
    let what = |figure: &str| format!("{:.0} % fail for {lasts:?}: {figure}", failing * 100.0);
    let rate = written as f64 / begin.elapsed().as_secs_f64();
    tell(Figure::new("M11", what("writes a second"), rate, Unit::Count));
    let longest = longest.as_secs_f64() * 1e6;
    let figure = Figure::new("M11", what("longest put"), longest, Unit::Micros);
    tell(figure.wanted(Wanted::AtMost(100_000.0)));
    let healed = Instant::now();
    db.flush()?;
    if let crate::stage::Opened::There(db) = &db {
        let failures = db.cloud_metrics().failures;
        tell(Figure::new("M11", what("uploads tried again"), failures as f64, Unit::Count));
        db.wait_for_bucket(Duration::from_secs(120))?;
    }
    let level = healed.elapsed().as_secs_f64() * 1e6;
    tell(Figure::new("M11", what("until all is in the bucket"), level, Unit::Micros));
    db.close()
}
