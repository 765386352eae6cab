//! A replica that follows the version log: it asks for the next number, more often while there is news. It learns of a new
//! version before it goes there, so that it can open the new tables first.
//!
//! I1: what a follower stands on is kept by its lease. If that ends (a pause, a bucket out of reach), it makes a new one
//! and goes on; only if a collector has passed in between must it start from the newest version. It never ends for good.

use std::time::Duration;

use bytes::Bytes;

use super::lease::{ReaderLease, Renewal};
use crate::bucket::Purpose;
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::Home;
use crate::log::record::Table;
use crate::log::replay::{self, Replay};
use crate::log::state::VersionState;
use crate::names::{Name, Token, VersionNumber};

const TRIES_MAX: usize = 16;

/// How a replica follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Following {
    /// How long its lease lives without being renewed.
    pub lease: Duration,
    /// Between two looks while there is news.
    pub busy: Duration,
    /// Between two looks when there has been none for long.
    pub idle: Duration,
}

impl Default for Following {
    /// A lease of five minutes, looks every second to every minute.
    fn default() -> Self {
        let (busy, idle) = (Duration::from_secs(1), Duration::from_secs(60));
        Following { lease: Duration::from_secs(300), busy, idle }
    }
}

/// A replica's place in the log.
pub struct Follower {
    home: Home,
    following: Following,
    lease: ReaderLease,
    state: VersionState,
    pause: Duration,
}

/// The next version, before the replica goes there.
#[derive(Clone, Debug)]
pub struct Upcoming {
    /// What it consists of.
    pub state: VersionState,
    /// Its tables that are new, or all if the log says all.
    pub added: Vec<(u64, Table)>,
    /// True if `payloads` make up the whole version; otherwise they continue the last.
    pub is_whole: bool,
    /// Version edits, as LevelDB encodes them.
    pub payloads: Vec<Bytes>,
}

impl Follower {
    /// Starts at the newest version, and says what it holds. [`ErrorKind::Gone`] if there is no database. `token` is fresh.
    pub fn start(home: &Home, following: Following, token: Token) -> Result<(Self, Replay), Error> {
        for attempt in 0..TRIES_MAX {
            let Some(last) = replay::newest(home, Purpose::Replica)? else {
                return Err(replay::gone(home, VersionNumber(1)));
            };
            // Each try has a lease of its own: the last may still be on its way.
            let token = Token(token.0.wrapping_add(attempt as u128));
            match Self::begin(home, following, &last, token) {
                Err(error) if error.kind() == ErrorKind::Gone => {}
                begun => return begun,
            }
        }
        let message = "versions are collected while they are read";
        Err(Error::new(ErrorKind::Contended, &home.root().prefix("v/"), message))
    }

    fn begin(
        home: &Home,
        following: Following,
        last: &crate::log::record::Record,
        token: Token,
    ) -> Outcome<(Self, Replay)> {
        let lease = ReaderLease::new(home, last.version, following.lease, token)?;
        let replay = replay::replay_to(home, last, Purpose::Replica)?;
        let (home, state, pause) = (home.clone(), replay.state.clone(), following.busy);
        Ok((Follower { home, following, lease, state, pause }, replay))
    }

    /// The version it stands on.
    pub fn state(&self) -> &VersionState {
        &self.state
    }

    /// Its lease, to see when it is due.
    pub fn lease(&self) -> &ReaderLease {
        &self.lease
    }

    /// Looks for the next version. One request. Finds nothing while the lease is not alive: [`renew`](Self::renew) it.
    pub fn probe(&mut self) -> Result<Option<Upcoming>, Error> {
        let next = self.state.version().next();
        let record = replay::fetch(&self.home, next, Purpose::Replica)?;
        // Behind collectors' backs there may be a latecomer's record at that number, put into a gap.
        let record = record.filter(|_| self.lease.is_alive());
        let Some(record) = record else {
            self.pause = (self.pause + self.pause / 2).min(self.following.idle);
            return Ok(None);
        };
        self.pause = self.following.busy;
        let mut state = self.state.clone();
        state.apply(&self.home.object(&Name::Version(next)), &record)?;
        let (is_whole, added) = (record.kind.is_whole(), record.tables);
        Ok(Some(Upcoming { state, added, is_whole, payloads: record.payloads }))
    }

    /// What was found was also told of, as what comes next will be: until then the idle pace will do.
    pub fn rely_on_news(&mut self) {
        self.pause = self.following.idle;
    }

    /// How long until the next look.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Goes to the version that [`probe`](Self::probe) has found.
    pub fn switch(&mut self, upcoming: Upcoming) {
        assert_eq!(upcoming.state.version(), self.state.version().next(), "one after the other");
        self.state = upcoming.state;
    }

    /// Renews the lease; `oldest` is the lowest version that anybody here still reads. [`ErrorKind::Gone`] says that a
    /// collector has passed: [`start`](Self::start) again. After other errors try again; reads go on as long as the
    /// lease [is alive](ReaderLease::is_alive), and afterwards may find tables missing.
    pub fn renew(&mut self, oldest: VersionNumber, fresh: Token) -> Result<Renewal, Error> {
        self.lease.renew(oldest.min(self.state.version()), fresh)
    }

    /// Ends it, and its lease.
    pub fn stop(self) {
        self.lease.release();
    }
}
