//! The engine's side: what a database gives away, and to whom. What becomes of a job is [`job`](crate::job)'s.

use std::cmp::Ordering;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use siltstone::service::{CompactionService, Completion, JobSpec, JobSummary, LeftJob, Submitted};
use siltstone::{Clock, Comparator, Error, ErrorKind, FileNumber, Level0Limits, Options, Result};
use siltstone_cloud::{Bucket, Call, Epoch, Object, Part, Purpose, Root};
use siltstone_remote::{
    BytewiseOrder, DbId, JobId, KeyOrder, ObjectName, OutputTable, Policy, Priority, RemoteClient,
    Secret,
};

use crate::convert;
use crate::input::to_error;
use crate::job::{AwayHandle, Leaving, OpenJob};
use crate::left::Left;
use crate::tables::Tables;

/// What is looked at before a worker's table is adopted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Its size, and its end, which is read to open it; for the rest the worker's checksum is taken.
    #[default]
    Size,
    /// All its bytes, which are read for that.
    Bytes,
}

/// Settings of a fleet.
#[derive(Clone, Debug)]
pub struct FleetConfig {
    /// The database, as brokers and workers call it.
    pub db: DbId,
    /// Which opening of the database this is: the owner's epoch.
    pub epoch: Epoch,
    /// Where the database lies in the bucket.
    pub root: Root,
    /// When a job comes home after all.
    pub policy: Policy,
    /// Whether merges of level 0 are given away, too. Where freshly flushed tables are still on the disk here, they are
    /// merged sooner here; and writers wait for them.
    pub takes_level0: bool,
    /// Jobs that are away at once; further ones run here.
    pub jobs_max: usize,
    /// For so long a job waits for its inputs to be in the bucket; then it runs here. It does not wait where level 0 is
    /// so full that writers are held back.
    pub inputs_within: Duration,
    /// What is looked at before a table is adopted.
    pub verify: Verify,
    /// Given to workers with each job.
    pub storage: Option<Secret>,
}

impl FleetConfig {
    /// The usual settings: elsewhere if possible but for level 0, 64 jobs at once, ten seconds for their inputs' uploads.
    pub fn new(db: DbId, epoch: Epoch, root: Root) -> Self {
        FleetConfig {
            db,
            epoch,
            root,
            policy: Policy::default(),
            takes_level0: false,
            jobs_max: 64,
            inputs_within: Duration::from_secs(10),
            verify: Verify::default(),
            storage: None,
        }
    }
}

/// Level 0 may hold so many tables before writers are slowed down, or stopped, where workers merge.
const LEVEL0: Level0Limits = Level0Limits { compact: 4, slow_down: 48, stop: 72 };

/// Lets more tables gather in level 0 before writers are held back, for a merge that is away takes some hundred milliseconds more than one
/// here: 48 tables instead of 20, and 72 instead of 36. What was not left at its default stays. For databases with a [`Fleet`]; reads may look into
/// that many tables, or their filters, while more is written than is merged.
pub fn pace_for_workers(options: &mut Options) {
    if options.level0 == Level0Limits::default() {
        options.level0 = LEVEL0;
    }
}

/// Workers, as one database sees them: to be set as its [`compaction_service`](siltstone::Options::compaction_service).
///
/// ```no_run
/// use std::sync::Arc;
///
/// use siltstone::{Db, Env, Options, TableStore};
/// use siltstone_cloud::{Bucket, Epoch, Root};
/// use siltstone_fleet::{Fleet, FleetConfig, Tables, pace_for_workers};
/// use siltstone_remote::{DbId, RemoteClient};
///
/// /// The same store twice: as the engine sees it, and as a fleet does.
/// fn open(
///     client: RemoteClient,
///     bucket: Arc<dyn Bucket>,
///     (store, tables): (Arc<dyn TableStore>, Arc<dyn Tables>),
///     epoch: Epoch,
/// ) -> siltstone::Result<Db> {
///     let db = DbId::new("orders").expect("letters only");
///     let root = Root::new("shop/orders").expect("a path");
///     let config = FleetConfig::new(db, epoch, root);
///     let fleet = Fleet::new(client, bucket, tables, Env::default().clock, config);
///     let mut options = Options {
///         table_store: Some(store),
///         compaction_service: Some(Arc::new(fleet)),
///         ..Options::default()
///     };
///     pace_for_workers(&mut options);
///     Db::open("orders", options)
/// }
/// ```
pub struct Fleet {
    client: RemoteClient,
    shared: Arc<Shared>,
    order: Arc<dyn KeyOrder + Send + Sync>,
    left: Left,
}

