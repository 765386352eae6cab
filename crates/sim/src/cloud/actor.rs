//! What all actors have: a seat on the stage, a bucket of their own, and a way to complain.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use siltstone_cloud::{
    Bucket, Call, Error, ErrorKind, Failure, Home, Part, Patience, Pin, Purpose, Root, Table,
    VersionState, object_of,
};

use super::client::{Client, Role};
use super::content::{self, Content};
use super::stage::Stage;

/// A wish to set a database back: of an operator, to its writers.
pub(super) type Wish = Arc<Mutex<Option<Pin>>>;

pub(super) struct Actor {
    pub(super) stage: Arc<Stage>,
    pub(super) me: usize,
    pub(super) client: Arc<Client>,
}

/// A table as it was read.
pub(super) enum Got {
    Table(Content),
    Missing,
    Unavailable,
}

impl Actor {
    pub(super) fn new(stage: &Arc<Stage>, me: usize, role: Role) -> Self {
        let client = Arc::new(Client::new(Arc::clone(stage), me, role));
        Actor { stage: Arc::clone(stage), me, client }
    }

    /// The database at `root`, tried for some time that is chosen anew.
    pub(super) fn home(&self, root: &str) -> Home {
        let total = Duration::from_millis(self.stage.roll(8) * self.stage.roll(8_000));
        let patience = Patience { total, pause: Duration::from_millis(100) };
        let root = Root::new(root).unwrap();
        Home::new(self.client.clone(), root, self.client.clone()).with_patience(patience)
    }

    pub(super) fn call(&self) -> Call {
        Call::new(Purpose::Tool)
    }

    /// Sleeps up to so many seconds.
    pub(super) fn rest(&self, seconds_max: u64) {
        let millis = self.stage.roll(seconds_max * 1000);
        self.stage.sleep(self.me, Duration::from_millis(millis));
    }

    pub(super) fn one_in(&self, count: u64) -> bool {
        self.stage.roll(count) == 0
    }

    pub(super) fn violation(&self, text: String) {
        let now = self.stage.now().as_secs();
        self.stage.ledger().violation(format!("actor {} at {now} s: {text}", self.me));
    }

    /// Errors there may be, in such weather. Damage there is none, but for what the way does to bytes.
    pub(super) fn heed(&self, error: &Error) {
        let from_the_way = std::error::Error::source(error).is_some();
        if error.kind() == ErrorKind::Damaged && !from_the_way || error.kind() == ErrorKind::Misuse
        {
            self.violation(format!("{error} ({:?})", error.kind()));
        }
    }

    /// Reads a table, and checks it.
    pub(super) fn table(&self, home: &Home, state: &VersionState, table: &Table) -> Got {
        let name = object_of(home, state, table);
        for _ in 0..3 {
            match self.client.get(&name, Part::Whole, self.call()) {
                Ok(object) if crc32c::crc32c(&object.body) == table.crc32c => {
                    return Got::Table(content::read_table(&object.body));
                }
                Ok(_) => {
                    self.violation(format!("{name} is not what was committed"));
                    return Got::Unavailable;
                }
                Err(failed) if failed.failure == Failure::Missing => return Got::Missing,
                Err(_) => {}
            }
        }
        Got::Unavailable
    }
}
