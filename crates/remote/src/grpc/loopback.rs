//! A broker, workers and the wires between them in one process, on the loopback interface. Each has a runtime of its own as if
//! it were a process: it is killed, paused and cut off without the others. For tests, and for whoever measures what faults
//! cost.

use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::host::BrokerHost;
use super::security::{BrokerAddress, ClientSecurity, ServerSecurity, TransportError};
use super::worker::run_worker;
use crate::broker::config::BrokerConfig;
use crate::broker::report::{BrokerStats, JobView};
use crate::security::authority::{Authority, Grant, Role, Scope};
use crate::worker::event::WorkerConfig;
use crate::worker::runner::JobRunner;

/// Whoever had a port before lets go of it within this.
const LETTING_GO: Duration = Duration::from_secs(60);

/// A runtime with one thread, which carries messages: they are few and small, and jobs have threads of their own.
///
/// # Errors
///
/// If the system gives no thread.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

/// How a broker there is reached.
pub fn address(socket: SocketAddr) -> BrokerAddress {
    BrokerAddress {
        uri: format!("http://{socket}"),
        security: ClientSecurity::PlaintextOnLoopback,
        token: None,
        on_lost: None,
    }
}

/// On a free port, or on one that somebody may not have let go of yet.
async fn listen(again: Option<SocketAddr>) -> io::Result<TcpListener> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let until = Instant::now() + LETTING_GO;
    loop {
        match TcpListener::bind(again.unwrap_or(any)).await {
            Err(error) if again.is_none() || Instant::now() > until => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            Ok(listener) => return Ok(listener),
        }
    }
}

fn unusable(error: io::Error) -> TransportError {
    TransportError::new(error.to_string())
}

/// A broker that anybody on this machine may use. Without [`end`](Self::end) its connections break, and nobody is told why.
pub struct Broker {
    runtime: Runtime,
    host: BrokerHost,
    socket: SocketAddr,
    serving: JoinHandle<Result<(), TransportError>>,
    stop: oneshot::Sender<()>,
}

impl Broker {
    /// Starts one, on a free port or where one was that has ended.
    ///
    /// # Errors
    ///
    /// If there is no such port, or no thread.
    pub fn start(config: BrokerConfig, again: Option<SocketAddr>) -> Result<Self, TransportError> {
        let runtime = runtime().map_err(unusable)?;
        let listener = runtime.block_on(listen(again)).map_err(unusable)?;
        let socket = listener.local_addr().map_err(unusable)?;
        let mut authority = Authority::new();
        for role in [Role::Worker, Role::Client, Role::Replica] {
            authority.allow_plaintext(Grant { role, scope: Scope::All });
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let host = runtime.block_on(async { BrokerHost::start(config) });
        let served = host.clone();
        let serving = runtime.spawn(async move {
            let stopped = async { drop(stopped.await) };
            served.serve(listener, ServerSecurity::PlaintextOnLoopback, authority, stopped).await
        });
        Ok(Broker { runtime, host, socket, serving, stop })
    }

    /// Where it listens.
    pub fn socket(&self) -> SocketAddr {
        self.socket
    }

    /// Its counters.
    pub fn stats(&self) -> BrokerStats {
        self.runtime.block_on(self.host.stats())
    }

    /// Its jobs.
    pub fn jobs(&self) -> Vec<JobView> {
        self.runtime.block_on(self.host.jobs(None, usize::MAX))
    }

    /// Ends it: all that it knew is gone. Another one may be started where it was, which is returned.
    ///
    /// # Errors
    ///
    /// What ended it before.
    pub fn end(self) -> Result<SocketAddr, TransportError> {
        let Broker { runtime, host, socket, serving, stop } = self;
        // If nobody listens, it has ended already.
        let _ = stop.send(());
        let served = runtime.block_on(serving);
        drop(host);
        served.map_err(|error| TransportError::new(error.to_string()))?.map(|()| socket)
    }
}

/// A worker. Jobs that run when it goes are not waited for, and run on as zombies do.
pub struct Worker {
    runtime: Option<Runtime>,
    running: JoinHandle<Result<(), TransportError>>,
}

impl Worker {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// If there is no thread.
    pub fn start(
        config: WorkerConfig,
        broker: BrokerAddress,
        runner: Arc<dyn JobRunner>,
    ) -> Result<Self, TransportError> {
        let runtime = runtime().map_err(unusable)?;
        let running = runtime.spawn(run_worker(config, broker, runner, pending()));
        Ok(Worker { runtime: Some(runtime), running })
    }

    /// Its only thread stands still: no heartbeats, no messages. Jobs run on, as zombies do.
    pub fn pause(&self, time: Duration) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move { std::thread::sleep(time) });
        }
    }

    /// Its connection breaks, and nobody says goodbye.
    pub fn kill(self) {
        self.running.abort();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A wire to a broker, which can be cut.
pub struct Wire {
    runtime: Runtime,
    socket: SocketAddr,
    to: SocketAddr,
    carrying: Option<JoinHandle<()>>,
}

impl Wire {
    /// One that carries.
    ///
    /// # Errors
    ///
    /// If there is no port, or no thread.
    pub fn to(to: SocketAddr) -> Result<Self, TransportError> {
        let runtime = runtime().map_err(unusable)?;
        let listener = runtime.block_on(listen(None)).map_err(unusable)?;
        let socket = listener.local_addr().map_err(unusable)?;
        let carrying = Some(runtime.spawn(carry(listener, to)));
        Ok(Wire { runtime, socket, to, carrying })
    }

    /// Its near end, which stays what it is.
    pub fn socket(&self) -> SocketAddr {
        self.socket
    }

    /// All connections are gone, and nothing goes through from now on.
    pub fn cut(&mut self) {
        if let Some(carrying) = self.carrying.take() {
            carrying.abort();
            // Its end says that it was ended.
            let _ = self.runtime.block_on(carrying);
        }
    }

    /// It carries again.
    ///
    /// # Errors
    ///
    /// If somebody else has its port.
    pub fn mend(&mut self) -> Result<(), TransportError> {
        if self.carrying.is_none() {
            let listener = self.runtime.block_on(listen(Some(self.socket))).map_err(unusable)?;
            self.carrying = Some(self.runtime.spawn(carry(listener, self.to)));
        }
        Ok(())
    }
}

/// Connections end with it.
async fn carry(listener: TcpListener, to: SocketAddr) {
    let mut lines = tokio::task::JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        lines.spawn(async move {
            if let Ok(mut far) = TcpStream::connect(to).await {
                // Which side has ended it, both sides know.
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            }
        });
    }
}
