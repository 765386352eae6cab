//! Whether level 0 will have filled before a job is back: by how long jobs were away lately, and how fast tables come.

use std::time::Duration;

/// Somebody elsewhere does so much in a second, as long as nothing is known of him.
const BYTES_PER_SECOND: f64 = (64 << 20) as f64;
/// What is known of jobs that were away is believed for so long: there may be other workers since.
const MEMORY: Duration = Duration::from_secs(60);
/// Jobs that share a worker with others take longer than the last ones did.
const LATER: f64 = 1.25;
/// So much of the time that somebody took for a job he would have taken for one without a byte: requests, one after the other.
const FIXED: f64 = 0.5;
/// The rate of flushes is that of the last so many: the middle one of the times between them, for writers begin and end.
const FLUSHES: usize = 5;

/// What is foreseen.
#[derive(Default)]
pub(crate) struct Outlook {
    /// When the last flushes ended, oldest first.
    flushes: Vec<Duration>,
    ran: Lately,
    /// By kind.
    waited: [Lately; 2],
    /// Merges that ran here.
    here: Lately,
}

/// Jobs wait for their inputs to be within reach of who runs them. What is merged from level 0 mostly is there already; what goes on from
/// level 1 was often made just before.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    OfLevel0,
    Deeper,
}

/// What a job's way was like.
#[derive(Clone, Copy)]
pub(crate) struct Journey {
    pub(crate) bytes: u64,
    /// Before anybody began with it.
    pub(crate) waited: Duration,
    /// From then on until its tables could be read here.
    pub(crate) ran: Duration,
}

/// Sums over jobs that have come back, of which each counts half as much as the one after it.
#[derive(Clone, Copy, Default)]
struct Lately {
    jobs: f64,
    seconds: f64,
    bytes: f64,
    /// When the last one came.
    at: Duration,
}

impl Lately {
    fn add(&mut self, now: Duration, took: Duration, bytes: u64) {
        let Lately { jobs, seconds, bytes: all, .. } = self.at(now);
        *self = Lately {
            jobs: jobs / 2.0 + 1.0,
            seconds: seconds / 2.0 + took.as_secs_f64(),
            bytes: all / 2.0 + bytes as f64,
            at: now,
        };
    }

    fn at(&self, now: Duration) -> Lately {
        if now.saturating_sub(self.at) > MEMORY { Lately::default() } else { *self }
    }

    /// What a job took.
    fn mean(&self) -> Option<f64> {
        (self.jobs > 0.0).then(|| self.seconds / self.jobs)
    }

    /// What one of so many bytes would take.
    fn of(&self, bytes: u64) -> Option<f64> {
        let share = bytes as f64 * self.jobs / self.bytes.max(1.0);
        Some(self.mean()? * (FIXED + (1.0 - FIXED) * share))
    }
}

impl Outlook {
    pub(crate) fn flushed(&mut self, now: Duration) {
        if self.flushes.len() == FLUSHES {
            self.flushes.remove(0);
        }
        self.flushes.push(now);
    }

    pub(crate) fn came_back(&mut self, now: Duration, kind: Kind, job: Journey) {
        self.ran.add(now, job.ran, job.bytes);
        self.waited[kind as usize].add(now, job.waited, job.bytes);
    }

    /// A merge of so many bytes has run here.
    pub(crate) fn ran_here(&mut self, now: Duration, bytes: u64, took: Duration) {
        self.here.add(now, took, bytes);
    }

    /// How many tables level 0 will have got by the time that a job of so many bytes is back, if it leaves now.
    pub(crate) fn tables_until_back(&self, now: Duration, kind: Kind, bytes: u64) -> f64 {
        let Some(between) = self.between_flushes(now) else { return 0.0 };
        self.seconds_away(now, kind, bytes) / between.as_secs_f64().max(f64::EPSILON)
    }

    /// Whether it would be done here before.
    pub(crate) fn is_faster_here(&self, now: Duration, kind: Kind, bytes: u64) -> bool {
        let here = self.here.at(now).of(bytes);
        here.is_none_or(|here| here < self.seconds_away(now, kind, bytes))
    }

