//! Broker, workers and clients over gRPC on the loopback interface, with a toy runner: whatever happens to them, the
//! results are those of the local merge.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

#[path = "../simulation/dice.rs"]
mod dice;
mod news;
#[path = "../simulation/toy.rs"]
mod toy;
mod toy_runner;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use siltstone_remote::{
    Authority, BackoffLimits, BrokerAddress, BrokerConfig, BrokerHost, BrokerPlace, BytewiseOrder,
    ClientConfig, ClientSecurity, Grant, JobSpec, Outcome, Policy, Priority, RemoteClient, Request,
    Role, Scope, ServerSecurity, Submission, WorkerConfig, WorkerId, run_worker,
};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use dice::Dice;
use toy::Store;
use toy_runner::ToyRunner;

const LEASE: Duration = Duration::from_millis(400);
const SOON: BackoffLimits =
    BackoffLimits { first: Duration::from_millis(10), most: Duration::from_millis(100) };
const PATIENCE: Duration = Duration::from_secs(30);

/// A port of this machine that is free, and stays ours by being known to nobody else.
async fn listen(address: Option<SocketAddr>) -> TcpListener {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let deadline = Instant::now() + PATIENCE;
    loop {
        match TcpListener::bind(address.unwrap_or(any)).await {
            Ok(listener) => return listener,
            // The broker before may not have let go of it yet.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

struct Broker {
    host: BrokerHost,
    address: SocketAddr,
    serving: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Broker {
    async fn start(term: u32, address: Option<SocketAddr>) -> Self {
        let listener = listen(address).await;
        let address = listener.local_addr().unwrap();
        let config = BrokerConfig {
            lease: LEASE,
            heartbeat: LEASE / 4,
            retry: SOON,
            ..BrokerConfig::new(term, 7)
        };
        let host = BrokerHost::start(config);
        let mut authority = Authority::new();
        for role in [Role::Worker, Role::Client, Role::Replica] {
            authority.allow_plaintext(Grant { role, scope: Scope::All });
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let served = host.clone();
        let serving = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            let security = ServerSecurity::PlaintextOnLoopback;
            served.serve(listener, security, authority, stopped).await.unwrap();
        });
        Broker { host, address, serving, stop }
    }

    /// All that it knew is gone.
    async fn end(self) -> SocketAddr {
        self.stop.send(()).unwrap();
        self.serving.await.unwrap();
        self.address
    }
}

fn broker_at(address: SocketAddr) -> BrokerAddress {
    BrokerAddress {
        uri: format!("http://{address}"),
        security: ClientSecurity::PlaintextOnLoopback,
        token: None,
        on_lost: None,
    }
}

/// A worker in a runtime of its own, so that it can be paused and ended without the others.
struct Process {
    runtime: Option<tokio::runtime::Runtime>,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<()>,
}

impl Process {
    fn start(name: &str, seed: u64, address: SocketAddr, runner: &Arc<ToyRunner>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let name = WorkerId::new(name).unwrap();
        let config = WorkerConfig {
            reconnect: SOON,
            ..WorkerConfig::new(name, 2, ToyRunner::known(), seed)
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let runner = Arc::clone(runner);
        let ended = runtime.spawn(async move {
            let stopped = async { drop(stopped.await) };
            run_worker(config, broker_at(address), runner, stopped).await.unwrap();
        });
        Process { runtime: Some(runtime), stop: Some(stop), ended }
    }

    /// Its only thread stands still: no heartbeats, no messages. Runners go on, as zombies do.
    fn pause(&self, time: Duration) {
        self.runtime.as_ref().unwrap().spawn(async move { std::thread::sleep(time) });
    }

    /// Its connection breaks, and nobody says goodbye.
    fn kill(mut self) {
        self.ended.abort();
        self.runtime.take().unwrap().shutdown_background();
    }

    /// Jobs end first.
    async fn send_home(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        (&mut self.ended).await.unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Database {
    client: RemoteClient,
    store: Arc<Mutex<Store>>,
    dice: Dice,
    name: &'static str,
    jobs: u64,
}

struct Pending {
    spec: Arc<JobSpec>,
    outcome: oneshot::Receiver<Outcome>,
}

impl Database {
    fn new(client: RemoteClient, store: &Arc<Mutex<Store>>, name: &'static str) -> Self {
        let (dice, jobs) = (Dice::new(name.len() as u64 + 11), 1_000 * name.len() as u64);
        Database { client, store: Arc::clone(store), dice, name, jobs }
    }

    fn submit(&mut self) -> Pending {
        self.jobs += 1;
        let mut store = self.store.lock().unwrap();
        let spec = Arc::new(toy::job(&mut self.dice, &mut store, self.jobs, self.name));
        let submission = Submission {
            spec: Arc::clone(&spec),
            priority: Priority::default(),
            attempts_max: 0,
            storage: None,
            begun: false,
        };
        let request =
            Request { submission, policy: Policy::RemoteOnly, order: Arc::new(BytewiseOrder) };
        let (told, outcome) = oneshot::channel();
        let on_done = Box::new(move |outcome| told.send(outcome).unwrap());
        self.client.submit(request, on_done);
        Pending { spec, outcome }
    }

    /// Waits for the job, and compares with the local merge, table by table.
    async fn check(&self, pending: Pending) {
        let outcome = tokio::time::timeout(PATIENCE, pending.outcome).await;
        let outcome = outcome.expect("in time").expect("told once");
        let Outcome::Done(completion) = outcome else { panic!("{outcome:?}") };
        let store = self.store.lock().unwrap();
        let expected = toy::merge(&pending.spec, &store);
        let outputs = &completion.finished.result.outputs;
        assert_eq!(outputs.len(), expected.len());
        for (output, entries) in outputs.iter().zip(&expected) {
            assert_eq!(**store.get(&output.name).expect("it is there"), *entries);
        }
    }
}

fn client_of(address: SocketAddr) -> RemoteClient {
    let config = ClientConfig { reconnect: SOON, seed: 5 };
    let broker = BrokerPlace::There(broker_at(address));
    RemoteClient::start(&tokio::runtime::Handle::current(), config, broker).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_two_databases_are_done_and_picked_up_at_once() {
    let broker = Broker::start(1, None).await;
    let store = Arc::new(Mutex::new(Store::default()));
    let runner = Arc::new(ToyRunner::new(&store, Duration::ZERO));
    let workers: Vec<_> = (0..2)
        .map(|number| Process::start(&format!("w{number}"), number, broker.address, &runner))
        .collect();
    let client = client_of(broker.address);
    let mut databases = ["a", "bb"].map(|name| Database::new(client.clone(), &store, name));
    // The first one waits for connections.
    let first = databases[0].submit();
    databases[0].check(first).await;
    let mut waits = Vec::new();
    for number in 0..400 {
        let database = &mut databases[number % 2];
        let submitted = Instant::now();
        let pending = database.submit();
        let job = pending.spec.job;
        database.check(pending).await;
        waits.push(runner.started(job) - submitted);
    }
    waits.sort();
    let (p50, p99) = (waits[waits.len() / 2], waits[waits.len() * 99 / 100]);
    println!("pick-up of a job over loopback: p50 {p50:?}, p99 {p99:?}, worst {:?}", waits[399]);
    assert!(p50 < Duration::from_millis(10), "{p50:?}");
    let stats = broker.host.stats().await;
    assert_eq!((stats.submitted, stats.done, stats.attempts), (401, 401, 401));
    for worker in workers {
        worker.send_home().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_paused_and_doubled_workers_do_no_harm() {
    let broker = Broker::start(1, None).await;
    let store = Arc::new(Mutex::new(Store::default()));
    let runner = Arc::new(ToyRunner::new(&store, Duration::from_millis(20)));
    let start = |name, seed| Process::start(name, seed, broker.address, &runner);
    // Two have one name.
    let mut workers = vec![start("w", 1), start("w", 2), start("x", 3)];
    let mut database = Database::new(client_of(broker.address), &store, "a");
    let mut pending = Vec::new();
    for round in 0..6 {
        pending.extend((0..10).map(|_| database.submit()));
        tokio::time::sleep(Duration::from_millis(60)).await;
        match round % 3 {
            0 => {
                workers.remove(0).kill();
                workers.push(start("w", 10 + round));
            }
            1 => workers[0].pause(LEASE * 2),
            _ => {}
        }
    }
    for pending in pending {
        database.check(pending).await;
    }
    let stats = broker.host.stats().await;
    println!("{stats:?}");
    assert_eq!((stats.done, stats.failed), (60, 0));
    assert!(stats.attempts > 60, "some were tried again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_starts_again_goes_on_with_what_runs() {
    let mut broker = Broker::start(1, None).await;
    let store = Arc::new(Mutex::new(Store::default()));
    let runner = Arc::new(ToyRunner::new(&store, Duration::from_millis(40)));
    let workers: Vec<_> = (0..2)
        .map(|number| Process::start(&format!("w{number}"), number, broker.address, &runner))
        .collect();
    let mut database = Database::new(client_of(broker.address), &store, "a");
    let mut adopted = 0;
    for term in 2..5 {
        let pending: Vec<_> = (0..12).map(|_| database.submit()).collect();
        tokio::time::sleep(Duration::from_millis(150)).await;
        let address = broker.end().await;
        broker = Broker::start(term, Some(address)).await;
        for pending in pending {
            database.check(pending).await;
        }
        adopted += broker.host.stats().await.adopted;
    }
    println!("{adopted} running jobs adopted");
    assert!(adopted > 0);
    for worker in workers {
        worker.send_home().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_in_the_process_needs_no_port_for_its_own_client() {
    let broker = Broker::start(1, None).await;
    let store = Arc::new(Mutex::new(Store::default()));
    let runner = Arc::new(ToyRunner::new(&store, Duration::ZERO));
    let worker = Process::start("w", 1, broker.address, &runner);
    let config = ClientConfig { reconnect: SOON, seed: 5 };
    let handle = tokio::runtime::Handle::current();
    let here = BrokerPlace::Here(broker.host.clone());
    let client = RemoteClient::start(&handle, config, here).unwrap();
    let mut database = Database::new(client, &store, "a");
    let pending: Vec<_> = (0..20).map(|_| database.submit()).collect();
    for pending in pending {
        database.check(pending).await;
    }
    worker.send_home().await;
    // Without workers, a job waits; without its client, it ends.
    let pending = database.submit();
    drop(database);
    assert_eq!(pending.outcome.await.unwrap(), Outcome::Cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_sent_home_ends_its_jobs_first() {
    let broker = Broker::start(1, None).await;
    let store = Arc::new(Mutex::new(Store::default()));
    let runner = Arc::new(ToyRunner::new(&store, Duration::from_millis(30)));
    let worker = Process::start("w", 1, broker.address, &runner);
    let mut database = Database::new(client_of(broker.address), &store, "a");
    let (one, other, late) = (database.submit(), database.submit(), database.submit());
    while runner.runs() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    worker.send_home().await;
    database.check(one).await;
    database.check(other).await;
    let stats = broker.host.stats().await;
    assert_eq!((stats.done, stats.attempts, stats.waiting), (2, 2, 1), "nothing was lost");
    let _worker = Process::start("x", 2, broker.address, &runner);
    database.check(late).await;
}
