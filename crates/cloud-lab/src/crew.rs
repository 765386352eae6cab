//! A broker and workers, which take a database's merges, and the broker's news for its replicas. Each is on a runtime of its own as if it were a process, has its own
//! way to the store, and speaks to the others over gRPC on the loopback interface.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use siltstone::service::{
    CompactionService, Completion, JobSpec, JobSummary, JobTools, LeftJob, Submitted,
};
use siltstone::{Env, Options, Result};
use siltstone_cloud::{Announce, Bucket, CloudTables, JobId, Prepare};
use siltstone_fleet::{BucketRunner, Fleet, FleetConfig, ObjectRef, Tables, pace_for_workers};
use siltstone_remote::loopback::{Broker, Worker, address, runtime};
use siltstone_remote::{
    BrokerConfig, BrokerPlace, ClientConfig, DbId, JobFailure, JobResult, JobRunner, JobView,
    OutputTable, Patience, Policy, RemoteClient, RunContext, VersionWatch, WorkerConfig, WorkerId,
};
use siltstone_s3::Snapshot;
use tokio::runtime::Runtime;

use crate::processors;
use crate::stage::{Machine, Stage, wrong};

/// Jobs wait for a worker that is busy: that is what is measured. One that none takes at all comes home in the end.
const PATIENCE: Patience = Patience { wait: Duration::from_secs(300), failures: 2 };

/// What workers are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workers {
    pub(crate) count: usize,
    /// Jobs that one runs at once.
    pub(crate) slots: u32,
}

/// They end with it.
pub(crate) struct Crew {
    /// One, but while another takes its place.
    broker: Option<Broker>,
    socket: SocketAddr,
    jobs: Arc<Jobs>,
    /// Those that came with it.
    workers: Vec<(Worker, Machine)>,
}

/// A worker that is about to begin.
#[derive(Clone, Debug)]
pub(crate) struct Hand<'a> {
    pub(crate) name: &'a str,
    /// Which process of that name.
    pub(crate) seed: u64,
    pub(crate) slots: u32,
    /// Where it finds the broker.
    pub(crate) broker: SocketAddr,
}

/// A replica's ear at a crew's broker.
pub(crate) struct Listener {
    _watch: VersionWatch,
    _runtime: Runtime,
}

/// A database's way to a crew. There until the database has closed.
pub(crate) struct Client {
    remote: RemoteClient,
    jobs: Arc<Jobs>,
    _runtime: Runtime,
}

impl Crew {
    /// Workers are kept on the processors behind the first, in turn, and the broker with the first of them.
    pub(crate) fn start(stage: &Stage, workers: Workers) -> Result<Self> {
        let seed = stage.plan().seed;
        let kept = processors::keep_on(1);
        let mut crew = Crew::without_workers(BrokerConfig::new(1, seed))?;
        drop(kept);
        for number in 0..workers.count {
            let _kept = processors::keep_on(1 + number);
            let (name, seed) = (format!("worker-{number}"), seed + number as u64);
            let machine = stage.machine(&name)?;
            let (slots, broker) = (workers.slots, crew.socket);
            let hand = Hand { name: &name, seed, slots, broker };
            let worker = crew.hire(hand, Arc::clone(&machine.bucket) as _)?;
            crew.workers.push((worker, machine));
        }
        Ok(crew)
    }

    /// A broker by itself.
    pub(crate) fn without_workers(config: BrokerConfig) -> Result<Self> {
        let broker = Broker::start(config, None).map_err(wrong)?;
        let (socket, workers) = (broker.socket(), Vec::new());
        Ok(Crew { broker: Some(broker), socket, jobs: Arc::default(), workers })
    }

    /// A worker on a bucket, which ends with what is returned.
    pub(crate) fn hire(&self, hand: Hand<'_>, bucket: Arc<dyn Bucket>) -> Result<Worker> {
        let runner = BucketRunner::new(bucket, JobTools::default());
        let runner = runner.with_threads(Env::posix().threads);
        let known = runner.capabilities();
        let name = WorkerId::new(hand.name).map_err(wrong)?;
        let config = WorkerConfig::new(name, hand.slots, known, hand.seed);
        let runner = Watched { inner: runner, jobs: Arc::clone(&self.jobs) };
        Worker::start(config, address(hand.broker), Arc::new(runner)).map_err(wrong)
    }

    /// A way there from another machine, by a socket which may be the broker's own.
    pub(crate) fn client_by(&self, socket: SocketAddr, seed: u64) -> Result<Client> {
        let runtime = runtime().map_err(wrong)?;
        let there = BrokerPlace::There(address(socket));
        let remote = RemoteClient::start(runtime.handle(), ClientConfig::new(seed), there);
        let remote = remote.map_err(wrong)?;
        Ok(Client { remote, jobs: Arc::clone(&self.jobs), _runtime: runtime })
    }

