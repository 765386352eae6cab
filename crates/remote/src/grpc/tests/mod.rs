//! Who is let in over real TLS, and who is not: each case is wrong in one thing only. Nothing that must not be seen is
//! seen in what they are told.

mod certificates;

use std::net::SocketAddr;
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use super::convert::job_bytes;
use super::host::BrokerHost;
use super::link::{Connected, announce, connect, open_session, open_submit, open_watch};
use super::security::{BrokerAddress, ClientSecurity, ServerSecurity, TlsFiles};
use super::wire;
use super::wire::compaction_client::CompactionClient;
use crate::broker::config::BrokerConfig;
use crate::job::id::JobId;
use crate::job::name::DbId;
use crate::message::{ClientMessage, ClientReply, Refused, WorkerMessage, WorkerOrder};
use crate::security::authority::{Authority as Grants, Grant, Role, Scope};
use crate::security::secret::Secret;
use crate::testing::{hello, submission_of};
use certificates::{Authority, Wanted, self_signed};

const BROKER: &str = "broker.test";
const PATIENCE: Duration = Duration::from_secs(20);
const TOKEN_A: [u8; 32] = *b"canary-token-of-database-a-00000";
const TOKEN_B: [u8; 32] = *b"canary-token-of-database-b-00000";

struct Ground {
    ours: Authority,
    others: Authority,
    address: SocketAddr,
    host: BrokerHost,
    /// All that anybody was told.
    heard: Vec<String>,
    refused: usize,
    _stop: oneshot::Sender<()>,
}

fn of_db(role: Role, db: &str) -> Grant {
    Grant { role, scope: Scope::one(DbId::new(db).unwrap()) }
}

fn grants() -> Grants {
    let mut grants = Grants::new();
    grants.allow_name("a.clients", of_db(Role::Client, "a"));
    grants.allow_name("one.workers", of_db(Role::Worker, "a"));
    grants.allow_name("a.admins", of_db(Role::Admin, "a"));
    grants.allow_name("a.replicas", of_db(Role::Replica, "a"));
    grants.allow_name("revoked.clients", of_db(Role::Client, "a"));
    grants.revoke("63");
    grants.allow_token(Secret::new(&TOKEN_A).unwrap(), of_db(Role::Client, "a")).unwrap();
    grants.allow_token(Secret::new(&TOKEN_B).unwrap(), of_db(Role::Client, "b")).unwrap();
    grants
}

impl Ground {
    async fn new(server: impl FnOnce(&Authority, &Authority) -> ServerSecurity) -> Self {
        let (ours, others) = (Authority::new(), Authority::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let host = BrokerHost::start(BrokerConfig::new(1, 7));
        let (stop, stopped) = oneshot::channel::<()>();
        let (security, served) = (server(&ours, &others), host.clone());
        tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            served.serve(listener, security, grants(), stopped).await.unwrap();
        });
        Ground { ours, others, address, host, heard: Vec::new(), refused: 0, _stop: stop }
    }

    async fn with_tls() -> Self {
        Ground::new(|ours, _| ServerSecurity::Tls(ours.sign(Wanted::server(BROKER), ours))).await
    }

    fn address(&self, files: TlsFiles) -> BrokerAddress {
        BrokerAddress {
            uri: format!("https://{}", self.address),
            security: ClientSecurity::Tls { files, broker: BROKER.into() },
            token: None,
            on_lost: None,
        }
    }

    fn client(&self) -> BrokerAddress {
        self.address(self.ours.sign(Wanted::client("a.clients"), &self.ours))
    }

    fn worker(&self) -> BrokerAddress {
        self.address(self.ours.sign(Wanted::client("one.workers"), &self.ours))
    }

    /// Neither as a client nor as a worker.
    async fn refuses(&mut self, case: &str, address: &BrokerAddress) {
        for status in [submit(address).await.err(), session(address).await.err()] {
            let status = status.unwrap_or_else(|| panic!("{case} was let in"));
            self.heard.push(format!("{status:?} {status}"));
        }
        self.heard.push(format!("{address:?}"));
        self.refused += 1;
    }

    fn refuses_call<T>(&mut self, case: &str, answer: Result<T, Status>) {
        let Err(status) = answer else { panic!("{case} was let in") };
        self.heard.push(format!("{status:?} {status}"));
        self.refused += 1;
    }
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("nobody waits for ever")
}

