//! What becomes of calls: the weather of a world, and the fate of each request in it.

use std::time::Duration;

use super::stage::{Rules, State};
use crate::Dice;

/// Faults that were injected, and what else happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: u64,
    pub(super) puts: u64,
    pub(super) faults: u64,
    pub(super) lost_answers: u64,
    pub(super) late: u64,
    pub(super) long_stalls: u64,
}

/// Times at which much fails.
pub(super) struct Weather {
    storms: Vec<Storm>,
    horizon: Duration,
    age_min: Duration,
}

struct Storm {
    from: Duration,
    to: Duration,
    /// Of a hundred calls.
    failing: u64,
}

/// What is asked of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Read,
    Put,
    ConditionalPut,
    Delete,
}

/// How a request fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    /// Not done, and told so.
    Unavailable,
    /// Bytes came that do not match their checksum.
    Damaged,
    /// Done, but the answer is lost.
    AnswerLost,
    /// Not done, and nobody knows.
    RequestLost,
    /// Done after so long, and nobody knows.
    Late(Duration),
    /// Done, and once more after so long.
    Twice(Duration),
    /// A conflict that is none.
    Refused,
    /// Half of the names.
    Half,
}

/// One call's way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Journey {
    pub(super) before: Duration,
    pub(super) fate: Fate,
    pub(super) after: Duration,
}

impl Weather {
    pub(super) fn forecast(dice: &mut Dice, rules: &Rules) -> Self {
        let storms = (0..dice.roll(8)).map(|_| {
            let from = Duration::from_secs(dice.roll(rules.horizon.as_secs()));
            // From ten seconds to twenty minutes.
            let len = Duration::from_secs(10 << dice.roll(8));
            Storm { from, to: from + len, failing: 40 + dice.roll(61) }
        });
        Weather { storms: storms.collect(), horizon: rules.horizon, age_min: rules.age_min }
    }

    fn failing(&self, now: Duration) -> u64 {
        let storms = self.storms.iter().filter(|storm| storm.from <= now && now < storm.to);
        storms.map(|storm| storm.failing).max().unwrap_or(0)
    }
}

impl State {
    /// Decides how a call fares. `stalls`: of ten thousand calls of this actor so many freeze it for longer than
    /// collectors wait.
    pub(super) fn journey(&mut self, request: Request, stalls: u64) -> Journey {
        self.tally.calls += 1;
        self.tally.puts += u64::from(matches!(request, Request::Put | Request::ConditionalPut));
        let (now, millis) = (self.now(), Duration::from_millis);
        let dice = &mut self.dice;
        let mut before = millis(5 + dice.roll(60));
        let mut after = millis(if request == Request::Read { 0 } else { dice.roll(30) });
        if now >= self.weather.horizon {
            return Journey { before, fate: Fate::Done, after };
        }
        let failing = self.weather.failing(now);
        if failing > 0 || dice.roll(40) == 0 {
            before += millis(dice.roll(5_000));
        }
        let fate = if dice.roll(100) < failing {
            in_a_storm(dice, request)
        } else {
            usual(dice, request, self.weather.age_min)
        };
        if dice.roll(10_000) < stalls {
            let age = self.weather.age_min.as_millis() as u64;
            let stall = millis(age + dice.roll(3 * age));
            let early = dice.roll(2) == 0;
            *(if early { &mut before } else { &mut after }) += stall;
            self.tally.long_stalls += 1;
            self.tally.faults += 1;
        }
        self.tally.faults += u64::from(fate != Fate::Done);
        self.tally.lost_answers += u64::from(fate == Fate::AnswerLost);
        self.tally.late += u64::from(matches!(fate, Fate::Late(_) | Fate::Twice(_)));
        Journey { before, fate, after }
    }
}

fn in_a_storm(dice: &mut Dice, request: Request) -> Fate {
    match (request, dice.roll(10)) {
        (Request::Read, _) | (_, 0..7) => Fate::Unavailable,
        (_, 7) => Fate::RequestLost,
        _ => Fate::AnswerLost,
    }
}

fn usual(dice: &mut Dice, request: Request, age_min: Duration) -> Fate {
    let roll = dice.roll(1000);
    match request {
        Request::Read => match roll {
            0..200 => Fate::Unavailable,
            200..230 => Fate::Damaged,
            _ => Fate::Done,
        },
        Request::Put | Request::ConditionalPut | Request::Delete => match roll {
            0..80 => Fate::AnswerLost,
            80..120 => Fate::RequestLost,
            120..150 => Fate::Late(lateness(dice, age_min)),
            150..170 => Fate::Twice(lateness(dice, age_min)),
            170..190 if request == Request::ConditionalPut => Fate::Refused,
            170..190 if request == Request::Delete => Fate::Half,
            190..270 => Fate::Unavailable,
            _ => Fate::Done,
        },
    }
}

/// Mostly short, at times longer than collectors wait.
fn lateness(dice: &mut Dice, age_min: Duration) -> Duration {
    let most = age_min.as_millis() as u64 * 3;
    let shorter = dice.roll(14);
    Duration::from_millis(100 + dice.roll((most >> shorter).max(1)))
}
