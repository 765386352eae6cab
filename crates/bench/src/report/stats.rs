//! What one thread counts while it works, and the line that sums the threads up.
//!
//! Counting an operation costs an addition and a comparison. Clocks are read per operation only if
//! something asked for times.

use std::fmt::Write as _;
use std::time::Instant;

use hdrhistogram::Histogram as Latencies;

use super::histogram::Histogram;
use super::progress::Meter;

/// Percentiles that are told, by the names they have in JSON.
pub(crate) const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];
/// Latencies are kept to so many digits, up to an hour.
const DIGITS: u8 = 3;
const LATENCY_NANOS_MAX: u64 = 3_600_000_000_000;

/// What is done with the time that each operation takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    /// LevelDB's histogram, of whole buckets.
    pub(crate) histogram: bool,
    /// An HDR histogram, fine enough for the last of ten thousand.
    pub(crate) percentiles: bool,
}

/// The counts of one thread, from [`new`](Stats::new) to [`stop`](Stats::stop).
pub(crate) struct Stats {
    start: Instant,
    finish: Instant,
    /// Of all threads together once merged.
    seconds: f64,
    done: u64,
    bytes: u64,
    message: String,
    /// When the last operation ended: so the next one counts from there, with what the harness does
    /// in between, as LevelDB counts.
    last_finish: Instant,
    timed: bool,
    histogram: Option<Box<Histogram>>,
    latencies: Option<Box<Latencies<u64>>>,
    meter: Meter,
}

impl Stats {
    /// Starts counting and the clock.
    pub(crate) fn new(timing: Timing, meter: Meter) -> Self {
        let now = Instant::now();
        Stats {
            start: now,
            finish: now,
            seconds: 0.0,
            done: 0,
            bytes: 0,
            message: String::new(),
            last_finish: now,
            timed: timing.histogram || timing.percentiles,
            histogram: timing.histogram.then(|| Box::new(Histogram::new())),
            latencies: timing.percentiles.then(|| Box::new(latencies())),
            meter,
        }
    }

    /// One operation is done.
    #[inline]
    pub(crate) fn finished_op(&mut self) {
        self.done += 1;
        if self.timed {
            self.time_op();
        }
        if self.meter.is_due(self.done) {
            self.meter.advance();
        }
    }

    /// The operation that comes was to begin at `turn`: its time counts from there.
    pub(crate) fn begin_at(&mut self, turn: Instant) {
        self.last_finish = turn;
    }

    fn time_op(&mut self) {
        let now = Instant::now();
        let nanos = now.saturating_duration_since(self.last_finish).as_nanos() as u64;
        if let Some(histogram) = &mut self.histogram {
            histogram.add(nanos as f64 / 1e3);
        }
        if let Some(latencies) = &mut self.latencies {
            latencies.saturating_record(nanos);
        }
        self.last_finish = now;
    }

    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Adds to what stands at the line's end.
    pub(crate) fn add_message(&mut self, message: &str) {
        append_with_space(&mut self.message, message);
    }

    /// Stops the clock.
    pub(crate) fn stop(&mut self) {
        self.finish = Instant::now();
        self.seconds = (self.finish - self.start).as_secs_f64();
    }

    /// Forgets all that was counted: what this thread did was not to be measured.
    pub(crate) fn restart(&mut self) {
        let now = Instant::now();
        (self.start, self.finish, self.last_finish) = (now, now, now);
        (self.seconds, self.done, self.bytes) = (0.0, 0, 0);
        self.message.clear();
        if let Some(histogram) = &mut self.histogram {
            **histogram = Histogram::new();
        }
        if let Some(latencies) = &mut self.latencies {
            latencies.reset();
        }
    }

    /// Adds the counts of another thread. Of messages only one is kept.
    pub(crate) fn merge(&mut self, other: Stats) {
        self.start = self.start.min(other.start);
        self.finish = self.finish.max(other.finish);
        self.seconds += other.seconds;
        self.done += other.done;
        self.bytes += other.bytes;
        if self.message.is_empty() {
            self.message = other.message;
        }
        if let (Some(ours), Some(theirs)) = (&mut self.histogram, &other.histogram) {
            ours.merge(theirs);
        }
        if let (Some(ours), Some(theirs)) = (&mut self.latencies, &other.latencies) {
            ours.add(&**theirs).expect("both have the same bounds");
        }
    }

    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Of all threads together.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Microseconds by the names of the percentiles, and the longest, if they were measured.
    pub(crate) fn percentiles(&self) -> Option<Vec<(&'static str, f64)>> {
        let latencies = self.latencies.as_ref()?;
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let at = |(name, percentile)| (name, micros(latencies.value_at_percentile(percentile)));
        let longest = ("max", micros(latencies.max()));
        Some(PERCENTILES.into_iter().map(at).chain([longest]).collect())
    }

    /// Mean time of an operation in its thread: with several threads not the inverse of their
    /// throughput. What did no operation counts as one.
    pub(crate) fn micros_per_op(&self) -> f64 {
        self.seconds * 1e6 / self.done.max(1) as f64
    }

