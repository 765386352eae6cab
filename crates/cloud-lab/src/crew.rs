//! A broker and workers, which take a database's merges, and the broker's news for its replicas. Each is on a runtime of its own as if it were a process, has its own
//! way to the store, and speaks to the others over gRPC on the loopback interface.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use siltstone::service::{CompactionService, Completion, JobSpec, JobSummary, JobTools, Submitted};
use siltstone::{Env, Options, Result};
use siltstone_cloud::{Announce, CloudTables, Prepare};
use siltstone_fleet::{BucketRunner, Fleet, FleetConfig};
use siltstone_remote::{
    Authority, BrokerAddress, BrokerConfig, BrokerHost, BrokerPlace, ClientConfig, ClientSecurity,
    DbId, Grant, JobFailure, JobResult, JobRunner, Patience, Policy, RemoteClient, Role,
    RunContext, Scope, ServerSecurity, VersionWatch, WorkerConfig, WorkerId, run_worker,
};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

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
    broker: SocketAddr,
    jobs: Arc<Jobs>,
    /// The broker's, and one of each worker.
    runtimes: Vec<Runtime>,
    machines: Vec<Machine>,
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
        let (jobs, seed) = (Arc::new(Jobs::default()), stage.plan().seed);
        let kept = processors::keep_on(1);
        let runtime = runtime()?;
        let broker = serve(&runtime, seed)?;
        drop(kept);
        let mut crew = Crew { broker, jobs, runtimes: vec![runtime], machines: Vec::new() };
        for number in 0..workers.count {
            let _kept = processors::keep_on(1 + number);
            crew.hire(stage, (number as u64, workers.slots))?;
        }
        Ok(crew)
    }

    fn hire(&mut self, stage: &Stage, (number, slots): (u64, u32)) -> Result<()> {
        let name = format!("worker-{number}");
        let machine = stage.machine(&name)?;
        let runner = BucketRunner::new(Arc::clone(&machine.bucket) as _, JobTools::default());
        let known = runner.capabilities();
        let seed = stage.plan().seed + number;
        let config = WorkerConfig::new(WorkerId::new(&name).map_err(wrong)?, slots, known, seed);
        let runner = Watched { inner: runner, jobs: Arc::clone(&self.jobs) };
        let (runtime, address) = (runtime()?, self.address());
        runtime.spawn(run_worker(config, address, Arc::new(runner), std::future::pending()));
        self.runtimes.push(runtime);
        self.machines.push(machine);
        Ok(())
    }

    fn address(&self) -> BrokerAddress {
        BrokerAddress {
            uri: format!("http://{}", self.broker),
            security: ClientSecurity::PlaintextOnLoopback,
            token: None,
            on_lost: None,
        }
    }

    /// A way there from another machine.
    pub(crate) fn client(&self, seed: u64) -> Result<Client> {
        let (runtime, there) = (runtime()?, BrokerPlace::There(self.address()));
        let remote = RemoteClient::start(runtime.handle(), ClientConfig::new(seed), there);
        let remote = remote.map_err(wrong)?;
        Ok(Client { remote, jobs: Arc::clone(&self.jobs), _runtime: runtime })
    }

    /// Has `hear` told, on another machine, of what is announced here.
    pub(crate) fn listen(
        &self,
        seed: u64,
        hear: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Listener> {
        let (runtime, config) = (runtime()?, ClientConfig::new(seed));
        let (address, hear) = (self.address(), Box::new(hear));
        let watch = VersionWatch::start(runtime.handle(), config, address, known_as(), hear);
        Ok(Listener { _watch: watch.map_err(wrong)?, _runtime: runtime })
    }

    /// All that were submitted so far.
    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // A worker never ends by itself.
        self.runtimes.drain(..).for_each(Runtime::shutdown_background);
    }
}

/// Messages are few and small: one thread carries them. Jobs have theirs.
fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(wrong)
}

/// Starts a broker, and says where it is.
fn serve(runtime: &Runtime, seed: u64) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listener = runtime.block_on(listener).map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    let mut authority = Authority::new();
    for role in [Role::Worker, Role::Client, Role::Replica] {
        authority.allow_plaintext(Grant { role, scope: Scope::All });
    }
    runtime.spawn(async move {
        let host = BrokerHost::start(BrokerConfig::new(1, seed));
        let security = ServerSecurity::PlaintextOnLoopback;
        host.serve(listener, security, authority, std::future::pending()).await
    });
    Ok(address)
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
            let fleet = Fleet::new(remote.clone(), bucket, Arc::new(tables.clone()), clock, config);
            let service = Watched { inner: fleet, jobs: Arc::clone(&jobs) };
            options.compaction_service = Some(Arc::new(service));
        })
    }
}

/// What has become of jobs, by their first input: a table is merged once.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<HashMap<u64, Job>>);

struct Job {
    submitted: Instant,
    begun: Option<Instant>,
    /// Of its inputs, once it is done.
    bytes: u64,
}

impl Jobs {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, Job>> {
        // Nothing under the lock stops half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, first: u64) {
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

    /// How many workers have done.
    pub(crate) fn done(&self) -> usize {
        self.all().values().filter(|job| job.bytes > 0).count()
    }

    /// Bytes that they have merged.
    pub(crate) fn bytes(&self) -> u64 {
        self.all().values().map(|job| job.bytes).sum()
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

/// Tells [`Jobs`] what goes through: at the database's end, and at a worker's.
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
}

impl JobRunner for Watched<BucketRunner> {
    fn run(
        &self,
        spec: &siltstone_remote::JobSpec,
        context: &RunContext,
    ) -> std::result::Result<JobResult, JobFailure> {
        let first = spec.inputs.first().map_or(0, |input| input.number);
        self.jobs.begin(first);
        let ran = self.inner.run(spec, context);
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
