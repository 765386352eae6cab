//! One run: a list of operations done to a database and to the model, compared at every step.

mod care;
mod fail;
pub mod judge;
mod look;
mod read;
mod reopen;
mod views;

use std::hash::Hasher;
use std::path::PathBuf;
use std::sync::Arc;

use siltstone::{Db, DbIterator, Env, Options, Site, Snapshot, WriteBatch, WriteOptions};

use self::judge::{Checked, Judge, Mismatch, expect};
use super::kind::Kind;
use super::operation::{Act, Closing, Handle, Look, Operation, SLOTS, Update};
use super::option_sets::{OptionSet, Place};
use super::reference::{Flaw, Reference};
use crate::hash::Mixer;
use crate::{FaultFs, TempDir};

/// What a run did, beside agreeing with the model.
#[derive(Clone, Debug)]
pub struct Tally {
    pub operations: u64,
    /// How often each kind ran.
    pub kinds: [u64; Kind::ALL.len()],
    pub flushes: u64,
    pub compactions: u64,
    pub reopens: u64,
    pub faults: u64,
    /// The deepest level that held a table.
    pub deepest: u8,
}

impl Default for Tally {
    fn default() -> Self {
        let kinds = [0; Kind::ALL.len()];
        Tally {
            operations: 0,
            kinds,
            flushes: 0,
            compactions: 0,
            reopens: 0,
            faults: 0,
            deepest: 0,
        }
    }
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.kinds.iter_mut().zip(other.kinds).for_each(|(sum, count)| *sum += count);
        self.flushes += other.flushes;
        self.compactions += other.compactions;
        self.reopens += other.reopens;
        self.faults += other.faults;
        self.deepest = self.deepest.max(other.deepest);
    }
}

/// How a run went that found no difference.
pub struct Outcome {
    pub tally: Tally,
    /// A digest of all answers: the same for the same list on any option set of the same order.
    pub answers: u64,
    /// A digest of all answers and of all calls that change the disk, in their order: the same for
    /// the same list on the same set, if that has no lanes.
    pub trace: u64,
}

/// Runs operations, then looks at everything once more, before and after a reopen.
///
/// # Errors
///
/// The first difference and the index of its operation.
pub fn run(
    set: &OptionSet,
    seed: u64,
    flaw: Flaw,
    operations: &[Operation],
) -> Result<Outcome, (usize, Mismatch)> {
    let mut run = Run::start(set, seed, flaw).map_err(|mismatch| (0, mismatch))?;
    for (index, operation) in operations.iter().enumerate() {
        run.apply(&operation.act).map_err(|mismatch| (index, mismatch))?;
        run.tally.operations += 1;
        run.tally.kinds[operation.kind as usize] += 1;
        run.trace_calls();
    }
    run.end().map_err(|mismatch| (operations.len(), mismatch))?;
    let answers = run.judge.answers();
    run.trace_calls();
    run.trace.write_u64(answers);
    run.tally.faults = run.faults.fired();
    Ok(Outcome { answers, trace: run.trace.finish(), tally: run.tally.clone() })
}

