//! Records of jobs that are away, in the bucket: by them whoever opens the database next goes on with what workers have done
//! by then, be it here or on another machine.
//!
//! A record saves work, never data. What may be named is said by the version log alone, and what a job may do is looked at
//! anew: so a record that is lost, or stays for too long, does no harm. Nobody waits for one to be written.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::handle::CloudTables;
use super::shared::Shared;
use crate::bucket::Purpose;
use crate::coding::{Reader, Writer};
use crate::error::Outcome;
use crate::names::{JobId, Name};

const MAGIC: [u8; 4] = *b"sltj";
/// As large as a message of a job's may be.
const RECORD_BYTES_MAX: u64 = 16 << 20;
/// More jobs than these are not gone on with.
const LEFT_MAX: usize = 1_000;
/// Where they lie.
const FOLDER: &str = "away/";

/// Which records are in the bucket, and which are to be put there or removed.
#[derive(Default)]
pub(super) struct JobRecords {
    all: BTreeMap<JobId, Stage>,
    over: Vec<JobId>,
}

enum Stage {
    Waiting(Bytes),
    /// Somebody puts it.
    Going,
    /// The same, and it is to be removed then.
    GoingInVain,
    There,
}

/// What is to be done to the bucket.
pub(super) enum Errand {
    Put(JobId, Bytes),
    Remove(Vec<JobId>),
}

impl JobRecords {
    pub(super) fn keep(&mut self, job: JobId, record: Bytes) {
        self.all.insert(job, Stage::Waiting(record));
    }

    fn found(&mut self, job: JobId) {
        self.all.insert(job, Stage::There);
    }

    /// The job is over.
    pub(super) fn end(&mut self, job: JobId) {
        match self.all.remove(&job) {
            Some(Stage::Going | Stage::GoingInVain) => {
                self.all.insert(job, Stage::GoingInVain);
            }
            Some(Stage::There) => self.over.push(job),
            Some(Stage::Waiting(_)) | None => {}
        }
    }

    /// It is there, or on its way.
    fn is_kept(&self, job: JobId) -> bool {
        matches!(self.all.get(&job), Some(Stage::There | Stage::Going))
    }

    pub(super) fn next(&mut self) -> Option<Errand> {
        if !self.over.is_empty() {
            return Some(Errand::Remove(std::mem::take(&mut self.over)));
        }
        self.all.iter_mut().find_map(|(job, stage)| {
            let Stage::Waiting(record) = stage else { return None };
            let record = std::mem::take(record);
            *stage = Stage::Going;
            Some(Errand::Put(*job, record))
        })
    }

    /// It is there, or perhaps.
    fn was_put(&mut self, job: JobId) {
        match self.all.insert(job, Stage::There) {
            Some(Stage::Going) => {}
            _ => self.end(job),
        }
    }
}

/// Called by whoever takes tables to the bucket. A record that cannot be put is done without, one that cannot be removed is
/// left to collectors.
pub(super) fn run(shared: &Shared, errand: Errand) {
    let name = |job: &JobId| shared.home.object(&Name::Job(*job));
    match errand {
        Errand::Put(job, record) => {
            let _ = shared.home.write(&name(&job), &encode(job, &record), Purpose::Manifest);
            shared.change(|state| state.records.was_put(job));
        }
        Errand::Remove(jobs) => {
            let names: Vec<String> = jobs.iter().map(name).collect();
            let _ = shared.home.remove(&names, Purpose::Manifest);
        }
    }
}

impl CloudTables {
    /// What whoever opens the database next must know of a job of this number, to go on with it: goes to the bucket behind
    /// this call, a request, and goes away when the job [ends](Self::end_job).
    pub fn keep_job(&self, number: u64, record: Bytes) {
        let job = JobId { epoch: self.epoch, number };
        self.shared.change(|state| state.records.keep(job, record));
    }

    /// Whether what was kept of a job is in the bucket, or on its way there: what waits to go there may stay behind when the database closes.
    pub fn is_kept(&self, job: JobId) -> bool {
        self.shared.state().records.is_kept(job)
    }