    /// A way there from another machine.
    pub(crate) fn client(&self, seed: u64) -> Result<Client> {
        self.client_by(self.socket, seed)
    }

    /// Where the broker is.
    pub(crate) fn socket(&self) -> SocketAddr {
        self.socket
    }

    /// Has `hear` told, on another machine, of what is announced here.
    pub(crate) fn listen(
        &self,
        seed: u64,
        hear: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Listener> {
        let (runtime, config) = (runtime().map_err(wrong)?, ClientConfig::new(seed));
        let (there, hear) = (address(self.socket), Box::new(hear));
        let watch = VersionWatch::start(runtime.handle(), config, there, known_as(), hear);
        Ok(Listener { _watch: watch.map_err(wrong)?, _runtime: runtime })
    }

    /// All that were submitted so far.
    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// What the workers that came with it have asked the bucket for.
    pub(crate) fn meters(&self) -> Vec<Snapshot> {
        self.workers.iter().map(|(_, machine)| machine.bucket.meter()).collect()
    }

    /// Jobs as the broker has them now.
    pub(crate) fn views(&self) -> Vec<JobView> {
        self.broker.as_ref().map(Broker::jobs).unwrap_or_default()
    }

    /// Attempts that the broker has given to workers.
    pub(crate) fn attempts(&self) -> u64 {
        self.broker.as_ref().map_or(0, |broker| broker.stats().attempts)
    }

    /// The broker ends, and another one begins where it was, which knows nothing.
    pub(crate) fn restart_broker(&mut self, config: BrokerConfig) -> Result<()> {
        if let Some(broker) = self.broker.take() {
            broker.end().map_err(wrong)?;
        }
        self.broker = Some(Broker::start(config, Some(self.socket)).map_err(wrong)?);
        Ok(())
    }
}

/// The only database there is.
fn known_as() -> DbId {
    DbId::new("lab").expect("letters only")
}

impl Client {
    /// Has a database announce its versions.
    pub(crate) fn announce(&self) -> Announce {
        let remote = self.remote.clone();
        Arc::new(move |version| remote.announce(&known_as(), version.0))
    }

    /// Has a database give its merges away, those of level 0 included, as the command does when it is asked to.
    pub(crate) fn prepare(&self) -> Prepare {
        let (remote, jobs) = (self.remote.clone(), Arc::clone(&self.jobs));
        Arc::new(move |tables: &CloudTables, options: &mut Options| {
            let config = FleetConfig {
                takes_level0: true,
                policy: Policy::PreferRemote(PATIENCE),
                ..FleetConfig::new(known_as(), tables.epoch(), tables.home().root().clone())
            };
            let bucket = Arc::clone(tables.home().bucket());
            let clock = Env::posix().clock;
            let tables = Watched { inner: tables.clone(), jobs: Arc::clone(&jobs) };
            let fleet = Fleet::new(remote.clone(), bucket, Arc::new(tables), clock, config);
            let service = Watched { inner: fleet, jobs: Arc::clone(&jobs) };
            options.compaction_service = Some(Arc::new(service));
            pace_for_workers(options);
        })
    }
}

/// What has become of jobs.
#[derive(Default)]
pub(crate) struct Jobs {
    /// By their first input: a table is merged once.
    all: Mutex<HashMap<u64, Job>>,
    submitted: AtomicU64,
    /// Attempts that run at workers now, wanted or not.
    running: AtomicU64,
    /// Tables of workers that the database has taken.
    adopted: AtomicU64,
}

struct Job {
    submitted: Instant,
    begun: Option<Instant>,
    /// Of its inputs, once it is done.
    bytes: u64,
}

impl Jobs {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, Job>> {
        // Nothing under the lock stops half way.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, first: u64) {
        self.submitted.fetch_add(1, Ordering::Relaxed);
        self.all().insert(first, Job { submitted: Instant::now(), begun: None, bytes: 0 });
    }

    fn begin(&self, first: u64) {
        if let Some(job) = self.all().get_mut(&first) {
            job.begun.get_or_insert_with(Instant::now);
        }
    }

    fn end(&self, first: u64, bytes: u64) {
        if let Some(job) = self.all().get_mut(&first) {
            job.bytes = bytes;
        }
    }

    /// How many the database gave away.
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// How many workers have done.
    pub(crate) fn done(&self) -> usize {
        self.all().values().filter(|job| job.bytes > 0).count()
    }

