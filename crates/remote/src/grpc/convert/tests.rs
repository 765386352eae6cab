//! What goes out comes in again, and what must not come in does not.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;

use super::FromWorker;
use crate::grpc::wire;
use crate::job::failure::{FailureCode, JobFailure};
use crate::job::id::Attempt;
use crate::job::invalid::Invalid;
use crate::job::result::{Costs, Progress};
use crate::job::spec::{Area, Border, Compression, JobSpec, Slot, Span};
use crate::message::{
    Assignment, ClientMessage, ClientReply, Completion, Held, Hello, Priority, Refused, Submission,
    WorkerMessage, WorkerOrder,
};
use crate::security::secret::Secret;
use crate::testing::{attempt_id, finished, hello, key, outputs, spec, submission};

fn rich_spec() -> JobSpec {
    let mut spec = spec(9);
    spec.features = vec!["snappy-dictionaries".into()];
    spec.inputs[0].slot = Slot { level: 3, area: Area::SstLog };
    spec.inputs[0].live = vec![Span { smallest: key("c", 4), largest: key("d", 2) }];
    spec.inputs[1].crc32c = None;
    spec.part.from = Some(b"d".to_vec());
    spec.part.until = Some(Vec::new());
    spec.cut.borders = vec![Border { largest: key("f", 1), bytes: 9 }];
    spec.layout.compression = Compression::Zstd(-3);
    spec.layout.filter = None;
    spec
}

/// Through bytes and back.
fn travel<Plain, Wire>(plain: Plain) -> Plain
where
    Plain: TryFrom<Wire, Error = Invalid> + Clone + Debug,
    Wire: From<Plain> + Message + Default,
{
    let bytes = Wire::from(plain).encode_to_vec();
    Wire::decode(&bytes[..]).unwrap().try_into().unwrap()
}

#[test]
fn all_that_workers_say_arrives() {
    let id = attempt_id(7, Attempt::new(3, 4));
    let mut rich = finished(id);
    (rich.resumed, rich.result.outputs[0].index) = (1, Some(b"index".to_vec()));
    rich.result.costs =
        Costs { bytes_read: 1, bytes_written: 2, requests: 3, entries_read: 4, entries_dropped: 5 };
    let mut messages = vec![
        WorkerMessage::Heartbeat(vec![id, attempt_id(8, Attempt::new(1, 1))]),
        WorkerMessage::Progress(
            id,
            Progress { before: 3, outputs: outputs(id), costs: rich.result.costs },
        ),
        WorkerMessage::Done(id, rich),
        WorkerMessage::Leaving,
    ];
    let failures = FailureCode::ALL.map(|code| JobFailure::new(code, "why"));
    messages.extend(failures.map(|failure| WorkerMessage::Failed(id, failure)));
    for message in messages {
        let bytes = wire::WorkerToBroker::from(message.clone()).encode_to_vec();
        let read = wire::WorkerToBroker::decode(&bytes[..]).unwrap().try_into();
        let Ok(FromWorker::Message(read)) = read else { panic!("{message:?}") };
        assert_eq!(read, message);
    }
    let held = vec![Held { id, outputs: outputs(id), resumed: 1 }];
    let hello = Hello { held, zone: "b".into(), memory_bytes: 1, disk_bytes: 2, ..hello("w", 3) };
    let bytes = wire::WorkerToBroker::from(hello.clone()).encode_to_vec();
    let read = wire::WorkerToBroker::decode(&bytes[..]).unwrap().try_into();
    assert!(matches!(read, Ok(FromWorker::Hello(read)) if read == hello));
}

#[test]
fn all_that_brokers_order_arrives() {
    let id = attempt_id(7, Attempt::new(3, 4));
    let (lease, heartbeat) = (Duration::from_secs(15), Duration::from_millis(5));
    let assignment = Assignment {
        attempt: id.attempt,
        spec: Arc::new(rich_spec()),
        priority: Priority { level0_pressure: 1, score: 2 },
        resumed: outputs(id),
        storage: Some(Secret::new(b"secret").unwrap()),
    };
    for order in [
        WorkerOrder::Welcome { lease, heartbeat },
        WorkerOrder::Pulse,
        WorkerOrder::Assign(assignment),
        WorkerOrder::Cancel(id),
        WorkerOrder::LeaseLost(id),
        WorkerOrder::Settled(id),
        WorkerOrder::Drain,
    ] {
        assert_eq!(travel::<_, wire::BrokerToWorker>(order.clone()), order);
    }
}

#[test]
fn all_that_clients_and_brokers_say_arrives() {
    let id = attempt_id(7, Attempt::new(3, 4));
    let storage = Some(Secret::new(b"secret").unwrap());
    let rich = Submission {
        spec: Arc::new(rich_spec()),
        attempts_max: 3,
        storage,
        begun: true,
        ..submission(9)
    };
    for message in [
        ClientMessage::Submit(rich),
        ClientMessage::Cancel(id.job),
        ClientMessage::Collected(id.job),
        ClientMessage::Reject(id),
        ClientMessage::Heartbeat,
    ] {
        assert_eq!(travel::<_, wire::ClientToBroker>(message.clone()), message);
    }
    let failure = JobFailure::new(FailureCode::Quota, "full");
    let mut replies = vec![
        ClientReply::Welcome { heartbeat: Duration::from_secs(5) },
        ClientReply::Pulse,
        ClientReply::Queued(id.job),
        ClientReply::Started(id, hello("w", 1).worker),
        ClientReply::Retrying(id, failure.clone()),
        ClientReply::Done(Completion { id, finished: finished(id) }),
        ClientReply::Failed(id.job, failure),
    ];
    let refused = [Refused::Full, Refused::Denied, Refused::Taken, Refused::BadSpec];
    replies.extend(refused.map(|refused| ClientReply::Refused(id.job, refused)));
    for reply in replies {
        assert_eq!(travel::<_, wire::BrokerToClient>(reply.clone()), reply);
    }
}

