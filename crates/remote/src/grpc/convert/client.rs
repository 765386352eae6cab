//! What clients and brokers say to each other, and what administrators ask.

use super::result::{done, wire_done};
use super::spec::{spec, wire_spec};
use super::worker::{in_millis, millis};
use super::{Checked, job_bytes, job_id, required};
use crate::broker::report::{JobState, JobView};
use crate::grpc::wire;
use crate::grpc::wire::broker_to_client::Message as Reply;
use crate::grpc::wire::client_to_broker::Message as Said;
use crate::job::invalid::Invalid;
use crate::job::name::WorkerId;
use crate::message::{ClientMessage, ClientReply, Completion, Refused, Submission};
use crate::security::secret::Secret;

impl TryFrom<wire::ClientToBroker> for ClientMessage {
    type Error = Invalid;

    fn try_from(message: wire::ClientToBroker) -> Checked<Self> {
        Ok(match required("message", message.message)? {
            Said::Submit(submission) => ClientMessage::Submit(Submission {
                spec: spec(required("spec", submission.spec)?)?,
                priority: submission.priority.unwrap_or_default().into(),
                attempts_max: submission.attempts_max,
                storage: submission.storage.map(|bytes| Secret::new(&bytes)).transpose()?,
                begun: submission.begun,
            }),
            Said::Cancel(job) => ClientMessage::Cancel(job_id(&job)?),
            Said::Collected(job) => ClientMessage::Collected(job_id(&job)?),
            Said::Reject(id) => ClientMessage::Reject(id.try_into()?),
            Said::Heartbeat(_) => ClientMessage::Heartbeat,
        })
    }
}

impl From<ClientMessage> for wire::ClientToBroker {
    fn from(message: ClientMessage) -> Self {
        let message = match message {
            ClientMessage::Submit(submission) => Said::Submit(wire::Submission {
                spec: Some(wire_spec(&submission.spec)),
                priority: Some(submission.priority.into()),
                attempts_max: submission.attempts_max,
                storage: submission.storage.map(|secret| secret.expose().to_vec()),
                begun: submission.begun,
            }),
            ClientMessage::Cancel(job) => Said::Cancel(job_bytes(job)),
            ClientMessage::Collected(job) => Said::Collected(job_bytes(job)),
            ClientMessage::Reject(id) => Said::Reject(id.into()),
            ClientMessage::Heartbeat => Said::Heartbeat(wire::Pulse {}),
        };
        wire::ClientToBroker { message: Some(message) }
    }
}

const REFUSED: [(Refused, wire::refusal::Reason); 4] = [
    (Refused::Full, wire::refusal::Reason::Full),
    (Refused::Denied, wire::refusal::Reason::Denied),
    (Refused::Taken, wire::refusal::Reason::Taken),
    (Refused::BadSpec, wire::refusal::Reason::BadSpec),
];

impl TryFrom<wire::BrokerToClient> for ClientReply {
    type Error = Invalid;

    fn try_from(reply: wire::BrokerToClient) -> Checked<Self> {
        Ok(match required("message", reply.message)? {
            Reply::Welcome(welcome) => {
                ClientReply::Welcome { heartbeat: millis(welcome.heartbeat_ms) }
            }
            Reply::Pulse(_) => ClientReply::Pulse,
            Reply::Queued(job) => ClientReply::Queued(job_id(&job)?),
            Reply::Started(started) => ClientReply::Started(
                required("attempt", started.id)?.try_into()?,
                WorkerId::new(&started.worker)?,
            ),
            Reply::Retrying(failed) => ClientReply::Retrying(
                required("attempt", failed.id)?.try_into()?,
                required("failure", failed.failure)?.try_into()?,
            ),
            Reply::Done(told) => {
                let (id, finished) = done(told)?;
                ClientReply::Done(Completion { id, finished })
            }
            Reply::Failed(failed) => ClientReply::Failed(
                job_id(&failed.job)?,
                required("failure", failed.failure)?.try_into()?,
            ),
            Reply::Refused(refusal) => {
                let known = REFUSED.iter().find(|(_, reason)| *reason as i32 == refusal.reason);
                let (refused, _) =
                    known.ok_or_else(|| Invalid::new("refusal", "unknown reason"))?;
                ClientReply::Refused(job_id(&refusal.job)?, *refused)
            }
        })
    }
}

impl From<ClientReply> for wire::BrokerToClient {
    fn from(reply: ClientReply) -> Self {
        let message = match reply {
            ClientReply::Welcome { heartbeat } => {
                Reply::Welcome(wire::ClientWelcome { heartbeat_ms: in_millis(heartbeat) })
            }
            ClientReply::Pulse => Reply::Pulse(wire::Pulse {}),
            ClientReply::Queued(job) => Reply::Queued(job_bytes(job)),
            ClientReply::Started(id, worker) => {
                Reply::Started(wire::Started { id: Some(id.into()), worker: worker.to_string() })
            }
            ClientReply::Retrying(id, failure) => {
                Reply::Retrying(wire::Failed { id: Some(id.into()), failure: Some(failure.into()) })
            }
            ClientReply::Done(Completion { id, finished }) => Reply::Done(wire_done(id, finished)),
            ClientReply::Failed(job, failure) => {
                let (job, failure) = (job_bytes(job), Some(failure.into()));
                Reply::Failed(wire::JobFailed { job, failure })
            }
            ClientReply::Refused(job, refused) => {
                let reason = REFUSED.iter().find(|(known, _)| *known == refused);
                let reason = reason.map_or(0, |(_, reason)| *reason as i32);
                Reply::Refused(wire::Refusal { job: job_bytes(job), reason })
            }
        };
        wire::BrokerToClient { message: Some(message) }
    }
}

impl From<JobView> for wire::JobView {
    fn from(view: JobView) -> Self {
        use wire::job_view::State;
        let state = match view.state {
            JobState::Waiting => State::Waiting,
            JobState::Resting => State::Resting,
            JobState::Running => State::Running,
            JobState::Done => State::Done,
            JobState::Failed => State::Failed,
        };
        let (attempt, worker) = view.attempt.unzip();
        wire::JobView {
            job: job_bytes(view.job),
            db: view.db.to_string(),
            state: state.into(),
            priority: Some(view.priority.into()),
            age_ms: u64::try_from(view.age.as_millis()).unwrap_or(u64::MAX),
            failures: view.failures,
            attempt: attempt.map_or(0, |attempt| attempt.to_u64()),
            worker: worker.map(|worker| worker.to_string()).unwrap_or_default(),
            input_bytes: view.input_bytes,
            outputs: view.outputs,
        }
    }
}
