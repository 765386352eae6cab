//! The `leveldb.*` properties, text for text, and ours.

use std::fmt::Write;

use crate::base::slot::Level;
use crate::db::core::Core;

const MIB: f64 = 1_048_576.0;

impl Core {
    pub(crate) fn property(&self, name: &str) -> Option<String> {
        match name.strip_prefix("leveldb.") {
            Some("stats") => Some(self.stats_property()),
            Some("sstables") => Some(self.sstables_property()),
            Some("approximate-memory-usage") => Some(self.memory_usage().to_string()),
            Some(other) => self.num_files_property(other.strip_prefix("num-files-at-level")?),
            None if name == "siltstone.metrics" => Some(self.metrics_property()),
            None => None,
        }
    }

    fn num_files_property(&self, level: &str) -> Option<String> {
        // `parse` alone would take a sign, which LevelDB does not.
        let digits = !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_digit());
        let level = Level::new(level.parse().ok().filter(|_| digits)?)?;
        let version = self.view.load().version.clone();
        Some(version.level_tables(level).count().to_string())
    }

    fn stats_property(&self) -> String {
        let (version, stats) = {
            let state = self.state.lock();
            (state.version.clone(), state.level_stats)
        };
        let mut text = String::from(
            "                               Compactions\n\
             Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
             --------------------------------------------------\n",
        );
        for (level, stats) in Level::all().zip(stats) {
            let files = version.level_tables(level).count();
            if files > 0 || !stats.elapsed.is_zero() {
                let _ = writeln!(
                    text,
                    "{level:3} {files:8} {:8.0} {:9.0} {:8.0} {:9.0}",
                    version.level_bytes(level) as f64 / MIB,
                    stats.elapsed.as_secs_f64(),
                    stats.bytes_read as f64 / MIB,
                    stats.bytes_written as f64 / MIB,
                );
            }
        }
        text
    }

    fn sstables_property(&self) -> String {
        let version = self.view.load().version.clone();
        let mut text = String::new();
        for level in Level::all() {
            let _ = writeln!(text, "--- level {level} ---");
            for table in version.level_tables(level) {
                let (number, size) = (table.number, table.size);
                let (smallest, largest) = (&table.smallest, &table.largest);
                let _ = writeln!(text, " {number}:{size}[{smallest} .. {largest}]");
            }
        }
        text
    }

    fn memory_usage(&self) -> u64 {
        let pinned = self.view.load();
        let memtables = pinned.memtables().map(|table| table.memory() as u64);
        let kept = self.memory.bytes() as u64;
        let tables = self.settings.block_cache.total_charge() + self.tables.resident_bytes();
        tables + memtables.sum::<u64>() + kept
    }

    fn metrics_property(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.counters.snapshot().named() {
            let _ = writeln!(text, "{name} {value}");
        }
        text
    }
}