    /// Bytes that they have merged.
    pub(crate) fn bytes(&self) -> u64 {
        self.all().values().map(|job| job.bytes).sum()
    }

    /// Attempts that run now.
    pub(crate) fn running(&self) -> u64 {
        self.running.load(Ordering::Relaxed)
    }

    /// Tables of workers that the database has taken.
    pub(crate) fn adopted(&self) -> u64 {
        self.adopted.load(Ordering::Relaxed)
    }

    /// When the first one was submitted.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.all().values().map(|job| job.submitted).min()
    }

    /// How long each took from the database until a worker began with it, in microseconds.
    pub(crate) fn pick_ups(&self) -> Vec<f64> {
        let all = self.all();
        let begun = all.values().filter_map(|job| Some(job.begun? - job.submitted));
        begun.map(|time| time.as_secs_f64() * 1e6).collect()
    }
}

/// Tells [`Jobs`] what goes through: at the database's two ends, and at a worker's.
struct Watched<T> {
    inner: T,
    jobs: Arc<Jobs>,
}

impl CompactionService for Watched<Fleet> {
    fn wants(&self, job: &JobSummary) -> bool {
        self.inner.wants(job)
    }

    fn submit(&self, spec: JobSpec, summary: &JobSummary, done: Completion) -> Box<dyn Submitted> {
        self.jobs.submit(spec.inputs.first().map_or(0, |input| input.number.0));
        self.inner.submit(spec, summary, done)
    }

    fn tells_beginnings(&self) -> bool {
        self.inner.tells_beginnings()
    }

    fn lets_go(&self) -> bool {
        self.inner.lets_go()
    }

    fn left_behind(&self) -> Vec<Box<dyn LeftJob>> {
        self.inner.left_behind()
    }
}

impl Tables for Watched<CloudTables> {
    fn object_of(&self, number: u64) -> Option<ObjectRef> {
        Tables::object_of(&self.inner, number)
    }

    fn when_there(&self, numbers: Vec<u64>, within: Duration, then: Box<dyn FnOnce() + Send>) {
        Tables::when_there(&self.inner, numbers, within, then);
    }

    fn adopt(&self, number: u64, output: &OutputTable, end: &Bytes) -> Result<()> {
        Tables::adopt(&self.inner, number, output, end)?;
        self.jobs.adopted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn end_bytes(&self, bytes: u64) -> u64 {
        Tables::end_bytes(&self.inner, bytes)
    }

    fn job_begins(&self, number: u64) -> u64 {
        Tables::job_begins(&self.inner, number)
    }

    fn keep_job(&self, number: u64, record: Bytes) -> bool {
        Tables::keep_job(&self.inner, number, record)
    }

    fn is_kept(&self, job: JobId) -> bool {
        Tables::is_kept(&self.inner, job)
    }

    fn left_jobs(&self) -> Vec<(JobId, Bytes)> {
        Tables::left_jobs(&self.inner)
    }

    fn has_begun(&self, job: JobId) -> bool {
        Tables::has_begun(&self.inner, job)
    }

    fn job_ends(&self, job: JobId) {
        Tables::job_ends(&self.inner, job);
    }
}

impl JobRunner for Watched<BucketRunner> {
    fn run(
        &self,
        spec: &siltstone_remote::JobSpec,
        context: &RunContext,
    ) -> std::result::Result<JobResult, JobFailure> {
        let first = spec.inputs.first().map_or(0, |input| input.number);
        self.jobs.begin(first);
        self.jobs.running.fetch_add(1, Ordering::Relaxed);
        let ran = self.inner.run(spec, context);
        self.jobs.running.fetch_sub(1, Ordering::Relaxed);
        if ran.is_ok() {
            self.jobs.end(first, spec.input_bytes());
        }
        ran
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_counts_once_it_is_done_and_waits_until_it_is_begun() {
        let jobs = Jobs::default();
        assert!(jobs.since().is_none() && jobs.pick_ups().is_empty());
        (1..=3).for_each(|first| jobs.submit(first));
        jobs.begin(1);
        jobs.begin(2);
        let begun = jobs.pick_ups();
        jobs.begin(1);
        assert_eq!(jobs.pick_ups().len(), 2);
        let (mut first, mut second) = (begun, jobs.pick_ups());
        first.sort_by(f64::total_cmp);
        second.sort_by(f64::total_cmp);
        assert_eq!(first, second, "an attempt that begins again is no second pick-up");
        jobs.end(1, 500);
        assert_eq!((jobs.done(), jobs.bytes()), (1, 500));
    }
}
