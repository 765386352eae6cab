//! What becomes of one request: how long it takes, and what goes wrong. Drawn before it begins.

use std::fmt;
use std::time::Duration;

use object_store::Result;
use tokio::time::sleep;

use super::profile::BrownOut;
use super::{Kind, Shared};
use crate::dice::Dice;

/// The 99th percentile of a normal distribution, in deviations.
const P99: f64 = 2.326_347_874;

/// Ways in which requests fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// 503, without effect.
    SlowDown,
    /// No answer for long, with or without effect.
    Hang,
    /// The answer is lost, after the effect.
    Lost,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 3] = [FaultKind::SlowDown, FaultKind::Hang, FaultKind::Lost];
}

/// A failure that was made on purpose: the source of the `object_store` error by which a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            FaultKind::SlowDown => "503, SlowDown, made on purpose",
            FaultKind::Hang => "no answer in time, made on purpose",
            FaultKind::Lost => "the answer was lost, on purpose",
        })
    }
}

impl std::error::Error for Fault {}

/// Before or after a request's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    pub(crate) latency: Duration,
    fault: Option<(FaultKind, Moment)>,
    hang: Duration,
    ordinal: u64,
}

impl Fate {
    /// The fate of the request `ordinal`, made at `now` (S1: all draws are made each time, so that one does not move the
    /// others).
    pub(crate) fn draw(shared: &Shared, kind: Kind, ordinal: u64, now: Duration) -> Fate {
        let mut dice = Dice::stream(shared.seed, ordinal);
        let (normal, share, half) = (dice.normal(), dice.share(), dice.share());
        let profile = &shared.profile;
        let [median, p99] = match kind {
            Kind::Get => profile.get,
            Kind::Put => profile.put,
            Kind::List => profile.list,
        };
        let brown_out = shared.faults.brown_outs.iter().find(|out| out.covers(now));
        let slower = brown_out.map_or(1.0, |out| out.slower);
        let fault = fault(shared, brown_out, share, half);
        let latency = drawn(median, p99, normal).mul_f64(slower);
        Fate { latency, fault, hang: shared.faults.hang, ordinal }
    }

    pub(crate) fn fault(&self) -> Option<FaultKind> {
        self.fault.map(|(kind, _)| kind)
    }

    /// One number for all of it.
    pub(crate) fn stamp(&self) -> u64 {
        let fault = self.fault.map_or(0, |(kind, moment)| 1 + kind as u64 * 2 + moment as u64);
        Dice::stream(self.latency.as_nanos() as u64 ^ (fault << 56), self.ordinal).next()
    }

    /// Ends the request, if this is where it goes wrong.
    pub(crate) async fn strike(&self, now: Moment) -> Result<()> {
        let Some((kind, _)) = self.fault.filter(|(_, moment)| *moment == now) else {
            return Ok(());
        };
        if kind == FaultKind::Hang {
            sleep(self.hang).await;
        }
        Err(object_store::Error::Generic { store: "SlowStore", source: Box::new(Fault { kind }) })
    }
}

impl BrownOut {
    fn covers(&self, now: Duration) -> bool {
        (self.from..self.until).contains(&now)
    }
}

/// `share` is where the request lies among all; what fails in a brown-out lies lowest.
fn fault(
    shared: &Shared,
    brown_out: Option<&BrownOut>,
    share: f64,
    half: f64,
) -> Option<(FaultKind, Moment)> {
    let faults = &shared.faults;
    let either = if half < 0.5 { Moment::Before } else { Moment::After };
    let failing = brown_out.map_or(0.0, |out| out.failing);
    let mut passed = 0.0;
    for (kind, moment, chance) in [
        (FaultKind::SlowDown, Moment::Before, failing * 2.0 / 3.0),
        (FaultKind::Hang, either, failing / 3.0),
        (FaultKind::SlowDown, Moment::Before, faults.slow_down),
        (FaultKind::Hang, either, faults.hangs),
        (FaultKind::Lost, Moment::After, faults.lost),
    ] {
        passed += chance;
        if share < passed {
            return Some((kind, moment));
        }
    }
    None
}

/// From the log-normal distribution with that median and 99th percentile.
fn drawn(median: Duration, p99: Duration, normal: f64) -> Duration {
    if median.is_zero() {
        return Duration::ZERO;
    }
    let deviation = (p99.as_secs_f64() / median.as_secs_f64()).ln() / P99;
    median.mul_f64((deviation * normal).exp())
}
