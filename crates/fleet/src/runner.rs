//! What a worker does with a job: the engine's merge, from a bucket into it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siltstone::service::{JobTable, JobTools, JobWatch, Resume, Workplace, run_job};
use siltstone::{
    BloomFilter, BytewiseComparator, Comparator, Compression, Error, ErrorKind, FilterPolicy,
    Result, Threads,
};
use siltstone_cloud::{Bucket, Crew};
use siltstone_remote::{
    Capabilities, Costs, FailureCode, JobFailure, JobResult, JobRunner, JobSpec, OutputTable,
    RunContext,
};

use crate::convert;
use crate::desk::Desk;
use crate::output::Sent;

/// Requests that a worker has on their way ahead of its merges.
const CREW: usize = 128;

/// So many tables may be complete and wait to be told of, while the next is made: their ends go one after the other.
const COMPLETE_MAX: usize = 3;

/// Runs jobs on the tables of a bucket. For each job it holds up to 64 MiB of inputs in memory that it has not come to yet, 2 MiB
/// and an end of up to 4 of each one that it is at, and up to four outputs: up to 260 MiB with tables of 32.
pub struct BucketRunner {
    bucket: Arc<dyn Bucket>,
    tools: JobTools,
    crew: Option<Crew>,
}

impl BucketRunner {
    /// A runner on a bucket in which names are what specs say. `tools` are the comparators and filter policies that databases
    /// use beyond the built-in ones.
    pub fn new(bucket: Arc<dyn Bucket>, tools: JobTools) -> Self {
        BucketRunner { bucket, tools, crew: None }
    }

    /// Has up to 128 threads ask the bucket for what jobs read next, and put what they have finished, while they go on.
    #[must_use]
    pub fn with_threads(self, threads: Arc<dyn Threads>) -> Self {
        BucketRunner { crew: Some(Crew::new(threads, CREW)), ..self }
    }

    /// What a worker with this runner may be given.
    pub fn capabilities(&self) -> Capabilities {
        let comparators = self.tools.comparators.iter().map(|known| known.name().to_owned());
        let filters = self.tools.filters.iter().map(|known| known.name().to_owned());
        let built_in = [BloomFilter::new(10), BloomFilter::wide(10)];
        Capabilities {
            comparators: comparators.chain([BytewiseComparator.name().to_owned()]).collect(),
            filters: filters.chain(built_in.map(|filter| filter.name().to_owned())).collect(),
            zstd: Compression::ZSTD.is_known(),
            formats: vec![convert::FORMAT],
            features: Vec::new(),
        }
    }
}

impl JobRunner for BucketRunner {
    fn run(
        &self,
        spec: &JobSpec,
        context: &RunContext,
    ) -> std::result::Result<JobResult, JobFailure> {
        let unsupported = |why: String| JobFailure::new(FailureCode::Unsupported, why);
        let job = convert::to_engine(spec).map_err(unsupported)?;
        let crew = self.crew.as_ref().map(|crew| crew.desk().clone());
        let is_resumed = !context.resumed().is_empty();
        let attempt = (context.id().attempt, is_resumed);
        let desk = Arc::new(Desk::new((&self.bucket, crew), (spec, &job), attempt));
        desk.begin();
        let watch = Watch::new(context, &desk);
        let last = context.resumed().last();
        let resume = last.map(|last| Resume {
            tables: context.resumed().len(),
            largest: last.largest.as_bytes(),
        });
        let place: Arc<dyn Workplace> = Arc::clone(&desk) as _;
        let ran = run_job(&job, &self.tools, &place, &watch, resume);
        let (outputs, told) = watch.end();
        let costs = told.and(ran).map_err(|error| failure(&error))?;
        let costs = Costs {
            bytes_written: costs.bytes_written,
            entries_dropped: costs.entries_dropped,
            ..desk.costs()
        };
        Ok(JobResult { outputs, costs })
    }
}

/// Tells the broker of tables, each once it is durable.
struct Watch<'a> {
    context: &'a RunContext,
    desk: &'a Desk,
    // The merge's thread only; the seam asks for more.
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    outputs: Vec<OutputTable>,
    /// Complete, in order. Of the first the end may be on its way.
    complete: VecDeque<(usize, JobTable)>,
    on_its_way: Option<Sent>,
    /// Why the job ends early.
    failed: Option<Error>,
}