struct Run<'a> {
    set: &'a OptionSet,
    env: Env,
    faults: Arc<FaultFs>,
    folder: PathBuf,
    variant: u32,
    /// None only while reopening.
    db: Option<Db>,
    reference: Reference,
    snapshots: [Option<(Snapshot, u64)>; SLOTS],
    cursors: [Option<Cursor>; SLOTS],
    judge: Judge,
    trace: Mixer,
    tally: Tally,
    _parent: Option<TempDir>,
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
    fn start(set: &'a OptionSet, seed: u64, flaw: Flaw) -> Result<Self, Mismatch> {
        let (env, faults) = FaultFs::over(set.env());
        let parent = (set.place == Place::Disk).then(|| TempDir::in_memory("differential"));
        let folder = parent.as_ref().map_or("db".into(), |parent| parent.path().join("db"));
        let db = Db::open(&folder, set.options(&env, 0))?;
        Ok(Run {
            set,
            env,
            faults,
            folder,
            variant: 0,
            db: Some(db),
            reference: Reference::new(set.order, flaw),
            snapshots: Default::default(),
            cursors: Default::default(),
            judge: Judge::new(seed, set.order),
            trace: Mixer::default(),
            tally: Tally::default(),
            _parent: parent,
        })
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open, save while reopening")
    }

    fn options(&self) -> Options {
        self.set.options(&self.env, self.variant)
    }

    /// A place for another folder than the database's.
    fn beside(&self, name: &str) -> PathBuf {
        self.folder.with_file_name(name)
    }

    fn end(&mut self) -> Checked {
        self.scan_both_ways()?;
        self.reopen(Closing::Close, Some(0))?;
        self.scan_both_ways()?;
        self.note_shape();
        self.end_readers();
        let db = self.db.take().expect("open, save while reopening");
        db.close().map_err(Mismatch::from)
    }

    fn trace_calls(&mut self) {
        for (site, name) in self.faults.take_trace() {
            self.trace.write_u64(site as u64);
            // The folders above have names of their own in each run.
            if site != Site::DbParentSync {
                self.trace.write(name.as_bytes());
            }
        }
    }

    fn apply(&mut self, act: &Act) -> Checked {
        match act {
            Act::Write { updates, sync, through } => self.write(&updates.0, *sync, *through),
            Act::WriteParts { updates } => self.write_parts(&updates.0),
            Act::Get { key, at, how, through } => self.get(&key.0, *at, *how, *through),
            Act::TakeSnapshot { slot } => self.take_snapshot(*slot),
            Act::ReleaseSnapshot { slot } => self.release_snapshot(*slot),
            Act::OpenIterator { slot, at } => self.open_iterator(*slot, *at),
            Act::DropIterator { slot } => self.drop_iterator(*slot),
            Act::Move { slot, to } => self.move_iterator(*slot, to),
            Act::WriteUnderIterator { slot, updates } => {
                self.write_under_iterator(*slot, &updates.0)
            }
            Act::Scan { at, how } => self.scan(*at, how),
            Act::Flush => Ok(self.db().flush()?),
            Act::Step { steps } => self.step(*steps),
            Act::WaitForBackground => self.wait_for_background(),
            Act::Compact { from, to } => {
                let end = |key: &Option<super::operation::Key>| key.clone().map(|key| key.0);
                self.compact(end(from).as_deref(), end(to).as_deref())
            }
            Act::CompactAll => self.compact_all(),
            Act::Reopen { closing, variant } => self.reopen(*closing, *variant),
            Act::DestroyAndRecreate => self.destroy_and_recreate(),
            Act::Look(look) => self.look(look),
            Act::Fail(failing) => self.fail(failing),
        }
    }

    fn look(&mut self, look: &Look) -> Checked {
        match look {
            Look::ReadOnlyBeside => self.look_read_only(),
            Look::Checkpoint => self.checkpoint(),
            Look::CheckpointReadOnly => self.checkpoint_read_only(),
            Look::Verify => self.verify(),
            Look::RepairCopy => self.repair_copy(),
            Look::DumpFiles => self.dump_files(),
            Look::Properties => self.look_at_properties(),
            Look::ApproximateSizes { keys } => self.look_at_sizes(keys),
            Look::Refusals => self.look_at_refusals(),
        }
    }

    fn write(&mut self, updates: &[Update], sync: bool, through: Handle) -> Checked {
        self.try_write(updates, sync, through)?;
        self.reference.write(updates);
        Ok(())
    }

    fn write_parts(&mut self, updates: &[Update]) -> Checked {
        let mut whole = WriteBatch::new();
        for update in updates {
            whole.append(&self.batch(std::slice::from_ref(update)));
        }
        self.db().write(&whole, WriteOptions::default())?;
        self.reference.write(updates);
        Ok(())
    }

    fn batch(&mut self, updates: &[Update]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for (key, value) in updates {
            match value {
                Some(value) => batch.put(key, self.judge.bytes(key, *value)),
                None => batch.delete(key),
            }
        }
        batch
    }

    /// Writes to the database alone.
    fn try_write(
        &mut self,
        updates: &[Update],
        sync: bool,
        through: Handle,
    ) -> siltstone::Result<()> {
        match (updates, through) {
            ([(key, None)], Handle::Own) if !sync => self.db().delete(key),
            ([(key, Some(value))], Handle::Own) if !sync => {
                let db = self.db.as_ref().expect("open, save while reopening");
                db.put(key, self.judge.bytes(key, *value))
            }
            _ => {
                let batch = self.batch(updates);
                elsewhere(self.db(), through, |db| db.write(&batch, WriteOptions { sync }))
            }
        }
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
        let deepest = self.db().levels().iter().map(|level| level.level.number()).max();
        self.tally.deepest = self.tally.deepest.max(deepest.unwrap_or(0));
    }

    /// Compacts, which must not show.
    fn compact(&mut self, from: Option<&[u8]>, to: Option<&[u8]>) -> Checked {
        let mut before = self.db().iter()?;
        self.db().compact_range(from, to)?;
        let mut after = self.db().iter()?;
        self.judge.same(&mut before, &mut after)
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
        let levels = levels.len();
        expect(deletions == 0 && kept >= live && levels <= 1, || {
            format!(
                "{kept} entries and {deletions} deletions on {levels} levels, expected {live} on one"
            )
        })
    }
}

/// Calls with the handle, or on another thread with a clone of it.
fn elsewhere<T: Send>(db: &Db, through: Handle, call: impl FnOnce(&Db) -> T + Send) -> T {
    match through {
        Handle::Own => call(db),
        Handle::Clone => {
            let clone = db.clone();
            let joined = std::thread::scope(|scope| scope.spawn(move || call(&clone)).join());
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }
    }
}
