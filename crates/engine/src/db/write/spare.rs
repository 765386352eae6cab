//! The next log, made while the memtable fills. To make one takes the folder's lock, blocks and the process's map of memory: a
//! writer that makes it at the switch waits for whoever has them, a lane that is not let run for one, for milliseconds.
//!
//! If memtables fill fast, zeros are written to it ahead, a piece at a time, which the writer would have to do otherwise.
//!
//! **Invariant.** Nothing is in it, and no memtable has its number: the folder is as good without it, and it is used only where
//! its number is greater than that of the log before.

use std::time::Duration;

use crate::base::error::{ErrorKind, Result};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::base::sync::{Mutex, Rank};
use crate::db::core::Core;
use crate::db::write::wal::Wal;
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};

/// Where the next log lies until it is used.
pub(crate) struct Spare {
    log: Mutex<Option<Wal>>,
    /// It is there, or was asked for.
    is_due: AtomicBool,
    /// When it was asked for the last time, in microseconds of the clock.
    asked_at: AtomicU64,
    /// So many bytes will be in it soon, and nobody syncs them; none if that is not known.
    likely_bytes: AtomicU64,
}

/// Memtables that fill in less time fill fast. What lies in a log for half a minute goes to the disk: zeros must not, for nothing.
const FAST: Duration = Duration::from_secs(1);

/// What a log will hold when its memtable is full, by what one holds whose memtable is filled so far: memtables have more of an
/// entry than logs do, the smaller it is the more.
fn likely_bytes(log_bytes: u64, filled: usize, full: usize) -> u64 {
    (log_bytes as f64 / filled as f64 * full as f64) as u64
}

impl Default for Spare {
    fn default() -> Self {
        Spare {
            log: Mutex::new(Rank::Leaf, None),
            is_due: AtomicBool::new(false),
            asked_at: AtomicU64::new(0),
            likely_bytes: AtomicU64::new(0),
        }
    }
}

impl Spare {
    /// A log that is not synced would be as long as that.
    fn note_asked(&self, now: Duration, likely_bytes: Option<u64>) {
        let before = Duration::from_micros(self.asked_at.load(Relaxed));
        self.asked_at.store(now.as_micros() as u64, Relaxed);
        let is_fast = !before.is_zero() && now.saturating_sub(before) < FAST;
        self.likely_bytes.store(likely_bytes.filter(|_| is_fast).unwrap_or(0), Relaxed);
    }

    /// For a writer, or because nobody is to have it.
    fn take(&self) -> Option<Wal> {
        let mut place = self.log.lock();
        self.is_due.store(false, Relaxed);
        place.take()
    }

    /// After more of it was made ready. Hands it out if it comes too late: whoever wanted one has none, or another.
    fn put_back(&self, log: Wal) -> Option<Wal> {
        let mut place = self.log.lock();
        if self.is_due.load(Relaxed) { place.replace(log) } else { Some(log) }
    }
}

impl Core {
    /// Asks housekeeping for the next log once the memtable is half full: small databases have none.
    #[inline]
    pub(crate) fn look_for_spare_log(&self, filled: usize, now: Duration, last: &Wal) {
        let full = self.settings.write_buffer_bytes;
        if filled > full / 2 && !self.spare.is_due.load(Relaxed) {
            self.spare.is_due.store(true, Relaxed);
            let likely = likely_bytes(last.bytes(), filled, full);
            self.spare.note_asked(now, (!last.was_synced()).then_some(likely));
            self.graveyard.ask_for_log();
        }
    }

    /// Makes it, or more of it ready, by housekeeping. Where it cannot be made, the switch tries again, and tells.
    pub(crate) fn make_spare_log(&self) {
        let is_full = self.state.lock().retrying.is_some();
        if is_full || !self.spare.is_due.load(Relaxed) {
            return;
        }
        // Nobody waits for this lane: a writer who comes meanwhile finds none.
        let there = self.spare.log.lock().take();
        let Some(mut log) = there.or_else(|| self.create_spare_log()) else { return };
        let has_more = log.get_ahead(self.spare.likely_bytes.load(Relaxed));
        self.discard(self.spare.put_back(log));
        if has_more {
            self.graveyard.ask_for_log(); // What else there is to do comes first.
        }
    }

