//! What a database has changed and the bucket does not know yet: edits in the order they were told, tables that still
//! have to go there, and how far the two are together. Knows no files, no threads and no bucket.
//!
//! I1: edits are committed in the order they were told, without gaps; several at once count as what they come to.
//! I2: a commit names only tables that are uploaded, or were part of the version before it.
//! I3: a table that came and went among edits that go together is never uploaded for their sake.
//! I4: tables get ids when they are uploaded, in that order, of one count with jobs, which have the engine's numbers: ids
//! are above all of those that were seen before. What [`keep_open_from`](Ledger::keep_open_from) says is not above the id of
//! any table or job that a later commit names, and above those of which nothing more will come.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::log::record::Table;
use crate::log::version_log::Edit;
use crate::names::{Epoch, JobId, TableId};

/// More edits than this do not go into one record.
const EDITS_MAX: usize = 1024;
/// Nor more bytes of them.
const EDIT_BYTES_MAX: usize = 8 << 20;

/// A change of the set of tables, as it was told.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) payload: Bytes,
    /// It lists all tables.
    pub(crate) is_whole: bool,
    pub(crate) added: Vec<u64>,
    pub(crate) removed: Vec<u64>,
}

/// Where a table is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journey {
    /// It counts, and is here only.
    Waiting,
    /// Somebody is at it, under this id.
    Uploading(u64),
    /// It could not be uploaded so far; the id stays.
    Again(u64),
    /// It is in the bucket.
    There(Table),
}

/// Edits that may be committed together.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) edit: Edit,
    /// So many of the changes that were told.
    pub(crate) changes: usize,
}

#[derive(Default)]
pub(crate) struct Ledger {
    /// Tables of the last version that is committed.
    committed: BTreeMap<u64, Table>,
    changes: VecDeque<Change>,
    /// Tables of the version after all changes.
    newest: BTreeSet<u64>,
    /// Tables of some change that are not committed; they stay until then, or until no change names them.
    journeys: BTreeMap<u64, Journey>,
    /// In which order they are uploaded.
    waiting: VecDeque<u64>,
    /// Bytes of tables that wait or are being uploaded.
    sizes: BTreeMap<u64, u64>,
    /// Tables that no change has named yet.
    adopted: BTreeSet<u64>,
    /// Tables in the bucket that are part of nothing above any more, until the engine needs them no more: somebody may be
    /// reading an older version, and open them only now.
    parted: BTreeMap<u64, Table>,
    /// Tables that the engine needs no more, before they are part of nothing.
    forgotten: BTreeSet<u64>,
    /// Ids of jobs of which tables may come.
    jobs: BTreeSet<u64>,
    /// Such jobs of earlier owners.
    held: BTreeSet<JobId>,
    /// The last number that stands for an upload or a job, or may: the engine's numbers are among them.
    last_id: u64,
}

impl Ledger {
    /// Of a database that has so much committed.
    pub(crate) fn new(committed: BTreeMap<u64, Table>) -> Self {
        let newest = committed.keys().copied().collect();
        Ledger { committed, newest, ..Ledger::default() }
    }

    pub(crate) fn committed(&self) -> &BTreeMap<u64, Table> {
        &self.committed
    }

    /// A table that is in the bucket, committed or not yet.
    pub(crate) fn table(&self, number: u64) -> Option<Table> {
        let uploaded = || match self.journeys.get(&number)? {
            Journey::There(table) => Some(*table),
            _ => None,
        };
        let parted = || self.parted.get(&number).copied();
        self.committed.get(&number).copied().or_else(uploaded).or_else(parted)
    }

    /// The numbers of all tables that are in the bucket and may be read.
    pub(crate) fn in_bucket(&self) -> Vec<u64> {
        let uploaded = self.journeys.keys().filter(|number| self.table(**number).is_some());
        self.committed.keys().chain(uploaded).copied().collect()
    }

    /// Changes that are not committed.
    pub(crate) fn changes_waiting(&self) -> usize {
        self.changes.len()
    }

    /// True if the bucket knows all that the database does.
    pub(crate) fn is_level(&self) -> bool {
        self.changes.is_empty()
    }

    /// A job for somebody else begins, and stays open until [`end_job`](Self::end_job). Returns its id: the engine's number, unless
    /// uploads are past it. Others may have been told then that nothing of that number will be named.
    pub(crate) fn begin_job(&mut self, number: u64) -> u64 {
        let id = match number > self.last_id {
            true => number,
            false => self.last_id + 1,
        };
        self.last_id = id;
        self.jobs.insert(id);
        id
    }

