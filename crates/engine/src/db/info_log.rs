//! The info log: events as lines of text in `LOG`, in LevelDB's form, for people to read.
//!
//! The log of the run before is kept as `LOG.old`. Failing to write it never fails the database:
//! nothing in it is needed.

use std::path::Path;

use crate::base::error::Result;
use crate::base::event::{Event, EventListener};
use crate::base::sync::{Mutex, Rank};
use crate::env::Env;
use crate::env::fs::WritableFile;
use crate::env::site::Site;
use crate::format::filename::FileName;

/// Beyond this the log begins anew; LevelDB's grows without bound.
const BYTES_MAX: u64 = 16 << 20;

pub(crate) struct InfoLog {
    env: Env,
    dir: std::path::PathBuf,
    file: Mutex<Option<Open>>,
}

struct Open {
    file: Box<dyn WritableFile>,
    bytes: u64,
}

impl InfoLog {
    /// Starts a new log in the database folder; a log that cannot be written stays silent.
    pub(crate) fn start(env: &Env, dir: &Path) -> Self {
        let log = InfoLog {
            env: env.clone(),
            dir: dir.to_owned(),
            file: Mutex::new(Rank::InfoLog, None),
        };
        *log.file.lock() = log.begin().ok();
        log
    }

    fn begin(&self) -> Result<Open> {
        let fs = &self.env.file_system;
        let (log, old) = (FileName::InfoLog, FileName::OldInfoLog);
        let (log, old) = (log.in_dir(&self.dir), old.in_dir(&self.dir));
        // There may be none to keep.
        let _ = fs.rename(&log, &old, Site::InfoLogRename);
        Ok(Open { file: fs.create(&log, Site::InfoLogCreate)?, bytes: 0 })
    }

    fn write(&self, line: &str) {
        let mut file = self.file.lock();
        if file.as_ref().is_some_and(|open| open.bytes > BYTES_MAX) {
            *file = self.begin().ok();
        }
        let Some(open) = file.as_mut() else { return };
        let line = format!("{} {line}\n", timestamp(self.env.clock.wall_micros()));
        open.bytes += line.len() as u64;
        if open.file.append(line.as_bytes(), Site::InfoLogAppend).is_err() {
            *file = None;
        }
    }
}

impl EventListener for InfoLog {
    fn on_event(&self, event: &Event) {
        if let Some(line) = describe(event) {
            self.write(&line);
        }
        if matches!(event, Event::Closed)
            && let Some(mut open) = self.file.lock().take()
        {
            let _ = open.file.close(Site::InfoLogClose);
        }
    }
}

/// An event as a line; `None` for those that come too often to be worth one.
fn describe(event: &Event) -> Option<String> {
    Some(match event {
        Event::Opened { recovery } => {
            format!(
                "Opened: {} log(s) replayed, {} batches, last sequence {}, {} torn byte(s), {} ms",
                recovery.wals.len(),
                recovery.batches,
                recovery.last_seqno,
                recovery.torn_bytes,
                recovery.elapsed.as_millis(),
            ) + &recovery
                .dropped
                .iter()
                .map(|part| {
                    format!(
                        "; dropped {} byte(s) of {} from byte {}: {}",
                        part.bytes,
                        part.file.display(),
                        part.offset,
                        part.reason
                    )
                })
                .collect::<String>()
        }
        Event::FlushFinished { job, table, bytes, elapsed } => match table {
            Some(table) => format!(
                "Level-0 table #{table}: {bytes} bytes OK (job {job}, {} us)",
                elapsed.as_micros()
            ),
            None => format!("Flush of an empty memtable (job {job})"),
        },
        Event::CompactionStarted { job, inputs, target_level } => {
            let inputs: Vec<String> =
                inputs.iter().map(|(level, table)| format!("#{table}@{level}")).collect();
            format!("Compacting {} to level {target_level} (job {job})", inputs.join(" + "))
        }
        Event::CompactionCameHome { job, why } => {
            format!("Compacting here after all: {why} (job {job})")
        }
        Event::CompactionFinished { job, target_level, moved: true, outputs, .. } => {
            let outputs: Vec<String> = outputs.iter().map(|table| format!("#{table}")).collect();
            format!("Moved {} to level {target_level} (job {job})", outputs.join(", "))
        }
        Event::CompactionFinished {
            job,
            target_level,
            outputs,
            bytes_read,
            bytes_written,
            elapsed,
            ..
        } => format!(
            "Compacted to {} table(s) at level {target_level}: {bytes_read} bytes read, \
             {bytes_written} written, {} us (job {job})",
            outputs.len(),
            elapsed.as_micros(),
        ),
        Event::BackgroundError { error, retries: true } => {
            format!("Background error, will retry: {error}")
        }
        Event::BackgroundError { error, retries: false } => format!("Background error: {error}"),
        Event::Healed => "Healed: work goes on after an error".to_owned(),
        Event::ManifestRotated { number } => format!("New manifest #{number}"),
        Event::FileRemoved { name } => format!("Deleted {name}"),
        Event::Closed => "Closed".to_owned(),
        Event::Stalled { .. } => return None,
    })
}

/// `YYYY/MM/DD-HH:MM:SS.micros` in UTC, from microseconds since 1970. By the proleptic Gregorian
/// calendar: days are counted in years that begin on 1 March, so that leap days come last.
fn timestamp(micros: u64) -> String {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468; // Days since 0000-03-01.
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}/{month:02}/{day:02}-{hour:02}:{minute:02}:{second:02}.{micros:06}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_follow_the_calendar() {
        assert_eq!(timestamp(0), "1970/01/01-00:00:00.000000");
        assert_eq!(timestamp(951_827_696_000_007), "2000/02/29-12:34:56.000007");
        assert_eq!(timestamp(4_102_444_799_999_999), "2099/12/31-23:59:59.999999");
    }
}