/// What outlives a job's submission.
pub(crate) struct Shared {
    clock: Arc<dyn Clock>,
    bucket: Arc<dyn Bucket>,
    pub(crate) tables: Arc<dyn Tables>,
    pub(crate) config: FleetConfig,
}

impl Fleet {
    /// For one database, before it opens. The bucket's names are those of the workers' bucket. Asks the store for
    /// [jobs that an earlier opening left](Tables::left_jobs), for which it may have to ask the bucket.
    pub fn new(
        client: RemoteClient,
        bucket: Arc<dyn Bucket>,
        tables: Arc<dyn Tables>,
        clock: Arc<dyn Clock>,
        config: FleetConfig,
    ) -> Self {
        let shared = Arc::new(Shared { clock, bucket, tables, config });
        let left = Left::ask(&shared);
        Fleet { client, shared, order: Arc::new(BytewiseOrder), left }
    }

    /// The same for a database with a comparator of its own.
    #[must_use]
    pub fn ordered_by(self, comparator: Arc<dyn Comparator>) -> Self {
        Fleet { order: Arc::new(Order(comparator)), ..self }
    }
}

impl CompactionService for Fleet {
    fn wants(&self, job: &JobSummary) -> bool {
        let config = &self.shared.config;
        if job.away >= config.jobs_max || (job.from.level.number() == 0 && !config.takes_level0) {
            return false;
        }
        match config.policy {
            Policy::LocalFirst { bytes_min, level_min, .. } => {
                job.to.level.number() >= level_min || job.bytes >= bytes_min
            }
            _ => true,
        }
    }

    fn submit(&self, spec: JobSpec, summary: &JobSummary, done: Completion) -> Box<dyn Submitted> {
        let shared = &self.shared;
        // Now, though it may yet wait: a commit in between would tell others that nothing of its number will come.
        let open = OpenJob::begin(shared, spec.number);
        let spec = JobSpec { number: open.number(), ..spec };
        let away = AwayHandle::default();
        let missing = shared.missing(&spec);
        let leaving = Leaving {
            client: self.client.clone(),
            spec,
            priority: Priority { level0_pressure: summary.level0_pressure, score: 0 },
            order: Arc::clone(&self.order),
            open,
            done,
        };
        // Where writers wait for it, it waits for nothing.
        let may_wait = summary.level0_pressure == 0;
        if missing.is_empty() || !may_wait {
            leaving.go(&away.0);
        } else {
            let (goes, within) = (Arc::clone(&away.0), shared.config.inputs_within);
            shared.tables.when_there(missing, within, Box::new(move || leaving.go(&goes)));
        }
        Box::new(away)
    }

    fn tells_beginnings(&self) -> bool {
        true
    }

    fn lets_go(&self) -> bool {
        !matches!(self.shared.config.policy, Policy::RemoteOnly)
    }

