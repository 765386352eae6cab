//! The version log as its owner has it: takes over, commits, and notices that somebody else has taken over.
//!
//! I1: a version is told as committed only if its record is at its number, holds what we put there, and was put before
//! any collector took the number for past.
//! I2: while it is open whether a record was put, nothing else is put at its number.
//! I3: after a takeover every record of an earlier owner collides: it was put at the next free number, and all numbers
//! before it are taken, or past.
//! I4: once fenced, always fenced.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::boundary;
use super::owner::{self, Owner, OwnerLease};
use super::record::{Ancestor, Kind, Record, Span, Table};
use super::replay::{self, Replay};
use super::state::VersionState;
use crate::bucket::{Condition, Purpose};
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::{Decision, Home, OBJECT_BYTES_MAX};
use crate::names::{Epoch, JobId, Name, TableId, Token, VersionNumber};
use crate::pins::pin::{self, Pin};

/// So many records of others may slip in while one takes over.
const SLIPS_MAX: usize = 1000;

/// How to open a database for writing.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Fresh for every opening.
    pub token: Token,
    /// The owner acknowledges nothing that long after his last proof; who follows waits for it. Zero: no lease, and no
    /// requests while nothing happens.
    pub lease: Duration,
    /// The owner before is known to have ended, by a lock that he held: his lease is not waited for.
    pub last_is_gone: bool,
    /// Where the owner can be reached, for people.
    pub address: String,
    /// Sets the database back to a checkpoint. What came after it is lost.
    pub rewind: Option<Pin>,
    /// A whole record is due after so many others.
    pub snapshot_every: u64,
}

impl Opening {
    /// Without a lease, from the newest version, with a whole record every 16.
    pub fn new(token: Token) -> Self {
        let (lease, address) = (Duration::ZERO, String::new());
        let last_is_gone = false;
        Opening { token, lease, last_is_gone, address, rewind: None, snapshot_every: 16 }
    }
}

/// What one commit changes. Edits that come together go into one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Version edits, as LevelDB encodes them.
    pub payloads: Vec<Bytes>,
    /// New tables, by the numbers the engine knows them by. Their objects are in the bucket already.
    pub added: Vec<(u64, Table)>,
    /// Tables that are no longer part of the version.
    pub removed: Vec<u64>,
}

/// Told of a version; see [`VersionLog::announce_to`].
pub type Announce = Arc<dyn Fn(VersionNumber) + Send + Sync>;

/// The log, in its owner's hands.
pub struct VersionLog {
    home: Home,
    owner: Owner,
    snapshot_every: u64,
    /// The newest version that is known to be committed.
    state: VersionState,
    /// What the next record says may be named.
    spans: Vec<Span>,
    held: Vec<JobId>,
    pending: Option<Pending>,
    fenced: Option<Error>,
    claimed: Duration,
    announce: Option<Announce>,
}

/// A record of which it is not known whether it counts.
struct Pending {
    record: Record,
    body: Bytes,
    /// It may be there, or come to be.
    perhaps: bool,
    /// It is there; whether it counts the boundary will tell.
    created: bool,
}

impl VersionLog {
    /// Takes over the database, or makes it; returns what it holds. Half a dozen requests, and one for each record
    /// since the last whole one; waits for the lease of the owner before, if he has one. After an error it is open
    /// whether the one before is still the owner: open again.
    pub fn open(home: &Home, opening: &Opening) -> Result<(Self, Replay), Error> {
        VersionLog::open_behind(home, opening, replay::newest(home, Purpose::Manifest)?)
    }