    /// Jobs of earlier openings of which tables may still come, and what was kept of each. They stay open until each is
    /// [ended](Self::end_job). To be asked once, before the engine opens. A request, and one for each of them; of what
    /// cannot be read, work is lost.
    pub fn left_jobs(&self) -> Vec<(JobId, Bytes)> {
        let home = self.home();
        let listed = home.list(FOLDER, "", Purpose::Manifest).unwrap_or_default();
        let job = |name: &str| match home.root().parse(name) {
            Some(Name::Job(job)) if job.epoch < self.epoch => Some(job),
            _ => None,
        };
        let jobs = listed.iter().filter_map(|stat| job(&stat.name)).take(LEFT_MAX);
        let version = self.shared.state().version.clone();
        let (alive, over): (Vec<JobId>, _) = jobs.partition(|job| version.is_alive(*job));
        self.shared.change(|state| {
            alive.iter().chain(&over).for_each(|job| state.records.found(*job));
            over.iter().for_each(|job| state.records.end(*job));
            alive.iter().for_each(|job| state.ledger.hold(*job));
        });
        let names: Vec<String> = alive.iter().map(|job| home.object(&Name::Job(*job))).collect();
        let read = home.read_each(&names, Purpose::Manifest, RECORD_BYTES_MAX);
        let mut left = Vec::new();
        for ((job, name), read) in alive.into_iter().zip(&names).zip(read) {
            let record = read.ok().flatten().and_then(|object| decode(name, &object.body).ok());
            match record {
                Some((of, record)) if of == job => left.push((job, record)),
                _ => self.end_job(job),
            }
        }
        left
    }

    /// Whether a worker has made a table of a job, or none knows: a request.
    pub fn has_begun(&self, job: JobId) -> bool {
        let folder = format!("jobs/{}-{}/", job.epoch.0, job.number);
        let made = self.home().list(&folder, "", Purpose::Manifest);
        made.map_or(true, |made| !made.is_empty())
    }
}

fn encode(job: JobId, record: &Bytes) -> Bytes {
    let mut writer = Writer::new(MAGIC);
    writer.u64(job.epoch.0);
    writer.u64(job.number);
    writer.count(record.len());
    writer.bytes(record);
    writer.finish()
}

fn decode(name: &str, bytes: &Bytes) -> Outcome<(JobId, Bytes)> {
    let mut reader = Reader::new(name, MAGIC, bytes)?;
    let job = JobId { epoch: crate::names::Epoch(reader.u64()?), number: reader.u64()? };
    let len = reader.count(1)?;
    let record = reader.bytes(len)?;
    reader.end()?;
    Ok((job, record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Epoch;

    const JOB: JobId = JobId { epoch: Epoch(3), number: 9 };

    fn is_put(records: &mut JobRecords) -> bool {
        matches!(records.next(), Some(Errand::Put(JOB, _)))
    }

    fn is_removed(records: &mut JobRecords) -> bool {
        matches!(records.next(), Some(Errand::Remove(jobs)) if jobs == [JOB])
    }

    #[test]
    fn a_record_goes_when_its_job_is_over_however_far_it_has_come() {
        let record = || Bytes::from_static(b"all of it");
        let mut records = JobRecords::default();
        records.keep(JOB, record());
        records.end(JOB);
        assert!(records.next().is_none(), "never there");

        records.keep(JOB, record());
        assert!(!records.is_kept(JOB), "it may stay behind");
        assert!(is_put(&mut records) && records.next().is_none());
        assert!(records.is_kept(JOB));
        records.was_put(JOB);
        assert!(records.next().is_none() && records.is_kept(JOB));
        records.end(JOB);
        assert!(is_removed(&mut records) && records.next().is_none());

        records.keep(JOB, record());
        assert!(is_put(&mut records));
        records.end(JOB);
        records.end(JOB);
        assert!(records.next().is_none(), "it is on its way");
        records.was_put(JOB);
        assert!(is_removed(&mut records) && records.next().is_none());
    }

    #[test]
    fn records_are_read_back_and_damage_is_told() {
        let record = Bytes::from_static(b"all of it");
        let bytes = encode(JOB, &record);
        assert_eq!(decode("away/3-9", &bytes).unwrap(), (JOB, record));
        for cut in 0..bytes.len() {
            assert!(decode("away/3-9", &bytes.slice(..cut)).is_err());
        }
        let mut longer = bytes.to_vec();
        longer[22] += 1; // The record's length.
        assert!(decode("away/3-9", &Bytes::from(longer)).is_err());
    }
}
