//! The version of each database that was announced last, and those who watch. Of a broker; empty when it starts.
//!
//! **Invariants.**
//! - N1. Databases and watchers are so many at most, and neither takes more memory for being talked of or to more.
//! - N2. Who announces waits for no watcher.
//! - N3. The last word counts, not the highest number. A number that was wrong is set right by the next one, and a database
//!   that is made anew at its place begins again with 1.
//!
//! **Concurrency.** One lock, for a lookup and a store. It is never held over a wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::broker::config::BrokerConfig;
use crate::job::name::DbId;

pub(super) struct Board {
    databases_max: usize,
    watchers_max: usize,
    seats: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    databases: HashMap<DbId, Entry>,
    /// Counts what was said, so that it is known which entry is the oldest.
    turn: u64,
    announced: u64,
}

struct Entry {
    /// 0 until something is announced.
    version: watch::Sender<u64>,
    turn: u64,
}

/// A watcher's place.
pub(super) struct Watching {
    version: watch::Receiver<u64>,
    _seat: OwnedSemaphorePermit,
}

impl Watching {
    /// What was announced last; `None` if nothing was yet.
    pub(super) fn newest(&mut self) -> Option<u64> {
        Some(*self.version.borrow_and_update()).filter(|version| *version > 0)
    }

    /// Waits for something that [`newest`](Self::newest) has not told.
    pub(super) async fn changed(&mut self) {
        if self.version.changed().await.is_err() {
            // What is watched is not forgotten (see `make_room`), so the broker itself is going.
            std::future::pending().await
        }
    }
}

impl Board {
    pub(super) fn new(config: &BrokerConfig) -> Self {
        // More than a semaphore can count are as good as no bound.
        let watchers_max = config.watchers_max.min(Semaphore::MAX_PERMITS);
        Board {
            databases_max: config.databases_max,
            watchers_max,
            seats: Arc::new(Semaphore::new(watchers_max)),
            state: Mutex::default(),
        }
    }

    /// Takes note, and tells whoever watches. Where there is no room for another database, nothing happens: it is a hint.
    pub(super) fn announce(&self, db: &DbId, version: u64) {
        let mut state = self.state();
        state.announced += 1;
        if let Some(entry) = state.entry(db, self.databases_max) {
            entry.version.send_replace(version);
        }
    }

    /// `None` if there are too many databases or watchers.
    pub(super) fn watch(&self, db: &DbId) -> Option<Watching> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().ok()?;
        let mut state = self.state();
        let version = state.entry(db, self.databases_max)?.version.subscribe();
        Some(Watching { version, _seat: seat })
    }

    pub(super) fn announced(&self) -> u64 {
        self.state().announced
    }

    pub(super) fn watchers(&self) -> u64 {
        (self.watchers_max - self.seats.available_permits()) as u64
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock stops half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The database's entry, perhaps a new one.
    fn entry(&mut self, db: &DbId, databases_max: usize) -> Option<&mut Entry> {
        self.turn += 1;
        if !self.databases.contains_key(db) && !self.make_room(databases_max) {
            return None;
        }
        let fresh = || Entry { version: watch::Sender::new(0), turn: 0 };
        let entry = self.databases.entry(db.clone()).or_insert_with(fresh);
        entry.turn = self.turn;
        Some(entry)
    }

    /// Forgets what was not talked of for the longest, of what nobody watches. False if there is no room for one more.
    fn make_room(&mut self, databases_max: usize) -> bool {
        if self.databases.len() < databases_max {
            return true;
        }
        let unwatched =
            self.databases.iter().filter(|(_, entry)| entry.version.receiver_count() == 0);
        let oldest = unwatched.min_by_key(|(_, entry)| entry.turn).map(|(db, _)| db.clone());
        oldest.is_some_and(|db| self.databases.remove(&db).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(databases_max: usize, watchers_max: usize) -> Board {
        Board::new(&BrokerConfig { databases_max, watchers_max, ..BrokerConfig::new(1, 7) })
    }

    fn db(name: &str) -> DbId {
        DbId::new(name).unwrap()
    }

    #[tokio::test]
    async fn watchers_hear_the_last_word_and_no_other_databases() {
        let board = board(8, 8);
        let mut early = board.watch(&db("a")).unwrap();
        let mut other = board.watch(&db("b")).unwrap();
        assert_eq!(early.newest(), None);
        for version in [5, 6, 7] {
            board.announce(&db("a"), version);
        }
        early.changed().await;
        assert_eq!(early.newest(), Some(7), "what came faster than it was read is one word");
        assert_eq!(board.watch(&db("a")).unwrap().newest(), Some(7), "who comes later knows it");
        assert_eq!(other.newest(), None);
        // N3.
        board.announce(&db("a"), 1);
        early.changed().await;
        assert_eq!(early.newest(), Some(1));
        assert_eq!(board.announced(), 4);
    }

    #[test]
    fn watchers_have_a_bound_and_leave_their_seats() {
        let board = board(8, 2);
        let watching = [board.watch(&db("a")), board.watch(&db("b"))];
        assert!(watching.iter().all(Option::is_some) && board.watch(&db("a")).is_none());
        assert_eq!(board.watchers(), 2);
        drop(watching);
        assert_eq!(board.watchers(), 0);
        assert!(board.watch(&db("a")).is_some());
    }

    #[test]
    fn databases_have_a_bound_and_what_is_watched_stays() {
        let board = board(2, 8);
        let mut watched = board.watch(&db("watched")).unwrap();
        for number in 1..=100 {
            board.announce(&db(&format!("passing-{number}")), number);
            assert!(board.state().databases.len() <= 2);
        }
        assert_eq!(board.watch(&db("passing-100")).unwrap().newest(), Some(100));
        assert_eq!(board.watch(&db("passing-99")).unwrap().newest(), None, "forgotten");
        board.announce(&db("watched"), 3);
        assert_eq!(watched.newest(), Some(3));
        let _both = board.watch(&db("passing-99")).unwrap();
        board.announce(&db("no-room"), 1);
        assert!(board.watch(&db("no-room")).is_none());
        board.announce(&db("watched"), 4);
        assert_eq!(watched.newest(), Some(4));
    }
}
