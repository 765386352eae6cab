//! `cloud ls`: what there is of a database: versions, owner, tables by level, and who keeps what.

use std::collections::BTreeMap;

use clap::Args;
use siltstone::{Area, EditedVersion, LevelInfo};
use siltstone_cloud::{
    JobFolder, Kind, Pin, Reader, Record as VersionRecord, Survey, Table, VersionNumber, list_jobs,
    object_of, read_record, survey,
};

use super::place::{Opened, Place, Tries};
use super::times::show_moment;
use crate::errors::{Exit, Failure, Outcome};
use crate::open::reading_options;
use crate::output::{Cell, Context, Record};
use crate::sizes::{show_count, show_duration};

const COLUMNS: [&str; 9] =
    ["what", "name", "version", "epoch", "level", "tables", "size_bytes", "written", "note"];
const TABLE_COLUMNS: [&str; 7] =
    ["level", "area", "table", "object", "size_bytes", "smallest", "largest"];

/// List what there is: versions, owner, tables by level, who keeps what
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    place: Place,
    /// How many of the last versions to list; each costs a request
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    versions: u64,
    /// One row a table instead, of the newest version
    #[arg(long)]
    tables: bool,
}

/// Fields of a row; those that are left out are missing.
#[derive(Default)]
struct Row {
    what: &'static str,
    name: Option<String>,
    version: Option<u64>,
    epoch: Option<u64>,
    level: Option<String>,
    tables: Option<u64>,
    bytes: Option<u64>,
    written_ms: Option<u64>,
    note: Option<String>,
}

impl Row {
    fn record(self) -> Record {
        let count = |count: Option<u64>| count.map_or(Cell::Missing, Cell::Count);
        let text = |text: Option<String>| text.map_or(Cell::Missing, Cell::Text);
        vec![
            ("what", Cell::text(self.what)),
            ("name", text(self.name)),
            ("version", count(self.version)),
            ("epoch", count(self.epoch)),
            ("level", text(self.level)),
            ("tables", count(self.tables)),
            ("size_bytes", self.bytes.map_or(Cell::Missing, Cell::Size)),
            ("written", text(self.written_ms.map(show_moment))),
            ("note", text(self.note)),
        ]
    }
}

pub(crate) fn run(args: &ListArgs, context: &Context) -> Outcome {
    let opened = args.place.open(Tries::Short)?;
    let explain = |error| opened.explain(error);
    let found = survey(&opened.home).map_err(explain)?.ok_or_else(|| opened.absent())?;
    let levels = levels(&found, context);
    if args.tables {
        context.rows(&TABLE_COLUMNS, tables(&opened, &found, &levels, context))?;
    } else {
        let versions = versions(&opened, &found, args.versions)?;
        let jobs = list_jobs(&opened.home).map_err(explain)?;
        let mut rows = vec![database(&opened, &found)];
        rows.extend(owner(&found));
        rows.extend(versions);
        rows.extend(level_rows(&found, &levels));
        rows.extend(parents(&found));
        rows.extend(found.pins.iter().map(pin));
        rows.extend(found.readers.iter().map(reader));
        rows.extend(jobs.iter().map(job));
        context.rows(&COLUMNS, rows.into_iter().map(Row::record).collect())?;
    }
    opened.note_cost(context);
    Ok(Exit::Ok)
}

/// Tables by level, as the version edits have them; nothing, and a note, if they cannot be read here.
fn levels(found: &Survey, context: &Context) -> Vec<LevelInfo> {
    if found.newest.payloads.is_empty() {
        return Vec::new();
    }
    let edits = found.newest.payloads.iter().map(|payload| payload.as_ref());
    match EditedVersion::replay(edits, &reading_options()) {
        Ok(version) => version.levels(),
        Err(error) => {
            context.note(format!("which table is in which level is not known here: {error}"));
            Vec::new()
        }
    }
}

fn database(opened: &Opened, found: &Survey) -> Row {
    let state = &found.newest.state;
    Row {
        what: "database",
        name: Some(opened.shown.clone()),
        version: Some(state.version().0),
        epoch: Some(state.epoch().0),
        tables: Some(state.tables().len() as u64),
        bytes: Some(sum(state.tables().values())),
        note: Some(match found.boundary.0 {
            0 => "never collected".to_owned(),
            boundary => format!("collected before version {boundary}"),
        }),
        ..Row::default()
    }
}

fn sum<'a>(tables: impl Iterator<Item = &'a Table>) -> u64 {
    tables.fold(0, |sum, table| sum.saturating_add(table.bytes))
}

fn owner(found: &Survey) -> Option<Row> {
    let owner = found.owner.as_ref()?;
    let note = if owner.lease.is_zero() {
        "no lease".to_owned()
    } else {
        format!("lease of {}", show_duration(owner.lease))
    };
    Some(Row {
        what: "owner",
        name: Some(owner.address.escape_debug().to_string()).filter(|name| !name.is_empty()),
        epoch: Some(owner.epoch.0),
        note: Some(note),
        ..Row::default()
    })
}

/// The last versions, newest first, as far as they are there.
fn versions(opened: &Opened, found: &Survey, count: u64) -> Result<Vec<Row>, Failure> {
    let newest = found.newest.state.version().0;
    let mut rows = Vec::new();
    for number in (1..=newest).rev().take(usize::try_from(count).unwrap_or(usize::MAX)) {
        let record = read_record(&opened.home, VersionNumber(number));
        match record.map_err(|error| opened.explain(error))? {
            Some(record) => rows.push(version(&record)),
            None => break,
        }
    }
    Ok(rows)
}

