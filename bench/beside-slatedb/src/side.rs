//! What both engines are asked to do, and who of them is opened how.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use siltstone_cloud_lab::{Mode, Stage};

use crate::load::Load;
use crate::ours::Ours;
use crate::tally::{Counts, Tally};
use crate::theirs::Theirs;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// An open database of either engine.
pub(crate) trait Side {
    /// Puts all of it. Returns what each put took, in microseconds.
    fn puts(&self, load: &Load) -> Result<Vec<f64>>;

    /// Gets each, one after the other. Returns what each get took, and how many were there.
    fn gets(&self, numbers: &[u64]) -> Result<(Vec<f64>, u64)>;

    /// Waits until nothing that was acknowledged can be lost with the machine.
    fn secure(&self) -> Result<()>;

    /// Has tables made of all that was put, and waits until nothing is left to merge. Returns what had been asked of the
    /// store by then.
    fn settle(&self) -> Result<Counts>;

    fn close(self: Box<Self>) -> Result<()>;
}

/// An engine, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    /// Ours: the log in a folder.
    Tiered,
    /// The same, with a copy of each table in the folder: whoever opens it elsewhere fetches them all first.
    Mirror,
    /// Ours: the log in the bucket before a write is acknowledged.
    Remote,
    /// SlateDB as it comes: its log goes to the bucket every 100 ms.
    Slate,
    /// SlateDB, told after each put to put its log into the bucket at once.
    SlateAtOnce,
}

impl Contestant {
    pub(crate) const ALL: [Contestant; 5] = [
        Contestant::Tiered,
        Contestant::Mirror,
        Contestant::Remote,
        Contestant::Slate,
        Contestant::SlateAtOnce,
    ];

    /// As tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contestant::Tiered => "tiered",
            Contestant::Mirror => "tiered, mirror",
            Contestant::Remote => "remote",
            Contestant::Slate => "SlateDB",
            Contestant::SlateAtOnce => "SlateDB, flushing",
        }
    }

    /// What is lost when the machine is.
    pub(crate) fn loses(self) -> &'static str {
        match self {
            Contestant::Tiered | Contestant::Mirror => {
                "acknowledged writes, synced ones too, that are in no table yet (up to the write buffer, 16 MiB, \
                 and what is being flushed) or in one that is not uploaded (up to 1 GiB); of a killed process \
                 nothing, of a power cut nothing that was synced"
            }
            Contestant::Remote => {
                "nothing that was synced; of writes that were not, what the log's next request would have brought"
            }
            Contestant::Slate | Contestant::SlateAtOnce => {
                "nothing that was awaited (await_durable, flush); of writes that were not, what came since the \
                 log's last request, and that with the process already"
            }
        }
    }

    /// Who reads a mirror writes as others do.
    pub(crate) fn writes(self) -> bool {
        self != Contestant::Mirror
    }

    /// SlateDB's loading does not depend on how it waits, nor does its reading: such things are measured once.
    pub(crate) fn reads(self) -> bool {
        self.loads()
    }

    pub(crate) fn loads(self) -> bool {
        self != Contestant::SlateAtOnce
    }

    /// Opens the database on a new machine: nothing of it is there but what the stage's store holds.
    pub(crate) fn open(self, stage: &Stage, role: Role) -> Result<(Box<dyn Side>, Arc<Tally>)> {
        let tally = Arc::new(Tally::new(stage.way()));
        let side: Box<dyn Side> = match self {
            Contestant::Tiered => {
                Box::new(Ours::open(stage, &tally, (Mode::Tiered, role), Kept::WhatIsRead)?)
            }
            Contestant::Mirror => {
                Box::new(Ours::open(stage, &tally, (Mode::Tiered, role), Kept::All)?)
            }
            Contestant::Remote => {
                Box::new(Ours::open(stage, &tally, (Mode::Remote, role), Kept::WhatIsRead)?)
            }
            Contestant::Slate => Box::new(Theirs::open(&tally, Acknowledged::InTime)?),
            Contestant::SlateAtOnce => Box::new(Theirs::open(&tally, Acknowledged::AtOnce)?),
        };
        Ok((side, tally))
    }
}

/// What a machine is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It writes, and keeps what its engine keeps by default.
    Writes,
    /// It reads, and has nothing but what is [kept](Kept) of that.
    Reads,
}

/// What a machine keeps that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// In memory, or for the tiered one in a cache on disk.
    WhatIsRead,
    /// Each table in the folder, before it opens.
    All,
}

/// When SlateDB's log goes to the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    /// When its time has come; who waits, waits for that.
    InTime,
    /// As soon as somebody waits.
    AtOnce,
}

/// How long ago that was.
pub(crate) fn micros(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e6
}