    /// The same, for who has just looked which version is the newest.
    pub(crate) fn open_behind(
        home: &Home,
        opening: &Opening,
        newest: Option<Record>,
    ) -> Outcome<(Self, Replay)> {
        let claimed = home.now();
        let floor = newest.as_ref().map_or(Epoch(0), |last| last.epoch);
        let (token, lease) = (opening.token, opening.lease);
        let wanted = Owner { epoch: Epoch(0), token, lease, address: opening.address.clone() };
        let owner = owner::claim(home, &wanted, floor, opening.last_is_gone)?;
        let rewind = opening.rewind.as_ref().map(|pin| rewound(home, pin)).transpose()?;
        let first = take_over(home, &owner, (newest, rewind))?;
        let replay = replay::replay_to(home, &first, Purpose::Manifest)?;
        let log = VersionLog {
            home: home.clone(),
            owner,
            snapshot_every: opening.snapshot_every.max(1),
            state: replay.state.clone(),
            spans: first.spans,
            held: first.held,
            pending: None,
            fenced: None,
            claimed,
            announce: None,
        };
        Ok((log, replay))
    }

    /// The newest version that is committed for sure.
    pub fn state(&self) -> &VersionState {
        &self.state
    }

    /// Where the database lies.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Of all tables and jobs that this owner makes.
    pub fn epoch(&self) -> Epoch {
        self.owner.epoch
    }

    /// The id of a table that this owner writes under a file number of the engine's. No number is used twice.
    pub fn table_id(&self, number: u64) -> TableId {
        TableId::Own { epoch: self.owner.epoch, number }
    }

    /// The id of a job. Its number is of the same count as tables'.
    pub fn job_id(&self, number: u64) -> JobId {
        JobId { epoch: self.owner.epoch, number }
    }

    /// The owner's lease, to be proved from time to time.
    pub fn lease(&self) -> OwnerLease {
        OwnerLease::new(self.home.clone(), self.owner.clone(), self.claimed)
    }

    /// Has `announce` called with each version's number as soon as its record is in the bucket, on the thread that commits
    /// it. That is a request before the commit is known to count: followers see the record from now on, by looking, and
    /// decide by their own leases whether it counts. A process that ends tells nothing more, so it is a hint.
    pub fn announce_to(&mut self, announce: Announce) {
        self.announce = Some(announce);
    }

    /// Says from which number on tables and jobs of this owner may still be named, and which jobs of earlier epochs go
    /// on. The next record tells it to collectors: unless a version names it, all else is given up. Costs nothing.
    /// [`ErrorKind::Misuse`] if something would be named that has been given up already.
    pub fn keep_open(&mut self, from: u64, held: Vec<JobId>) -> Result<(), Error> {
        let epoch = self.owner.epoch;
        let last = self.spans.iter().find(|span| span.epoch == epoch).map_or(0, |span| span.from);
        let dead = held.iter().find(|job| job.epoch == epoch || !self.state.is_alive(**job));
        if from < last || dead.is_some() {
            let message = format!("cannot keep {from} and {dead:?} open: given up, or not held");
            return Err(Error::new(ErrorKind::Misuse, &self.home.object(&Name::Owner), message));
        }
        (self.spans, self.held) = (vec![Span { epoch, from }], held);
        Ok(())
    }

    /// Commits the next version: two requests. [`ErrorKind::Fenced`] is final, and whether the version came about is not
    /// known; [`ErrorKind::Undecided`] asks for [`settle`](Self::settle); after other errors nothing was done.
    pub fn commit(&mut self, edit: Edit) -> Result<VersionNumber, Error> {
        let Edit { payloads, added, removed } = edit;
        let base = self.state.base();
        let record = self.record(Kind::Edit, base, added);
        self.submit(Record { payloads, removed, ..record })
    }

    /// True if the next commit should be a [`snapshot`](Self::snapshot), so that nobody must read more records.
    pub fn is_snapshot_due(&self) -> bool {
        self.state.version().0 - self.state.base().0 >= self.snapshot_every
    }

    /// Commits a version that is the same as the last, and says all of it: `payloads` make it up. Errors as for
    /// [`commit`](Self::commit).
    pub fn snapshot(&mut self, payloads: Vec<Bytes>) -> Result<VersionNumber, Error> {
        let tables = self.state.tables().iter().map(|(number, table)| (*number, *table)).collect();
        let ancestors = self.state.ancestors().to_vec();
        self.snapshot_of(tables, ancestors, payloads)
    }

