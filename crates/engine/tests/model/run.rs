//! One run: a list of operations done to a database and to the model, compared at every step.

use std::ops::Bound;
use std::path::PathBuf;

use siltstone::{
    Background, Db, DbIterator, Env, ErrorKind, ReadOptions, Snapshot, WriteBatch, WriteOptions,
};

use crate::operation::{Operation, SLOTS, ShortKey, Update, Value};
use crate::option_sets::{OptionSet, Place};
use crate::reference::{Entry, Flaw, Reference};
use crate::support::TempDir;

/// How a database differed from the model.
#[derive(Debug)]
pub(crate) struct Mismatch(pub(crate) String);

impl From<siltstone::Error> for Mismatch {
    fn from(error: siltstone::Error) -> Self {
        Mismatch(format!("unexpected error: {error}"))
    }
}

type Checked = Result<(), Mismatch>;

/// What a run did, beside agreeing with the model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) flushes: u64,
    pub(crate) compactions: u64,
    pub(crate) reopens: u64,
    /// The deepest level that held a table.
    pub(crate) deepest: u8,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.flushes += other.flushes;
        self.compactions += other.compactions;
        self.reopens += other.reopens;
        self.deepest = self.deepest.max(other.deepest);
    }
}

/// Runs operations, then looks at everything once more, before and after a reopen.
///
/// # Errors
///
/// The first difference and the index of its operation.
pub(crate) fn run(
    set: &OptionSet,
    flaw: Flaw,
    operations: &[Operation],
) -> Result<Tally, (usize, Mismatch)> {
    let mut run = Run::start(set, flaw).map_err(|mismatch| (0, mismatch))?;
    for (index, operation) in operations.iter().enumerate() {
        run.apply(operation).map_err(|mismatch| (index, mismatch))?;
        run.tally.operations += 1;
    }
    run.end().map_err(|mismatch| (operations.len(), mismatch))?;
    Ok(run.tally)
}

struct Run<'a> {
    set: &'a OptionSet,
    env: Env,
    folder: PathBuf,
    variant: u32,
    /// None only while reopening.
    db: Option<Db>,
    reference: Reference,
    snapshots: [Option<(Snapshot, u64)>; SLOTS],
    cursors: [Option<Cursor>; SLOTS],
    buffer: Vec<u8>,
    tally: Tally,
    _folder: Option<TempDir>,
}

/// An iterator, and where the model says that it stands.
struct Cursor {
    iter: DbIterator,
    view: u64,
    at: Option<Box<[u8]>>,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // Readers hold the database open.
        self.cursors = Default::default();
        self.snapshots = Default::default();
    }
}

impl<'a> Run<'a> {
    fn start(set: &'a OptionSet, flaw: Flaw) -> Result<Self, Mismatch> {
        let env = set.env();
        let parent = (set.place == Place::Disk).then(|| TempDir::new("model"));
        let folder = set.folder(parent.as_ref().map_or("".as_ref(), |parent| parent.path()));
        let db = Db::open(&folder, set.options(&env, 0))?;
        Ok(Run {
            set,
            env,
            folder,
            variant: 0,
            db: Some(db),
            reference: Reference::new(set.order, flaw),
            snapshots: Default::default(),
            cursors: Default::default(),
            buffer: Vec::new(),
            tally: Tally::default(),
            _folder: parent,
        })
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open, save while reopening")
    }

    fn end(&mut self) -> Checked {
        self.scan_both_ways(None)?;
        self.reopen(0, Closing::Close)?;
        self.scan_both_ways(None)?;
        self.note_shape();
        self.end_readers();
        let db = self.db.take().expect("open, save while reopening");
        db.close().map_err(Mismatch::from)
    }

