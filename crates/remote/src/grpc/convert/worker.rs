//! What workers and brokers say to each other.

use std::time::Duration;

use super::result::{done, outputs, report, wire_done, wire_report};
use super::spec::{spec, wire_spec};
use super::{Checked, all, count, each, index, required};
use crate::grpc::wire;
use crate::grpc::wire::broker_to_worker::Message as Order;
use crate::grpc::wire::worker_to_broker::Message as Said;
use crate::job::id::Attempt;
use crate::job::invalid::{Invalid, at_most};
use crate::job::limits::{HELD_MAX, LABELS_MAX};
use crate::job::name::WorkerId;
use crate::job::spec::check_label;
use crate::message::{
    Assignment, AttemptId, Capabilities, Held, Hello, WorkerMessage, WorkerOrder,
};
use crate::security::secret::Secret;

/// The first message of a session must be a hello, and no other may.
pub(in crate::grpc) enum FromWorker {
    Hello(Hello),
    Message(WorkerMessage),
}

impl TryFrom<wire::WorkerToBroker> for FromWorker {
    type Error = Invalid;

    fn try_from(message: wire::WorkerToBroker) -> Checked<Self> {
        Ok(FromWorker::Message(match required("message", message.message)? {
            Said::Hello(hello) => return Ok(FromWorker::Hello(hello.try_into()?)),
            Said::Heartbeat(heartbeat) => {
                at_most("attempts", heartbeat.held.len(), HELD_MAX)?;
                WorkerMessage::Heartbeat(each(heartbeat.held)?)
            }
            Said::Report(told) => {
                let (id, progress) = report(told)?;
                WorkerMessage::Progress(id, progress)
            }
            Said::Done(told) => {
                let (id, finished) = done(told)?;
                WorkerMessage::Done(id, finished)
            }
            Said::Failed(failed) => WorkerMessage::Failed(
                required("attempt", failed.id)?.try_into()?,
                required("failure", failed.failure)?.try_into()?,
            ),
            Said::Leaving(_) => WorkerMessage::Leaving,
        }))
    }
}

impl From<WorkerMessage> for wire::WorkerToBroker {
    fn from(message: WorkerMessage) -> Self {
        let message = match message {
            WorkerMessage::Heartbeat(held) => Said::Heartbeat(wire::Heartbeat { held: all(held) }),
            WorkerMessage::Progress(id, progress) => Said::Report(wire_report(id, progress)),
            WorkerMessage::Done(id, finished) => Said::Done(wire_done(id, finished)),
            WorkerMessage::Failed(id, failure) => {
                Said::Failed(wire::Failed { id: Some(id.into()), failure: Some(failure.into()) })
            }
            WorkerMessage::Leaving => Said::Leaving(wire::Leaving {}),
        };
        wire::WorkerToBroker { message: Some(message) }
    }
}

impl From<Hello> for wire::WorkerToBroker {
    fn from(hello: Hello) -> Self {
        wire::WorkerToBroker { message: Some(Said::Hello(hello.into())) }
    }
}

impl TryFrom<wire::Hello> for Hello {
    type Error = Invalid;

    fn try_from(hello: wire::Hello) -> Checked<Self> {
        at_most("held attempts", hello.held.len(), HELD_MAX)?;
        if !hello.zone.is_empty() {
            check_label("zone", &hello.zone)?;
        }
        Ok(Hello {
            worker: WorkerId::new(&hello.worker)?,
            incarnation: hello.incarnation,
            protocol: hello.protocol,
            slots: hello.slots,
            memory_bytes: hello.memory_bytes,
            disk_bytes: hello.disk_bytes,
            zone: hello.zone,
            capabilities: hello.capabilities.unwrap_or_default().try_into()?,
            held: each(hello.held)?,
        })
    }
}

impl From<Hello> for wire::Hello {
    fn from(hello: Hello) -> Self {
        wire::Hello {
            worker: hello.worker.to_string(),
            incarnation: hello.incarnation,
            protocol: hello.protocol,
            slots: hello.slots,
            memory_bytes: hello.memory_bytes,
            disk_bytes: hello.disk_bytes,
            zone: hello.zone,
            capabilities: Some(hello.capabilities.into()),
            held: all(hello.held),
        }
    }
}

