//! The gRPC service of a broker: who calls is asked for by the [`Authority`], what they say goes to the broker's task, or to
//! the board of versions.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::board::Watching;
use super::caller::caller;
use super::convert::{FromWorker, job_id};
use super::host::BrokerHost;
use super::wire;
use super::wire::compaction_server::Compaction;
use crate::broker::event::BrokerEvent;
use crate::job::id::JobId;
use crate::job::invalid::Invalid;
use crate::job::name::{DbId, WorkerId};
use crate::message::ClientMessage;
use crate::security::authority::{Authority, Denied, Role, Scope};

/// A worker that has connected must say hello within this.
const HELLO: Duration = Duration::from_secs(10);
/// Jobs on a page of a list.
const PAGE: usize = 1_000;

pub(super) struct Service {
    pub(super) host: BrokerHost,
    pub(super) authority: Arc<Mutex<Authority>>,
    pub(super) started: Instant,
    /// True once the port is no longer served: sessions that came by it end.
    pub(super) stop: watch::Receiver<bool>,
}

/// `None` if the peer has ended its side, in whatever way, or the port is no longer served.
async fn next<T>(said: &mut Streaming<T>, stop: &mut watch::Receiver<bool>) -> Option<T> {
    tokio::select! {
        message = said.message() => message.ok().flatten(),
        _ = stop.wait_for(|stop| *stop) => None,
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    async fn admit<T>(&self, request: &Request<T>, role: Role) -> Result<Scope, Status> {
        let caller = caller(request)?;
        let mut authority = self.authority.lock().await;
        Ok(authority.admit(self.started.elapsed(), &caller, role)?)
    }

    /// The database of that name, if the caller may act for it in that role.
    async fn admit_to<T>(
        &self,
        request: &Request<T>,
        role: Role,
        db: fn(&T) -> &str,
    ) -> Result<DbId, Status> {
        let scope = self.admit(request, role).await?;
        let db = DbId::new(db(request.get_ref())).map_err(Invalid::from)?;
        if scope.holds(&db) { Ok(db) } else { Err(Denied::NotAllowed.into()) }
    }
}

/// Tells a watcher what is announced. The number is read when there is room for it: who reads slowly is told less, and holds
/// up nobody.
async fn pass_on(
    mut watching: Watching,
    news: mpsc::Sender<Result<wire::News, Status>>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let room = tokio::select! {
            room = news.reserve() => room,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let Ok(room) = room else { return };
        match watching.newest() {
            Some(version) => room.send(Ok(wire::News { version })),
            None => drop(room),
        }
        tokio::select! {
            () = watching.changed() => {}
            () = news.closed() => return,
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

#[tonic::async_trait]
impl Compaction for Service {
    type SessionStream = Answers<wire::BrokerToWorker>;

    async fn session(
        &self,
        request: Request<Streaming<wire::WorkerToBroker>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let scope = self.admit(&request, Role::Worker).await?;
        let mut said = request.into_inner();
        let first = timeout(HELLO, said.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no hello came"))??;
        let first = first.ok_or_else(|| Status::invalid_argument("no hello came"))?;
        let FromWorker::Hello(hello) = FromWorker::try_from(first)? else {
            return Err(Status::invalid_argument("a session begins with a hello"));
        };
        let (session, orders) = self.host.task.open_worker(hello, scope).await?;
        let (task, mut stop) = (self.host.task.clone(), self.stop.clone());
        tokio::spawn(async move {
            while let Some(message) = next(&mut said, &mut stop).await {
                let Ok(FromWorker::Message(message)) = message.try_into() else { break };
                if task.tell(BrokerEvent::WorkerSaid(session, message)).await.is_err() {
                    return;
                }
            }
            let _ = task.tell(BrokerEvent::Closed(session)).await;
        });
        let orders = ReceiverStream::new(orders).map(|order| order.map(Into::into));
        Ok(Response::new(Box::pin(orders)))
    }

    type SubmitStream = Answers<wire::BrokerToClient>;

    async fn submit(
        &self,
        request: Request<Streaming<wire::ClientToBroker>>,
    ) -> Result<Response<Self::SubmitStream>, Status> {
        let scope = self.admit(&request, Role::Client).await?;
        let mut said = request.into_inner();
        let (session, replies) = self.host.task.open_client(scope).await?;
        let (task, mut stop) = (self.host.task.clone(), self.stop.clone());
        tokio::spawn(async move {
            while let Some(message) = next(&mut said, &mut stop).await {
                let Ok(message) = ClientMessage::try_from(message) else { break };
                if task.tell(BrokerEvent::ClientSaid(session, message)).await.is_err() {
                    return;
                }
            }
            let _ = task.tell(BrokerEvent::Closed(session)).await;
        });
        let replies = ReceiverStream::new(replies).map(|reply| reply.map(Into::into));
        Ok(Response::new(Box::pin(replies)))
    }

    async fn announce(
        &self,
        request: Request<wire::AnnounceRequest>,
    ) -> Result<Response<wire::AnnounceResponse>, Status> {
        let db = self.admit_to(&request, Role::Client, |asked| &asked.db).await?;
        self.host.board.announce(&db, request.into_inner().version);
        Ok(Response::new(wire::AnnounceResponse {}))
    }

    type WatchStream = Answers<wire::News>;

    async fn watch(
        &self,
        request: Request<wire::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let db = self.admit_to(&request, Role::Replica, |asked| &asked.db).await?;
        let watching = self.host.board.watch(&db);
        let watching = watching.ok_or_else(|| Status::resource_exhausted("too many watch"))?;
        let (sender, news) = mpsc::channel(1);
        tokio::spawn(pass_on(watching, sender, self.stop.clone()));
        Ok(Response::new(Box::pin(ReceiverStream::new(news))))
    }

    async fn list_jobs(
        &self,
        request: Request<wire::ListJobsRequest>,
    ) -> Result<Response<wire::ListJobsResponse>, Status> {
        let scope = self.admit(&request, Role::Admin).await?;
        let asked = request.into_inner();
        let db = Some(asked.db).filter(|db| !db.is_empty());
        let db = db.map(|db| DbId::new(&db).map_err(Invalid::from)).transpose()?;
        let after = Some(asked.after).filter(|after| !after.is_empty());
        let after = after.map(|after| job_id(&after)).transpose()?;
        let jobs = self.host.task.ask(move |broker| broker.list(db.as_ref(), after, PAGE)).await?;
        let seen = jobs.into_iter().filter(|job| scope.holds(&job.db));
        Ok(Response::new(wire::ListJobsResponse { jobs: seen.map(Into::into).collect() }))
    }

    async fn cancel_job(
        &self,
        request: Request<wire::CancelJobRequest>,
    ) -> Result<Response<wire::CancelJobResponse>, Status> {
        let scope = self.admit(&request, Role::Admin).await?;
        let job = job_id(&request.into_inner().job)?;
        self.touch(job, scope).await?;
        self.host.task.tell(BrokerEvent::Cancel(job)).await?;
        Ok(Response::new(wire::CancelJobResponse {}))
    }

    async fn drain_worker(
        &self,
        request: Request<wire::DrainWorkerRequest>,
    ) -> Result<Response<wire::DrainWorkerResponse>, Status> {
        let scope = self.admit(&request, Role::Admin).await?;
        // A worker serves several databases: who may speak for one only may not send it home.
        if scope != Scope::All {
            return Err(Status::permission_denied(
                "only who may act for all databases drains workers",
            ));
        }
        let worker = WorkerId::new(&request.into_inner().worker).map_err(Invalid::from)?;
        self.host.task.tell(BrokerEvent::Drain(worker)).await?;
        Ok(Response::new(wire::DrainWorkerResponse {}))
    }

    async fn stats(
        &self,
        request: Request<wire::StatsRequest>,
    ) -> Result<Response<wire::StatsResponse>, Status> {
        self.admit(&request, Role::Admin).await?;
        let stats = self.host.counted().await?;
        Ok(Response::new(wire::StatsResponse { values: stats.values().into_iter().collect() }))
    }
}

impl Service {
    /// What is not there looks like what is not for this caller.
    async fn touch(&self, job: JobId, scope: Scope) -> Result<(), Status> {
        let db = self.host.task.ask(move |broker| broker.db_of(job).cloned()).await?;
        if db.is_some_and(|db| scope.holds(&db)) {
            return Ok(());
        }
        Err(Status::not_found("no such job, or not for this caller"))
    }
}

impl From<Invalid> for Status {
    fn from(invalid: Invalid) -> Self {
        Status::invalid_argument(invalid.to_string())
    }
}
