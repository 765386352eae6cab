//! How slow, and how faulty: plain data that a test or a benchmark chooses.

use std::time::Duration;

/// Times of requests. Each is drawn from a log-normal distribution through its median and its 99th percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// As reports call it.
    pub name: &'static str,
    /// Until a get's first byte: median and 99th percentile.
    pub get: [Duration; 2],
    /// A put, but for the way of its bytes.
    pub put: [Duration; 2],
    /// A page of a list.
    pub list: [Duration; 2],
    /// What one stream moves; all that there is, if none.
    pub bytes_per_second: Option<u64>,
}

const fn ms(median: u64, p99: u64) -> [Duration; 2] {
    [Duration::from_millis(median), Duration::from_millis(p99)]
}

impl Profile {
    /// No time at all.
    pub const ZERO: Profile = Profile {
        name: "zero",
        get: ms(0, 0),
        put: ms(0, 0),
        list: ms(0, 0),
        bytes_per_second: None,
    };

    /// S3 Standard from within its region, as measured by others with 4 KiB objects.
    pub const S3_STANDARD: Profile = Profile {
        name: "s3std",
        get: ms(24, 77),
        put: ms(28, 67),
        list: ms(25, 59),
        bytes_per_second: Some(90_000_000),
    };

    /// S3 Express One Zone, from within its zone.
    pub const EXPRESS: Profile = Profile {
        name: "express",
        get: ms(5, 10),
        put: ms(5, 10),
        list: ms(5, 10),
        bytes_per_second: Some(90_000_000),
    };

    /// The profile of that name: `zero`, `s3std` or `express`.
    pub fn named(name: &str) -> Option<Profile> {
        [Profile::ZERO, Profile::S3_STANDARD, Profile::EXPRESS]
            .into_iter()
            .find(|profile| profile.name == name)
    }
}

/// What goes wrong: shares of requests, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Are refused with 503, and have no effect.
    pub slow_down: f64,
    /// Are not answered within `hang`; half of them have had their effect.
    pub hangs: f64,
    /// Have their effect, and then the answer is lost.
    pub lost: f64,
    /// How long a request hangs before its connection ends.
    pub hang: Duration,
    /// Times when more goes wrong.
    pub brown_outs: Vec<BrownOut>,
}

impl Default for Faults {
    /// None.
    fn default() -> Self {
        Faults {
            slow_down: 0.0,
            hangs: 0.0,
            lost: 0.0,
            hang: Duration::from_secs(30),
            brown_outs: Vec::new(),
        }
    }
}

/// A time in which a store is in trouble.
#[derive(Clone, Debug, PartialEq)]
pub struct BrownOut {
    /// When it begins, from the making of the store on.
    pub from: Duration,
    /// When it is over.
    pub until: Duration,
    /// The share of requests that fail: two of three are refused with 503, the third hangs.
    pub failing: f64,
    /// Those that do not fail take so many times as long.
    pub slower: f64,
}
