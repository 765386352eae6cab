//! The engine's side: jobs that a database gives away become submissions, and outcomes become its tables.

use std::cmp::Ordering;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use siltstone::service::{
    CompactionService, Completion, FinishedJob, JobOutcome, JobSpec, JobSummary, JobTable,
    Submitted,
};
use siltstone::{Clock, Comparator, Error, ErrorKind, FileNumber, Result};
use siltstone_cloud::{Bucket, Call, Epoch, Part, Purpose, Root};
use siltstone_remote::{
    BytewiseOrder, DbId, HomeReason, JobFailure, JobId, KeyOrder, ObjectName, Outcome, OutputTable,
    Policy, Priority, RemoteClient, Request, Secret, Submission, Ticket,
};

use crate::convert;
use crate::input::to_error;
use crate::tables::Tables;

/// What is looked at before a worker's table is adopted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Its size, by a request for its head; for the rest the worker's checksum is taken.
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
    /// What is looked at before a table is adopted.
    pub verify: Verify,
    /// Given to workers with each job.
    pub storage: Option<Secret>,
}

impl FleetConfig {
    /// The usual settings: elsewhere if possible but for level 0, 64 jobs at once.
    pub fn new(db: DbId, epoch: Epoch, root: Root) -> Self {
        FleetConfig {
            db,
            epoch,
            root,
            policy: Policy::default(),
            takes_level0: false,
            jobs_max: 64,
            verify: Verify::default(),
            storage: None,
        }
    }
}

/// Workers, as one database sees them: to be set as its [`compaction_service`](siltstone::Options::compaction_service).
///
/// ```no_run
/// use std::sync::Arc;
///
/// use siltstone::{Db, Env, Options, TableStore};
/// use siltstone_cloud::{Bucket, Epoch, Root};
/// use siltstone_fleet::{Fleet, FleetConfig, Tables};
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
///     let options = Options {
///         table_store: Some(store),
///         compaction_service: Some(Arc::new(fleet)),
///         ..Options::default()
///     };
///     Db::open("orders", options)
/// }
/// ```
pub struct Fleet {
    client: RemoteClient,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    order: Arc<dyn KeyOrder + Send + Sync>,
}

/// What outlives a job's submission.
struct Shared {
    bucket: Arc<dyn Bucket>,
    tables: Arc<dyn Tables>,
    config: FleetConfig,
}

impl Fleet {
    /// For one database. The bucket's names are those of the workers' bucket.
    pub fn new(
        client: RemoteClient,
        bucket: Arc<dyn Bucket>,
        tables: Arc<dyn Tables>,
        clock: Arc<dyn Clock>,
        config: FleetConfig,
    ) -> Self {
        let shared = Arc::new(Shared { bucket, tables, config });
        Fleet { client, shared, clock, order: Arc::new(BytewiseOrder) }
    }

    /// The same for a database with a comparator of its own.
    #[must_use]
    pub fn ordered_by(self, comparator: Arc<dyn Comparator>) -> Self {
        Fleet { order: Arc::new(Order(comparator)), ..self }
    }

    /// A spec, or why there is none.
    fn spec(&self, spec: &JobSpec) -> convert::Told<siltstone_remote::JobSpec> {
        let config = &self.shared.config;
        let job = siltstone_cloud::JobId { epoch: config.epoch, number: spec.number.0 };
        let place = config.root.job(job, "");
        let place = ObjectName::new(place.trim_end_matches('/')).map_err(|bad| bad.to_string())?;
        let ticket = convert::Ticket {
            job: self.job_id(spec.number),
            db: config.db.clone(),
            epoch: config.epoch.0,
            place,
        };
        convert::to_remote(spec, ticket, &*self.shared.tables)
    }

