//! Safety rules switched off one by one, by name, so that the simulation can be asked to notice each. What it does not
//! notice it does not prove.
//!
//! The bucket does the cheating: it tells an actor what makes a rule come to nothing. So the protocol under test is the
//! protocol as it is.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use siltstone_cloud::{BucketError, Failure, Kind, Object, Page, Record, Result, Tag};

use super::client::{Phantoms, Role};

/// A rule that comes to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A put of unknown outcome is read back, and its token compared.
    TokenReadBack,
    /// A new owner's first record fences the one before.
    TakeoverRecord,
    /// Who has committed looks at the boundary.
    BoundaryAfterCommit,
    /// Who has pinned looks at the boundary.
    BoundaryAfterPin,
    /// The boundary moves before anything goes.
    BoundaryMoved,
    /// A collector looks at the owner again before it deletes.
    OwnerSecondLook,
    /// What is past is kept for a while.
    AgeMin,
    /// Checkpoints and clones keep what they name.
    Pins,
    /// Readers' leases keep what they read.
    Leases,
    /// What the log says may still be named is kept.
    OpenNumbers,
}

impl Mutant {
    pub const ALL: [Mutant; 10] = [
        Mutant::TokenReadBack,
        Mutant::TakeoverRecord,
        Mutant::BoundaryAfterCommit,
        Mutant::BoundaryAfterPin,
        Mutant::BoundaryMoved,
        Mutant::OwnerSecondLook,
        Mutant::AgeMin,
        Mutant::Pins,
        Mutant::Leases,
        Mutant::OpenNumbers,
    ];

    fn name(self) -> &'static str {
        match self {
            Mutant::TokenReadBack => "token-read-back",
            Mutant::TakeoverRecord => "takeover-record",
            Mutant::BoundaryAfterCommit => "boundary-after-commit",
            Mutant::BoundaryAfterPin => "boundary-after-pin",
            Mutant::BoundaryMoved => "boundary-moved",
            Mutant::OwnerSecondLook => "owner-second-look",
            Mutant::AgeMin => "age-min",
            Mutant::Pins => "pins",
            Mutant::Leases => "leases",
            Mutant::OpenNumbers => "open-numbers",
        }
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mutant {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let found = Mutant::ALL.into_iter().find(|mutant| mutant.name() == name);
        found.ok_or_else(|| "no such rule; `ground cloud-mutants` lists them".to_owned())
    }
}

/// What one actor is told instead of the truth.
pub(super) struct Cheat {
    mutant: Option<Mutant>,
    role: Role,
    /// Its puts of unknown outcome, or that were swallowed.
    phantoms: Phantoms,
    /// The owner as the collection found it first.
    owner: Option<Object>,
    /// The newest record, as the last list had it.
    newest: String,
}

impl Cheat {
    pub(super) fn new(mutant: Option<Mutant>, role: Role) -> Self {
        let (phantoms, newest) = (Phantoms::new(), String::new());
        Cheat { mutant, role, phantoms, owner: None, newest }
    }

    fn is(&self, mutant: Mutant, role: Role) -> bool {
        self.mutant == Some(mutant) && self.role == role
    }

    /// A collection begins. What the last one left to be put is put now.
    pub(super) fn begin_collection(&mut self) -> Option<(String, Bytes)> {
        self.owner = None;
        if self.mutant == Some(Mutant::BoundaryMoved) { self.phantoms.pop_first() } else { None }
    }

    /// A put that is told as done, and is not.
    pub(super) fn swallows(&mut self, name: &str, body: &Bytes) -> Option<Tag> {
        let takeover = self.is(Mutant::TakeoverRecord, Role::Writer)
            && Record::decode(name, body).is_ok_and(|record| record.kind == Kind::Takeover);
        let moved =
            self.is(Mutant::BoundaryMoved, Role::Collector) && name.ends_with("gc/boundary");
        (takeover || moved).then(|| {
            self.phantoms.insert(name.to_owned(), body.clone());
            Tag("phantom".to_owned())
        })
    }

    /// Learns how a put ended.
    pub(super) fn put(&mut self, name: &str, body: &Bytes, answer: &Result<Tag>) {
        let unclear = matches!(answer, Err(error) if error.failure == Failure::Refused);
        if self.is(Mutant::TokenReadBack, Role::Writer) && unclear && name.contains("v/") {
            self.phantoms.insert(name.to_owned(), body.clone());
        }
    }

    pub(super) fn get(&mut self, name: &str, got: Result<Object>) -> Result<Object> {
        let blind = self.is(Mutant::BoundaryAfterCommit, Role::Writer)
            || self.is(Mutant::BoundaryAfterPin, Role::Reader);
        if blind && name.ends_with("gc/boundary") {
            let missing = BucketError::new(Failure::Missing, name, "no boundary was ever set");
            return Err(missing);
        }
        if self.is(Mutant::OwnerSecondLook, Role::Collector) && name.ends_with("owner") {
            if self.owner.is_none() {
                self.owner = got.as_ref().ok().cloned();
            }
            return self.owner.clone().map_or(got, Ok);
        }
        if self.mutant == Some(Mutant::TokenReadBack)
            && let (Some(body), Ok(object)) = (self.phantoms.get(name), &got)
        {
            let (body, object) = (body.clone(), object.clone());
            self.phantoms.remove(name);
            return Ok(Object { bytes: body.len() as u64, body, ..object });
        }
        if let (Some(body), Err(error)) = (self.phantoms.get(name), &got)
            && error.failure == Failure::Missing
            && self.mutant == Some(Mutant::TakeoverRecord)
        {
            let (bytes, tag) = (body.len() as u64, Tag("phantom".to_owned()));
            return Ok(Object { body: body.clone(), offset: 0, bytes, tag });
        }
        if self.is(Mutant::OpenNumbers, Role::Collector) && name == self.newest {
            return got.map(|object| closed(name, object));
        }
        got
    }

    pub(super) fn list(&mut self, prefix: &str, page: Result<Page>) -> Result<Page> {
        if prefix.ends_with("/v/")
            && let Some(last) = page.as_ref().ok().and_then(|page| page.last())
        {
            self.newest.clone_from(&last.name);
        }
        let blind = self.is(Mutant::Pins, Role::Collector) && prefix.ends_with("pins/")
            || self.is(Mutant::Leases, Role::Collector) && prefix.ends_with("readers/");
        let old = self.is(Mutant::AgeMin, Role::Collector)
            && ["/v/", "/s/"].iter().any(|folder| prefix.ends_with(folder));
        page.map(|mut page| {
            if blind {
                page.stats.clear();
            }
            if old {
                page.stats.iter_mut().for_each(|stat| stat.written_ms = 0);
            }
            page
        })
    }
}

/// A record after which nothing may be named.
fn closed(name: &str, object: Object) -> Object {
    let Ok(record) = Record::decode(name, &object.body) else { return object };
    let body = Record { spans: Vec::new(), held: Vec::new(), ..record }.encode();
    Object { bytes: body.len() as u64, body, ..object }
}
