//! The task that a broker runs in: one queue of what happens, one of what to send for each session.
//!
//! **Concurrency.** The machine belongs to the task alone. Whoever wants something sends it a message. A session whose
//! peer does not read is ended when its queue is full; nobody waits for it.

use std::collections::HashMap;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use crate::broker::config::BrokerConfig;
use crate::broker::event::{BrokerAction, BrokerEvent, CloseReason, SessionId};
use crate::broker::state::Broker;
use crate::message::{ClientReply, Hello, WorkerOrder};
use crate::security::authority::Scope;

/// Events that wait for the task.
const INPUTS: usize = 4_096;
/// Messages that wait for a session's peer.
pub(super) const OUTPUTS: usize = 1_024;

type Sender<T> = mpsc::Sender<Result<T, Status>>;
pub(super) type Receiver<T> = mpsc::Receiver<Result<T, Status>>;

enum Input {
    OpenWorker(Hello, Scope, Sender<WorkerOrder>, oneshot::Sender<SessionId>),
    OpenClient(Scope, Sender<ClientReply>, oneshot::Sender<SessionId>),
    Event(BrokerEvent),
    Ask(Box<dyn FnOnce(&Broker) + Send>),
}

enum Output {
    Worker(Sender<WorkerOrder>),
    Client(Sender<ClientReply>),
}

/// A running broker. It ends when the last of these goes.
#[derive(Clone)]
pub(super) struct BrokerTask {
    inputs: mpsc::Sender<Input>,
}

/// The broker has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended;

impl From<Ended> for Status {
    fn from(_: Ended) -> Self {
        Status::unavailable("the broker has ended")
    }
}

impl BrokerTask {
    /// Within a tokio runtime.
    pub(super) fn start(config: BrokerConfig) -> Self {
        let (inputs, received) = mpsc::channel(INPUTS);
        let task = Task {
            broker: Broker::new(config),
            started: Instant::now(),
            outputs: HashMap::new(),
            sessions: 0,
        };
        tokio::spawn(task.run(received));
        BrokerTask { inputs }
    }

    pub(super) async fn open_worker(
        &self,
        hello: Hello,
        scope: Scope,
    ) -> Result<(SessionId, Receiver<WorkerOrder>), Ended> {
        let ((sender, receiver), (told, id)) = (mpsc::channel(OUTPUTS), oneshot::channel());
        self.send(Input::OpenWorker(hello, scope, sender, told)).await?;
        Ok((id.await.map_err(|_| Ended)?, receiver))
    }

    pub(super) async fn open_client(
        &self,
        scope: Scope,
    ) -> Result<(SessionId, Receiver<ClientReply>), Ended> {
        let ((sender, receiver), (told, id)) = (mpsc::channel(OUTPUTS), oneshot::channel());
        self.send(Input::OpenClient(scope, sender, told)).await?;
        Ok((id.await.map_err(|_| Ended)?, receiver))
    }

    pub(super) async fn tell(&self, event: BrokerEvent) -> Result<(), Ended> {
        self.send(Input::Event(event)).await
    }

    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Broker) -> T + Send + 'static,
    ) -> Result<T, Ended> {
        let (told, answer) = oneshot::channel();
        let ask = move |broker: &Broker| {
            // Who asked may have gone.
            let _ = told.send(question(broker));
        };
        self.send(Input::Ask(Box::new(ask))).await?;
        answer.await.map_err(|_| Ended)
    }

    async fn send(&self, input: Input) -> Result<(), Ended> {
        self.inputs.send(input).await.map_err(|_| Ended)
    }
}

struct Task {
    broker: Broker,
    started: Instant,
    outputs: HashMap<SessionId, Output>,
    sessions: u64,
}

impl Task {
    async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        loop {
            let wake = self.broker.next_wake().map(|at| self.started + at);
            let slept = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                input = inputs.recv() => match input {
                    Some(input) => self.take(input),
                    None => return,
                },
                () = slept => self.tell(BrokerEvent::Tick),
            }
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::OpenWorker(hello, scope, sender, told) => {
                let session = self.open(Output::Worker(sender));
                let _ = told.send(session);
                self.tell(BrokerEvent::WorkerOpened(session, hello, scope));
            }
            Input::OpenClient(scope, sender, told) => {
                let session = self.open(Output::Client(sender));
                let _ = told.send(session);
                self.tell(BrokerEvent::ClientOpened(session, scope));
            }
            Input::Event(event) => {
                if let BrokerEvent::Closed(session) = &event {
                    self.outputs.remove(session);
                }
                self.tell(event);
            }
            Input::Ask(question) => question(&self.broker),
        }
    }

    fn open(&mut self, output: Output) -> SessionId {
        self.sessions += 1;
        let session = SessionId(self.sessions);
        self.outputs.insert(session, output);
        session
    }

    fn tell(&mut self, event: BrokerEvent) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.broker.handle(self.started.elapsed(), event) {
                if let Some(session) = self.act(action) {
                    self.outputs.remove(&session);
                    events.push(BrokerEvent::Closed(session));
                }
            }
        }
    }

    /// Returns a session that cannot be reached any more.
    fn act(&mut self, action: BrokerAction) -> Option<SessionId> {
        match action {
            BrokerAction::Order(session, order) => {
                let Some(Output::Worker(sender)) = self.outputs.get(&session) else { return None };
                sender.try_send(Ok(order)).err().map(|_| session)
            }
            BrokerAction::Reply(session, reply) => {
                let Some(Output::Client(sender)) = self.outputs.get(&session) else { return None };
                sender.try_send(Ok(reply)).err().map(|_| session)
            }
            BrokerAction::Close(session, reason) => {
                // It is told why, if its queue has room for that.
                match self.outputs.remove(&session) {
                    Some(Output::Worker(sender)) => drop(sender.try_send(Err(reason.into()))),
                    Some(Output::Client(sender)) => drop(sender.try_send(Err(reason.into()))),
                    None => {}
                }
                None
            }
        }
    }
}

impl From<CloseReason> for Status {
    fn from(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Protocol => Status::failed_precondition(reason.to_string()),
            CloseReason::BadHello => Status::invalid_argument(reason.to_string()),
            CloseReason::Silent => Status::deadline_exceeded(reason.to_string()),
            CloseReason::Replaced => Status::aborted(reason.to_string()),
        }
    }
}
