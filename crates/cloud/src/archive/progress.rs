//! What the engine has written into its logs, and how much of it is in the bucket. Knows no files and no bucket.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// No piece is larger: so much is read into memory at once, and sent.
pub(crate) const PIECE_BYTES_MAX: u64 = 4 << 20;

/// A log that the engine writes, or has written.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    /// Unknown while it has a temporary name.
    number: Option<u64>,
    stream: u64,
    needs: u64,
    appended: Arc<AtomicU64>,
    shipped: u64,
    /// The engine needs its file no more.
    doomed: bool,
}

impl Log {
    fn unshipped(&self) -> u64 {
        self.appended.load(SeqCst).saturating_sub(self.shipped)
    }
}

/// A part of a log to be put next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    pub(crate) log: u64,
    pub(crate) stream: u64,
    pub(crate) needs: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// In the order in which they were begun; only the last is written.
    logs: VecDeque<Log>,
    streams: u64,
}

impl Progress {
    /// A log is begun. What is appended to it is counted in what this returns.
    pub(crate) fn begin(&mut self, path: &Path) -> (u64, Arc<AtomicU64>) {
        let appended = Arc::new(AtomicU64::new(0));
        self.streams += 1;
        self.logs.push_back(Log {
            path: path.to_owned(),
            number: number_of(path),
            stream: self.streams,
            needs: 0,
            appended: Arc::clone(&appended),
            shipped: 0,
            doomed: false,
        });
        (self.streams, appended)
    }

    /// A log that had a temporary name takes over: from now on it counts, once all of it that there is now is there.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) {
        let Some(number) = number_of(to) else { return };
        if !self.logs.iter().any(|log| log.path == from) {
            return;
        }
        self.logs.retain(|log| log.number != Some(number));
        for log in self.logs.iter_mut().filter(|log| log.path == from) {
            log.path = to.to_owned();
            log.number = Some(number);
            log.needs = log.appended.load(SeqCst);
        }
    }

    /// The engine needs a file no more. True if its removal is to wait until it is in the bucket.
    pub(crate) fn remove(&mut self, path: &Path) -> bool {
        let Some(at) = self.logs.iter().position(|log| log.path == path) else { return false };
        let log = &mut self.logs[at];
        if log.number.is_some() && log.unshipped() > 0 {
            log.doomed = true;
            return true;
        }
        self.logs.remove(at);
        false
    }

    /// Bytes that were written, and are not in the bucket.
    pub(crate) fn unshipped(&self) -> u64 {
        self.logs.iter().filter(|log| log.number.is_some()).map(Log::unshipped).sum()
    }

    /// What is to be put next. Logs go one after the other.
    pub(crate) fn next(&self) -> Option<Part> {
        let log = self.logs.iter().find(|log| log.number.is_some() && log.unshipped() > 0)?;
        Some(Part {
            path: log.path.clone(),
            log: log.number?,
            stream: log.stream,
            needs: log.needs,
            offset: log.shipped,
            len: log.unshipped().min(PIECE_BYTES_MAX),
        })
    }

    /// It is there. Returns files that can go now.
    pub(crate) fn shipped(&mut self, part: &Part) -> Vec<PathBuf> {
        for log in self.logs.iter_mut().filter(|log| log.stream == part.stream) {
            log.shipped = log.shipped.max(part.offset + part.len);
        }
        let is_done = |log: &Log| log.doomed && log.unshipped() == 0;
        let gone = self.logs.iter().filter(|log| is_done(log)).map(|log| log.path.clone());
        let gone = gone.collect();
        self.logs.retain(|log| !is_done(log));
        gone
    }

    /// Logs before this one are in tables that a committed version has: they need not be shipped.
    pub(crate) fn forget_before(&mut self, number: u64) -> Vec<PathBuf> {
        let is_past = |log: &Log| log.number.is_some_and(|its| its < number);
        let doomed = self.logs.iter().filter(|log| is_past(log) && log.doomed);
        let doomed = doomed.map(|log| log.path.clone()).collect();
        self.logs.retain(|log| !is_past(log));
        doomed
    }

    /// True if so much of a stream is there, or it is needed no more.
    pub(crate) fn is_there(&self, stream: u64, bytes: u64) -> bool {
        self.logs.iter().find(|log| log.stream == stream).is_none_or(|log| log.shipped >= bytes)
    }
}

/// The number of a log by its name; `None` of anything else.
pub(crate) fn number_of(path: &Path) -> Option<u64> {
    let digits = path.file_name()?.to_str()?.strip_suffix(".log")?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ship_all(progress: &mut Progress) -> Vec<(u64, u64, u64)> {
        let mut done = Vec::new();
        while let Some(part) = progress.next() {
            progress.shipped(&part);
            done.push((part.log, part.offset, part.len));
        }
        done
    }

    #[test]
    fn logs_go_one_after_the_other_in_parts() {
        let mut progress = Progress::default();
        let (first, one) = progress.begin("db/000007.log".as_ref());
        one.store(PIECE_BYTES_MAX + 10, SeqCst);
        let (_, two) = progress.begin("db/000009.log".as_ref());
        two.store(5, SeqCst);
        assert_eq!(progress.unshipped(), PIECE_BYTES_MAX + 15);
        assert!(!progress.is_there(first, 1));
        let parts = ship_all(&mut progress);
        assert_eq!(parts, [(7, 0, PIECE_BYTES_MAX), (7, PIECE_BYTES_MAX, 10), (9, 0, 5)]);
        assert!(progress.is_there(first, PIECE_BYTES_MAX + 10));
        two.store(6, SeqCst);
        assert_eq!(ship_all(&mut progress), [(9, 5, 1)]);
    }

    #[test]
    fn a_file_stays_until_it_is_there() {
        let mut progress = Progress::default();
        let path = Path::new("db/000007.log");
        let (_, one) = progress.begin(path);
        one.store(9, SeqCst);
        assert!(progress.remove(path));
        let part = progress.next().unwrap();
        assert_eq!(progress.shipped(&part), [path]);
        assert!(!progress.remove(path));

        let (stream, two) = progress.begin("db/000008.log".as_ref());
        two.store(9, SeqCst);
        assert!(progress.remove("db/000008.log".as_ref()));
        assert_eq!(progress.forget_before(9), [Path::new("db/000008.log")]);
        assert!(progress.is_there(stream, 9));
    }

    #[test]
    fn a_log_that_takes_over_counts_from_its_name_on() {
        let mut progress = Progress::default();
        let (_, one) = progress.begin("db/000007.log".as_ref());
        one.store(9, SeqCst);
        assert_eq!(ship_all(&mut progress).len(), 1);
        one.store(12, SeqCst);
        let hidden = Path::new("db/000008.dbtmp");
        let (_, two) = progress.begin(hidden);
        two.store(20, SeqCst);
        assert_eq!(ship_all(&mut progress), [(7, 9, 3)], "no name, no place");
        progress.rename(hidden, "db/000007.log".as_ref());
        let part = progress.next().unwrap();
        assert_eq!((part.log, part.stream, part.needs, part.len), (7, 2, 20, 20));
        progress.rename("db/other".as_ref(), "db/000010.log".as_ref());
        assert!(!progress.remove("db/000009.dbtmp".as_ref()));
    }
}
