//! Owners: they take the database over, flush and merge, stand still at any call, and go on as if nothing had been.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use siltstone_cloud::{
    Bucket, Call, Edit, Error, ErrorKind, Failure, Home, Opening, Part, Purpose, Replay,
    Result as BucketResult, Table, VersionLog, VersionNumber, object_of, upload,
};

use super::turns::{AGE_MIN, Seat};

/// So often one opens the database.
const LIVES: u64 = 3;
/// Versions of a life.
const STEPS: u64 = 14;
/// Tables are merged when there are so many.
const TABLES_MAX: usize = 4;
/// A whole record comes after so many others.
const SNAPSHOT_EVERY: u64 = 6;
/// Of a life some two in three pauses are in these calls.
const PAUSE_WITHIN: u64 = 60;
/// Somebody who has been told that he is owner no more tries so often again.
const AGAIN: u64 = 3;
/// What is undecided is asked for again so often: one in so many calls stands still.
const SETTLED_MAX: usize = 10;
/// A write's number has its owner's epoch in front.
const EPOCH_BITS: u32 = 20;

/// How a step ends that is the last.
enum End {
    /// He is owner no more.
    Fenced,
    /// Nothing can be said.
    Mistaken,
}

/// Takes the database over again and again, though the other one does so, too.
pub(super) fn own(seat: &Arc<Seat>) {
    for _ in 0..LIVES {
        seat.rest(AGE_MIN);
        seat.pause_within(PAUSE_WITHIN);
        if let Some(mut life) = Life::begin(seat)
            && let Err(End::Fenced) = life.live()
        {
            life.insist();
        }
    }
}

struct Life<'a> {
    seat: &'a Seat,
    home: Home,
    log: VersionLog,
    token: siltstone_cloud::Token,
    /// All writes that there are.
    writes: BTreeSet<u64>,
    /// The next table's number.
    next: u64,
    next_write: u64,
}

impl<'a> Life<'a> {
    fn begin(seat: &'a Arc<Seat>) -> Option<Self> {
        let home =
            seat.home().inspect_err(|error| seat.turns.history().note_mistake(error)).ok()?;
        let token = seat.turns.token();
        let opening = Opening { snapshot_every: SNAPSHOT_EVERY, ..Opening::new(token) };
        let since = seat.turns.history().committed().clone();
        let opened = VersionLog::open(&home, &opening);
        let (log, replay) = opened.inspect_err(|error| seat.turns.history().heed(error)).ok()?;
        let writes = written(&replay);
        seat.turns.history().compare(&since, &writes);
        let next = replay.state.tables().keys().max().map_or(1, |last| last + 1);
        let next_write = log.epoch().0 << EPOCH_BITS;
        Some(Life { seat, home, log, token, writes, next, next_write })
    }

