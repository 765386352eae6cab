//! Jobs' folders as they lie in the bucket: what workers have left there, and whether anybody may still want it. From the
//! bucket alone; what is under way right now only the broker knows.

use std::collections::{BTreeMap, BTreeSet};

use crate::bucket::{Purpose, Stat};
use crate::error::Error;
use crate::home::Home;
use crate::log::replay;
use crate::names::{JobId, Name, TableId};

/// What lies in a job's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFolder {
    /// Whose.
    pub job: JobId,
    /// Attempts that have written something.
    pub attempts: usize,
    /// Tables that were written.
    pub outputs: usize,
    /// Of those, tables of the newest version.
    pub named: usize,
    /// Bytes of all objects.
    pub bytes: u64,
    /// When the first and the last object were written: milliseconds since 1970, by the bucket's clock.
    pub written_ms: (u64, u64),
    /// What comes of it may still be installed.
    pub is_alive: bool,
}

/// Everything in a folder, before it is known what is named.
struct Found {
    attempts: BTreeSet<String>,
    tables: Vec<TableId>,
    bytes: u64,
    written_ms: (u64, u64),
}

/// The folders of all jobs, by epoch and number. One request for a thousand objects, and those of reading the newest version.
pub fn list_jobs(home: &Home) -> Result<Vec<JobFolder>, Error> {
    let mut found: BTreeMap<JobId, Found> = BTreeMap::new();
    home.list_each("jobs/", "", Purpose::Tool, |stat| {
        let (job, table) = match home.root().parse(&stat.name) {
            Some(Name::Job(job)) => (job, None),
            Some(Name::Table(id @ TableId::Worked { job, .. })) => (job, Some(id)),
            _ => return Ok(()),
        };
        let first = || Found {
            attempts: BTreeSet::new(),
            tables: Vec::new(),
            bytes: 0,
            written_ms: (stat.written_ms, stat.written_ms),
        };
        found.entry(job).or_insert_with(first).add(home, job, table, &stat);
        Ok(())
    })?;
    // Read after the list: what was installed meanwhile counts as named.
    let state = replay::read_newest(home)?.map(|newest| newest.state).unwrap_or_default();
    let named: BTreeSet<TableId> =
        state.tables().values().filter(|table| table.home == 0).map(|table| table.id).collect();
    let folders = found.into_iter().map(|(job, found)| JobFolder {
        job,
        attempts: found.attempts.len(),
        outputs: found.tables.len(),
        named: found.tables.iter().filter(|id| named.contains(id)).count(),
        bytes: found.bytes,
        written_ms: found.written_ms,
        is_alive: state.is_alive(job),
    });
    Ok(folders.collect())
}

impl Found {
    fn add(&mut self, home: &Home, job: JobId, table: Option<TableId>, stat: &Stat) {
        let (first, last) = self.written_ms;
        self.written_ms = (first.min(stat.written_ms), last.max(stat.written_ms));
        self.bytes = self.bytes.saturating_add(stat.bytes);
        self.tables.extend(table);
        // What an attempt writes lies in a folder of its own; what is kept of the job does not.
        let folder = home.root().job(job, "");
        let rest = stat.name.strip_prefix(&folder).unwrap_or_default();
        if let Some((attempt, _)) = rest.split_once('/') {
            self.attempts.insert(attempt.to_owned());
        }
    }
}