    fn seconds_away(&self, now: Duration, kind: Kind, bytes: u64) -> f64 {
        let waits = self.waited[kind as usize].at(now).mean().unwrap_or(0.0);
        let runs = self.ran.at(now).of(bytes).unwrap_or(bytes as f64 / BYTES_PER_SECOND);
        LATER * (waits + runs)
    }

    fn between_flushes(&self, now: Duration) -> Option<Duration> {
        let pairs = self.flushes.iter().zip(self.flushes.iter().skip(1));
        let mut times: Vec<Duration> = pairs.map(|(a, b)| b.saturating_sub(*a)).collect();
        times.sort_unstable();
        let middle = *times.get(times.len().checked_sub(1)? / 2)?;
        // The later it is without another one, the fewer will come.
        Some(middle.max(now.saturating_sub(*self.flushes.last()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    /// A flush each 100 ms, up to two seconds.
    fn busy() -> Outlook {
        let mut outlook = Outlook::default();
        (1..=20).for_each(|nth| outlook.flushed(ms(nth * 100)));
        outlook
    }

    fn is_about(found: f64, wanted: f64) -> bool {
        (found - wanted).abs() < wanted / 100.0
    }

    #[test]
    fn who_never_flushes_may_wait_for_ever() {
        assert_eq!(Outlook::default().tables_until_back(ms(7), Kind::Deeper, 1 << 40), 0.0);
    }

    #[test]
    fn tables_come_as_they_did_lately() {
        // A job of 64 MiB takes a second and a quarter, as long as nothing is known of any.
        assert!(is_about(busy().tables_until_back(ms(2_100), Kind::Deeper, 64 << 20), 12.5));
        assert!(is_about(busy().tables_until_back(ms(2_100), Kind::Deeper, 32 << 20), 6.25));
        assert!(
            is_about(busy().tables_until_back(ms(4_500), Kind::Deeper, 64 << 20), 0.5),
            "it is quiet"
        );
    }

    #[test]
    fn a_pause_says_nothing_of_what_follows() {
        let mut outlook = busy();
        outlook.flushed(ms(60_000));
        assert!(is_about(outlook.tables_until_back(ms(60_050), Kind::Deeper, 64 << 20), 12.5));
    }

    #[test]
    fn jobs_are_away_as_long_as_they_were() {
        let job = |waited, ran| Journey { bytes: 10 << 20, waited: ms(waited), ran: ms(ran) };
        let mut outlook = busy();
        outlook.came_back(ms(2_100), Kind::Deeper, job(200, 400));
        let then = |outlook: &Outlook, kind, mib: u64| {
            outlook.tables_until_back(ms(2_100), kind, mib << 20)
        };
        assert!(is_about(then(&outlook, Kind::Deeper, 10), 7.5));
        assert!(is_about(then(&outlook, Kind::Deeper, 20), 10.0), "half of its time is requests");
        assert!(is_about(then(&outlook, Kind::OfLevel0, 10), 5.0), "its inputs may be there");
        assert!(outlook.is_faster_here(ms(2_100), Kind::Deeper, 10 << 20), "as far as is known");
        outlook.ran_here(ms(2_100), 10 << 20, ms(800));
        assert!(!outlook.is_faster_here(ms(2_100), Kind::Deeper, 10 << 20));
        outlook.ran_here(ms(2_100), 10 << 20, ms(300));
        assert!(outlook.is_faster_here(ms(2_100), Kind::Deeper, 10 << 20));
        // Faster by now.
        (0..20).for_each(|_| outlook.came_back(ms(2_100), Kind::Deeper, job(0, 80)));
        assert!(is_about(then(&outlook, Kind::Deeper, 10), 1.0));
        (1..=20).for_each(|nth| outlook.flushed(ms(80_000 + nth * 100)));
        let later = outlook.tables_until_back(ms(82_100), Kind::Deeper, 64 << 20);
        assert!(is_about(later, 12.5), "it is long ago");
    }
}