/// A submission with one thing wrong.
fn refused(why: &str, damage: impl Fn(&mut wire::JobSpec)) {
    let mut spec = super::spec::wire_spec(&rich_spec());
    damage(&mut spec);
    let read = super::spec::spec(spec);
    assert!(read.is_err(), "{why} was let through");
}

#[test]
fn specs_that_make_no_sense_are_refused() {
    refused("no inputs", |spec| spec.inputs.clear());
    refused("too many inputs", |spec| spec.inputs = vec![spec.inputs[0].clone(); 4_097]);
    refused("a short id", |spec| spec.job.truncate(15));
    refused("a long id", |spec| spec.job.push(0));
    refused("a database's name that is a path", |spec| spec.db = "../db".into());
    refused("an input elsewhere", |spec| spec.inputs[0].name = "/etc/passwd".into());
    refused("a place above", |spec| spec.place = "a/../..".into());
    refused("a place without room for names", |spec| spec.place = "a".repeat(600));
    refused("no target", |spec| spec.target = None);
    refused("a target too deep", |spec| spec.target.as_mut().unwrap().level = 7);
    refused("a level of 256", |spec| spec.target.as_mut().unwrap().level = 256);
    refused("an input too deep", |spec| spec.inputs[0].slot.as_mut().unwrap().level = u32::MAX);
    refused("an input without keys", |spec| spec.inputs[0].span = None);
    refused("a key without tag", |spec| spec.inputs[0].span.as_mut().unwrap().largest = vec![0; 7]);
    refused("a huge key", |spec| spec.inputs[0].span.as_mut().unwrap().largest = vec![0; 2 << 20]);
    refused("seqnos out of order", |spec| spec.inputs[0].seqnos.as_mut().unwrap().smallest = 41);
    refused("seqnos too large", |spec| spec.inputs[0].seqnos.as_mut().unwrap().largest = 1 << 56);
    refused("an empty input", |spec| spec.inputs[0].bytes = 0);
    refused("too many live parts", |spec| {
        spec.inputs[0].live = vec![spec.inputs[0].live[0].clone(); 1_025];
    });
    refused("no snapshots", |spec| spec.snapshots.clear());
    refused("snapshots out of order", |spec| spec.snapshots.reverse());
    refused("too many snapshots", |spec| spec.snapshots = vec![1; 65_537]);
    refused("too many ranges", |spec| {
        spec.below[0].ranges = vec![spec.below[0].ranges[0].clone(); 65_537];
    });
    refused("too many slots", |spec| spec.below = vec![wire::SlotBelow::default(); 20]);
    refused("no cut rule", |spec| spec.cut = None);
    refused("endless tables", |spec| spec.cut.as_mut().unwrap().table_bytes = 0);
    refused("no layout", |spec| spec.layout = None);
    refused("a compression to come", |spec| spec.layout.as_mut().unwrap().compression = 9);
    refused("no compression at all", |spec| spec.layout.as_mut().unwrap().compression = 0);
    refused("no comparator", |spec| spec.layout.as_mut().unwrap().comparator.clear());
    refused("a comparator for terminals", |spec| {
        spec.layout.as_mut().unwrap().comparator = "\u{1b}[31m".into();
    });
    refused("endless blocks", |spec| spec.layout.as_mut().unwrap().block_bytes = u32::MAX);
    refused("no restarts", |spec| spec.layout.as_mut().unwrap().restart_interval = 0);
    refused("too many features", |spec| spec.features = vec!["f".into(); 65]);
}

#[test]
fn bytes_of_any_kind_give_errors_and_no_panics() {
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let id = attempt_id(7, Attempt::new(3, 4));
    let whole = [
        wire::ClientToBroker::from(ClientMessage::Submit(submission(1))).encode_to_vec(),
        wire::WorkerToBroker::from(WorkerMessage::Done(id, finished(id))).encode_to_vec(),
    ];
    let mut read = 0;
    for round in 0..60_000 {
        let mut bytes = whole[round % 2].clone();
        for _ in 0..=next() % 3 {
            let at = next() as usize % bytes.len();
            bytes[at] = next() as u8;
        }
        bytes.truncate(if next() % 4 == 0 { next() as usize % bytes.len() } else { bytes.len() });
        if let Ok(message) = wire::ClientToBroker::decode(&bytes[..]) {
            read += u32::from(ClientMessage::try_from(message).is_ok());
        }
        if let Ok(message) = wire::WorkerToBroker::decode(&bytes[..]) {
            read += u32::from(FromWorker::try_from(message).is_ok());
        }
    }
    assert!(read > 1_000, "some are whole enough: {read}");
}

#[test]
fn no_secret_is_printed() {
    let canary = Secret::new(b"canary").unwrap();
    let submission = Submission { storage: Some(canary), ..submission(1) };
    let message = wire::ClientToBroker::from(ClientMessage::Submit(submission.clone()));
    let printed = format!("{message:?} {submission:?}");
    assert!(
        !printed.contains("canary") && !printed.contains("99, 97, 110, 97, 114, 121"),
        "{printed}"
    );
}
