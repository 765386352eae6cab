//! Whether level 0 will have filled before a job is back: by how long jobs were away lately, and how fast tables come.

use std::time::Duration;

/// Somebody elsewhere does so much in a second, as long as nothing is known of him.
const BYTES_PER_SECOND: f64 = (64 << 20) as f64;
/// What is known of jobs that were away is believed for so long: there may be other workers since.
const MEMORY: Duration = Duration::from_secs(60);
/// Jobs that share a worker with others take longer than the last ones did.
const LATER: f64 = 1.25;
/// The rate of flushes is that of the last so many: the middle one of the times between them, for writers begin and end.
const FLUSHES: usize = 5;

/// What is foreseen.
#[derive(Default)]
pub(crate) struct Outlook {
    /// When the last flushes ended, oldest first.
    flushes: Vec<Duration>,
    /// Seconds and bytes of jobs that have come back, of which each counts half as much as the one after it.
    away: (f64, f64),
    /// When the last one did.
    back_at: Duration,
}

impl Outlook {
    pub(crate) fn flushed(&mut self, now: Duration) {
        if self.flushes.len() == FLUSHES {
            self.flushes.remove(0);
        }
        self.flushes.push(now);
    }

    /// A job of so many bytes was away for so long.
    pub(crate) fn came_back(&mut self, now: Duration, bytes: u64, took: Duration) {
        let (seconds, all) = self.away_lately(now);
        self.away = (seconds / 2.0 + took.as_secs_f64(), all / 2.0 + bytes as f64);
        self.back_at = now;
    }

    /// How many tables level 0 will have got by the time that a job of so many bytes is back, if it leaves now.
    pub(crate) fn tables_until_back(&self, now: Duration, bytes: u64) -> f64 {
        let Some(between) = self.between_flushes(now) else { return 0.0 };
        self.seconds_away(now, bytes) / between.as_secs_f64().max(f64::EPSILON)
    }

    fn seconds_away(&self, now: Duration, bytes: u64) -> f64 {
        let (seconds, all) = self.away_lately(now);
        let a_byte = if all > 0.0 { seconds / all } else { 1.0 / BYTES_PER_SECOND };
        LATER * a_byte * bytes as f64
    }

    fn between_flushes(&self, now: Duration) -> Option<Duration> {
        let pairs = self.flushes.iter().zip(self.flushes.iter().skip(1));
        let mut times: Vec<Duration> = pairs.map(|(a, b)| b.saturating_sub(*a)).collect();
        times.sort_unstable();
        let middle = *times.get(times.len().checked_sub(1)? / 2)?;
        // The later it is without another one, the fewer will come.
        Some(middle.max(now.saturating_sub(*self.flushes.last()?)))
    }

    fn away_lately(&self, now: Duration) -> (f64, f64) {
        if now.saturating_sub(self.back_at) > MEMORY { (0.0, 0.0) } else { self.away }
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
        assert_eq!(Outlook::default().tables_until_back(ms(7), 1 << 40), 0.0);
    }

    #[test]
    fn tables_come_as_they_did_lately() {
        // A job of 64 MiB takes a second and a quarter, as long as nothing is known of any.
        assert!(is_about(busy().tables_until_back(ms(2_100), 64 << 20), 12.5));
        assert!(is_about(busy().tables_until_back(ms(2_100), 32 << 20), 6.25));
        assert!(is_about(busy().tables_until_back(ms(4_500), 64 << 20), 0.5), "it is quiet");
    }

    #[test]
    fn a_pause_says_nothing_of_what_follows() {
        let mut outlook = busy();
        outlook.flushed(ms(60_000));
        assert!(is_about(outlook.tables_until_back(ms(60_050), 64 << 20), 12.5));
    }

    #[test]
    fn jobs_are_away_as_long_as_they_were() {
        let mut outlook = busy();
        outlook.came_back(ms(2_100), 10 << 20, ms(300));
        assert!(is_about(outlook.tables_until_back(ms(2_100), 20 << 20), 7.5));
        // Faster by now.
        (0..20).for_each(|_| outlook.came_back(ms(2_100), 10 << 20, ms(100)));
        assert!(is_about(outlook.tables_until_back(ms(2_100), 20 << 20), 2.5));
        (1..=20).for_each(|nth| outlook.flushed(ms(80_000 + nth * 100)));
        assert!(is_about(outlook.tables_until_back(ms(82_100), 64 << 20), 12.5), "it is long ago");
    }
}
