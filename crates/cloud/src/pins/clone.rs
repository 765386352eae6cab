//! Clones: databases that begin with another's tables, without copying them. Called by users and tools.
//!
//! I1: a clone has a pin of its own in every database whose tables it shares, its parent's parents included: they may go
//! their ways, and collect, and it loses nothing.
//! I2: a clone comes into being with its first record. Before that there are pins at most, and the same call with the
//! same token goes on where it ended.

use crate::bucket::{Condition, Purpose};
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::{Decision, Home};
use crate::log::record::{Ancestor, Kind, Record, Table};
use crate::log::replay::{self, Replay};
use crate::log::state::VersionState;
use crate::log::version_log::VersionLog;
use crate::names::{Epoch, Name, PinName, TableId, Token, VersionNumber};
use crate::pins::pin::{self, Pin};
use crate::table;

/// What pins of clones are called.
const PIN_NAME: &str = "clone";

/// Makes a database at `child` that begins as `version` of the one at `parent`. A few requests, however large it is.
/// [`ErrorKind::Exists`] if there is a database already, [`ErrorKind::Gone`] if the version is past, unless `from` is a
/// pin that keeps it. After [`ErrorKind::Undecided`] or [`ErrorKind::Unavailable`] call again with the same token; if it
/// stays undecided because the version is past by now, clone the newest, with another token and to another place: the
/// first may still come about.
pub fn clone_database(
    parent: &Home,
    child: &Home,
    version: VersionNumber,
    from: Option<&Pin>,
    token: Token,
) -> Result<(), Error> {
    if let Some(there) = replay::newest(child, Purpose::Tool)? {
        // Its pins were put before its record, and are in use: nothing is done to them again.
        let is_ours = (there.token, there.version) == (token, VersionNumber(1));
        return if is_ours { Ok(()) } else { Err(exists(child)) };
    }
    let name = PinName::new(PIN_NAME)?;
    let note = child.root().as_str().to_owned();
    let pin = Pin { name, token, version, life: std::time::Duration::ZERO, note };
    match from {
        Some(from) if from.version == version => pin::copy(parent, from, &pin)?,
        _ => pin::keep(parent, &pin)?,
    }
    let whole = replay::read_version(parent, version)?;
    let ancestors = pin_ancestors(parent, &whole.state, &pin)?;
    let record = first_record(&whole, token, &ancestors);
    let object = child.object(&Name::Version(record.version));
    match child.decide(&object, &record.encode(), &Condition::Absent, Purpose::Tool)? {
        Decision::Mine => Ok(()),
        Decision::Other(_) => {
            let ancestors: Vec<_> = ancestors.into_iter().map(|(_, ancestor)| ancestor).collect();
            let_go(parent, &ancestors)?;
            Err(exists(child))
        }
    }
}

fn exists(child: &Home) -> Error {
    Error::new(ErrorKind::Exists, child.root().as_str(), "there is a database already")
}

/// Whose tables the clone shares, and what number each had in the parent.
fn pin_ancestors(parent: &Home, state: &VersionState, pin: &Pin) -> Outcome<Vec<(u16, Ancestor)>> {
    let (root, version) = (parent.root().clone(), pin.version);
    let (name, token) = (pin.name.clone(), pin.token);
    let mut ancestors = vec![(0, Ancestor { root, version, pin: name, token })];
    for (home, ancestor) in (1..).zip(state.ancestors()) {
        if !state.tables().values().any(|table| table.home == home) {
            continue;
        }
        let old = pin_of(ancestor);
        // A database may be an ancestor twice, at two versions.
        let token = Token(pin.token.0.wrapping_add(u128::from(home)));
        let new = Pin { token, name: pin.name.clone(), note: pin.note.clone(), ..old.clone() };
        pin::copy(&parent.at(ancestor.root.clone()), &old, &new)?;
        ancestors.push((home, Ancestor { token, pin: new.name, ..ancestor.clone() }));
    }
    Ok(ancestors)
}

fn pin_of(ancestor: &Ancestor) -> Pin {
    let (name, token, version) = (ancestor.pin.clone(), ancestor.token, ancestor.version);
    Pin { name, token, version, life: std::time::Duration::ZERO, note: String::new() }
}

fn first_record(whole: &Replay, token: Token, ancestors: &[(u16, Ancestor)]) -> Record {
    let home_of = |old: u16| {
        let at = ancestors.iter().position(|(home, _)| *home == old).map_or(0, |at| at + 1);
        u16::try_from(at).expect("no more homes than the parent had, and itself")
    };
    let tables = whole.state.tables().iter();
    let tables =
        tables.map(|(number, table)| (*number, Table { home: home_of(table.home), ..*table }));
    Record {
        version: VersionNumber(1),
        kind: Kind::Snapshot,
        epoch: Epoch(0),
        token,
        base: VersionNumber(1),
        spans: Vec::new(),
        held: Vec::new(),
        ancestors: ancestors.iter().map(|(_, ancestor)| ancestor.clone()).collect(),
        tables: tables.collect(),
        removed: Vec::new(),
        payloads: whole.payloads.clone(),
    }
}

/// Copies all that a clone shares, so that it stands alone, and removes its pins. Moves every shared table through this
/// process. The copies get ids from `number`, which gives out file numbers of the engine's that were never used;
/// `payloads` make up the version, as for a snapshot. A copy that fails leaves the clone as it was; if only a pin cannot be
/// removed, `ancestors` of the state before say which.
pub fn detach(
    log: &mut VersionLog,
    payloads: Vec<bytes::Bytes>,
    mut number: impl FnMut() -> u64,
) -> Result<(), Error> {
    let state = log.state().clone();
    let home = log.home().clone();
    let mut tables = Vec::new();
    for (file, table) in state.tables() {
        let table = match home_of(&home, &state, table) {
            None => *table,
            Some(theirs) => copy_table(&theirs, &home, table, log.table_id(number()))?,
        };
        tables.push((*file, table));
    }
    log.snapshot_of(tables, Vec::new(), payloads)?;
    let_go(&home, state.ancestors())
}

/// Where a table lies, unless it is in the database itself.
pub(crate) fn home_of(home: &Home, state: &VersionState, table: &Table) -> Option<Home> {
    let at = usize::from(table.home).checked_sub(1)?;
    state.ancestors().get(at).map(|ancestor| home.at(ancestor.root.clone()))
}

fn copy_table(from: &Home, to: &Home, table: &Table, id: TableId) -> Outcome<Table> {
    let body = table::download(from, table, Purpose::Tool)?;
    table::upload(to, id, &body, Purpose::Tool)
}

/// Removes the pins that a clone has in its ancestors: when it has been detached, or its last version is gone.
pub fn let_go(home: &Home, ancestors: &[Ancestor]) -> Result<(), Error> {
    ancestors.iter().try_for_each(|ancestor| {
        pin::remove_pin(&home.at(ancestor.root.clone()), &pin_of(ancestor))
    })
}
