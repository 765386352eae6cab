//! Versions that a writer announces, and those who watch: whatever becomes of the broker, they hear the last word.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use siltstone_remote::{ClientConfig, DbId, RemoteClient, VersionWatch};
use tokio::runtime::Handle;

use crate::{Broker, PATIENCE, SOON, broker_at, client_of};

fn db(name: &str) -> DbId {
    DbId::new(name).unwrap()
}

/// A watcher, and what it hears.
struct Ear {
    heard: Receiver<u64>,
    _watch: VersionWatch,
}

impl Ear {
    fn at(address: SocketAddr, name: &str) -> Self {
        let (tell, heard) = channel();
        let hear = Box::new(move |version| {
            // Nobody listens any more at the end of a test.
            let _ = tell.send(version);
        });
        let config = ClientConfig { reconnect: SOON, seed: 9 };
        let (runtime, address) = (Handle::current(), broker_at(address));
        let watch = VersionWatch::start(&runtime, config, address, db(name), hear).unwrap();
        Ear { heard, _watch: watch }
    }

    /// Waits until it has heard that number.
    fn wait_for(&self, version: u64) {
        tokio::task::block_in_place(|| {
            while self.heard.recv_timeout(PATIENCE).expect("in time") != version {}
        });
    }

    /// Waits until it hears a number from there on, of which the writer announces one after the other.
    fn wait_while(&self, client: &RemoteClient, name: &str, from: u64) {
        tokio::task::block_in_place(|| {
            for version in from..from + 3_000 {
                client.announce(&db(name), version);
                let heard = self.heard.recv_timeout(Duration::from_millis(10));
                if heard.is_ok_and(|heard| heard >= from) {
                    return;
                }
            }
            panic!("nothing was heard");
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_hear_of_their_database_from_any_number_of_writers() {
    let broker = Broker::start(1, None).await;
    let client = client_of(broker.address);
    let early = [Ear::at(broker.address, "a"), Ear::at(broker.address, "a")];
    let other = Ear::at(broker.address, "b");
    for version in 1..=50 {
        client.announce(&db("a"), version);
    }
    early.iter().for_each(|ear| ear.wait_for(50));
    Ear::at(broker.address, "a").wait_for(50);
    let second = client_of(broker.address);
    second.announce(&db("a"), 51);
    second.announce(&db("b"), 3);
    early.iter().for_each(|ear| ear.wait_for(51));
    assert_eq!(other.heard.recv_timeout(PATIENCE), Ok(3), "and of no other");
    // The one that has gone gives its seat back when the broker finds out.
    let end = Instant::now() + PATIENCE;
    while broker.host.stats().await.watchers != 3 {
        assert!(Instant::now() < end, "three are left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_in_the_process_passes_on_its_own_clients_news() {
    let broker = Broker::start(1, None).await;
    let config = ClientConfig { reconnect: SOON, seed: 5 };
    let here = siltstone_remote::BrokerPlace::Here(broker.host.clone());
    let client = RemoteClient::start(&Handle::current(), config, here).unwrap();
    let ear = Ear::at(broker.address, "a");
    client.announce(&db("a"), 4);
    ear.wait_for(4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_starts_again_has_no_news_until_there_is_some() {
    let broker = Broker::start(1, None).await;
    let client = client_of(broker.address);
    let ear = Ear::at(broker.address, "a");
    client.announce(&db("a"), 1);
    ear.wait_for(1);
    let address = broker.end().await;
    // What is said while nobody is there arrives as far as it is the last word.
    for version in 2..=9 {
        client.announce(&db("a"), version);
    }
    let broker = Broker::start(2, Some(address)).await;
    ear.wait_for(9);
    assert!(broker.host.stats().await.announced >= 1);
    let address = broker.end().await;
    let broker = Broker::start(3, Some(address)).await;
    ear.wait_while(&client, "a", 10);
    drop(broker);
}