    fn apply(&mut self, operation: &Operation) -> Checked {
        match operation {
            Operation::Put { key, value, sync } => {
                self.write(&[(key.clone(), Some(*value))], *sync)
            }
            Operation::Delete { key, sync } => self.write(&[(key.clone(), None)], *sync),
            Operation::Batch { updates, sync } => self.write(updates, *sync),
            Operation::EmptyBatch { sync } => self.write(&[], *sync),
            Operation::Get { key } => self.get(key, None),
            Operation::GetAt { slot, key } => self.get(key, Some(*slot)),
            Operation::TakeSnapshot { slot } => self.take_snapshot(*slot),
            Operation::ReleaseSnapshot { slot } => self.release_snapshot(*slot),
            Operation::OpenIterator { slot, snapshot } => self.open_iterator(*slot, *snapshot),
            Operation::DropIterator { slot } => self.drop_iterator(*slot),
            Operation::ScanForward { snapshot } => self.scan_forward(*snapshot),
            Operation::ScanBackward { snapshot } => self.scan_backward(*snapshot),
            Operation::ScanFrom { key, steps } => self.scan_from(key, *steps),
            Operation::CompactRange { from, to } => {
                Ok(self.db().compact_range(from.as_deref(), to.as_deref())?)
            }
            Operation::CompactAll => self.compact_all(),
            Operation::Flush => Ok(self.db().flush()?),
            Operation::Step { steps } => self.step(*steps),
            Operation::WaitForBackground => self.wait_for_background(),
            Operation::Reopen { variant } => self.reopen(*variant, Closing::Close),
            Operation::DropAndReopen => self.reopen(self.variant, Closing::Drop),
            Operation::CloseUnderReaders => self.reopen(self.variant, Closing::UnderReaders),
            Operation::ReadOnlyBeside => self.look_read_only(),
            Operation::Properties => self.look_at_properties(),
            Operation::ApproximateSizes { keys } => self.look_at_sizes(keys),
            Operation::Seek { slot, .. }
            | Operation::SeekToFirst { slot }
            | Operation::SeekToLast { slot }
            | Operation::Next { slot, .. }
            | Operation::Prev { slot, .. }
            | Operation::Wander { slot, .. } => self.move_iterator(*slot, operation),
        }
    }

    fn write(&mut self, updates: &[Update], sync: bool) -> Checked {
        let db = self.db.as_ref().expect("open, save while reopening");
        match updates {
            [(key, None)] if !sync => db.delete(key)?,
            [(key, Some(value))] if !sync => {
                value.write_to(&mut self.buffer);
                db.put(key, &self.buffer)?;
            }
            _ => {
                let mut batch = WriteBatch::new();
                for (key, value) in updates {
                    match value {
                        Some(value) => {
                            value.write_to(&mut self.buffer);
                            batch.put(key, &self.buffer);
                        }
                        None => batch.delete(key),
                    }
                }
                db.write(&batch, WriteOptions { sync })?;
            }
        }
        self.reference.write(updates);
        Ok(())
    }

    /// The read options and the view of a slot's snapshot, or of now.
    fn reading(&self, snapshot: Option<usize>) -> (ReadOptions, u64) {
        match snapshot.and_then(|slot| self.snapshots[slot].as_ref()) {
            Some((snapshot, view)) => {
                let snapshot = Some(snapshot.clone());
                (ReadOptions { snapshot, ..ReadOptions::default() }, *view)
            }
            None => (ReadOptions::default(), self.reference.now()),
        }
    }

    fn get(&mut self, key: &[u8], snapshot: Option<usize>) -> Checked {
        let (options, view) = self.reading(snapshot);
        let found = self.db().get_with(key, &options)?;
        let expected = self.reference.get(key, view);
        match (&found, expected) {
            (None, None) => Ok(()),
            (Some(found), Some(entry)) if is(found, entry.value, &mut self.buffer) => Ok(()),
            (found, expected) => {
                let found = found
                    .as_ref()
                    .map_or("nothing".to_owned(), |value| format!("{} bytes", value.len()));
                let expected = expected.map(|entry| entry.value);
                let key = ShortKey(key);
                Err(Mismatch(format!("get {key}: found {found}, expected {expected:?}")))
            }
        }
    }

    fn take_snapshot(&mut self, slot: usize) -> Checked {
        self.release_snapshot(slot)?;
        self.snapshots[slot] = Some((self.db().snapshot(), self.reference.open_view()));
        Ok(())
    }

    fn release_snapshot(&mut self, slot: usize) -> Checked {
        if let Some((_, view)) = self.snapshots[slot].take() {
            self.reference.close_view(view);
        }
        Ok(())
    }