    /// A snapshot whose tables lie elsewhere than before.
    pub(crate) fn snapshot_of(
        &mut self,
        tables: Vec<(u64, Table)>,
        ancestors: Vec<Ancestor>,
        payloads: Vec<Bytes>,
    ) -> Outcome<VersionNumber> {
        let record = self.record(Kind::Snapshot, self.state.version().next(), tables);
        self.submit(Record { payloads, ancestors, ..record })
    }

    /// Finds out what has become of a commit that is undecided, and has it done if it can be: the version if it counts,
    /// `None` if nothing was undecided. Errors as for [`commit`](Self::commit).
    pub fn settle(&mut self) -> Result<Option<VersionNumber>, Error> {
        if let Some(fenced) = &self.fenced {
            return Err(fenced.clone());
        }
        let Some(mut pending) = self.pending.take() else { return Ok(None) };
        let outcome = self.pursue(&mut pending);
        let open = pending.perhaps || pending.created;
        match outcome {
            Ok(version) => Ok(Some(version)),
            Err(error) if error.kind() == ErrorKind::Fenced => {
                self.fenced = Some(error.clone());
                Err(error)
            }
            Err(error) if open => {
                self.pending = Some(pending);
                Err(error.of_kind(ErrorKind::Undecided))
            }
            Err(error) => Err(error),
        }
    }

    fn record(&self, kind: Kind, base: VersionNumber, tables: Vec<(u64, Table)>) -> Record {
        Record {
            version: self.state.version().next(),
            kind,
            epoch: self.owner.epoch,
            token: self.owner.token,
            base,
            spans: self.spans.clone(),
            held: self.held.clone(),
            ancestors: Vec::new(),
            tables,
            removed: Vec::new(),
            payloads: Vec::new(),
        }
    }

    fn submit(&mut self, record: Record) -> Outcome<VersionNumber> {
        if let Some(fenced) = &self.fenced {
            return Err(fenced.clone());
        }
        let name = self.home.object(&Name::Version(record.version));
        if self.pending.is_some() {
            let message = "the commit before is undecided: settle it first";
            return Err(Error::new(ErrorKind::Undecided, &name, message));
        }
        // What would be damage in the log is a mistake here.
        self.state.check(&name, &record).map_err(|error| error.of_kind(ErrorKind::Misuse))?;
        let body = record.encode();
        if body.len() as u64 > OBJECT_BYTES_MAX {
            let message = format!("would have {} bytes", body.len());
            return Err(Error::new(ErrorKind::Misuse, &name, message));
        }
        self.pending = Some(Pending { record, body, perhaps: false, created: false });
        self.settle()?.ok_or_else(|| Error::new(ErrorKind::Misuse, &name, "nothing to commit"))
    }

    /// Puts the record, unless it is there, and checks that it counts (I1).
    fn pursue(&mut self, pending: &mut Pending) -> Outcome<VersionNumber> {
        let version = pending.record.version;
        let name = self.home.object(&Name::Version(version));
        if !pending.created {
            let (body, absent) = (&pending.body, Condition::Absent);
            match self.home.decide(&name, body, &absent, Purpose::Manifest) {
                Ok(Decision::Mine) => {
                    pending.created = true;
                    self.announce.iter().for_each(|announce| announce(version));
                }
                Ok(Decision::Other(object)) => return Err(self.lost_to(&name, &object.body)),
                Err(error) => {
                    pending.perhaps |= error.kind() == ErrorKind::Undecided;
                    return Err(error);
                }
            }
        }
        if boundary::look(&self.home, Purpose::Manifest)? > version {
            let message = "was put long after others had gone on from there";
            return Err(Error::new(ErrorKind::Fenced, &name, message));
        }
        self.state.apply(&name, &pending.record)?;
        Ok(version)
    }

