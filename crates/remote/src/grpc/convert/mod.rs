//! Between the wire's messages and the crate's own types. Whatever comes in is checked here, against limits and for
//! sense, before anything is made of it; nothing behind this file has to think of hostile messages.

mod client;
mod result;
mod spec;
#[cfg(test)]
mod tests;
mod worker;

pub(super) use worker::FromWorker;

use crate::grpc::wire;
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::id::{Attempt, JobId};
use crate::job::invalid::Invalid;
use crate::job::limits::MESSAGE_TEXT_MAX;
use crate::job::name::BadName;
use crate::message::{AttemptId, Priority};

type Checked<T> = Result<T, Invalid>;

/// A field that must be there.
fn required<T>(what: &'static str, field: Option<T>) -> Checked<T> {
    field.ok_or_else(|| Invalid::new(what, "is missing"))
}

/// All of a list, if none of it is bad.
fn each<A, B: TryFrom<A, Error = Invalid>>(list: Vec<A>) -> Checked<Vec<B>> {
    list.into_iter().map(B::try_from).collect()
}

fn all<A, B: From<A>>(list: Vec<A>) -> Vec<B> {
    list.into_iter().map(B::from).collect()
}

fn index(what: &'static str, number: u32) -> Checked<usize> {
    usize::try_from(number).map_err(|_| Invalid::new(what, "too large"))
}

/// For counts that limits keep small: one that is not is told as the largest, which the other side refuses.
fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) fn job_id(bytes: &[u8]) -> Checked<JobId> {
    let bytes = bytes.try_into().map_err(|_| Invalid::new("job's id", "must have 16 bytes"))?;
    Ok(JobId::from_u128(u128::from_be_bytes(bytes)))
}

pub(super) fn job_bytes(job: JobId) -> Vec<u8> {
    job.to_u128().to_be_bytes().to_vec()
}

impl From<BadName> for Invalid {
    fn from(bad: BadName) -> Self {
        Invalid::new("name", bad.to_string())
    }
}

impl TryFrom<wire::AttemptId> for AttemptId {
    type Error = Invalid;

    fn try_from(id: wire::AttemptId) -> Checked<Self> {
        Ok(AttemptId { job: job_id(&id.job)?, attempt: Attempt::from_u64(id.attempt) })
    }
}

impl From<AttemptId> for wire::AttemptId {
    fn from(id: AttemptId) -> Self {
        wire::AttemptId { job: job_bytes(id.job), attempt: id.attempt.to_u64() }
    }
}

impl From<wire::Priority> for Priority {
    fn from(wire::Priority { level0_pressure, score }: wire::Priority) -> Self {
        Priority { level0_pressure, score }
    }
}

impl From<Priority> for wire::Priority {
    fn from(Priority { level0_pressure, score }: Priority) -> Self {
        wire::Priority { level0_pressure, score }
    }
}

const CODES: [(FailureCode, wire::failure::Code); 12] = [
    (FailureCode::InputMissing, wire::failure::Code::InputMissing),
    (FailureCode::InputDamaged, wire::failure::Code::InputDamaged),
    (FailureCode::Storage, wire::failure::Code::Storage),
    (FailureCode::Quota, wire::failure::Code::Quota),
    (FailureCode::Fenced, wire::failure::Code::Fenced),
    (FailureCode::Unsupported, wire::failure::Code::Unsupported),
    (FailureCode::Busy, wire::failure::Code::Busy),
    (FailureCode::Cancelled, wire::failure::Code::Cancelled),
    (FailureCode::Draining, wire::failure::Code::Draining),
    (FailureCode::LeaseExpired, wire::failure::Code::LeaseExpired),
    (FailureCode::BadResult, wire::failure::Code::BadResult),
    (FailureCode::Internal, wire::failure::Code::Internal),
];

impl TryFrom<wire::Failure> for JobFailure {
    type Error = Invalid;

    fn try_from(failure: wire::Failure) -> Checked<Self> {
        if failure.message.len() > MESSAGE_TEXT_MAX {
            return Err(Invalid::new("failure's message", "too long"));
        }
        // A code that this side does not know is a defect of the other one's: it is tried again, and counted.
        let code = CODES.iter().find(|(_, code)| *code as i32 == failure.code);
        let code = code.map_or(FailureCode::Internal, |(code, _)| *code);
        Ok(JobFailure::new(code, failure.message))
    }
}

impl From<JobFailure> for wire::Failure {
    fn from(failure: JobFailure) -> Self {
        let code = CODES.iter().find(|(code, _)| *code == failure.code);
        let code = code.map_or(wire::failure::Code::Internal, |(_, code)| *code);
        wire::Failure { code: code.into(), message: failure.message }
    }
}
