//! SlateDB as it comes: its default settings, with its blocks cached in memory. Callers are tasks of its own runtime, as they
//! would be in a program built around it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use object_store::ObjectStore;
use siltstone_cloud_lab::key;
use slatedb::Db;
use slatedb::config::{FlushOptions, FlushType};
use tokio::runtime::{Builder, Runtime};

use crate::load::{Load, Waits};
use crate::side::{Acknowledged, Result, Side, micros};
use crate::tally::{Counts, Tally};

const PATH: &str = "db";
/// The compactor looks for work every 5 s: nothing is left to do if nothing has changed for so long.
const QUIET: Duration = Duration::from_secs(12);
const GLANCE: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Theirs {
    db: Db,
    acknowledged: Acknowledged,
    tally: Arc<Tally>,
    runtime: Runtime,
}

impl Theirs {
    pub(crate) fn open(tally: &Arc<Tally>, acknowledged: Acknowledged) -> Result<Self> {
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let store: Arc<dyn ObjectStore> = Arc::clone(tally) as _;
        let db = runtime.block_on(Db::builder(PATH, store).build())?;
        Ok(Theirs { db, acknowledged, tally: Arc::clone(tally), runtime })
    }

    /// What there is of tables: how many lie in level 0, and which sorted runs.
    fn shape(&self) -> (usize, Vec<u32>) {
        let manifest = self.db.manifest();
        (manifest.l0().len(), manifest.compacted().iter().map(|run| run.id).collect())
    }
}

impl Side for Theirs {
    fn puts(&self, load: &Load) -> Result<Vec<f64>> {
        let writers = (0..load.writers).map(|writer| {
            let (db, load, acknowledged) = (self.db.clone(), *load, self.acknowledged);
            self.runtime.spawn(async move { write(&db, load, writer, acknowledged).await })
        });
        let writers: Vec<_> = writers.collect();
        self.runtime.block_on(async {
            let mut times = Vec::new();
            for writer in writers {
                times.extend(writer.await??);
            }
            Ok(times)
        })
    }

    fn gets(&self, numbers: &[u64]) -> Result<(Vec<f64>, u64)> {
        let (db, numbers) = (self.db.clone(), numbers.to_vec());
        let reader = self.runtime.spawn(async move {
            let (mut times, mut found) = (Vec::with_capacity(numbers.len()), 0);
            for number in numbers {
                let begin = Instant::now();
                let got = db.get(key(number)).await?;
                times.push(micros(begin));
                found += u64::from(got.is_some());
            }
            Ok::<_, slatedb::Error>((times, found))
        });
        Ok(self.runtime.block_on(reader)??)
    }

    fn secure(&self) -> Result<()> {
        Ok(self.runtime.block_on(self.db.flush())?)
    }

    fn settle(&self) -> Result<Counts> {
        let options = FlushOptions { flush_type: FlushType::MemTable };
        self.runtime.block_on(self.db.flush_with_options(options))?;
        let begin = Instant::now();
        let (mut shape, mut changed, mut counts) = (self.shape(), begin, self.tally.counts());
        while changed.elapsed() < QUIET {
            std::thread::sleep(GLANCE);
            let now = self.tally.counts();
            let news = self.shape();
            // A long merge changes nothing until its end, but it puts.
            if news != shape || now.sent - counts.sent > (1 << 20) {
                (shape, changed, counts) = (news, Instant::now(), now);
            }
            if begin.elapsed() > PATIENCE {
                return Err("SlateDB still merges after 300 s".into());
            }
        }
        Ok(counts)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.runtime.block_on(self.db.close())?)
    }
}

async fn write(
    db: &Db,
    load: Load,
    writer: u64,
    acknowledged: Acknowledged,
) -> std::result::Result<Vec<f64>, slatedb::Error> {
    let mut times = Vec::with_capacity(load.each as usize);
    for (key, value) in load.of(writer) {
        let begin = Instant::now();
        let handle = db.put(key, value).await?;
        match (load.waits, acknowledged) {
            (Waits::No, _) => {}
            (Waits::Durable, Acknowledged::InTime) => handle.await_durable().await?,
            (Waits::Durable, Acknowledged::AtOnce) => db.flush().await?,
        }
        times.push(micros(begin));
    }
    Ok(times)
}