impl TryFrom<wire::Capabilities> for Capabilities {
    type Error = Invalid;

    fn try_from(known: wire::Capabilities) -> Checked<Self> {
        at_most("formats", known.formats.len(), LABELS_MAX)?;
        for labels in [&known.comparators, &known.filters, &known.features] {
            at_most("capabilities", labels.len(), LABELS_MAX)?;
            labels.iter().try_for_each(|label| check_label("capability", label))?;
        }
        let wire::Capabilities { comparators, filters, zstd, formats, features } = known;
        Ok(Capabilities { comparators, filters, zstd, formats, features })
    }
}

impl From<Capabilities> for wire::Capabilities {
    fn from(known: Capabilities) -> Self {
        let Capabilities { comparators, filters, zstd, formats, features } = known;
        wire::Capabilities { comparators, filters, zstd, formats, features }
    }
}

impl TryFrom<wire::Held> for Held {
    type Error = Invalid;

    fn try_from(held: wire::Held) -> Checked<Self> {
        Ok(Held {
            id: required("attempt", held.id)?.try_into()?,
            outputs: outputs(held.outputs)?,
            resumed: index("resumed outputs", held.resumed)?,
        })
    }
}

impl From<Held> for wire::Held {
    fn from(held: Held) -> Self {
        wire::Held {
            id: Some(held.id.into()),
            outputs: all(held.outputs),
            resumed: count(held.resumed),
        }
    }
}

impl TryFrom<wire::BrokerToWorker> for WorkerOrder {
    type Error = Invalid;

    fn try_from(order: wire::BrokerToWorker) -> Checked<Self> {
        let id = |id: wire::AttemptId| AttemptId::try_from(id);
        Ok(match required("message", order.message)? {
            Order::Welcome(welcome) => WorkerOrder::Welcome {
                lease: millis(welcome.lease_ms),
                heartbeat: millis(welcome.heartbeat_ms),
            },
            Order::Pulse(_) => WorkerOrder::Pulse,
            Order::Assign(assign) => WorkerOrder::Assign(Assignment {
                attempt: Attempt::from_u64(assign.attempt),
                spec: spec(required("spec", assign.spec)?)?,
                priority: assign.priority.unwrap_or_default().into(),
                resumed: outputs(assign.resumed)?,
                storage: assign.storage.map(|bytes| Secret::new(&bytes)).transpose()?,
            }),
            Order::Cancel(attempt) => WorkerOrder::Cancel(id(attempt)?),
            Order::LeaseLost(attempt) => WorkerOrder::LeaseLost(id(attempt)?),
            Order::Settled(attempt) => WorkerOrder::Settled(id(attempt)?),
            Order::Drain(_) => WorkerOrder::Drain,
        })
    }
}

impl From<WorkerOrder> for wire::BrokerToWorker {
    fn from(order: WorkerOrder) -> Self {
        let message = match order {
            WorkerOrder::Welcome { lease, heartbeat } => Order::Welcome(wire::WorkerWelcome {
                lease_ms: in_millis(lease),
                heartbeat_ms: in_millis(heartbeat),
            }),
            WorkerOrder::Pulse => Order::Pulse(wire::Pulse {}),
            WorkerOrder::Assign(assignment) => Order::Assign(wire::Assign {
                attempt: assignment.attempt.to_u64(),
                spec: Some(wire_spec(&assignment.spec)),
                priority: Some(assignment.priority.into()),
                resumed: all(assignment.resumed),
                storage: assignment.storage.map(|secret| secret.expose().to_vec()),
            }),
            WorkerOrder::Cancel(id) => Order::Cancel(id.into()),
            WorkerOrder::LeaseLost(id) => Order::LeaseLost(id.into()),
            WorkerOrder::Settled(id) => Order::Settled(id.into()),
            WorkerOrder::Drain => Order::Drain(wire::Drain {}),
        };
        wire::BrokerToWorker { message: Some(message) }
    }
}

pub(super) fn millis(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}

pub(super) fn in_millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
