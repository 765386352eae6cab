//! The next log, made while the memtable fills. To make one takes the folder's lock, blocks and the process's map of memory: a
//! writer that makes it at the switch waits for whoever has them, a lane that is not let run for one, for milliseconds.
//!
//! **Invariant.** Nothing is in it, and no memtable has its number: the folder is as good without it, and it is used only where
//! its number is greater than that of the log before.

use crate::base::error::{ErrorKind, Result};
use crate::base::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
}

impl Default for Spare {
    fn default() -> Self {
        Spare { log: Mutex::new(Rank::Leaf, None), is_due: AtomicBool::new(false) }
    }
}

impl Core {
    /// Asks housekeeping for the next log once the memtable is half full: small databases have none.
    #[inline]
    pub(crate) fn look_for_spare_log(&self, filled: usize) {
        if filled > self.settings.write_buffer_bytes / 2 && !self.spare.is_due.load(Relaxed) {
            self.spare.is_due.store(true, Relaxed);
            self.graveyard.ask_for_log();
        }
    }

    /// Makes it, by housekeeping. Where that fails, the switch tries again, and tells.
    pub(crate) fn make_spare_log(&self) {
        let is_full = self.state.lock().retrying.is_some();
        if is_full || self.spare.log.lock().is_some() {
            return;
        }
        let number = self.new_file_number();
        let bytes = self.settings.write_buffer_bytes as u64;
        if let Ok(log) = Wal::create_ahead(&self.log_place(), number, bytes) {
            *self.spare.log.lock() = Some(log);
        }
    }

    /// The log to follow the one of the number `last`: the spare one, or one that is made now.
    pub(crate) fn next_log(&self, last: FileNumber) -> Result<Wal> {
        match self.take_spare_log() {
            Some(log) if log.number() > last => Ok(log),
            other => {
                self.discard(other);
                Wal::create(&self.log_place(), self.new_file_number())
            }
        }
    }

    fn take_spare_log(&self) -> Option<Wal> {
        let log = self.spare.log.lock().take();
        self.spare.is_due.store(false, Relaxed);
        log
    }

    /// Gives back its name and the space that it has taken ahead.
    pub(crate) fn drop_spare_log(&self) {
        self.discard(self.take_spare_log());
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
        db.core().make_spare_log();
        assert_eq!(logs(&env).len(), 1, "not while it is full");
    }
}