    fn open_iterator(&mut self, slot: usize, snapshot: Option<usize>) -> Checked {
        self.drop_iterator(slot)?;
        let (options, view) = self.reading(snapshot);
        let iter = self.db().iter_with(&options)?;
        self.reference.share_view(view);
        self.cursors[slot] = Some(Cursor { iter, view, at: None });
        Ok(())
    }

    fn drop_iterator(&mut self, slot: usize) -> Checked {
        if let Some(cursor) = self.cursors[slot].take() {
            self.reference.close_view(cursor.view);
        }
        Ok(())
    }

    fn move_iterator(&mut self, slot: usize, operation: &Operation) -> Checked {
        let Some(mut cursor) = self.cursors[slot].take() else { return Ok(()) };
        let moved = cursor.apply(operation, &self.reference, &mut self.buffer);
        self.cursors[slot] = Some(cursor);
        moved
    }

    fn scan_both_ways(&mut self, snapshot: Option<usize>) -> Checked {
        self.scan_forward(snapshot)?;
        self.scan_backward(snapshot)
    }

    fn scan_forward(&mut self, snapshot: Option<usize>) -> Checked {
        let (options, view) = self.reading(snapshot);
        let iter = self.db().iter_with(&options)?;
        compare_forward(iter, self.reference.entries(view), &mut self.buffer)
    }

    fn scan_backward(&mut self, snapshot: Option<usize>) -> Checked {
        let (options, view) = self.reading(snapshot);
        let mut iter = self.db().iter_with(&ReadOptions { fill_cache: false, ..options })?;
        iter.seek_to_last()?;
        for expected in self.reference.entries(view).rev() {
            compare(&iter, Some(expected), &mut self.buffer)?;
            iter.prev()?;
        }
        compare(&iter, None, &mut self.buffer)
    }

    /// By the adaptor that yields owned pairs.
    fn scan_from(&mut self, key: &[u8], steps: u32) -> Checked {
        let mut iter = self.db().iter()?;
        iter.seek(key)?;
        if !iter.valid() {
            // The adaptor would begin at the first key.
            let expected = self.reference.at_or_after(key, self.reference.now());
            return compare(&iter, expected, &mut self.buffer);
        }
        let mut expected = self.reference.forward(Bound::Included(key), self.reference.now());
        for found in iter.entries()?.take(steps as usize) {
            let (key, value) = found?;
            let right = expected.next().is_some_and(|entry| {
                *entry.key == key[..] && is(&value, entry.value, &mut self.buffer)
            });
            if !right {
                return Err(Mismatch(format!("entries: unexpected {}", ShortKey(&key))));
            }
        }
        Ok(())
    }

    /// With no reader that might need them, deletions go, and all tables end on one level.
    fn compact_all(&mut self) -> Checked {
        self.end_readers();
        self.db().compact_range(None, None)?;
        if !self.set.is_deterministic() {
            return Ok(());
        }
        let levels = self.db().levels();
        let entries = levels.iter().flat_map(|level| &level.tables).map(|table| table.entries);
        // Of tables from before a reopen, nothing is known.
        let Some(known) = entries.collect::<Option<Vec<_>>>() else { return Ok(()) };
        let kept: u64 = known.iter().map(|(entries, _)| entries).sum();
        let deletions: u64 = known.iter().map(|(_, deletions)| deletions).sum();
        let live = self.reference.entries(self.reference.now()).count() as u64;
        if deletions == 0 && kept >= live && levels.len() <= 1 {
            return Ok(());
        }
        let levels = levels.len();
        Err(Mismatch(format!(
            "{kept} entries and {deletions} deletions on {levels} levels, expected {live} on one"
        )))
    }

    fn step(&mut self, steps: u32) -> Checked {
        for _ in 0..steps {
            if !self.db().run_background_step()? {
                break;
            }
        }
        Ok(())
    }

    fn wait_for_background(&mut self) -> Checked {
        self.db().wait_for_background()?;
        self.note_shape();
        Ok(())
    }

    fn note_shape(&mut self) {
        let db = self.db();
        let deepest = db.levels().iter().map(|level| level.level.number()).max();
        self.tally.deepest = self.tally.deepest.max(deepest.unwrap_or(0));
    }

