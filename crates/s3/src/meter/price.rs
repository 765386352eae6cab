//! What requests cost: a table that users set. Called for snapshots and metrics.

use super::{Verb, VerbUse};

const GIGABYTE: f64 = 1e9;

/// Dollars for requests, transfer and storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// A thousand puts, posts or lists.
    pub thousand_writes: f64,
    /// A thousand gets or heads.
    pub thousand_reads: f64,
    /// A gigabyte (10^9 bytes) put.
    pub gigabyte_sent: f64,
    /// A gigabyte got.
    pub gigabyte_received: f64,
    /// A gigabyte stored for a month.
    pub gigabyte_month: f64,
}

impl Prices {
    /// S3 Standard in us-east-1, from within the region. Removal is free.
    pub const STANDARD: Prices = Prices {
        thousand_writes: 0.005,
        thousand_reads: 0.0004,
        gigabyte_sent: 0.0,
        gigabyte_received: 0.0,
        gigabyte_month: 0.023,
    };

    /// S3 Express One Zone in us-east-1, since the cut of 2025.
    pub const EXPRESS: Prices = Prices {
        thousand_writes: 0.00113,
        thousand_reads: 0.00003,
        gigabyte_sent: 0.0032,
        gigabyte_received: 0.0006,
        gigabyte_month: 0.11,
    };

    /// What so many bytes cost a month.
    pub fn dollars_a_month(&self, bytes: u64) -> f64 {
        bytes as f64 / GIGABYTE * self.gigabyte_month
    }

    pub(super) fn dollars(&self, verb: Verb, used: &VerbUse) -> f64 {
        let thousand = match verb {
            Verb::Get | Verb::Head => self.thousand_reads,
            Verb::Put | Verb::Post | Verb::List => self.thousand_writes,
            Verb::Delete => 0.0,
        };
        used.requests as f64 / 1e3 * thousand
            + used.sent_bytes as f64 / GIGABYTE * self.gigabyte_sent
            + used.received_bytes as f64 / GIGABYTE * self.gigabyte_received
    }
}
