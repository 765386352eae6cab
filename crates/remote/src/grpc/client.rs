//! A client that runs: the state machine, its connection to a broker here or elsewhere, and whoever waits for its jobs.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use super::announcing::Announcer;
use super::broker::BrokerTask;
use super::host::BrokerHost;
use super::link::{Incoming, Link, open_submit};
use super::security::{BrokerAddress, TransportError};
use super::wire;
use crate::broker::event::BrokerEvent;
use crate::client::event::{ClientAction, ClientConfig, ClientEvent, Outcome, Request};
use crate::client::state::Client;
use crate::job::id::JobId;
use crate::job::name::DbId;
use crate::message::{ClientMessage, ClientReply};
use crate::security::authority::Scope;

/// Told how a job has ended, once, on one of the runtime's threads, which it must not block.
pub type OnDone = Box<dyn FnOnce(Outcome) + Send>;

/// Told that a worker has a job, as often as one begins with it, in the same way.
pub type OnBegun = Box<dyn Fn() + Send>;

/// Where a client's broker is.
pub enum BrokerPlace {
    /// In this process.
    Here(BrokerHost),
    /// Elsewhere.
    There(BrokerAddress),
}

/// Submits jobs for one database or several, and announces their versions. Clones share one connection for each of the two.
/// When the last one goes, jobs that are not over end as cancelled.
///
/// A database with a broker in its own process, which workers reach by a port:
///
/// ```no_run
/// # use siltstone_remote::{Authority, BrokerConfig, BrokerHost, BrokerPlace, ClientConfig, Outcome};
/// # use siltstone_remote::{RemoteClient, Request, ServerSecurity, TransportError};
/// # async fn example(tls: siltstone_remote::TlsFiles, authority: Authority, request: Request)
/// # -> Result<(), TransportError> {
/// let broker = BrokerHost::start(BrokerConfig::new(1_764_043_200, 7));
/// let runtime = tokio::runtime::Handle::current();
/// let here = BrokerPlace::Here(broker.clone());
/// let client = RemoteClient::start(&runtime, ClientConfig::new(7), here)?;
/// let ticket = client.submit(request, Box::new(|outcome| match outcome {
///     Outcome::Done(completion) => println!("to be installed: {:?}", completion.finished.result),
///     Outcome::RunHere(reason) => println!("to be run here: {reason:?}"),
///     Outcome::Failed(failure) => println!("{failure}"),
///     Outcome::Cancelled => {}
/// }));
/// println!("job {} is on its way", ticket.job());
///
/// let listener = tokio::net::TcpListener::bind("0.0.0.0:7171").await.expect("the port is free");
/// let stop = std::future::pending();
/// broker.serve(listener, ServerSecurity::Tls(tls), authority, stop).await
/// # }
/// ```
#[derive(Clone)]
pub struct RemoteClient {
    inputs: mpsc::UnboundedSender<Input>,
    announcer: Announcer,
}

/// Who waits for a job.
struct Waiting {
    on_begun: OnBegun,
    on_done: OnDone,
}

enum Input {
    Request(Request, Waiting),
    Cancel(JobId),
    Leave(JobId),
    Link(u64, Incoming<ClientReply>),
}

impl RemoteClient {
    /// Starts one on a runtime, from any thread. It connects when there is something to submit.
    ///
    /// # Errors
    ///
    /// [`TransportError`] if the address cannot be used at all. A broker that cannot be reached is no error: the jobs'
    /// policies say what then.
    pub fn start(
        runtime: &Handle,
        config: ClientConfig,
        broker: BrokerPlace,
    ) -> Result<Self, TransportError> {
        if let BrokerPlace::There(address) = &broker {
            address.endpoint()?;
        }
        let (inputs, received) = mpsc::unbounded_channel();
        let broker = Arc::new(broker);
        let announcer = Announcer::start(runtime, config, &broker);
        let host = Host {
            client: Client::new(config),
            started: Instant::now(),
            broker,
            link: None,
            links: 0,
            // Weak, so that the host ends with the last client.
            inputs: inputs.downgrade(),
            waiting: HashMap::new(),
        };
        runtime.spawn(host.run(received));
        Ok(RemoteClient { inputs, announcer })
    }

