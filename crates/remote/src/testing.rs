//! Specs and results for tests.

use std::sync::Arc;

use crate::job::id::{Attempt, JobId};
use crate::job::key::TaggedKey;
use crate::job::name::{DbId, ObjectName, WorkerId};
use crate::job::result::{Costs, JobResult, OutputTable};
use crate::job::spec::{
    Area, Compression, CutRule, InputTable, JobSpec, KeyPart, KeyRange, Layout, SeqRange, Slot,
    Span,
};
use crate::message::{AttemptId, Capabilities, Finished, Hello, PROTOCOL, Priority, Submission};

pub(crate) fn key(user: &str, seqno: u64) -> TaggedKey {
    TaggedKey::new(user.as_bytes(), seqno, 1).unwrap()
}

/// Two tables: c to m, and k to t, with the sequence numbers 10 to 40, a hundred entries each.
pub(crate) fn spec(number: u128) -> JobSpec {
    let table = |number: u64, level, (low, high): (&str, &str)| InputTable {
        name: ObjectName::new(&format!("db/s/{number:06}.ldb")).unwrap(),
        number,
        bytes: 1_000,
        crc32c: Some(7),
        slot: Slot { level, area: Area::Tree },
        span: Span { smallest: key(low, 40), largest: key(high, 10) },
        seqnos: SeqRange { smallest: 10, largest: 40 },
        entries: 100,
        live: Vec::new(),
    };
    JobSpec {
        job: JobId::from_u128(number),
        db: DbId::new("db").unwrap(),
        epoch: 3,
        features: Vec::new(),
        inputs: vec![table(5, 1, ("c", "m")), table(4, 2, ("k", "t"))],
        target: Slot { level: 2, area: Area::Tree },
        part: KeyPart::default(),
        snapshots: vec![20, 40],
        below: vec![vec![KeyRange { low: b"d".to_vec(), high: b"e".to_vec() }]],
        cut: CutRule { table_bytes: 500, grandparent_bytes: 5_000, borders: Vec::new() },
        layout: Layout {
            comparator: "leveldb.BytewiseComparator".into(),
            filter: Some(("leveldb.BuiltinBloomFilter2".into(), 10)),
            compression: Compression::Snappy,
            block_bytes: 4_096,
            restart_interval: 16,
            format: 0,
        },
        place: place_of(JobId::from_u128(number)),
    }
}

fn place_of(job: JobId) -> ObjectName {
    ObjectName::new(&format!("db/jobs/{job}")).unwrap()
}

pub(crate) fn submission(number: u128) -> Submission {
    Submission {
        spec: Arc::new(spec(number)),
        priority: Priority::default(),
        attempts_max: 0,
        storage: None,
        begun: false,
    }
}

pub(crate) fn submission_of(number: u128, db: &str) -> Submission {
    let spec = JobSpec { db: DbId::new(db).unwrap(), ..spec(number) };
    Submission { spec: Arc::new(spec), ..submission(number) }
}

pub(crate) fn output(id: AttemptId, ordinal: usize, low: &str, high: &str) -> OutputTable {
    OutputTable {
        name: ObjectName::output(&place_of(id.job), id.attempt, ordinal),
        bytes: 400,
        crc32c: 9,
        smallest: key(low, 30),
        largest: key(high, 20),
        seqnos: SeqRange { smallest: 20, largest: 30 },
        entries: 50,
        deletions: 5,
        index: None,
        filter: None,
    }
}

/// The job's usual two outputs, the first `resumed` of which are of an earlier attempt.
pub(crate) fn outputs(id: AttemptId) -> Vec<OutputTable> {
    vec![output(id, 0, "c", "h"), output(id, 1, "i", "t")]
}

pub(crate) fn finished(id: AttemptId) -> Finished {
    let result = JobResult { outputs: outputs(id), costs: Costs::default() };
    Finished { resumed: 0, result }
}

pub(crate) fn attempt_id(job: u128, attempt: Attempt) -> AttemptId {
    AttemptId { job: JobId::from_u128(job), attempt }
}

pub(crate) fn capabilities() -> Capabilities {
    let layout = spec(0).layout;
    Capabilities {
        comparators: vec![layout.comparator],
        filters: layout.filter.into_iter().map(|(name, _)| name).collect(),
        zstd: false,
        formats: vec![0],
        features: Vec::new(),
    }
}

pub(crate) fn hello(worker: &str, slots: u32) -> Hello {
    Hello {
        worker: WorkerId::new(worker).unwrap(),
        incarnation: 1,
        protocol: PROTOCOL,
        slots,
        memory_bytes: 0,
        disk_bytes: 0,
        zone: String::new(),
        capabilities: capabilities(),
        held: Vec::new(),
    }
}
