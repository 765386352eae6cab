//! Why an attempt failed, and what can be done about it.

use std::fmt;

use crate::job::invalid::tame;
use crate::job::limits::MESSAGE_TEXT_MAX;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureCode {
    /// An input is not there. Final: who submits may have removed it since.
    InputMissing,
    /// An input's bytes are not what they were. Final: another worker reads the same bytes.
    InputDamaged,
    /// The store did not answer, or not in time.
    Storage,
    /// The worker has no memory or disk for it.
    Quota,
    /// The database has another owner by now. Final.
    Fenced,
    /// The worker does not know the comparator, filter, compression or format.
    Unsupported,
    /// All of the worker's slots are taken.
    Busy,
    /// Somebody asked for it.
    Cancelled,
    /// The worker is about to go.
    Draining,
    /// The worker was not heard of for the length of a lease.
    LeaseExpired,
    /// What the worker returned is not what such a job can return.
    BadResult,
    /// A defect of the runner: a panic, or what it says itself.
    Internal,
}

impl FailureCode {
    /// All of them.
    pub const ALL: [FailureCode; 12] = [
        FailureCode::InputMissing,
        FailureCode::InputDamaged,
        FailureCode::Storage,
        FailureCode::Quota,
        FailureCode::Fenced,
        FailureCode::Unsupported,
        FailureCode::Busy,
        FailureCode::Cancelled,
        FailureCode::Draining,
        FailureCode::LeaseExpired,
        FailureCode::BadResult,
        FailureCode::Internal,
    ];

    /// Whether another attempt may do better.
    pub fn is_retryable(self) -> bool {
        !matches!(
            self,
            FailureCode::InputMissing
                | FailureCode::InputDamaged
                | FailureCode::Fenced
                | FailureCode::Cancelled
        )
    }

    /// Whether it tells against the job: a worker that goes or is full says nothing about it.
    pub fn counts(self) -> bool {
        !matches!(self, FailureCode::Busy | FailureCode::Draining)
    }

    /// As metrics and logs call it.
    pub fn name(self) -> &'static str {
        match self {
            FailureCode::InputMissing => "input-missing",
            FailureCode::InputDamaged => "input-damaged",
            FailureCode::Storage => "storage",
            FailureCode::Quota => "quota",
            FailureCode::Fenced => "fenced",
            FailureCode::Unsupported => "unsupported",
            FailureCode::Busy => "busy",
            FailureCode::Cancelled => "cancelled",
            FailureCode::Draining => "draining",
            FailureCode::LeaseExpired => "lease-expired",
            FailureCode::BadResult => "bad-result",
            FailureCode::Internal => "internal",
        }
    }
}

/// A failed attempt, or a failed job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFailure {
    /// What went wrong.
    pub code: FailureCode,
    /// For people. Without control characters, and no longer than a message may be.
    pub message: String,
}

impl JobFailure {
    /// A failure. The message is tamed.
    pub fn new(code: FailureCode, message: impl AsRef<str>) -> Self {
        JobFailure { code, message: tame(message.as_ref(), MESSAGE_TEXT_MAX) }
    }
}

impl fmt::Display for JobFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message)
    }
}

impl std::error::Error for JobFailure {}
