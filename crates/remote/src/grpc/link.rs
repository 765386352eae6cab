//! Connections out: from a worker or a client to its broker. One at a time; what an earlier one still says is not heard.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};

use super::MESSAGE_BYTES_MAX;
use super::broker::OUTPUTS;
use super::caller::show_token;
use super::security::BrokerAddress;
use super::wire;
use super::wire::compaction_client::CompactionClient;
use crate::job::name::DbId;

const GOODBYE: Duration = Duration::from_secs(1);

pub(super) type Connected = CompactionClient<tonic::transport::Channel>;

/// Opens the stream to the broker, with the requests that come out of the receiver.
pub(super) async fn connect(address: &BrokerAddress) -> Result<Connected, Status> {
    let endpoint =
        address.endpoint().map_err(|error| Status::invalid_argument(error.to_string()))?;
    let channel = endpoint.connect().await;
    let channel = channel.map_err(|_| Status::unavailable("the broker cannot be reached"))?;
    Ok(CompactionClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX))
}

pub(super) async fn open_session(
    address: &BrokerAddress,
    messages: mpsc::Receiver<wire::WorkerToBroker>,
) -> Result<Streaming<wire::BrokerToWorker>, Status> {
    let mut request = Request::new(ReceiverStream::new(messages));
    show_token(&mut request, address.token.as_ref());
    Ok(connect(address).await?.session(request).await?.into_inner())
}

pub(super) async fn open_submit(
    address: &BrokerAddress,
    messages: mpsc::Receiver<wire::ClientToBroker>,
) -> Result<Streaming<wire::BrokerToClient>, Status> {
    let mut request = Request::new(ReceiverStream::new(messages));
    show_token(&mut request, address.token.as_ref());
    Ok(connect(address).await?.submit(request).await?.into_inner())
}

pub(super) async fn open_watch(
    address: &BrokerAddress,
    db: &DbId,
) -> Result<Streaming<wire::News>, Status> {
    let mut request = Request::new(wire::WatchRequest { db: db.as_str().to_owned() });
    show_token(&mut request, address.token.as_ref());
    Ok(connect(address).await?.watch(request).await?.into_inner())
}

/// One call, over a connection that stays.
pub(super) async fn announce(
    calls: &mut Connected,
    address: &BrokerAddress,
    (db, version): (&DbId, u64),
) -> Result<(), Status> {
    let mut request = Request::new(wire::AnnounceRequest { db: db.as_str().to_owned(), version });
    show_token(&mut request, address.token.as_ref());
    calls.announce(request).await.map(drop)
}

/// What a connection brings.
pub(super) enum Incoming<T> {
    Message(T),
    Lost,
}

/// A connection: where to send, and the task that reads. Both end with it.
pub(super) struct Link<Out> {
    sender: Option<mpsc::Sender<Out>>,
    reader: JoinHandle<()>,
}

impl<Out> Link<Out> {
    /// `open` makes the connection of messages to send, and brings what comes to `inbox`, with the number of this
    /// connection, until it ends.
    pub(super) fn new<F>(open: impl FnOnce(mpsc::Receiver<Out>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, messages) = mpsc::channel(OUTPUTS);
        Link { sender: Some(sender), reader: tokio::spawn(open(messages)) }
    }

    /// False if the connection is gone, or its queue is full: then it should go.
    pub(super) fn send(&self, message: Out) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.try_send(message).is_ok())
    }

    /// Lets what was sent go out, and the other side end the connection; not for long.
    pub(super) async fn finish(mut self) {
        self.sender = None;
        let _ = timeout(GOODBYE, &mut self.reader).await;
    }
}

impl<Out> Drop for Link<Out> {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