    /// One of its own for each job of each database: in one database numbers differ, in one epoch, and two databases would
    /// have to ask in the same millisecond for the same number.
    fn job_id(&self, number: FileNumber) -> JobId {
        let config = &self.shared.config;
        let db = u128::from(crc32c::crc32c(config.db.as_str().as_bytes()));
        let [.., e1, e0] = config.epoch.0.to_be_bytes();
        let [.., n3, n2, n1, n0] = number.0.to_be_bytes();
        let (epoch, number) = (u16::from_be_bytes([e1, e0]), u32::from_be_bytes([n3, n2, n1, n0]));
        let chance = db << 48 | u128::from(epoch) << 32 | u128::from(number);
        JobId::new(self.clock.wall_micros() / 1_000, chance)
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
        let remote = match self.spec(&spec) {
            Ok(remote) => Arc::new(remote),
            Err(why) => {
                done.complete(JobOutcome::RunHere(why));
                return Box::new(Away(None));
            }
        };
        let config = &self.shared.config;
        let submission = Submission {
            spec: remote,
            priority: Priority { level0_pressure: summary.level0_pressure, score: 0 },
            attempts_max: 0,
            storage: config.storage.clone(),
        };
        let order = Arc::clone(&self.order);
        let request = Request { submission, policy: config.policy, order };
        let Some(open) = OpenJob::begin(&self.shared, spec.number) else {
            let why = "its number was given up: what came of it could not be named";
            done.complete(JobOutcome::RunHere(why.to_owned()));
            return Box::new(Away(None));
        };
        let on_done = Box::new(move |outcome| done.complete(open.end(outcome)));
        Box::new(Away(Some(self.client.submit(request, on_done))))
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

/// A job that is away; of one that never went there is nothing to cancel.
struct Away(Option<Ticket>);

impl Submitted for Away {
    fn cancel(&self) {
        if let Some(ticket) = &self.0 {
            ticket.cancel();
        }
    }
}

/// Of a job whose tables the database may still come to name; dropped when it may not, or has.
struct OpenJob {
    shared: Arc<Shared>,
    number: FileNumber,
}

impl OpenJob {
    fn begin(shared: &Arc<Shared>, number: FileNumber) -> Option<Self> {
        let begins = shared.tables.job_begins(number.0);
        begins.then(|| OpenJob { shared: Arc::clone(shared), number })
    }

    fn end(self, outcome: Outcome) -> JobOutcome {
        match outcome {
            Outcome::Done(completion) => {
                let result = completion.finished.result;
                JobOutcome::Done(Box::new(Finished {
                    tables: result.outputs.iter().map(convert::table).collect(),
                    outputs: result.outputs,
                    entries_dropped: result.costs.entries_dropped,
                    open: self,
                }))
            }
            Outcome::RunHere(reason) => JobOutcome::RunHere(why_home(reason).to_owned()),
            Outcome::Failed(failure) => JobOutcome::RunHere(why_failed(&failure)),
            Outcome::Cancelled => JobOutcome::RunHere("it was cancelled".to_owned()),
        }
    }
}

impl Drop for OpenJob {
    fn drop(&mut self) {
        self.shared.tables.job_ends(self.number.0);
    }
}

fn why_home(reason: HomeReason) -> &'static str {
    match reason {
        HomeReason::Small => "it is not worth the way",
        HomeReason::Waited => "no worker took it in time",
        HomeReason::Failures => "it failed too often elsewhere",
        HomeReason::Refused => "the broker does not take it",
    }
}

fn why_failed(failure: &JobFailure) -> String {
    format!("it failed elsewhere: {failure}")
}

struct Finished {
    outputs: Vec<OutputTable>,
    tables: Vec<JobTable>,
    entries_dropped: u64,
    open: OpenJob,
}

impl FinishedJob for Finished {
    fn tables(&self) -> &[JobTable] {
        &self.tables
    }

    fn entries_dropped(&self) -> u64 {
        self.entries_dropped
    }

    fn adopt(&self, nth: usize, number: FileNumber) -> Result<()> {
        let (shared, output) = (&self.open.shared, &self.outputs[nth]);
        shared.check(output)?;
        shared.tables.adopt(number.0, output)
    }
}

impl Shared {
    /// Workers are not believed: the bucket is asked.
    fn check(&self, output: &OutputTable) -> Result<()> {
        let (name, call) = (output.name.as_str(), Call::new(Purpose::CompactOut));
        let (bytes, crc32c) = match self.config.verify {
            Verify::Size => {
                let stat = self.bucket.head(name, call).map_err(|error| unusable(&error))?;
                (stat.bytes, output.crc32c)
            }
            Verify::Bytes => {
                // No more than it should have: whatever lies there.
                let part = Part::Range { offset: 0, len: output.bytes };
                let object = self.bucket.get(name, part, call).map_err(|error| unusable(&error))?;
                (object.bytes, crc32c::crc32c(&object.body))
            }
        };
        if (bytes, crc32c) != (output.bytes, output.crc32c) {
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
