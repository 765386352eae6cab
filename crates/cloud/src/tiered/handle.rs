//! What those who compact elsewhere need of a tiered database: where its tables lie, ids for jobs, and a way to bring in
//! tables that have come about in the bucket.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use siltstone::{FileNumber, Result};

use super::arrivals::Arrival;
use super::remote;
use super::shared::Shared;
use crate::home::Home;
use crate::log::record::Table;
use crate::names::{Epoch, JobId};
use crate::reads::object::TableObject;

/// The tables of a [`CloudDb`](super::CloudDb), as they lie in the bucket.
#[derive(Clone)]
pub struct CloudTables {
    pub(super) shared: Arc<Shared>,
    pub(super) epoch: Epoch,
}

impl CloudTables {
    /// Where the database lies.
    pub fn home(&self) -> &Home {
        &self.shared.home
    }

    /// Of all that this opening makes.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Where a table lies; `None` while it is in the folder only.
    pub fn object_of(&self, number: FileNumber) -> Option<TableObject> {
        remote::object_of(&self.shared, number.0)
    }

    /// Calls `then` once all these tables are in the bucket, to which they go before others, or that has taken `within`, or the database closes: at once,
    /// or on a thread of the database's. It must not block for long.
    pub fn when_there(
        &self,
        numbers: Vec<u64>,
        within: Duration,
        then: impl FnOnce() + Send + 'static,
    ) {
        let until = self.shared.home.now().saturating_add(within);
        let arrival = Arrival { numbers, until, then: Box::new(then) };
        // Once they stop nobody may be left to tell.
        let here = self.shared.change(|state| match state.stopping {
            true => Some(arrival),
            false => {
                state.ledger.hurry(&arrival.numbers);
                state.arrivals.add(arrival);
                None
            }
        });
        here.into_iter().for_each(|arrival| (arrival.then)());
    }

    /// A job begins, to which the engine gave this number. Returns the number that it has in the bucket: another one, if collectors may know
    /// already that nothing of the engine's will come. Nothing of it is collected until [`end_job`](Self::end_job).
    pub fn begin_job(&self, number: u64) -> u64 {
        self.shared.change(|state| state.ledger.begin_job(number))
    }

    /// The engine will know a table of a job by this number, and is about to install it. It is read from the bucket. Where
    /// it lies is durable when this returns, which takes three syncs. To open it takes no request if `end`, the last bytes of it, are as many
    /// as [`end_bytes`](Self::end_bytes) says; they may be fewer, or none.
    ///
    /// # Errors
    ///
    /// Those of the folder; the table is not adopted then.
    pub fn adopt(&self, number: FileNumber, table: Table, end: &Bytes) -> Result<()> {
        self.shared.notes.write(number.0, &table)?;
        self.shared.change(|state| state.ledger.adopt(number.0, table));
        remote::expect(&self.shared, number.0, end)
    }

    /// How much of its end a table of so many bytes will need to be opened, by what others needed.
    pub fn end_bytes(&self, bytes: u64) -> u64 {
        self.shared.tables.end_bytes(bytes)
    }

    /// Nothing more comes of the job; what was adopted stays. Not when the database closes: then its next opening may go on
    /// with it.
    pub fn end_job(&self, job: JobId) {
        self.shared.change(|state| {
            if state.closing {
                return;
            }
            state.records.end(job);
            match job.epoch == self.epoch {
                true => state.ledger.end_job(job.number),
                false => state.ledger.let_go(job),
            }
        });
    }
}

impl std::fmt::Debug for CloudTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CloudTables").field("root", self.home().root()).finish_non_exhaustive()
    }
}