    /// Nothing more comes of a job than what was adopted.
    pub(crate) fn end_job(&mut self, id: u64) {
        self.jobs.remove(&id);
    }

    /// A job of an earlier owner's goes on: it stays open until it is [let go](Self::let_go).
    pub(crate) fn hold(&mut self, job: JobId) {
        self.held.insert(job);
    }

    /// Nothing more comes of it than what was adopted.
    pub(crate) fn let_go(&mut self, job: JobId) {
        self.held.remove(&job);
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A table has come about in the bucket itself, and will be named under this number.
    pub(crate) fn adopt(&mut self, number: u64, table: Table) {
        self.journeys.insert(number, Journey::There(table));
        self.adopted.insert(number);
    }

    /// The database has changed, durably. `size_of` tells how large a table here is. Returns the tables that came about in the bucket.
    pub(crate) fn tell(&mut self, change: Change, size_of: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut adopted = Vec::new();
        if change.is_whole {
            self.newest.clear();
        }
        change.removed.iter().for_each(|number| {
            self.newest.remove(number);
        });
        self.newest.extend(&change.added);
        for number in &change.added {
            self.last_id = self.last_id.max(*number);
            if self.adopted.remove(number) {
                adopted.push(*number);
            }
            if !self.committed.contains_key(number) && !self.journeys.contains_key(number) {
                self.journeys.insert(*number, Journey::Waiting);
                self.sizes.insert(*number, size_of(*number));
                self.waiting.push_back(*number);
            }
        }
        self.changes.push_back(change);
        self.drop_needless();
        adopted
    }

    /// Whether a table is part of what the database is now.
    pub(crate) fn counts(&self, number: u64) -> bool {
        self.newest.contains(&number)
    }

    /// The same, or it is about to become one.
    pub(crate) fn lives(&self, number: u64) -> bool {
        self.counts(number) || self.adopted.contains(&number)
    }

    /// Somebody waits for these tables: those of them that wait go next.
    pub(crate) fn hurry(&mut self, numbers: &[u64]) {
        let (first, rest): (Vec<u64>, Vec<u64>) =
            self.waiting.drain(..).partition(|number| numbers.contains(number));
        self.waiting.extend(first.into_iter().chain(rest));
    }

    /// The next table to upload, and under which id; it is the caller's until he says what became of it.
    pub(crate) fn next_upload(&mut self) -> Option<(u64, u64)> {
        while let Some(number) = self.waiting.pop_front() {
            let id = match self.journeys.get(&number) {
                Some(Journey::Waiting) => self.new_id(),
                Some(Journey::Again(id)) => *id,
                _ => continue,
            };
            self.journeys.insert(number, Journey::Uploading(id));
            return Some((number, id));
        }
        None
    }

    /// It is there.
    pub(crate) fn uploaded(&mut self, number: u64, table: Table) {
        self.sizes.remove(&number);
        if let Some(journey) = self.journeys.get_mut(&number) {
            *journey = Journey::There(table);
        }
        self.drop_needless();
    }

    /// It is not: somebody else tries again. False if nobody needs it any more.
    pub(crate) fn not_uploaded(&mut self, number: u64) -> bool {
        let Some(Journey::Uploading(id)) = self.journeys.get(&number).copied() else {
            return false;
        };
        self.journeys.insert(number, Journey::Again(id));
        self.waiting.push_front(number);
        self.drop_needless();
        self.journeys.contains_key(&number)
    }

    /// Bytes of tables that count, and are here only.
    pub(crate) fn bytes_waiting(&self) -> u64 {
        self.sizes.values().sum()
    }

    /// The longest run of changes, from the first one on, of which all tables are in the bucket.
    pub(crate) fn batch(&self) -> Option<Batch> {
        let (mut net, mut best) = (Net::default(), None);
        let mut bytes = 0;
        for (place, change) in self.changes.iter().enumerate() {
            bytes += change.payload.len();
            // What went again is not uploaded: perhaps only many together are whole.
            if best.is_some() && (place >= EDITS_MAX || bytes > EDIT_BYTES_MAX) {
                break;
            }
            net.apply(change, &self.committed);
            if net.added.iter().all(|number| self.is_there(*number)) {
                best = Some((place + 1, net.clone()));
            }
        }
        let (changes, net) = best?;
        let payloads = self.changes.iter().take(changes).map(|change| change.payload.clone());
        let added = net.added.iter().filter_map(|number| match self.journeys.get(number)? {
            Journey::There(table) => Some((*number, *table)),
            _ => None,
        });
        let edit = Edit {
            payloads: payloads.collect(),
            added: added.collect(),
            removed: net.removed.into_iter().collect(),
        };
        Some(Batch { edit, changes })
    }

    fn is_there(&self, number: u64) -> bool {
        matches!(self.journeys.get(&number), Some(Journey::There(_)))
    }

    /// The batch is part of the log now.
    pub(crate) fn settle(&mut self, batch: &Batch) {
        self.changes.drain(..batch.changes.min(self.changes.len()));
        for number in &batch.edit.removed {
            let table = self.committed.remove(number);
            self.part_with(*number, table);
        }
        for (number, table) in &batch.edit.added {
            self.committed.insert(*number, *table);
            self.journeys.remove(number);
        }
        self.drop_needless();
    }

    /// The engine needs the table no more, or never did: what was adopted in vain is not named any more.
    pub(crate) fn forget(&mut self, number: u64) {
        if self.adopted.remove(&number) {
            self.journeys.remove(&number);
        }
        self.parted.remove(&number);
        if self.committed.contains_key(&number) || self.journeys.contains_key(&number) {
            self.forgotten.insert(number);
        }
    }

    /// A table is part of nothing any more; where it lies in the bucket, if it does.
    fn part_with(&mut self, number: u64, table: Option<Table>) {
        if !self.forgotten.remove(&number)
            && let Some(table) = table
        {
            self.parted.insert(number, table);
        }
    }

    /// From which id on tables and jobs of the owner, whose epoch this is, may still be named.
    pub(crate) fn keep_open_from(&self, epoch: Epoch) -> u64 {
        let ids = self.journeys.values().filter_map(|journey| match journey {
            Journey::Waiting => None,
            Journey::Uploading(id) | Journey::Again(id) => Some(*id),
            Journey::There(table) => match table.id {
                TableId::Own { number, .. } => Some(number),
                TableId::Worked { job, .. } => (job.epoch == epoch).then_some(job.number),
            },
        });
        ids.chain(self.jobs.first().copied()).fold(self.last_id + 1, u64::min)
    }

    /// Which jobs of owners before this epoch's may still be named.
    pub(crate) fn held(&self, epoch: Epoch) -> Vec<JobId> {
        let of_tables = self.journeys.values().filter_map(|journey| match journey {
            Journey::There(Table { id: TableId::Worked { job, .. }, .. }) => Some(*job),
            _ => None,
        });
        let all: BTreeSet<JobId> = self.held.iter().copied().chain(of_tables).collect();
        all.into_iter().filter(|job| job.epoch != epoch).collect()
    }

    /// True if a change that is not committed adds it.
    fn is_named(&self, number: u64) -> bool {
        self.changes.iter().any(|change| change.added.contains(&number))
    }

    /// Tables that came and went need no upload (I3): a batch that ends before they went waits for one that does not. What
    /// is in the bucket already serves the batches in between.
    fn drop_needless(&mut self) {
        let is_needed = |number: &u64, journey: &Journey| match journey {
            Journey::Waiting | Journey::Again(_) => false,
            Journey::Uploading(_) => true,
            Journey::There(_) => self.adopted.contains(number) || self.is_named(*number),
        };
        let gone = self.journeys.iter().filter(|(number, journey)| {
            !self.newest.contains(number) && !is_needed(number, journey)
        });
        let gone: Vec<u64> = gone.map(|(number, _)| *number).collect();
        for number in gone {
            let table = match self.journeys.remove(&number) {
                Some(Journey::There(table)) => Some(table),
                _ => None,
            };
            self.part_with(number, table);
            self.sizes.remove(&number);
        }
    }
}

/// What changes come to, compared with the committed version.
#[derive(Clone, Default)]
struct Net {
    added: BTreeSet<u64>,
    removed: BTreeSet<u64>,
}

impl Net {
    fn apply(&mut self, change: &Change, committed: &BTreeMap<u64, Table>) {
        if change.is_whole {
            self.added.clear();
            self.removed = committed.keys().copied().collect();
        }
        for number in &change.removed {
            if !self.added.remove(number) && committed.contains_key(number) {
                self.removed.insert(*number);
            }
        }
        for number in &change.added {
            if !self.removed.remove(number) && !committed.contains_key(number) {
                self.added.insert(*number);
            }
        }
    }
}

#[cfg(test)]
mod tests;
