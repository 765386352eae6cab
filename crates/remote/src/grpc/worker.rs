//! A worker that runs: the state machine, its connection, and a thread for each job.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tonic::{Code, Status};

use super::link::{Incoming, Link, open_session};
use super::security::{BrokerAddress, TransportError};
use super::wire;
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::result::{Costs, JobResult, OutputTable};
use crate::message::{Assignment, AttemptId, Hello, WorkerOrder};
use crate::worker::event::{WorkerAction, WorkerConfig, WorkerEvent};
use crate::worker::runner::{JobRunner, Leash, RunContext};
use crate::worker::state::Worker;

/// Runs a worker until `stop` is ready and its jobs have ended, or until its broker has sent it home. Connects again
/// whenever the connection is lost; jobs run on meanwhile. Must be called within a tokio runtime; jobs run on its
/// blocking threads.
///
/// # Errors
///
/// [`TransportError`] if the address cannot be used at all. A broker that cannot be reached is no error.
pub async fn run_worker(
    config: WorkerConfig,
    address: BrokerAddress,
    runner: Arc<dyn JobRunner>,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), TransportError> {
    address.endpoint()?;
    let (events, received) = mpsc::unbounded_channel();
    let host = Host {
        worker: Worker::new(config),
        started: Instant::now(),
        address: Arc::new(address),
        runner,
        link: None,
        links: 0,
        events,
        leashes: HashMap::new(),
        left: false,
    };
    host.run(received, stop).await;
    Ok(())
}

/// From the connection and the runners. Unbounded, but each connection and each runner is one that waits its turn on the
/// other side: there are as many messages as outputs and orders.
enum Input {
    Link(u64, Incoming<WorkerOrder>),
    /// The broker has ended the connection of this number, for there is another of the same worker's.
    Replaced(u64),
    Advanced(AttemptId, Vec<OutputTable>, Costs),
    Ended(AttemptId, Result<JobResult, JobFailure>),
}

struct Host {
    worker: Worker,
    started: Instant,
    address: Arc<BrokerAddress>,
    runner: Arc<dyn JobRunner>,
    link: Option<Link<wire::WorkerToBroker>>,
    links: u64,
    events: mpsc::UnboundedSender<Input>,
    leashes: HashMap<AttemptId, Arc<Leash>>,
    left: bool,
}

impl Host {
    async fn run(
        mut self,
        mut inputs: mpsc::UnboundedReceiver<Input>,
        stop: impl Future<Output = ()> + Send,
    ) {
        tokio::pin!(stop);
        let mut stopping = false;
        self.tell(WorkerEvent::Tick);
        while !self.left {
            let wake = self.started + self.worker.next_wake();
            tokio::select! {
                Some(input) = inputs.recv() => self.take(input),
                () = &mut stop, if !stopping => {
                    stopping = true;
                    self.tell(WorkerEvent::Drain);
                }
                () = sleep_until(wake) => self.tell(WorkerEvent::Tick),
            }
        }
        self.say_goodbye().await;
    }

    /// What was sent last goes out before the connection does.
    async fn say_goodbye(mut self) {
        if let Some(link) = self.link.take() {
            link.finish().await;
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Link(number, incoming) if number == self.links && self.link.is_some() => {
                match incoming {
                    Incoming::Message(order) => self.tell(WorkerEvent::Ordered(order)),
                    Incoming::Lost => self.lose_link(),
                }
            }
            Input::Replaced(number) if number == self.links && self.link.is_some() => {
                self.link = None;
                self.tell(WorkerEvent::Replaced);
            }
            // Of a connection that it has given up itself.
            Input::Link(..) | Input::Replaced(_) => {}
            Input::Advanced(id, outputs, costs) => {
                self.tell(WorkerEvent::Advanced(id, outputs, costs));
            }
            Input::Ended(id, outcome) => {
                self.leashes.remove(&id);
                self.tell(WorkerEvent::Ended(id, outcome));
            }
        }
    }

    fn lose_link(&mut self) {
        self.link = None;
        self.tell(WorkerEvent::Lost);
    }

    fn tell(&mut self, event: WorkerEvent) {
        let mut is_lost = false;
        for action in self.worker.handle(self.started.elapsed(), event) {
            match action {
                WorkerAction::Connect(hello) => self.connect(hello),
                WorkerAction::Send(message) => {
                    let sent = self.link.as_ref().is_some_and(|link| link.send(message.into()));
                    is_lost |= !sent;
                }
                WorkerAction::HangUp => self.link = None,
                WorkerAction::Start(assignment) => self.start(assignment),
                WorkerAction::Stop(id) => {
                    self.leashes.get(&id).iter().for_each(|leash| leash.cancel());
                }
                WorkerAction::Heard(id, outputs) => {
                    self.leashes.get(&id).iter().for_each(|leash| leash.heard(outputs));
                }
                WorkerAction::Leave => self.left = true,
            }
        }
        if is_lost && self.link.is_some() {
            self.lose_link();
        }
    }

    fn connect(&mut self, hello: Hello) {
        self.links += 1;
        let (number, address, events) = (self.links, self.address.clone(), self.events.clone());
        let link = Link::new(move |messages| async move {
            let bring = |incoming| {
                // The worker may have ended meanwhile.
                let _ = events.send(Input::Link(number, incoming));
            };
            let mut orders = match open_session(&address, messages).await {
                Ok(orders) => orders,
                Err(status) => {
                    address.tell_lost(&status);
                    return bring(Incoming::Lost);
                }
            };
            loop {
                let order = match orders.message().await {
                    Ok(Some(order)) => WorkerOrder::try_from(order).map_err(Status::from),
                    Ok(None) => Err(Status::unavailable("the broker has ended the session")),
                    Err(status) => Err(status),
                };
                match order {
                    Ok(order) => bring(Incoming::Message(order)),
                    Err(status) => {
                        address.tell_lost(&status);
                        // As the broker says of nothing else.
                        if status.code() == Code::Aborted {
                            return drop(events.send(Input::Replaced(number)));
                        }
                        return bring(Incoming::Lost);
                    }
                }
            }
        });
        // The queue is fresh, so there is room.
        link.send(hello.into());
        self.link = Some(link);
    }

    fn start(&mut self, assignment: Assignment) {
        let id = assignment.id();
        let leash = Arc::<Leash>::default();
        self.leashes.insert(id, Arc::clone(&leash));
        let (runner, spec) = (Arc::clone(&self.runner), Arc::clone(&assignment.spec));
        let events = self.events.clone();
        let context = RunContext::new(assignment, leash, move |id, outputs, costs| {
            let _ = events.send(Input::Advanced(id, outputs, costs));
        });
        let running = tokio::task::spawn_blocking(move || runner.run(&spec, &context));
        let events = self.events.clone();
        tokio::spawn(async move {
            let outcome = running.await.unwrap_or_else(|_| {
                // The panic's message may hold anything.
                Err(JobFailure::new(
                    FailureCode::Internal,
                    "the runner has panicked; see the worker's log",
                ))
            });
            let _ = events.send(Input::Ended(id, outcome));
        });
    }
}

impl Drop for Host {
    /// Runners have threads of their own, and would wait for ever for a broker to hear of them.
    fn drop(&mut self) {
        self.leashes.values().for_each(|leash| leash.cancel());
    }
}