    fn left_behind(&self) -> Vec<Box<dyn LeftJob>> {
        self.left.take(&self.client, &self.order)
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Shared {
    /// A spec, or why there is none.
    pub(crate) fn spec(&self, spec: &JobSpec) -> convert::Told<siltstone_remote::JobSpec> {
        let config = &self.config;
        let job = siltstone_cloud::JobId { epoch: config.epoch, number: spec.number.0 };
        let place = self.place(job).ok_or("it would lie under a name that is too long")?;
        let ticket = convert::Ticket {
            job: self.job_id(spec.number),
            db: config.db.clone(),
            epoch: config.epoch.0,
            place,
        };
        convert::to_remote(spec, ticket, &*self.tables)
    }

    /// Where a job's tables go.
    pub(crate) fn place(&self, job: siltstone_cloud::JobId) -> Option<ObjectName> {
        ObjectName::new(self.config.root.job(job, "").trim_end_matches('/')).ok()
    }

    /// One of its own for each job of each database: in one database numbers differ, in one epoch, and two databases would
    /// have to ask in the same millisecond for the same number.
    fn job_id(&self, number: FileNumber) -> JobId {
        let config = &self.config;
        let db = u128::from(crc32c::crc32c(config.db.as_str().as_bytes()));
        let [.., e1, e0] = config.epoch.0.to_be_bytes();
        let [.., n3, n2, n1, n0] = number.0.to_be_bytes();
        let (epoch, number) = (u16::from_be_bytes([e1, e0]), u32::from_be_bytes([n3, n2, n1, n0]));
        let chance = db << 48 | u128::from(epoch) << 32 | u128::from(number);
        JobId::new(self.clock.wall_micros() / 1_000, chance)
    }

    /// Inputs that are not in the bucket.
    fn missing(&self, spec: &JobSpec) -> Vec<u64> {
        let numbers = spec.inputs.iter().map(|input| input.number.0);
        numbers.filter(|number| self.tables.object_of(*number).is_none()).collect()
    }

    /// What the bucket has at the ends of tables that a worker has made: as much as will be read to open them. All are asked for at once, for
    /// nothing else happens meanwhile.
    pub(crate) fn ends(&self, outputs: &[OutputTable]) -> Vec<Result<Object>> {
        let names: Vec<String> = outputs.iter().map(|output| output.name.to_string()).collect();
        let end = outputs.iter().map(|output| self.tables.end_bytes(output.bytes)).max();
        let part = Part::Tail(end.unwrap_or(0).max(1));
        let ends = self.bucket.get_each(&names, part, Call::new(Purpose::CompactOut));
        ends.into_iter().map(|end| end.map_err(|error| unusable(&error))).collect()
    }

    /// Workers are not believed: `end` is what the bucket has.
    pub(crate) fn check(&self, output: &OutputTable, end: &Object) -> Result<()> {
        let name = output.name.as_str();
        let crc32c = match self.config.verify {
            Verify::Size => output.crc32c,
            Verify::Bytes => {
                // No more than it should have: whatever lies there.
                let part = Part::Range { offset: 0, len: output.bytes };
                let whole = self.bucket.get(name, part, Call::new(Purpose::CompactOut));
                crc32c::crc32c(&whole.map_err(|error| unusable(&error))?.body)
            }
        };
        // What is kept of it is taken for its last bytes.
        let ends_at = end.offset + end.body.len() as u64;
        if (ends_at, end.bytes, crc32c) != (output.bytes, output.bytes, output.crc32c) {
            let message = "the object is not what the worker says that it has made";
            return Err(Error::corruption(message).in_file(Path::new(name)));
        }
        Ok(())
    }
}

/// A worker's table that is not there is no table of the database's that is missing.
fn unusable(error: &siltstone_cloud::BucketError) -> Error {
    to_error(error).because(ErrorKind::Io, "a worker's table cannot be looked at")
}

/// A database's comparator, as results are checked by.
struct Order(Arc<dyn Comparator>);

impl KeyOrder for Order {
    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.0.compare(left, right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_tables_gather_unless_somebody_has_chosen() {
        let mut options = Options::default();
        pace_for_workers(&mut options);
        assert_eq!(options.level0, LEVEL0);
        let chosen = Level0Limits { slow_down: 21, ..Level0Limits::default() };
        options.level0 = chosen;
        pace_for_workers(&mut options);
        assert_eq!(options.level0, chosen);
    }
}