    /// Has the broker tell those who watch the database that this version is in the bucket. Does not block, and is a hint:
    /// while the broker cannot be reached only the last version is remembered, and what it refuses is dropped.
    pub fn announce(&self, db: &DbId, version: u64) {
        self.announcer.announce(db, version);
    }

    /// Submits a job. Does not block, and holds no thread: `on_done` is told how it has ended. A job's id must not be in
    /// use; if it is, `on_done` is told [`Outcome::Cancelled`] at once.
    pub fn submit(&self, request: Request, on_done: OnDone) -> Ticket {
        self.submit_watched(request, Box::new(|| {}), on_done)
    }

    /// The same, by who also wants to know when a worker has it.
    pub fn submit_watched(&self, request: Request, on_begun: OnBegun, on_done: OnDone) -> Ticket {
        let (job, waiting) = (request.submission.spec.job, Waiting { on_begun, on_done });
        if let Err(mpsc::error::SendError(Input::Request(_, waiting))) =
            self.inputs.send(Input::Request(request, waiting))
        {
            // The runtime is gone.
            (waiting.on_done)(Outcome::Cancelled);
        }
        Ticket { job, inputs: self.inputs.downgrade() }
    }
}

/// A job that was submitted. Dropping it changes nothing.
pub struct Ticket {
    job: JobId,
    /// Weak, so that tickets do not keep a client alive.
    inputs: mpsc::WeakUnboundedSender<Input>,
}

impl Ticket {
    /// The job.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// Nobody wants it any more. Does not block. If it is not over, it ends as [`Outcome::Cancelled`].
    pub fn cancel(&self) {
        // If the client or the runtime is gone, so is the job.
        if let Some(inputs) = self.inputs.upgrade() {
            let _ = inputs.send(Input::Cancel(self.job));
        }
    }

    /// Whoever wanted it goes, and may come back for it: it ends here as [`Outcome::Cancelled`], and the broker keeps it, and
    /// what comes of it, for a while. Who submits it again, under its id, has it. Does not block.
    pub fn leave(&self) {
        // As above.
        if let Some(inputs) = self.inputs.upgrade() {
            let _ = inputs.send(Input::Leave(self.job));
        }
    }
}

/// A connection, by where it goes.
enum Session {
    There(Link<wire::ClientToBroker>),
    Here(Link<ClientMessage>),
}

struct Host {
    client: Client,
    started: Instant,
    broker: Arc<BrokerPlace>,
    link: Option<Session>,
    links: u64,
    inputs: mpsc::WeakUnboundedSender<Input>,
    waiting: HashMap<JobId, Waiting>,
}

