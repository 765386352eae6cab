//! What one thread counts while it works, and the line that sums the threads up.
//!
//! Counting an operation costs an addition and a comparison. Clocks are read per operation only if
//! something asked for times.

use std::fmt::Write as _;
use std::time::Instant;

use super::histogram::Histogram;
use super::progress::Meter;

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
    histogram: Option<Box<Histogram>>,
    meter: Meter,
}

impl Stats {
    /// Starts counting and the clock.
    pub(crate) fn new(timed: bool, meter: Meter) -> Self {
        let now = Instant::now();
        Stats {
            start: now,
            finish: now,
            seconds: 0.0,
            done: 0,
            bytes: 0,
            message: String::new(),
            last_finish: now,
            histogram: timed.then(|| Box::new(Histogram::new())),
            meter,
        }
    }

    /// One operation is done.
    #[inline]
    pub(crate) fn finished_op(&mut self) {
        self.done += 1;
        if let Some(histogram) = &mut self.histogram {
            let now = Instant::now();
            histogram.add((now - self.last_finish).as_nanos() as f64 / 1e3);
            self.last_finish = now;
        }
        if self.meter.is_due(self.done) {
            self.meter.advance();
        }
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
        text
    }
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
        let mut stats = Stats::new(false, Meter::none());
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
        let mut stats = Stats::new(true, Meter::none());
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
}