    /// Mebibytes in each second that passed, all threads together; `None` if no bytes were counted.
    pub(crate) fn mib_per_second(&self) -> Option<f64> {
        let elapsed = (self.finish - self.start).as_secs_f64();
        (self.bytes > 0).then(|| self.bytes as f64 / 1_048_576.0 / elapsed)
    }

    /// The lines of the report for the benchmark `name`.
    pub(crate) fn report(&self, name: &str) -> String {
        let mut extra = String::new();
        if let Some(rate) = self.mib_per_second() {
            let _ = write!(extra, "{rate:6.1} MB/s");
        }
        append_with_space(&mut extra, &self.message);
        let space = if extra.is_empty() { "" } else { " " };
        let micros = self.micros_per_op();
        let mut text = format!("{name:<12} : {micros:11.3} micros/op;{space}{extra}\n");
        if let Some(histogram) = &self.histogram {
            let _ = writeln!(text, "Microseconds per op:\n{histogram}");
        }
        if let Some(percentiles) = self.percentiles() {
            text.push_str("Percentiles:");
            for (name, micros) in percentiles {
                let _ = write!(text, " {name} {micros:.3}");
            }
            text.push_str(" micros\n");
        }
        text
    }
}

fn latencies() -> Latencies<u64> {
    Latencies::new_with_bounds(1, LATENCY_NANOS_MAX, DIGITS).expect("the bounds are sound")
}

fn append_with_space(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn counted(done: u64, bytes: u64, millis: u64, message: &str) -> Stats {
        let mut stats = Stats::new(Timing::default(), Meter::none());
        stats.done = done;
        stats.add_bytes(bytes);
        stats.add_message(message);
        stats.finish = stats.start + Duration::from_millis(millis);
        stats.seconds = millis as f64 / 1e3;
        stats
    }

    #[test]
    fn lines_are_those_of_leveldb() {
        let line = |stats: &Stats| stats.report("fillseq");
        assert_eq!(
            line(&counted(1000, 116_000, 2, "")),
            "fillseq      :       2.000 micros/op;   55.3 MB/s\n"
        );
        assert_eq!(
            line(&counted(1, 116, 1234, "(1 ops)")),
            "fillseq      : 1234000.000 micros/op;    0.0 MB/s (1 ops)\n"
        );
        assert_eq!(
            line(&counted(1000, 0, 1, "(632 of 1000 found)")),
            "fillseq      :       1.000 micros/op; (632 of 1000 found)\n"
        );
        assert_eq!(
            counted(0, 0, 7, "").report("readwhilewriting"),
            "readwhilewriting :    7000.000 micros/op;\n"
        );
    }

    #[test]
    fn threads_add_up_their_time_but_share_the_clock() {
        let mut all = counted(100, 1 << 20, 500, "");
        let mut other = counted(300, 1 << 20, 500, "(found)");
        other.start = all.start;
        other.finish = all.finish;
        all.merge(other);
        assert_eq!(all.report("x"), "x            :    2500.000 micros/op;    4.0 MB/s (found)\n");
        all.merge(counted(0, 0, 0, "(another)"));
        assert!(all.report("x").ends_with("(found)\n"), "only one message is kept");
    }

    #[test]
    fn a_histogram_follows_its_line() {
        let mut stats = Stats::new(Timing { histogram: true, percentiles: false }, Meter::none());
        stats.finished_op();
        stats.stop();
        let text = stats.report("x");
        let lines: Vec<_> = text.split('\n').collect();
        assert_eq!(lines[1], "Microseconds per op:");
        assert!(lines[2].starts_with("Count: 1  Average: "), "{text}");
        assert!(text.ends_with("#\n\n"), "an empty line behind it: {text:?}");
        stats.restart();
        assert!(stats.report("x").contains("Count: 0 "));
    }

    #[test]
    fn percentiles_are_those_of_all_threads() {
        let timing = Timing { histogram: false, percentiles: true };
        let record = |count: u64, micros: u64| {
            let mut stats = Stats::new(timing, Meter::none());
            let latencies = stats.latencies.as_mut().unwrap();
            latencies.record_n(micros * 1000, count).unwrap();
            stats
        };
        let mut stats = record(1500, 2);
        stats.merge(record(500, 7));
        stats.latencies.as_mut().unwrap().record(1_000_000).unwrap();
        let text = stats.report("x");
        let (_, line) = text.split_once('\n').unwrap();
        // Three digits are kept.
        let expected = [("p50", 2.0), ("p90", 7.0), ("p99", 7.0), ("p99.9", 7.0), ("max", 1000.0)];
        let percentiles = stats.percentiles().unwrap();
        for (name, micros) in expected {
            let found = percentiles.iter().find(|(found, _)| *found == name).unwrap().1;
            assert!((found - micros).abs() <= micros / 500.0, "{name}: {line}");
        }
        assert!(line.starts_with("Percentiles: p50 2.00") && line.ends_with(" micros\n"), "{line}");
    }

    #[test]
    fn an_operation_that_begins_late_counts_from_its_turn() {
        let mut stats = Stats::new(Timing { histogram: false, percentiles: true }, Meter::none());
        stats.begin_at(Instant::now() - Duration::from_secs(1));
        stats.finished_op();
        let longest = stats.percentiles().unwrap().last().unwrap().1;
        assert!((1_000_000.0..2_000_000.0).contains(&longest), "{longest}");
    }
}
