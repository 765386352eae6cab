//! What a database in a bucket looks like from outside: for tools, which own nothing, hold no lease, and write nothing.
//!
//! I1: nobody waits for a survey, and nothing is kept for it. What owners and collectors do meanwhile shows in parts: each
//! object is as it was when it was read.

pub(crate) mod jobs;
mod kept;
pub(crate) mod measure;
pub(crate) mod verify;

use std::time::Duration;

use crate::bucket::{Purpose, Stat};
use crate::error::{Error, Outcome};
use crate::home::Home;
use crate::log::boundary;
use crate::log::owner::{self, Owner};
use crate::log::record::Record;
use crate::log::replay::{self, Replay};
use crate::names::{Name, Token, VersionNumber};
use crate::pins::lease::read_leases;
use crate::pins::pin::{Pin, read_pins};

/// A database as a survey finds it.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Who may commit; `None` if nobody ever could, as with a clone that was never opened.
    pub owner: Option<Owner>,
    /// Versions before it may be collected.
    pub boundary: VersionNumber,
    /// The newest version.
    pub newest: Replay,
    /// Pins, and when they were put by the bucket's clock.
    pub pins: Vec<(Pin, u64)>,
    /// Readers' leases, ended ones too.
    pub readers: Vec<Reader>,
}

/// A reader's lease as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// By which its object is named.
    pub token: Token,
    /// The lowest version that is read.
    pub version: VersionNumber,
    /// How long it lives after it was written.
    pub life: Duration,
    /// When that was: milliseconds since 1970, by the bucket's clock.
    pub written_ms: u64,
}

/// Looks at a database; `None` if there is none. Some requests, one for each record since the last whole one, and one for
/// each pin and lease.
pub fn survey(home: &Home) -> Result<Option<Survey>, Error> {
    let Some(newest) = replay::read_newest(home)? else { return Ok(None) };
    let owner = owner::look(home, Purpose::Tool)?.map(|(owner, _)| owner);
    let boundary = boundary::look(home, Purpose::Tool)?;
    let pins = read_pins(home, Purpose::Tool)?;
    let pins = pins.into_iter().map(|(pin, stat)| (pin, stat.written_ms)).collect();
    Ok(Some(Survey { owner, boundary, newest, pins, readers: readers(home)? }))
}

/// Who owns a database; `None` if nobody ever did. One request.
pub fn read_owner(home: &Home) -> Result<Option<Owner>, Error> {
    Ok(owner::look(home, Purpose::Tool)?.map(|(owner, _)| owner))
}

/// The record of a version; `None` if it has been collected, or is yet to come. One request.
pub fn read_record(home: &Home, version: VersionNumber) -> Result<Option<Record>, Error> {
    replay::fetch(home, version, Purpose::Tool)
}

/// Every object below a database's root, in the order of names, and what it is; `None` if it is not the database's. One
/// request for a thousand.
pub fn each_object(home: &Home, mut each: impl FnMut(Stat, Option<Name>)) -> Result<(), Error> {
    home.list_each("", "", Purpose::Tool, |stat| {
        let name = home.root().parse(&stat.name);
        each(stat, name);
        Ok(())
    })
}

fn readers(home: &Home) -> Outcome<Vec<Reader>> {
    let leases = read_leases(home, Purpose::Tool)?.into_iter();
    let readers = leases.filter_map(|leased| match home.root().parse(&leased.stat.name) {
        Some(Name::Reader(token)) => Some(Reader {
            token,
            version: leased.version,
            life: leased.life,
            written_ms: leased.stat.written_ms,
        }),
        _ => None,
    });
    Ok(readers.collect())
}

#[cfg(test)]
mod tests;