impl<'a> Watch<'a> {
    fn new(context: &'a RunContext, desk: &'a Desk) -> Self {
        let outputs = context.resumed().to_vec();
        Watch { context, desk, told: Mutex::new(Told { outputs, ..Told::default() }) }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of the table that is on its way, if its outcome is known, and sends the next one. `wait` says how it comes to be. Once
    /// that has failed nothing is sent any more: nobody would hear of it.
    fn settle(&self, wait: impl FnOnce(&Sent) -> Option<Result<u32>>) -> Result<()> {
        let mut told = self.told();
        told.failed.clone().map_or(Ok(()), Err)?;
        self.tell_of_one(&mut told, wait).inspect_err(|error| told.failed = Some(error.clone()))
    }

    fn tell_of_one(
        &self,
        told: &mut Told,
        wait: impl FnOnce(&Sent) -> Option<Result<u32>>,
    ) -> Result<()> {
        self.send_next(told)?;
        let Some(outcome) = told.on_its_way.as_ref().and_then(wait) else { return Ok(()) };
        told.on_its_way = None;
        let Some((ordinal, table)) = told.complete.pop_front() else { return Ok(()) };
        let output = convert::output(self.desk.output_name(ordinal), outcome?, &table);
        // A key may be longer than a message takes.
        let output = output.map_err(Error::invalid_argument)?;
        told.outputs.push(output.clone());
        let costs = Costs { bytes_written: table.bytes, ..self.desk.costs() };
        self.context.finished(output, costs).map_err(not_wanted)?;
        self.send_next(told)
    }

    /// Has the next complete table on its way, if there is one and the job is wanted yet.
    fn send_next(&self, told: &mut Told) -> Result<()> {
        if told.on_its_way.is_none() && !told.complete.is_empty() {
            self.context.check().map_err(not_wanted)?;
            told.on_its_way = Some(self.desk.send_output());
        }
        Ok(())
    }

    /// Until at most so many are left.
    fn settle_all_but(&self, left: usize) -> Result<()> {
        while self.told().complete.len() > left {
            self.settle(|sent| Some(sent.wait()))?;
        }
        Ok(())
    }

    /// All outputs; an error if one of them has not come to the bucket, or the job ended because of one.
    fn end(self) -> (Vec<OutputTable>, Result<()>) {
        let failed = self.told().failed.clone();
        let settled = failed.map_or_else(|| self.settle_all_but(0), Err);
        let told = self.told.into_inner().unwrap_or_else(PoisonError::into_inner);
        (told.outputs, settled)
    }
}

impl JobWatch for Watch<'_> {
    fn finished(&self, ordinal: usize, table: JobTable) -> Result<()> {
        self.told().complete.push_back((ordinal, table));
        self.settle(Sent::poll)?;
        self.settle_all_but(COMPLETE_MAX)
    }

    fn goes_on(&self) -> bool {
        self.settle(Sent::poll).is_ok() && self.context.check().is_ok()
    }
}

fn not_wanted(failure: JobFailure) -> Error {
    Error::new(ErrorKind::Closed, failure.message)
}

/// What the broker is told.
fn failure(error: &Error) -> JobFailure {
    let code = match error.kind() {
        ErrorKind::NotFound => FailureCode::InputMissing,
        ErrorKind::Corruption => FailureCode::InputDamaged,
        ErrorKind::Io | ErrorKind::NoSpace => FailureCode::Storage,
        ErrorKind::Closed => FailureCode::Cancelled,
        ErrorKind::Incompatible | ErrorKind::InvalidArgument => FailureCode::Unsupported,
        _ => FailureCode::Internal,
    };
    JobFailure::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use siltstone::Site;
    use siltstone_cloud::{Call, MemoryBucket, Purpose};
    use siltstone_remote::{Assignment, Attempt, Leash, Priority};

    use super::*;

    /// A job of three tables that are complete, of which none was told of, and what its watch does with them. Returns how many
    /// are in the bucket then.
    fn put(watch_over: impl FnOnce(&Watch<'_>, &Leash)) -> usize {
        let bucket: Arc<dyn Bucket> = Arc::new(MemoryBucket::default());
        let spec = convert::tests::remote_spec();
        let job = convert::to_engine(&spec).unwrap();
        let attempt = Attempt::new(1, 1);
        let desk = Desk::new((&bucket, None), (&spec, &job), (attempt, false));
        let leash = Arc::new(Leash::default());
        let (priority, resumed) = (Priority::default(), Vec::new());
        let assignment =
            Assignment { attempt, spec: Arc::new(spec), priority, resumed, storage: None };
        let (held, heard) = (Arc::clone(&leash), AtomicUsize::new(0));
        let told = move |_, outputs: Vec<OutputTable>, _| {
            held.heard(heard.fetch_add(outputs.len(), Ordering::Relaxed) + outputs.len());
        };
        let context = RunContext::new(assignment, Arc::clone(&leash), told);
        let watch = Watch::new(&context, &desk);
        for ordinal in 0..3 {
            let mut draft = desk.create(ordinal).unwrap();
            draft.append(b"a table", Site::TableAppend).unwrap();
            draft.sync(Site::TableSync).unwrap();
            watch.told().complete.push_back((ordinal, convert::tests::job_table()));
        }
        watch_over(&watch, &leash);
        drop(watch.end());
        bucket.list("", "", Call::new(Purpose::Tool)).unwrap().len()
    }

    #[test]
    fn what_is_complete_is_put_in_the_end() {
        assert_eq!(put(|_, _| {}), 3);
        assert_eq!(put(|watch, _| assert!(watch.goes_on())), 3);
    }

    #[test]
    fn once_a_job_is_not_wanted_nothing_more_is_put() {
        assert_eq!(put(|_, leash| leash.cancel()), 0);
        let put = put(|watch, leash| {
            assert!(watch.goes_on());
            leash.cancel();
            assert!(watch.settle(Sent::poll).is_err() && !watch.goes_on());
        });
        // That of which it was told, and one that was on its way.
        assert_eq!(put, 2);
    }
}
