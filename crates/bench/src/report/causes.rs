//! Why bytes were written and why writers waited, during one benchmark.

use std::fmt;

use siltstone::Metrics;

const MIB: f64 = 1_048_576.0;

/// The difference of two looks at an engine's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Causes {
    /// What users wrote: keys and values, with the few bytes of their lengths.
    pub(crate) user_bytes: u64,
    pub(crate) wal_bytes: u64,
    pub(crate) wal_syncs: u64,
    pub(crate) flush_bytes: u64,
    pub(crate) compaction_bytes: u64,
    pub(crate) compaction_bytes_read: u64,
    pub(crate) slowed_micros: u64,
    pub(crate) stopped_micros: u64,
    pub(crate) flush_behind_micros: u64,
    pub(crate) memtables_full_micros: u64,
}

impl Causes {
    pub(crate) fn between(before: &Metrics, after: &Metrics) -> Self {
        let grown = |counter: fn(&Metrics) -> u64| counter(after) - counter(before);
        Causes {
            user_bytes: grown(|metrics| metrics.bytes_written),
            wal_bytes: grown(|metrics| metrics.wal_bytes),
            wal_syncs: grown(|metrics| metrics.wal_syncs),
            flush_bytes: grown(|metrics| metrics.flush_bytes),
            compaction_bytes: grown(|metrics| metrics.compaction_bytes_written),
            compaction_bytes_read: grown(|metrics| metrics.compaction_bytes_read),
            slowed_micros: grown(|metrics| metrics.stall_l0_slowdown_micros),
            stopped_micros: grown(|metrics| metrics.stall_l0_stop_micros),
            flush_behind_micros: grown(|metrics| metrics.stall_flush_slowdown_micros),
            memtables_full_micros: grown(|metrics| metrics.stall_memtables_full_micros),
        }
    }

    /// How many bytes were written for each byte of the users; `None` if they wrote none.
    pub(crate) fn amplification(&self) -> Option<f64> {
        let written = self.wal_bytes + self.flush_bytes + self.compaction_bytes;
        (self.user_bytes > 0).then(|| written as f64 / self.user_bytes as f64)
    }
}

/// Two lines, or none if nothing was written.
impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(all) = self.amplification() else { return Ok(()) };
        let user = self.user_bytes as f64;
        let times = |bytes: u64| bytes as f64 / user;
        writeln!(
            f,
            "Written:     {:.1} MB by users; times that: log {:.2}, flush {:.2}, compaction {:.2}, \
             all {all:.2}",
            user / MIB,
            times(self.wal_bytes),
            times(self.flush_bytes),
            times(self.compaction_bytes),
        )?;
        let seconds = |micros: u64| micros as f64 / 1e6;
        writeln!(
            f,
            "Stalled:     level 0 long {:.3} s, level 0 full {:.3} s, flush behind {:.3} s, \
             memtables full {:.3} s",
            seconds(self.slowed_micros),
            seconds(self.stopped_micros),
            seconds(self.flush_behind_micros),
            seconds(self.memtables_full_micros),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_waits_are_told_by_cause() {
        let causes = Causes {
            user_bytes: 2 << 20,
            wal_bytes: (2 << 20) + 100,
            flush_bytes: 1 << 20,
            compaction_bytes: 5 << 20,
            slowed_micros: 1500,
            flush_behind_micros: 30_000,
            memtables_full_micros: 2_000_000,
            ..Causes::default()
        };
        assert_eq!(
            causes.to_string(),
            "Written:     2.0 MB by users; times that: log 1.00, flush 0.50, compaction 2.50, \
             all 4.00\n\
             Stalled:     level 0 long 0.002 s, level 0 full 0.000 s, flush behind 0.030 s, \
             memtables full 2.000 s\n"
        );
        assert_eq!(Causes::default().to_string(), "", "nothing was written");
    }

    #[test]
    fn only_what_grew_in_between_counts() {
        let mut before = Metrics::default();
        (before.bytes_written, before.flush_bytes) = (100, 7);
        let mut after = before.clone();
        (after.bytes_written, after.flush_bytes) = (150, 32);
        let causes = Causes::between(&before, &after);
        let expected = Causes { user_bytes: 50, flush_bytes: 25, ..Causes::default() };
        assert_eq!(causes, expected);
        assert_eq!(causes.amplification(), Some(0.5));
    }
}