impl Host {
    async fn run(mut self, mut inputs: mpsc::UnboundedReceiver<Input>) {
        loop {
            let wake = self.client.next_wake().map(|at| self.started + at);
            let slept = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                input = inputs.recv() => match input {
                    Some(input) => self.take(input),
                    None => break,
                },
                () = slept => self.tell(ClientEvent::Tick),
            }
        }
        for job in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.tell(ClientEvent::Cancel(job));
        }
        match self.link {
            Some(Session::There(link)) => link.finish().await,
            Some(Session::Here(link)) => link.finish().await,
            None => {}
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Request(request, waiting) => {
                let job = request.submission.spec.job;
                if self.waiting.contains_key(&job) {
                    (waiting.on_done)(Outcome::Cancelled);
                    return;
                }
                self.waiting.insert(job, waiting);
                self.tell(ClientEvent::Request(request));
            }
            Input::Cancel(job) => self.tell(ClientEvent::Cancel(job)),
            Input::Leave(job) => self.tell(ClientEvent::Leave(job)),
            Input::Link(number, incoming) if number == self.links && self.link.is_some() => {
                match incoming {
                    Incoming::Message(reply) => self.tell(ClientEvent::Replied(reply)),
                    Incoming::Lost => self.lose_link(),
                }
            }
            Input::Link(..) => {}
        }
    }

    fn lose_link(&mut self) {
        self.link = None;
        self.tell(ClientEvent::Lost);
    }

    fn tell(&mut self, event: ClientEvent) {
        let mut is_lost = false;
        for action in self.client.handle(self.started.elapsed(), event) {
            match action {
                ClientAction::Connect => self.connect(),
                ClientAction::Send(message) => is_lost |= !self.send(message),
                ClientAction::HangUp => self.link = None,
                ClientAction::Begun(job) => {
                    if let Some(waiting) = self.waiting.get(&job) {
                        (waiting.on_begun)();
                    }
                }
                ClientAction::Complete(job, outcome) => {
                    if let Some(waiting) = self.waiting.remove(&job) {
                        (waiting.on_done)(outcome);
                    }
                }
            }
        }
        if is_lost && self.link.is_some() {
            self.lose_link();
        }
    }

    fn send(&self, message: ClientMessage) -> bool {
        match &self.link {
            Some(Session::There(link)) => link.send(message.into()),
            Some(Session::Here(link)) => link.send(message),
            None => false,
        }
    }

    fn connect(&mut self) {
        self.links += 1;
        let (number, inputs) = (self.links, self.inputs.clone());
        let bring = move |incoming| {
            if let Some(inputs) = inputs.upgrade() {
                let _ = inputs.send(Input::Link(number, incoming));
            }
        };
        let broker = Arc::clone(&self.broker);
        self.link = Some(match &*self.broker {
            BrokerPlace::There(_) => {
                Session::There(Link::new(move |messages| there(broker, messages, bring)))
            }
            BrokerPlace::Here(host) => {
                let task = host.task.clone();
                Session::Here(Link::new(move |messages| here(task, messages, bring)))
            }
        });
    }
}

async fn there(
    broker: Arc<BrokerPlace>,
    messages: mpsc::Receiver<wire::ClientToBroker>,
    bring: impl Fn(Incoming<ClientReply>),
) {
    let BrokerPlace::There(address) = &*broker else { return };
    let mut replies = match open_submit(address, messages).await {
        Ok(replies) => replies,
        Err(status) => {
            address.tell_lost(&status);
            return bring(Incoming::Lost);
        }
    };
    loop {
        let reply = match replies.message().await {
            Ok(Some(reply)) => ClientReply::try_from(reply).map_err(Status::from),
            Ok(None) => Err(Status::unavailable("the broker has ended the session")),
            Err(status) => Err(status),
        };
        match reply {
            Ok(reply) => bring(Incoming::Message(reply)),
            Err(status) => {
                address.tell_lost(&status);
                return bring(Incoming::Lost);
            }
        }
    }
}

/// Without any network: the process's own client may do everything.
async fn here(
    task: BrokerTask,
    mut messages: mpsc::Receiver<ClientMessage>,
    bring: impl Fn(Incoming<ClientReply>),
) {
    let Ok((session, mut replies)) = task.open_client(Scope::All).await else {
        return bring(Incoming::Lost);
    };
    loop {
        tokio::select! {
            message = messages.recv() => {
                let Some(message) = message else { break };
                if task.tell(BrokerEvent::ClientSaid(session, message)).await.is_err() {
                    return bring(Incoming::Lost);
                }
            }
            reply = replies.recv() => match reply {
                Some(Ok(reply)) => bring(Incoming::Message(reply)),
                Some(Err(_)) | None => return bring(Incoming::Lost),
            },
        }
    }
    let _ = task.tell(BrokerEvent::Closed(session)).await;
}
