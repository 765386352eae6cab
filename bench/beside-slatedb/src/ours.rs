//! siltstone in a bucket, staged as `siltstone lab cloud` stages it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use siltstone::{Db, WriteOptions};
use siltstone_cloud::LocalCopies;
use siltstone_cloud_lab::{Machine, Mode, Opened, Stage, key};

use crate::load::{Load, Waits};
use crate::side::{Kept, Result, Role, Side, micros};
use crate::tally::{Counts, Tally};

/// Uploads take no longer.
const PATIENCE: Duration = Duration::from_secs(300);
/// Of blocks in memory, where no disk keeps what was read: as SlateDB comes.
const BLOCK_BYTES: usize = 512 << 20;
/// SlateDB ends a block before 4 KiB, which are three entries of a thousand bytes. Ours ends behind its limit: five with 4 KiB,
/// two with this.
const TABLE_BLOCK_BYTES: usize = 2 << 10;
/// Behind all keys of a load.
const LAST_KEY: &str = "~";

pub(crate) struct Ours {
    /// Goes before the folder does.
    db: Opened,
    _machine: Machine,
    mode: Mode,
    tally: Arc<Tally>,
}

impl Ours {
    pub(crate) fn open(
        stage: &Stage,
        tally: &Arc<Tally>,
        (mode, role): (Mode, Role),
        kept: Kept,
    ) -> Result<Self> {
        let name = match role {
            Role::Writes => "beside-writes",
            Role::Reads => "beside-reads",
        };
        let machine = stage.machine_by(Arc::clone(tally) as _, name)?;
        let machine = machine.with_blocks_of(TABLE_BLOCK_BYTES);
        let keeps_all = role == Role::Writes || kept == Kept::All;
        let db = match mode {
            _ if keeps_all => machine.open(mode, LocalCopies::All)?,
            Mode::Remote => machine.open_in_memory(mode, BLOCK_BYTES)?,
            _ => machine.open(mode, LocalCopies::UpTo(0))?,
        };
        Ok(Ours { db, _machine: machine, mode, tally: Arc::clone(tally) })
    }

    fn wait_for_bucket(&self) -> siltstone::Result<()> {
        match &self.db {
            Opened::There(db) => db.wait_for_bucket(PATIENCE),
            Opened::Here(_) => Ok(()),
        }
    }
}

impl Side for Ours {
    fn puts(&self, load: &Load) -> Result<Vec<f64>> {
        let db: &Db = &self.db;
        std::thread::scope(|scope| {
            let writers =
                (0..load.writers).map(|writer| scope.spawn(move || write(db, load, writer)));
            let writers: Vec<_> = writers.collect();
            let mut times = Vec::new();
            for writer in writers {
                times.extend(writer.join().map_err(|_| "a writer panicked")??);
            }
            Ok(times)
        })
    }

    fn gets(&self, numbers: &[u64]) -> Result<(Vec<f64>, u64)> {
        let (mut times, mut found) = (Vec::with_capacity(numbers.len()), 0);
        for number in numbers {
            let begin = Instant::now();
            let got = self.db.get(key(*number))?;
            times.push(micros(begin));
            found += u64::from(got.is_some());
        }
        Ok((times, found))
    }

    fn secure(&self) -> Result<()> {
        if self.mode == Mode::Remote {
            // The log is there up to a synced put.
            return Ok(self.db.put_with(LAST_KEY, "", WriteOptions { sync: true })?);
        }
        self.db.flush()?;
        Ok(self.wait_for_bucket()?)
    }

    fn settle(&self) -> Result<Counts> {
        self.db.flush()?;
        self.db.wait_for_background()?;
        self.wait_for_bucket()?;
        Ok(self.tally.counts())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

fn write(db: &Db, load: &Load, writer: u64) -> siltstone::Result<Vec<f64>> {
    let options = WriteOptions { sync: load.waits == Waits::Durable };
    let mut times = Vec::with_capacity(load.each as usize);
    for (key, value) in load.of(writer) {
        let begin = Instant::now();
        db.put_with(key, value, options)?;
        times.push(micros(begin));
    }
    Ok(times)
}