    fn end_readers(&mut self) {
        for slot in 0..SLOTS {
            let _ = self.release_snapshot(slot);
            let _ = self.drop_iterator(slot);
        }
    }

    fn reopen(&mut self, variant: u32, closing: Closing) -> Checked {
        self.note_shape();
        let metrics = self.db().metrics();
        self.tally.flushes += metrics.flushes;
        self.tally.compactions += metrics.merges + metrics.moves;
        self.tally.reopens += 1;
        if closing != Closing::UnderReaders {
            self.end_readers();
        }
        let db = self.db.take().expect("open, save while reopening");
        match closing {
            Closing::Close => db.close()?,
            Closing::Drop => drop(db),
            Closing::UnderReaders => self.close_under_readers(db)?,
        }
        self.end_readers();
        self.variant = variant;
        self.db = Some(Db::open(&self.folder, self.set.options(&self.env, variant))?);
        self.reference.reopen();
        self.scan_forward(None)?;
        if self.set.background == Background::ByHand { self.look_for_orphans() } else { Ok(()) }
    }

    fn close_under_readers(&mut self, db: Db) -> Checked {
        let clone = db.clone();
        db.close()?;
        match clone.put("late", "") {
            Err(error) if error.kind() == ErrorKind::Closed => {}
            other => return Err(Mismatch(format!("a write after closing: {other:?}"))),
        }
        for slot in 0..SLOTS {
            self.move_iterator(slot, &Operation::Wander { slot, turns: 0b1100_1011, steps: 8 })?;
            self.move_iterator(slot, &Operation::SeekToFirst { slot })?;
        }
        self.db = Some(clone);
        self.scan_forward(Some(0))?;
        self.db = None;
        Ok(())
    }

    /// With nothing left to do, the folder holds the version's tables and no others.
    fn look_for_orphans(&self) -> Checked {
        while self.db().run_background_step()? {}
        let names = self.env.file_system.list(&self.folder)?;
        let mut present: Vec<String> =
            names.into_iter().filter(|name| name.ends_with(".ldb")).collect();
        let levels = self.db().levels();
        let tables = levels.iter().flat_map(|level| &level.tables);
        let mut needed: Vec<String> =
            tables.map(|table| format!("{:06}.ldb", table.number.0)).collect();
        present.sort();
        needed.sort();
        if present == needed {
            return Ok(());
        }
        Err(Mismatch(format!("tables in the folder: {present:?}, in the version: {needed:?}")))
    }

    fn look_read_only(&mut self) -> Checked {
        let beside = Db::open_read_only(&self.folder, self.set.options(&self.env, self.variant))?;
        if beside.put("not", "mine").is_ok() {
            return Err(Mismatch("a read-only database took a write".to_owned()));
        }
        let view = self.reference.now();
        compare_forward(beside.iter()?, self.reference.entries(view), &mut self.buffer)
    }

    fn look_at_properties(&self) -> Checked {
        let db = self.db();
        let number = |name: &str| -> Option<u64> { db.property(name)?.parse().ok() };
        let counts = (0..7).map(|level| number(&format!("leveldb.num-files-at-level{level}")));
        let counted: Option<u64> = counts.sum();
        let levels = db.levels();
        let listed = levels.iter().map(|level| level.tables.len() as u64).sum();
        let still = self.set.is_deterministic();
        let wrong = [
            ("num-files-at-level<N>", counted.is_none() || (still && counted != Some(listed))),
            ("num-files-at-level7", db.property("leveldb.num-files-at-level7").is_some()),
            ("an unknown name", db.property("leveldb.nonsense").is_some()),
            ("stats", !db.property("leveldb.stats").is_some_and(|text| text.contains("Level"))),
            (
                "sstables",
                !db.property("leveldb.sstables").is_some_and(|text| {
                    !still
                        || text.lines().filter(|line| line.contains(" .. ")).count() as u64
                            == listed
                }),
            ),
            ("approximate-memory-usage", number("leveldb.approximate-memory-usage").is_none()),
            ("siltstone.metrics", db.property("siltstone.metrics").is_none()),
        ];
        match wrong.iter().find(|(_, wrong)| *wrong) {
            Some((name, _)) => Err(Mismatch(format!("property {name} of {counted:?} tables"))),
            None => Ok(()),
        }
    }

