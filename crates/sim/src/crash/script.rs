//! Workloads by seed: small databases that do everything that changes a disk, often.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use siltstone::{
    Background, Compaction, Db, Env, ErrorKind, Options, Site, Snapshot, WriteBatch, WriteOptions,
    destroy, repair, repair_in_place,
};

use super::history::{Contents, Effect, History, StateHash, Update};
use super::mutant::Mutant;
use super::run::{Note, Recorder, Run};
use crate::clock::SimClock;
use crate::disk::{Disk, StrictFs};
use crate::{Dice, Fault, FaultFs};

/// The folder that is there before the database, for good.
pub const ROOT: &str = "/data";
/// The database. Its parent is made along with it.
pub const DIR: &str = "/data/stores/db";

/// What a workload dwells on; the rest is common to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    Plain,
    /// Flushes lag, so that many logs are needed at once.
    LogsPileUp,
    ReuseLogs,
    /// Checkpoints and repairs.
    Copies,
    /// Destroyed and made again.
    Destroyed,
    FullDisk,
    /// Batches over several blocks of the log.
    LongBatches,
    /// Keys so long that the manifest is soon replaced.
    LongKeys,
    /// With an info log.
    InfoLog,
}

impl Flavour {
    const ALL: [Flavour; 9] = [
        Flavour::Plain,
        Flavour::LogsPileUp,
        Flavour::ReuseLogs,
        Flavour::Copies,
        Flavour::FullDisk,
        Flavour::Destroyed,
        Flavour::LongBatches,
        Flavour::InfoLog,
        Flavour::LongKeys,
    ];

    pub fn of(seed: u64) -> Self {
        Flavour::ALL[(seed % Flavour::ALL.len() as u64) as usize]
    }

    fn actions(self) -> usize {
        if self == Flavour::LongKeys { 26 } else { 70 }
    }
}

/// The options of a workload; recovery uses them, too.
pub fn options(seed: u64, fs: Arc<dyn siltstone::FileSystem>) -> Options {
    let flavour = Flavour::of(seed);
    let mut dice = Dice::new(seed ^ 0x6f70_7469_6f6e);
    let buffer = match flavour {
        Flavour::LongKeys => 200 << 10,
        Flavour::LongBatches => 64 << 10,
        _ => 1 << (10 + dice.roll(3)),
    };
    Options {
        create_if_missing: true,
        env: Env { file_system: fs, clock: Arc::new(SimClock::default()), seed, ..Env::memory() },
        info_log: flavour == Flavour::InfoLog,
        write_buffer_size: buffer,
        max_immutable_memtables: if flavour == Flavour::LogsPileUp { 16 } else { 2 },
        max_file_size: 1 << (11 + dice.roll(2)),
        level1_bytes: 8 << 10,
        level0: siltstone::Level0Limits { compact: 2, ..Default::default() },
        reuse_logs: flavour == Flavour::ReuseLogs,
        compaction: [Compaction::Leveled, Compaction::Sliced, Compaction::L2sm]
            [dice.roll(3) as usize],
        background: Background::ByHand,
        unclamped: true,
        ..Default::default()
    }
}

/// A workload while it runs.
struct Player {
    seed: u64,
    flavour: Flavour,
    faults: Arc<FaultFs>,
    options: Options,
    db: Option<Db>,
    recorder: Recorder,
    dice: Dice,
    snapshots: Vec<(Snapshot, Contents)>,
    copies: usize,
}

/// Runs the workload of `seed` on a fresh disk.
pub fn play(seed: u64, mutant: Option<Mutant>) -> Run {
    let disk = Disk::with_folder(Path::new(ROOT));
    let fs = StrictFs::with_mutant(disk.clone(), mutant);
    let faults = FaultFs::new(Arc::new(fs.clone()));
    let options = options(seed, faults.clone());
    let mut player = Player {
        seed,
        flavour: Flavour::of(seed),
        faults,
        db: None,
        recorder: Recorder::new(fs, disk, History::new(Contents::new())),
        dice: Dice::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(1) | 1),
        snapshots: Vec::new(),
        copies: 0,
        options,
    };
    player.open();
    for _ in 0..player.flavour.actions() {
        player.act();
    }
    player.end()
}

impl Player {
    fn open(&mut self) {
        let db = Db::open(DIR, self.options.clone());
        self.db = Some(db.unwrap_or_else(|error| panic!("seed {}: open: {error}", self.seed)));
        // What a reopen shows stays (R7).
        self.recorder.promise_all();
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap_or_else(|| unreachable!("a database is open between actions"))
    }

    fn act(&mut self) {
        let background = if self.flavour == Flavour::LogsPileUp { 3 } else { 14 };
        match self.dice.roll(100) {
            0..58 => self.write(),
            58..64 => self.special(),
            64..68 => self.db().flush().unwrap_or_else(|error| self.surprised(&error)),
            68..71 => self.compact(),
            71..75 => self.take_snapshot(),
            75..77 => self.close(),
            77..79 => self.drop_db(),
            roll if roll < 79 + background => {
                self.db().run_background_step().unwrap_or_else(|error| self.surprised(&error));
            }
            _ => self.write(),
        }
    }

    fn surprised(&self, error: &siltstone::Error) -> ! {
        panic!("seed {}: nothing failed, and yet: {error}", self.seed)
    }

