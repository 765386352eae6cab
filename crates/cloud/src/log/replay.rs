//! Reading the version log: which version is the newest, and what a version consists of. For owners who open, readers,
//! tools, and collectors.
//!
//! Finding the newest takes a LIST once. Who knows a version asks for the next number instead, which is cheaper by far
//! and is told of a new one at once ([`follow`](crate::pins::follow)).

use std::ops::Range;

use bytes::Bytes;

use super::boundary;
use super::record::Record;
use super::state::VersionState;
use crate::bucket::{Object, Purpose};
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::{Home, OBJECT_BYTES_MAX};
use crate::names::{Name, VersionNumber};

/// So many records are asked for together, and in memory at once.
const AT_ONCE: u64 = 32;
/// So often a collector may take away what is just being read.
const TRIES_MAX: usize = 16;

/// A version as it was read: its tables' objects, and what the engine has to say to it.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// The objects.
    pub state: VersionState,
    /// Version edits, as LevelDB encodes them, which make up the version one after another.
    pub payloads: Vec<Bytes>,
}

impl Replay {
    /// The next record, which lies at `name`.
    fn add(&mut self, name: &str, record: Record) -> Outcome<()> {
        self.state.apply(name, &record)?;
        self.payloads.extend(record.payloads);
        Ok(())
    }
}

/// The record of a version, or `None` if it has not come about yet, or has been collected.
pub(crate) fn fetch(
    home: &Home,
    version: VersionNumber,
    purpose: Purpose,
) -> Outcome<Option<Record>> {
    let name = home.object(&Name::Version(version));
    let object = home.read(&name, purpose, OBJECT_BYTES_MAX)?;
    object.map(|object| decode(&name, version, &object)).transpose()
}

fn decode(name: &str, version: VersionNumber, object: &Object) -> Outcome<Record> {
    let record = Record::decode(name, &object.body)?;
    if record.version != version {
        return Err(Error::damaged(name, format!("is the record of version {}", record.version)));
    }
    Ok(record)
}

/// The record of the newest version; `None` if there never was one.
pub(crate) fn newest(home: &Home, purpose: Purpose) -> Outcome<Option<Record>> {
    let folder = home.root().prefix("v/");
    for _ in 0..TRIES_MAX {
        let boundary = boundary::look(home, purpose)?;
        // What is before the boundary may be a latecomer's record, put into a gap.
        let before = boundary.0.checked_sub(1).map(VersionNumber);
        let after = before.map_or(String::new(), |before| home.object(&Name::Version(before)));
        let mut last = None;
        home.list_each("v/", &after, purpose, |stat| {
            if let Some(Name::Version(version)) = home.root().parse(&stat.name) {
                last = Some(version);
            }
            Ok(())
        })?;
        match last {
            None if boundary.0 == 0 => return Ok(None),
            None => {
                let message = format!("has no version from {boundary} on, though there was one");
                return Err(Error::damaged(&folder, message));
            }
            Some(last) => {
                if let Some(record) = fetch(home, last, purpose)? {
                    return probe(home, record, purpose).map(Some);
                }
            }
        }
    }
    Err(Error::new(ErrorKind::Contended, &folder, "versions are collected while they are read"))
}

/// Goes on from a record to the newest.
fn probe(home: &Home, mut record: Record, purpose: Purpose) -> Outcome<Record> {
    while let Some(next) = fetch(home, record.version.next(), purpose)? {
        record = next;
    }
    Ok(record)
}

/// The version that ends with `last`. [`ErrorKind::Gone`] if a part of it has been collected.
pub(crate) fn replay_to(home: &Home, last: &Record, purpose: Purpose) -> Outcome<Replay> {
    let mut replay = Replay::default();
    let mut next = last.base.0;
    while next < last.version.0 {
        let end = last.version.0.min(next + AT_ONCE);
        replay_each(home, next..end, purpose, &mut replay)?;
        next = end;
    }
    replay.add(&home.object(&Name::Version(last.version)), last.clone())?;
    Ok(replay)
}

fn replay_each(
    home: &Home,
    versions: Range<u64>,
    purpose: Purpose,
    replay: &mut Replay,
) -> Outcome<()> {
    let object = |number| home.object(&Name::Version(VersionNumber(number)));
    let names: Vec<String> = versions.clone().map(object).collect();
    let found = home.read_each(&names, purpose, OBJECT_BYTES_MAX);
    for ((number, name), object) in versions.zip(&names).zip(found) {
        let version = VersionNumber(number);
        let Some(object) = object? else { return Err(gone(home, version)) };
        replay.add(name, decode(name, version, &object)?)?;
    }
    Ok(())
}

/// A version by its number. [`ErrorKind::Gone`] if it has been collected, or is yet to come.
pub fn read_version(home: &Home, version: VersionNumber) -> Result<Replay, Error> {
    let last = fetch(home, version, Purpose::Tool)?.ok_or_else(|| gone(home, version))?;
    replay_to(home, &last, Purpose::Tool)
}

/// The newest version; `None` if there never was one. For tools and short reads: without a lease its tables stay for as
/// long as collectors let pass (an hour, unless they were told otherwise).
pub fn read_newest(home: &Home) -> Result<Option<Replay>, Error> {
    for _ in 0..TRIES_MAX {
        let Some(last) = newest(home, Purpose::Tool)? else { return Ok(None) };
        match replay_to(home, &last, Purpose::Tool) {
            Err(error) if error.kind() == ErrorKind::Gone => {}
            Err(error) => return Err(error),
            // Who was slow may have found a latecomer's record, put into a gap.
            Ok(replay) if boundary::look(home, Purpose::Tool)? <= last.version => {
                return Ok(Some(replay));
            }
            Ok(_) => {}
        }
    }
    let folder = home.root().prefix("v/");
    Err(Error::new(ErrorKind::Contended, &folder, "versions are collected while they are read"))
}

pub(crate) fn gone(home: &Home, version: VersionNumber) -> Error {
    let name = home.object(&Name::Version(version));
    Error::new(ErrorKind::Gone, &name, "is not there: collected, or yet to come")
}