fn version(record: &VersionRecord) -> Row {
    let (added, removed) = (record.tables.len() as u64, record.removed.len() as u64);
    let note = match record.kind {
        Kind::Edit => {
            format!("{} tables added, {} removed", show_count(added), show_count(removed))
        }
        Kind::Snapshot => "whole".to_owned(),
        Kind::Takeover => "a new owner".to_owned(),
        Kind::Restart => "whole, by a new owner".to_owned(),
    };
    Row {
        what: "version",
        version: Some(record.version.0),
        epoch: Some(record.epoch.0),
        tables: record.kind.is_whole().then_some(added),
        note: Some(note),
        ..Row::default()
    }
}

fn level_name(level: &LevelInfo) -> String {
    match level.area {
        Area::Tree => level.level.number().to_string(),
        Area::SstLog => format!("{} log", level.level.number()),
    }
}

fn level_rows(found: &Survey, levels: &[LevelInfo]) -> Vec<Row> {
    let known: u64 = levels.iter().map(|level| level.tables.len() as u64).sum();
    let all = found.newest.state.tables().len() as u64;
    let row = |level: &LevelInfo| Row {
        what: "level",
        level: Some(level_name(level)),
        tables: Some(level.tables.len() as u64),
        bytes: Some(level.bytes()),
        ..Row::default()
    };
    let mut rows: Vec<Row> = levels.iter().map(row).collect();
    if known != all && known > 0 {
        let note =
            format!("the version edits have {known} tables, the record {all}: verify --deep");
        rows.push(Row { what: "level", note: Some(note), ..Row::default() });
    }
    rows
}

/// Databases whose tables this one shares.
fn parents(found: &Survey) -> Vec<Row> {
    let state = &found.newest.state;
    let row = |(home, ancestor): (u16, &siltstone_cloud::Ancestor)| {
        let shared = || state.tables().values().filter(move |table| table.home == home);
        Row {
            what: "parent",
            name: Some(ancestor.root.as_str().to_owned()),
            version: Some(ancestor.version.0),
            tables: Some(shared().count() as u64),
            bytes: Some(sum(shared())),
            note: Some("shares its tables".to_owned()),
            ..Row::default()
        }
    };
    (1..).zip(state.ancestors()).map(row).collect()
}

fn pin((pin, written_ms): &(Pin, u64)) -> Row {
    let life = if pin.life.is_zero() {
        "until it is removed".to_owned()
    } else {
        format!("for {}", show_duration(pin.life))
    };
    let note = pin.note.escape_debug().to_string();
    let note = if note.is_empty() { life } else { format!("{life}; {note}") };
    Row {
        what: "pin",
        name: Some(pin.name.as_str().to_owned()),
        version: Some(pin.version.0),
        written_ms: Some(*written_ms),
        note: Some(note),
        ..Row::default()
    }
}

fn reader(reader: &Reader) -> Row {
    Row {
        what: "reader",
        name: Some(reader.token.to_string()),
        version: Some(reader.version.0),
        written_ms: Some(reader.written_ms),
        note: Some(format!("lease of {}", show_duration(reader.life))),
        ..Row::default()
    }
}

fn job(folder: &JobFolder) -> Row {
    let state = if folder.is_alive { "open" } else { "over" };
    Row {
        what: "job",
        name: Some(format!("{}-{}", folder.job.epoch.0, folder.job.number)),
        epoch: Some(folder.job.epoch.0),
        tables: Some(folder.outputs as u64),
        bytes: Some(folder.bytes),
        written_ms: Some(folder.written_ms.1),
        note: Some(state.to_owned()),
        ..Row::default()
    }
}

/// All tables of the newest version, in the order in which reads search them; those whose level is not known last.
fn tables(opened: &Opened, found: &Survey, levels: &[LevelInfo], context: &Context) -> Vec<Record> {
    let state = &found.newest.state;
    let mut left: BTreeMap<u64, Table> =
        state.tables().iter().map(|(number, table)| (*number, *table)).collect();
    let object = |table: &Table| Cell::text(object_of(&opened.home, state, table));
    let mut rows = Vec::new();
    for level in levels {
        for info in &level.tables {
            let table = left.remove(&info.number.0);
            rows.push(vec![
                ("level", Cell::Count(level.level.number().into())),
                ("area", Cell::text(if level.area == Area::Tree { "tree" } else { "sst log" })),
                ("table", Cell::Count(info.number.0)),
                ("object", table.as_ref().map_or(Cell::Missing, object)),
                ("size_bytes", Cell::Size(info.bytes)),
                ("smallest", Cell::Key(info.smallest.clone(), context.key)),
                ("largest", Cell::Key(info.largest.clone(), context.key)),
            ]);
        }
    }
    rows.extend(left.iter().map(|(number, table)| {
        vec![
            ("level", Cell::Missing),
            ("area", Cell::Missing),
            ("table", Cell::Count(*number)),
            ("object", object(table)),
            ("size_bytes", Cell::Size(table.bytes)),
            ("smallest", Cell::Missing),
            ("largest", Cell::Missing),
        ]
    }));
    rows
}
