//! What can be set about a broker.

use std::time::Duration;

use crate::backoff::BackoffLimits;

/// Settings of a broker.
#[derive(Clone, Copy, Debug)]
pub struct BrokerConfig {
    /// Which start of this broker it is. Must be higher at each, for it is what keeps attempts of two starts apart; the
    /// seconds since 1970 will do.
    pub term: u32,
    /// A worker that was not heard of for so long has lost its jobs.
    pub lease: Duration,
    /// Workers and clients are asked to send heartbeats this far apart.
    pub heartbeat: Duration,
    /// How long a job rests after a failed attempt.
    pub retry: BackoffLimits,
    /// Jobs of one database at once, finished ones that nobody has collected included.
    pub jobs_max: usize,
    /// Jobs of clients that went and did not come back for so long are given up.
    pub client_patience: Duration,
    /// What a worker holds of a job that this broker does not know is kept for so long: whoever submitted it to the
    /// broker's former self may submit it again.
    pub claim_patience: Duration,
    /// A finished job that nobody collects is kept for so long.
    pub retention: Duration,
    /// Databases whose last announced version is known at once. Past that, those that nobody watches are forgotten.
    pub databases_max: usize,
    /// Watchers of all databases at once. Who comes too late must look into the bucket by itself.
    pub watchers_max: usize,
    /// For waits between attempts.
    pub seed: u64,
}

impl BrokerConfig {
    /// The usual settings: leases of 15 s, heartbeats each 5 s.
    pub fn new(term: u32, seed: u64) -> Self {
        BrokerConfig {
            term,
            lease: Duration::from_secs(15),
            heartbeat: Duration::from_secs(5),
            retry: BackoffLimits {
                first: Duration::from_millis(100),
                most: Duration::from_secs(5),
            },
            jobs_max: 4_096,
            client_patience: Duration::from_secs(60),
            claim_patience: Duration::from_secs(60),
            retention: Duration::from_secs(600),
            databases_max: 4_096,
            watchers_max: 1_024,
            seed,
        }
    }
}