    fn create_spare_log(&self) -> Option<Wal> {
        let bytes = self.settings.write_buffer_bytes as u64;
        Wal::create_ahead(&self.log_place(), self.new_file_number(), bytes).ok()
    }

    /// The log to follow the one of the number `last`: the spare one, or one that is made now.
    pub(crate) fn next_log(&self, last: FileNumber) -> Result<Wal> {
        match self.spare.take() {
            Some(log) if log.number() > last => Ok(log),
            other => {
                self.discard(other);
                Wal::create(&self.log_place(), self.new_file_number())
            }
        }
    }

    /// Gives back its name and the space that it has taken ahead.
    pub(crate) fn drop_spare_log(&self) {
        self.discard(self.spare.take());
    }

    /// As [`drop_spare_log`](Self::drop_spare_log), if `kind` is of a full disk.
    pub(crate) fn make_space(&self, kind: ErrorKind) {
        if kind == ErrorKind::NoSpace {
            self.drop_spare_log();
        }
    }

    /// If it stays, the next open takes it for an empty log, which it is.
    fn discard(&self, log: Option<Wal>) {
        if let Some(log) = log {
            let path = FileName::Wal(log.number()).in_dir(&self.dir);
            let _ = log.close();
            let _ = self.env.file_system.remove_file(&path, Site::WalRemove);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::yield_now;

    use super::*;
    use crate::base::error::Error;
    use crate::{Db, Env, Options};

    const BUFFER_BYTES: usize = 64 << 10;

    fn open(env: &Env) -> Db {
        let options = Options {
            create_if_missing: true,
            env: env.clone(),
            write_buffer_size: BUFFER_BYTES,
            ..Options::default()
        };
        Db::open("db", options).unwrap()
    }

    fn logs(env: &Env) -> Vec<String> {
        let mut names = env.file_system.list("db".as_ref()).unwrap();
        names.retain(|name| name.ends_with(".log"));
        names.sort();
        names
    }

    fn put(db: &Db, number: usize) {
        db.put(number.to_be_bytes(), [7; 1000]).unwrap();
    }

    /// Writes until there is a spare log, and returns its number.
    fn write_for_a_spare(db: &Db) -> FileNumber {
        (0..BUFFER_BYTES * 3 / 4 / 1000).for_each(|number| put(db, number));
        loop {
            if let Some(log) = &*db.core().spare.log.lock() {
                return log.number();
            }
            yield_now();
        }
    }

    #[test]
    fn the_next_log_is_there_when_the_memtable_is_full() {
        let env = Env::memory();
        let db = open(&env);
        put(&db, 0);
        assert!(db.core().spare.log.lock().is_none(), "not yet");
        let spare = write_for_a_spare(&db);
        assert_eq!(logs(&env).len(), 2);
        let current = |db: &Db| db.core().state.lock().memtable.wal;
        assert!(current(&db) < spare);
        (0..).take_while(|_| current(&db) < spare).for_each(|number| put(&db, number));
        assert_eq!(current(&db), spare);
    }

    #[test]
    fn a_spare_log_goes_with_the_database() {
        let env = Env::memory();
        let db = open(&env);
        write_for_a_spare(&db);
        drop(db);
        assert_eq!(logs(&env).len(), 1);
        let db = open(&env);
        assert_eq!(db.get(0_usize.to_be_bytes()).unwrap(), Some(vec![7; 1000]));
    }

    #[test]
    fn a_log_is_likely_to_be_as_full_as_the_last_for_its_memtable() {
        assert_eq!(likely_bytes(1500, 2000, 4000), 3000);
        assert_eq!(likely_bytes(0, 1, 4000), 0);
        assert_eq!(likely_bytes(u64::MAX, 1, usize::MAX), u64::MAX, "no more than there is");
    }

    /// The file system knows what that means; see its logs.
    #[test]
    fn zeros_are_written_ahead_for_who_is_fast_and_does_not_sync() {
        let spare = Spare::default();
        let mut now = Duration::from_secs(7);
        let mut is_urgent = |after: Duration, was_synced: bool| {
            now += after;
            spare.note_asked(now, (!was_synced).then_some(7));
            spare.likely_bytes.load(Relaxed) == 7
        };
        assert!(!is_urgent(Duration::ZERO, false), "nothing is known yet");
        assert!(is_urgent(FAST / 2, false));
        assert!(!is_urgent(FAST, false));
        assert!(!is_urgent(FAST / 2, true));
        assert!(is_urgent(FAST / 2, false));
    }

    /// By a log of a megabyte in a folder: three pieces, and most of a fourth, for a memtable has somewhat more of an entry.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "only real files are written ahead")]
    fn the_next_log_has_zeros_already() {
        let dir = std::env::temp_dir().join(format!("spare-log-{}", std::process::id()));
        let options =
            Options { create_if_missing: true, write_buffer_size: 1 << 20, ..Options::default() };
        let db = Db::open(&dir, options).unwrap();
        let ahead = || {
            let log = db.core().spare.log.lock();
            let path = log.as_ref().map(|log| FileName::Wal(log.number()).in_dir(&dir))?;
            std::fs::metadata(path).ok().map(|found| found.len())
        };
        // Where the machine is busy, some memtables may take long.
        let mut longest = 0;
        for number in 0..200_000 {
            put(&db, number % 1000);
            longest = longest.max(ahead().unwrap_or(0));
            if longest > 3 << 18 {
                break;
            }
        }
        // Where the folder's file system allows no maps, nothing is written ahead.
        assert!(longest == 0 || (15 << 16..=1 << 20).contains(&longest), "{longest}");
        drop(db);
        // A process that dies leaves the next log behind, all zeros.
        let left = FileName::Wal(FileNumber(1_000_000)).in_dir(&dir);
        std::fs::write(&left, vec![0; 3 << 18]).unwrap();
        let db = Db::open(&dir, Options { paranoid_checks: true, ..Options::default() }).unwrap();
        assert_eq!(db.get(1_usize.to_be_bytes()).unwrap(), Some(vec![7; 1000]));
        drop(db); // And with it housekeeping, which removes files when it comes to it.
        assert!(!left.exists(), "recovery is through with it");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn no_log_is_made_unasked_nor_twice_nor_put_back_too_late() {
        let env = Env::memory();
        let db = open(&env);
        let spare = &db.core().spare;
        db.core().make_spare_log();
        assert_eq!(logs(&env).len(), 1, "nobody asked for it");
        spare.is_due.store(true, Relaxed);
        db.core().make_spare_log();
        assert_eq!(logs(&env).len(), 2);
        db.core().make_spare_log();
        assert_eq!(logs(&env).len(), 2, "it is there");
        let taken = spare.log.lock().take().unwrap();
        assert!(spare.put_back(taken).is_none());
        let taken = spare.log.lock().take().unwrap();
        assert!(spare.take().is_none(), "housekeeping has it");
        let late = spare.put_back(taken);
        assert!(late.is_some() && spare.log.lock().is_none());
        db.core().discard(late);
        assert_eq!(logs(&env).len(), 1);
    }

    /// It may have been made before the log that writing goes on in.
    #[test]
    fn logs_follow_each_other_by_their_numbers() {
        let db = open(&Env::memory());
        let spare = write_for_a_spare(&db);
        let later = db.core().new_file_number();
        assert!(later > spare);
        assert!(db.core().next_log(later).unwrap().number() > later);
        assert!(db.core().spare.log.lock().is_none());
    }

    #[test]
    fn a_full_disk_gets_the_space_of_the_spare_log() {
        let env = Env::memory();
        let db = open(&env);
        write_for_a_spare(&db);
        let _ = db.core().note_background_failure(Error::new(ErrorKind::Io, "on purpose"));
        assert_eq!(logs(&env).len(), 2);
        let _ = db.core().note_background_failure(Error::new(ErrorKind::NoSpace, "on purpose"));
        assert_eq!(logs(&env).len(), 1);
        db.core().spare.is_due.store(true, Relaxed);
        db.core().make_spare_log();
        assert_eq!(logs(&env).len(), 1, "not while it is full");
    }
}