    /// Somebody else's record is where ours should be.
    fn lost_to(&self, name: &str, body: &Bytes) -> Error {
        match Record::decode(name, body) {
            Ok(other) if other.epoch > self.owner.epoch => fenced_by(name, other.epoch),
            Ok(other) if other.token == self.owner.token => {
                // A copy of this process, with its token, as when a machine is resumed twice.
                Error::new(ErrorKind::Fenced, name, "is of somebody who has our token")
            }
            Ok(other) => {
                // I3 does not hold. Whoever wrote this went on from a version that he did not know.
                let message = format!("is of epoch {}, behind a takeover", other.epoch.0);
                Error::damaged(name, message)
            }
            Err(error) => error,
        }
    }
}

fn fenced_by(name: &str, epoch: Epoch) -> Error {
    Error::new(ErrorKind::Fenced, name, format!("was taken over in epoch {}", epoch.0))
}

/// The version that a pin keeps. That the pin is still there is checked after the claim: what a collector decides without
/// having seen the pin, it decides for an owner that it then finds to be the last no more.
fn rewound(home: &Home, pin: &Pin) -> Outcome<Replay> {
    pin::check_there(home, pin)?;
    let last = replay::fetch(home, pin.version, Purpose::Manifest)?;
    let last = last.ok_or_else(|| replay::gone(home, pin.version))?;
    replay::replay_to(home, &last, Purpose::Manifest)
}

/// Puts an owner's first record at the next free number. That it is there is what fences the owners before.
/// `newest` may be out of date: what has come since is met on the way.
fn take_over(
    home: &Home,
    owner: &Owner,
    (mut newest, whole): (Option<Record>, Option<Replay>),
) -> Outcome<Record> {
    for _ in 0..SLIPS_MAX {
        let record = first_record(owner, newest.as_ref(), whole.as_ref());
        let name = home.object(&Name::Version(record.version));
        if let Some(newest) = newest.filter(|newest| newest.epoch >= owner.epoch) {
            return Err(fenced_by(&name, newest.epoch));
        }
        match home.decide(&name, &record.encode(), &Condition::Absent, Purpose::Manifest)? {
            Decision::Mine if boundary::look(home, Purpose::Manifest)? <= record.version => {
                return Ok(record);
            }
            // We had slept, and have put our record into a gap. It is nobody's there.
            Decision::Mine => newest = replay::newest(home, Purpose::Manifest)?,
            Decision::Other(object) => newest = Some(Record::decode(&name, &object.body)?),
        }
    }
    let folder = home.root().prefix("v/");
    Err(Error::new(ErrorKind::Contended, &folder, "the owner before commits faster than we"))
}

fn first_record(owner: &Owner, newest: Option<&Record>, whole: Option<&Replay>) -> Record {
    let (epoch, token) = (owner.epoch, owner.token);
    let version = newest.map_or(VersionNumber(1), |newest| newest.version.next());
    let first = Record {
        version,
        kind: Kind::Takeover,
        epoch,
        token,
        base: newest.map_or(version, |newest| newest.base),
        spans: newest
            .map_or_else(|| vec![Span { epoch, from: 0 }], |newest| newest.spans_for(epoch)),
        held: newest.map_or_else(Vec::new, |newest| newest.held.clone()),
        ancestors: Vec::new(),
        tables: Vec::new(),
        removed: Vec::new(),
        payloads: Vec::new(),
    };
    match whole {
        Some(whole) => {
            let tables = whole.state.tables().iter().map(|(number, table)| (*number, *table));
            let (tables, payloads) = (tables.collect(), whole.payloads.clone());
            let ancestors = whole.state.ancestors().to_vec();
            Record { kind: Kind::Restart, base: version, ancestors, tables, payloads, ..first }
        }
        None if newest.is_none() => Record { kind: Kind::Restart, ..first },
        None => first,
    }
}

#[cfg(test)]
mod tests;