    fn special(&mut self) {
        match self.flavour {
            Flavour::Copies if self.dice.roll(2) == 0 => self.checkpoint(),
            Flavour::Copies => self.mend(),
            Flavour::Destroyed => self.destroy(),
            Flavour::FullDisk if self.recorder.history().may_fail() => self.fill_disk(),
            _ => self.write(),
        }
    }

    fn write(&mut self) {
        let (batch, sync) = (self.batch(), self.dice.roll(4) == 0);
        self.write_batch(batch, sync);
    }

    /// Returns whether it was acknowledged.
    fn write_batch(&mut self, updates: Vec<Update>, sync: bool) -> bool {
        let mut batch = WriteBatch::new();
        for (key, value) in &updates {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        self.recorder.begin();
        let written = self.db().write(&batch, WriteOptions { sync });
        match &written {
            Ok(()) => self.recorder.done(Effect::Batch(updates), sync),
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                self.recorder.failed(Effect::Batch(updates));
            }
            Err(error) => self.surprised(error),
        }
        written.is_ok()
    }

    fn batch(&mut self) -> Vec<Update> {
        let count = if self.dice.roll(3) == 0 { 1 + self.dice.roll(5) } else { 1 };
        let mut updates = BTreeMap::new();
        for part in 0..count {
            let number = self.dice.roll(20);
            let key = match self.flavour {
                Flavour::LongKeys => format!("{number:02}").repeat(30 << 10),
                _ => format!("key{number:02}"),
            };
            let value = (self.dice.roll(4) > 0).then(|| self.value(part));
            updates.insert(key.into_bytes(), value);
        }
        updates.into_iter().collect()
    }

    /// A value that occurs once: it names its write and its place therein.
    fn value(&mut self, part: u64) -> Vec<u8> {
        let long = self.flavour == Flavour::LongBatches && self.dice.roll(6) == 0;
        let len = if long { 40_000 } else { self.dice.roll(220) };
        let mut value = format!("{}.{part}.", self.recorder.history().len()).into_bytes();
        let filler = self.dice.roll(26) as u8 + b'a';
        value.resize(value.len() + len as usize, filler);
        value
    }

    fn compact(&mut self) {
        self.db().compact_range(None, None).unwrap_or_else(|error| self.surprised(&error));
    }

    fn take_snapshot(&mut self) {
        if self.snapshots.len() < 2 {
            let contents = self.recorder.history().visible().clone();
            self.snapshots.push((self.db().snapshot(), contents));
            return;
        }
        let (snapshot, expected) = self.snapshots.remove(0);
        let found = super::survey::contents(self.db(), Some(&snapshot));
        assert_eq!(found.as_ref(), Ok(&expected), "seed {}: a snapshot moved", self.seed);
    }

    fn close(&mut self) {
        self.snapshots.clear();
        let closed = self.db.take().map(Db::close);
        closed.unwrap_or(Ok(())).unwrap_or_else(|error| self.surprised(&error));
        self.recorder.promise_all();
        self.open();
    }

    fn drop_db(&mut self) {
        self.snapshots.clear();
        self.db = None;
        self.open();
    }

    fn next_copy(&mut self) -> PathBuf {
        self.copies += 1;
        PathBuf::from(format!("{ROOT}/copies/{}", self.copies))
    }

    fn checkpoint(&mut self) {
        let path = self.next_copy();
        self.copy(path, |player, path| player.db().checkpoint(path));
    }

    fn mend(&mut self) {
        self.snapshots.clear();
        let closed = self.db.take().map(Db::close);
        closed.unwrap_or(Ok(())).unwrap_or_else(|error| self.surprised(&error));
        self.recorder.promise_all();
        let path = self.next_copy();
        self.copy(path, |player, path| repair(DIR, path, &player.options).map(drop));
        if self.copies.is_multiple_of(2) {
            let mended = repair_in_place(DIR, &self.options).map(drop);
            mended.unwrap_or_else(|error| self.surprised(&error));
        }
        self.open();
    }

    fn copy(&mut self, path: PathBuf, make: impl Fn(&Self, &Path) -> siltstone::Result<()>) {
        let hash = StateHash::of(self.recorder.history().visible());
        self.recorder.note(Note::CopyBegun { path: path.clone(), hash });
        make(self, &path).unwrap_or_else(|error| self.surprised(&error));
        self.recorder.note(Note::CopyDone { path });
    }

    fn destroy(&mut self) {
        self.snapshots.clear();
        self.db = None;
        self.recorder.begin();
        destroy(DIR, &self.options).unwrap_or_else(|error| self.surprised(&error));
        self.recorder.done(Effect::Wipe, true);
        self.open();
    }

    /// Writes until one fails for lack of space, then makes space.
    fn fill_disk(&mut self) {
        let kept = self.dice.roll(60) as usize;
        let nth = 1 + self.dice.roll(3);
        let sites = [Site::WalAppend, Site::WalSync];
        self.faults.fail_from(sites[self.dice.roll(2) as usize], nth, Fault::Full(kept));
        for _ in 0..6 {
            let (batch, sync) = (self.batch(), self.dice.roll(2) == 0);
            if !self.write_batch(batch, sync) {
                break;
            }
        }
        self.faults.heal();
        let batch = self.batch();
        assert!(self.write_batch(batch, true), "seed {}: there is space again", self.seed);
    }

    fn end(mut self) -> Run {
        self.snapshots.clear();
        let found = super::survey::contents(self.db(), None);
        let expected = self.recorder.history().visible();
        assert_eq!(found.as_ref(), Ok(expected), "seed {}: without any crash", self.seed);
        drop(self.db.take());
        self.recorder.end()
    }
}