    fn live(&mut self) -> Result<(), End> {
        for _ in 0..STEPS {
            self.seat.rest(AGE_MIN / 4);
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), End> {
        if self.log.is_snapshot_due() {
            let payload = payload(Change::Whole, &self.writes);
            return self.commit(&BTreeSet::new(), |log| log.snapshot(vec![payload]));
        }
        if self.log.state().tables().len() >= TABLES_MAX {
            return self.merge();
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), End> {
        let writes: BTreeSet<u64> =
            (0..=self.seat.turns.roll(4)).map(|nth| self.next_write + nth).collect();
        self.next_write += writes.len() as u64;
        self.install(&writes, Vec::new(), payload(Change::Added, &writes))?;
        self.writes.extend(&writes);
        Ok(())
    }

    fn merge(&mut self) -> Result<(), End> {
        let count = 2 + self.seat.turns.roll(2) as usize;
        let tables = self.log.state().tables().iter().take(count);
        let inputs: Vec<(u64, Table)> = tables.map(|(number, table)| (*number, *table)).collect();
        let mut merged = BTreeSet::new();
        for (_, table) in &inputs {
            let name = object_of(&self.home, self.log.state(), table);
            match read(self.seat, &name) {
                Ok(writes) => merged.extend(writes),
                Err(Failure::Missing) => return self.miss(),
                Err(_) => return Err(End::Mistaken),
            }
        }
        let removed = inputs.into_iter().map(|(number, _)| number).collect();
        // Its writes are in the version already.
        self.install_table(
            &merged,
            removed,
            (payload(Change::Added, &BTreeSet::new()), &BTreeSet::new()),
        )
    }

    /// A table of his is not there: then he must have been fenced long ago.
    fn miss(&mut self) -> Result<(), End> {
        self.commit(&BTreeSet::new(), |log| log.commit(Edit::default()))?;
        self.seat.turns.history().tally.deleted_reads += 1;
        Ok(())
    }

    fn install(
        &mut self,
        writes: &BTreeSet<u64>,
        removed: Vec<u64>,
        payload: Bytes,
    ) -> Result<(), End> {
        self.install_table(writes, removed, (payload, writes))
    }

    /// Uploads a table, and commits it with what the version gains by it.
    fn install_table(
        &mut self,
        content: &BTreeSet<u64>,
        removed: Vec<u64>,
        (payload, gained): (Bytes, &BTreeSet<u64>),
    ) -> Result<(), End> {
        let number = self.next;
        self.next += 1;
        let (id, body) = (self.log.table_id(number), encode(content).into());
        let uploaded = upload(&self.home, id, &body, Purpose::Flush);
        let table = uploaded.map_err(|error| self.mistake(&error))?;
        if self.seat.turns.roll(2) == 0 {
            // Nothing else is under way: what lies before is named by this version or never.
            let kept = self.log.keep_open(number, Vec::new());
            kept.map_err(|error| self.mistake(&error))?;
        }
        let edit = Edit { payloads: vec![payload], added: vec![(number, table)], removed };
        self.commit(gained, |log| log.commit(edit))
    }

    /// Commits, and says what came of it.
    fn commit(
        &mut self,
        writes: &BTreeSet<u64>,
        commit: impl FnOnce(&mut VersionLog) -> Result<VersionNumber, Error>,
    ) -> Result<(), End> {
        let begun = self.seat.turns.history().begin(self.log.epoch().0, self.token);
        let mut done = commit(&mut self.log);
        // Who stood still has no patience left to find out what has become of it.
        for _ in 0..SETTLED_MAX {
            match done {
                Err(error) if error.kind() == ErrorKind::Undecided => done = self.settle(error),
                _ => break,
            }
        }
        let mut history = self.seat.turns.history();
        match done {
            Ok(version) => {
                history.acknowledge(begun, version.0, writes);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Fenced => {
                history.refuse(begun);
                Err(End::Fenced)
            }
            Err(error) => {
                history.note_mistake(&error);
                Err(End::Mistaken)
            }
        }
    }

    fn settle(&mut self, undecided: Error) -> Result<VersionNumber, Error> {
        self.log.settle()?.ok_or(undecided)
    }

    /// Does not believe that he is owner no more.
    fn insist(&mut self) {
        for _ in 0..self.seat.turns.roll(AGAIN + 1) {
            self.seat.rest(AGE_MIN / 4);
            // What came of it is counted.
            let _ = self.commit(&BTreeSet::new(), |log| log.commit(Edit::default()));
        }
    }

    fn mistake(&self, error: &Error) -> End {
        self.seat.turns.history().note_mistake(error);
        End::Mistaken
    }
}

/// What a version edit does to the writes that there are.
#[derive(Clone, Copy)]
enum Change {
    Added,
    Whole,
}

fn payload(change: Change, writes: &BTreeSet<u64>) -> Bytes {
    let mut bytes = vec![match change {
        Change::Added => b'+',
        Change::Whole => b'=',
    }];
    bytes.extend(encode(writes));
    bytes.into()
}

fn encode(writes: &BTreeSet<u64>) -> Vec<u8> {
    writes.iter().flat_map(|write| write.to_le_bytes()).collect()
}

fn decode(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks().0.iter().map(|write| u64::from_le_bytes(*write))
}

/// The writes of a version, by its edits.
pub(super) fn written(replay: &Replay) -> BTreeSet<u64> {
    let mut writes = BTreeSet::new();
    for payload in &replay.payloads {
        let Some((change, bytes)) = payload.split_first() else { continue };
        if *change == b'=' {
            writes.clear();
        }
        writes.extend(decode(bytes));
    }
    writes
}

/// The writes of a table.
pub(super) fn read(bucket: &dyn Bucket, name: &str) -> Result<BTreeSet<u64>, Failure> {
    let got: BucketResult<_> = bucket.get(name, Part::Whole, Call::new(Purpose::Tool));
    got.map(|object| decode(&object.body).collect()).map_err(|error| error.failure)
}