/// To the welcome.
async fn submit(address: &BrokerAddress) -> Result<(), Status> {
    let (_messages, receiver) = mpsc::channel(1);
    let mut replies = in_time(open_submit(address, receiver)).await?;
    let first = in_time(replies.message()).await?;
    let first = first.ok_or_else(|| Status::unavailable("ended"))?;
    assert!(matches!(ClientReply::try_from(first), Ok(ClientReply::Welcome { .. })));
    Ok(())
}

async fn session(address: &BrokerAddress) -> Result<(), Status> {
    let (messages, receiver) = mpsc::channel(1);
    messages.send(hello("w", 1).into()).await.unwrap();
    let mut orders = in_time(open_session(address, receiver)).await?;
    let first = in_time(orders.message()).await?;
    let first = first.ok_or_else(|| Status::unavailable("ended"))?;
    assert!(matches!(WorkerOrder::try_from(first), Ok(WorkerOrder::Welcome { .. })));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_decide_who_comes_in() {
    let mut ground = Ground::with_tls().await;
    submit(&ground.client()).await.unwrap();
    session(&ground.worker()).await.unwrap();

    let name = "a.clients";
    let sign = |wanted| ground.address(ground.ours.sign(wanted, &ground.ours));
    let expired = sign(Wanted { years: (2000, 2010), ..Wanted::client(name) });
    let early = sign(Wanted { years: (2110, 2120), ..Wanted::client(name) });
    let usage = ExtendedKeyUsagePurpose::ServerAuth;
    let for_servers = sign(Wanted { usage, ..Wanted::client(name) });
    let unknown = sign(Wanted::client("b.clients"));
    let upper = sign(Wanted { names: vec!["a.clients.example"], ..Wanted::client(name) });
    let by_common_name =
        sign(Wanted { names: vec!["x"], common_name: name, ..Wanted::client(name) });
    let nameless = sign(Wanted { names: Vec::new(), ..Wanted::client(name) });
    let revoked = sign(Wanted { serial: 0x63, ..Wanted::client("revoked.clients") });
    let wildcard = sign(Wanted::client("*.clients"));
    ground.refuses("an expired certificate", &expired).await;
    ground.refuses("one that is not valid yet", &early).await;
    ground.refuses("one for servers", &for_servers).await;
    ground.refuses("an unknown name", &unknown).await;
    ground.refuses("a longer name", &upper).await;
    ground.refuses("the right name in the wrong place", &by_common_name).await;
    ground.refuses("no name at all", &nameless).await;
    ground.refuses("a revoked one", &revoked).await;
    ground.refuses("a wildcard", &wildcard).await;

    let foreign = ground.address(ground.others.sign(Wanted::client(name), &ground.ours));
    ground.refuses("another authority of the same name", &foreign).await;
    let own = ground.address(self_signed(Wanted::client(name), &ground.ours));
    ground.refuses("one signed by itself", &own).await;
    let by_leaf = ground.address(ground.ours.sign_by_leaf(Wanted::client(name)));
    ground.refuses("one signed by an ordinary one", &by_leaf).await;
    let stolen = ground.ours.sign(Wanted::client(name), &ground.ours).certificate;
    let without_key =
        TlsFiles { certificate: stolen, ..ground.others.sign(Wanted::client("x"), &ground.ours) };
    let without_key = ground.address(without_key);
    ground.refuses("a certificate without its key", &without_key).await;

    assert_eq!(ground.refused, 13);
    assert!(ground.host.stats().await.workers <= 1, "the one that was let in");
    assert_nothing_leaked(&ground.heard);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_must_show_who_they_are() {
    let name = "a.clients";
    let mut cases = Vec::new();
    let mut ground = Ground::with_tls().await;
    let mut elsewhere = ground.client();
    let ClientSecurity::Tls { broker, .. } = &mut elsewhere.security else { panic!() };
    *broker = "other.test".into();
    ground.refuses("a broker of another name", &elsewhere).await;
    let distrustful = ground.ours.sign(Wanted::client(name), &ground.others);
    let distrustful = ground.address(distrustful);
    ground.refuses("a broker of another authority", &distrustful).await;
    cases.push(ground);

    type Server = fn(&Authority, &Authority) -> ServerSecurity;
    let servers: [(&str, Server); 3] = [
        ("an expired broker", |ours, _| {
            let wanted = Wanted { years: (2000, 2010), ..Wanted::server(BROKER) };
            ServerSecurity::Tls(ours.sign(wanted, ours))
        }),
        ("a broker with a client's certificate", |ours, _| {
            ServerSecurity::Tls(ours.sign(Wanted::client(BROKER), ours))
        }),
        ("a broker without TLS", |_, _| ServerSecurity::PlaintextOnLoopback),
    ];
    for (case, server) in servers {
        let mut ground = Ground::new(server).await;
        let client = ground.client();
        ground.refuses(case, &client).await;
        cases.push(ground);
    }
    assert_eq!(cases.iter().map(|ground| ground.refused).sum::<usize>(), 5);
    cases.iter().for_each(|ground| assert_nothing_leaked(&ground.heard));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_certificate_or_tls_nobody_comes_in() {
    let mut ground = Ground::with_tls().await;
    // No certificate, and the right authority.
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(&ground.ours.pem))
        .domain_name(BROKER);
    let endpoint = Endpoint::from_shared(format!("https://{}", ground.address)).unwrap();
    let anonymous = stats_over(endpoint.tls_config(tls).unwrap()).await;
    ground.refuses_call("no certificate", anonymous);
    let plain = Endpoint::from_shared(format!("http://{}", ground.address)).unwrap();
    let plain = stats_over(plain).await;
    ground.refuses_call("no TLS", plain);
    // A port that speaks first, or not at all, holds nobody up.
    let mut stalled = TcpStream::connect(ground.address).await.unwrap();
    stalled.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    submit(&ground.client()).await.unwrap();
    let mut rest = Vec::new();
    let ended = in_time(stalled.read_to_end(&mut rest)).await;
    assert!(ended.is_ok() || rest.is_empty(), "a handshake has its time");
    // TLS 1.1 and older: a hello with that version, as OpenSSL 1.0 sends it.
    let mut old = TcpStream::connect(ground.address).await.unwrap();
    let client_hello =
        [&[0x16, 3, 1, 0, 47, 1, 0, 0, 43, 3, 2][..], &[7; 32], &[0, 0, 4, 0, 0x2f, 0, 0x35, 1, 0]];
    old.write_all(&client_hello.concat()).await.unwrap();
    let mut answer = Vec::new();
    let _ = in_time(old.read_to_end(&mut answer)).await;
    assert!(answer.is_empty() || answer[0] == 0x15, "an alert at most: {answer:?}");
    assert_nothing_leaked(&ground.heard);
}

async fn stats_over(endpoint: Endpoint) -> Result<(), Status> {
    let unreachable = |_| Status::unavailable("no connection");
    let channel = in_time(endpoint.connect()).await.map_err(unreachable)?;
    let mut client = CompactionClient::new(channel);
    in_time(client.stats(wire::StatsRequest {})).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_plays_another_part() {
    let mut ground = Ground::with_tls().await;
    let (client, worker) = (ground.client(), ground.worker());
    let as_worker = session(&client).await;
    ground.refuses_call("a client as a worker", as_worker);
    let as_client = submit(&worker).await;
    ground.refuses_call("a worker as a client", as_client);
    for (who, address) in [("client", &client), ("worker", &worker)] {
        let mut calls = connect(address).await.unwrap();
        let answer = calls.stats(wire::StatsRequest {}).await;
        ground.refuses_call(&format!("stats by a {who}"), answer);
        let answer = calls.list_jobs(wire::ListJobsRequest::default()).await;
        ground.refuses_call(&format!("a list by a {who}"), answer);
        let job = job_bytes(JobId::from_u128(1));
        let answer = calls.cancel_job(wire::CancelJobRequest { job }).await;
        ground.refuses_call(&format!("a cancel by a {who}"), answer);
        let answer = calls.drain_worker(wire::DrainWorkerRequest { worker: "w".into() }).await;
        ground.refuses_call(&format!("a drain by a {who}"), answer);
    }
    let admin = ground.address(ground.ours.sign(Wanted::client("a.admins"), &ground.ours));
    let mut calls = connect(&admin).await.unwrap();
    calls.stats(wire::StatsRequest {}).await.unwrap();
    let answer = calls.drain_worker(wire::DrainWorkerRequest { worker: "w".into() }).await;
    ground.refuses_call("a drain by one database's administrator", answer);
    // Another database's job looks as if it were not there.
    let mut other = ground.client();
    other.token = Some(Secret::new(&TOKEN_B).unwrap());
    assert_eq!(submit_job(&other, "b").await, ClientReply::Queued(JobId::from_u128(4)));
    let listed = calls.list_jobs(wire::ListJobsRequest::default()).await.unwrap().into_inner();
    assert!(listed.jobs.is_empty());
    let job = job_bytes(JobId::from_u128(4));
    let answer = calls.cancel_job(wire::CancelJobRequest { job }).await;
    ground.refuses_call("a cancel of another database's job", answer);
    assert_eq!(ground.refused, 12);
    assert_nothing_leaked(&ground.heard);
}

/// All that somebody of database a cannot do who is neither its administrator nor its worker.
async fn refuses_all_but_news(ground: &mut Ground, who: &str, address: &BrokerAddress) {
    let as_worker = session(address).await;
    ground.refuses_call(&format!("a {who} as a worker"), as_worker);
    let mut calls = connect(address).await.unwrap();
    let answer = calls.stats(wire::StatsRequest {}).await;
    ground.refuses_call(&format!("stats by a {who}"), answer);
    let answer = calls.list_jobs(wire::ListJobsRequest::default()).await;
    ground.refuses_call(&format!("a list by a {who}"), answer);
    let job = job_bytes(JobId::from_u128(1));
    let answer = calls.cancel_job(wire::CancelJobRequest { job }).await;
    ground.refuses_call(&format!("a cancel by a {who}"), answer);
}

async fn announces(address: &BrokerAddress, db: &str, version: u64) -> Result<(), Status> {
    let mut calls: Connected = in_time(connect(address)).await?;
    in_time(announce(&mut calls, address, (&DbId::new(db).unwrap(), version))).await
}

async fn watches(address: &BrokerAddress, db: &str) -> Result<u64, Status> {
    let mut news = in_time(open_watch(address, &DbId::new(db).unwrap())).await?;
    let first = in_time(news.message()).await?;
    Ok(first.ok_or_else(|| Status::unavailable("ended"))?.version)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_hear_of_their_database_and_do_nothing_else() {
    let mut ground = Ground::with_tls().await;
    let (client, worker) = (ground.client(), ground.worker());
    let named = |name| ground.address(ground.ours.sign(Wanted::client(name), &ground.ours));
    let (replica, admin) = (named("a.replicas"), named("a.admins"));
    announces(&client, "a", 7).await.unwrap();
    assert_eq!(watches(&replica, "a").await.unwrap(), 7);

    refuses_all_but_news(&mut ground, "replica", &replica).await;
    let as_client = submit(&replica).await;
    ground.refuses_call("a replica as a client", as_client);
    let speaks = announces(&replica, "a", 9).await;
    ground.refuses_call("an announcement by a replica", speaks);
    // Another database's, whether there is one or not.
    let mut other = ground.client();
    other.token = Some(Secret::new(&TOKEN_B).unwrap());
    announces(&other, "b", 3).await.unwrap();
    for db in ["b", "nowhere"] {
        let hears = watches(&replica, db).await;
        ground.refuses_call("news of another database", hears);
        let speaks = announces(&client, db, 9).await;
        ground.refuses_call("an announcement for another database", speaks);
    }
    for (who, address) in [("client", &client), ("worker", &worker), ("admin", &admin)] {
        let hears = watches(address, "a").await;
        ground.refuses_call(&format!("news for a {who}"), hears);
    }
    for (who, address) in [("worker", &worker), ("admin", &admin)] {
        let speaks = announces(address, "a", 9).await;
        ground.refuses_call(&format!("an announcement by a {who}"), speaks);
    }
    assert_eq!(ground.refused, 15);
    assert_eq!(watches(&replica, "a").await.unwrap(), 7, "nothing of it was heard");
    assert_eq!(ground.host.stats().await.announced, 2);
    assert_nothing_leaked(&ground.heard);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_does_not_listen_holds_up_nobody_and_gives_its_seat_back() {
    let ground = Ground::with_tls().await;
    let replica = ground.address(ground.ours.sign(Wanted::client("a.replicas"), &ground.ours));
    let db = DbId::new("a").unwrap();
    let mut deaf = in_time(open_watch(&replica, &db)).await.unwrap();
    for version in 1..=100_000 {
        ground.host.board.announce(&db, version);
    }
    assert_eq!(watches(&replica, "a").await.unwrap(), 100_000, "others hear");
    // All that it hears late is in order, and ends with the last.
    let mut last = 0;
    while last < 100_000 {
        let heard = in_time(deaf.message()).await.unwrap().expect("it goes on").version;
        assert!(heard > last, "{heard} after {last}");
        last = heard;
    }
    drop(deaf);
    in_time(async {
        while ground.host.stats().await.watchers > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Submits a job of a database, and waits for what is said about it.
async fn submit_job(address: &BrokerAddress, db: &str) -> ClientReply {
    let (messages, receiver) = mpsc::channel(1);
    let mut replies = open_submit(address, receiver).await.unwrap();
    let mut submission = submission_of(4, db);
    submission.storage = Some(Secret::new(b"canary-credentials").unwrap());
    messages.send(ClientMessage::Submit(submission).into()).await.unwrap();
    loop {
        let reply = in_time(replies.message()).await.unwrap().unwrap();
        match ClientReply::try_from(reply).unwrap() {
            ClientReply::Welcome { .. } => {}
            reply => return reply,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_narrow_what_a_certificate_allows() {
    let mut ground = Ground::with_tls().await;
    let bearing = |token: &[u8]| {
        let mut address = ground.client();
        address.token = Some(Secret::new(token).unwrap());
        address
    };
    let (of_a, of_b) = (bearing(&TOKEN_A), bearing(&TOKEN_B));
    let mut wrong = TOKEN_A;
    wrong[31] ^= 1;
    let cases = [
        ("a token with one bit changed", bearing(&wrong)),
        ("a truncated token", bearing(&TOKEN_A[..31])),
        ("half a token", bearing(&TOKEN_A[..16])),
        ("a longer token", bearing(&[&TOKEN_A[..], b"0"].concat())),
        ("an empty token", bearing(b"")),
    ];
    let job = JobId::from_u128(4);
    let denied = ClientReply::Refused(job, Refused::Denied);
    assert_eq!(submit_job(&of_b, "a").await, denied, "another database's token");
    assert_eq!(submit_job(&of_a, "b").await, denied, "another database's job");
    assert_eq!(submit_job(&ground.client(), "b").await, denied, "nor without any token");
    assert_eq!(submit_job(&of_a, "a").await, ClientReply::Queued(job));
    ground.refused += 3;
    let as_worker = session(&of_a).await;
    ground.refuses_call("a client's token as a worker's", as_worker);
    for (case, address) in &cases {
        ground.refuses(case, address).await;
    }
    // More guesses than that are not looked at, whatever they are.
    for guess in 0..3 {
        let address = {
            let mut address = ground.client();
            address.token = Some(Secret::new(&[guess; 32]).unwrap());
            address
        };
        ground.refuses("a guess", &address).await;
    }
    let right_but_late = submit(&of_a).await;
    ground.refuses_call("the right one, after many wrong ones", right_but_late);
    assert_eq!(ground.refused, 13);
    assert_nothing_leaked(&ground.heard);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_out_of_turn_or_out_of_bounds_end_a_session() {
    let ground = Ground::with_tls().await;
    let worker = ground.worker();
    // No hello.
    let (messages, receiver) = mpsc::channel(1);
    messages.send(WorkerMessage::Leaving.into()).await.unwrap();
    assert!(in_time(open_session(&worker, receiver)).await.is_err());
    // Two of them; nothing at all; more than a message may hold.
    let huge = {
        let mut huge = hello("w", 1);
        huge.zone = "z".repeat(super::MESSAGE_BYTES_MAX);
        huge
    };
    let bad = [hello("w", 1).into(), wire::WorkerToBroker::default(), huge.into()];
    for message in bad {
        let (messages, receiver) = mpsc::channel(2);
        messages.send(hello("w", 1).into()).await.unwrap();
        let mut orders = in_time(open_session(&worker, receiver)).await.unwrap();
        in_time(orders.message()).await.unwrap().unwrap();
        messages.send(message).await.unwrap();
        let ended = in_time(orders.message()).await;
        assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    }
    session(&worker).await.unwrap();
}

/// Neither tokens nor credentials nor keys, in text, in digits or as a list of bytes.
fn assert_nothing_leaked(heard: &[String]) {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let list = |bytes: &[u8]| format!("{bytes:?}").trim_matches(['[', ']']).to_owned();
    let canary = b"canary";
    for text in heard {
        for secret in ["canary", "PRIVATE KEY", &digits(canary), &list(canary), &list(b"PRIVATE")] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn the_canary_search_finds_canaries() {
    for text in ["a canary", "63616e617279", "[1, 99, 97, 110, 97, 114, 121]"] {
        let heard = [text.to_owned()];
        assert!(std::panic::catch_unwind(|| assert_nothing_leaked(&heard)).is_err(), "{text}");
    }
}

#[tokio::test]
async fn requests_do_not_print_their_token() {
    let mut request = Request::new(());
    super::caller::show_token(&mut request, Some(&Secret::new(&TOKEN_A).unwrap()));
    assert_nothing_leaked(&[format!("{request:?}")]);
}