    /// Sizes add up, and no range holds more than all tables.
    fn look_at_sizes(&self, keys: &[Vec<u8>; 3]) -> Checked {
        let mut keys = keys.each_ref().map(|key| &key[..]);
        keys.sort_by(|a, b| self.reference.order().compare(a, b));
        let [a, b, c] = keys;
        let sizes = self.db().approximate_sizes(&[(a, b), (b, c), (a, c), (c, a), (b, b)])?;
        let total: u64 = self.db().levels().iter().map(|level| level.bytes()).sum();
        let [ab, bc, ac, _, none] = sizes[..] else {
            return Err(Mismatch("approximate_sizes: one answer for each range".to_owned()));
        };
        if !self.set.is_deterministic() || (ab + bc == ac && ac <= total && none == 0) {
            return Ok(());
        }
        Err(Mismatch(format!("sizes {sizes:?} of {total} bytes")))
    }
}

/// How a database is closed before it is reopened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closing {
    Close,
    Drop,
    UnderReaders,
}

impl Cursor {
    fn apply(
        &mut self,
        operation: &Operation,
        reference: &Reference,
        buffer: &mut Vec<u8>,
    ) -> Checked {
        match operation {
            Operation::Seek { key, .. } => {
                self.iter.seek(key)?;
                self.stand(reference.at_or_after(key, self.view), buffer)
            }
            Operation::SeekToFirst { .. } => {
                self.iter.seek_to_first()?;
                self.stand(reference.entries(self.view).next(), buffer)
            }
            Operation::SeekToLast { .. } => {
                self.iter.seek_to_last()?;
                self.stand(reference.entries(self.view).next_back(), buffer)
            }
            Operation::Next { steps, .. } => self.walk(*steps, |_| true, reference, buffer),
            Operation::Prev { steps, .. } => self.walk(*steps, |_| false, reference, buffer),
            Operation::Wander { turns, steps, .. } => {
                self.walk(*steps, |step| turns >> step & 1 == 1, reference, buffer)
            }
            _ => Ok(()),
        }
    }

    /// Steps forth or back, until it falls off an end.
    fn walk(
        &mut self,
        steps: u32,
        forth: impl Fn(u32) -> bool,
        reference: &Reference,
        buffer: &mut Vec<u8>,
    ) -> Checked {
        for step in 0..steps {
            let Some(at) = self.at.take() else { break };
            let expected = if forth(step) {
                self.iter.next()?;
                reference.after(&at, self.view)
            } else {
                self.iter.prev()?;
                reference.before(&at, self.view)
            };
            self.stand(expected, buffer)?;
        }
        Ok(())
    }

    fn stand(&mut self, expected: Option<&Entry>, buffer: &mut Vec<u8>) -> Checked {
        self.at = expected.map(|entry| entry.key.clone());
        compare(&self.iter, expected, buffer)
    }
}

fn compare_forward<'a>(
    mut iter: DbIterator,
    expected: impl Iterator<Item = &'a Entry>,
    buffer: &mut Vec<u8>,
) -> Checked {
    iter.seek_to_first()?;
    for expected in expected {
        compare(&iter, Some(expected), buffer)?;
        iter.next()?;
    }
    compare(&iter, None, buffer)
}

fn compare(iter: &DbIterator, expected: Option<&Entry>, buffer: &mut Vec<u8>) -> Checked {
    let right = match expected {
        None => !iter.valid(),
        Some(entry) => {
            iter.valid() && *iter.key() == *entry.key && is(iter.value(), entry.value, buffer)
        }
    };
    if right {
        return Ok(());
    }
    let found = match iter.valid() {
        true => format!("{} with {} bytes", ShortKey(iter.key()), iter.value().len()),
        false => "nowhere".to_owned(),
    };
    let expected = match expected {
        Some(entry) => format!("{} with {:?}", ShortKey(&entry.key), entry.value),
        None => "nowhere".to_owned(),
    };
    Err(Mismatch(format!("iterator stands at {found}, expected {expected}")))
}

fn is(found: &[u8], value: Value, buffer: &mut Vec<u8>) -> bool {
    found.len() == value.len as usize && {
        value.write_to(buffer);
        found == &buffer[..]
    }
}
