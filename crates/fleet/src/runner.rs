//! What a worker does with a job: the engine's merge, from a bucket into it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use siltstone::service::{JobInput, JobTable, JobTools, JobWatch, Resume, Workplace, run_job};
use siltstone::{
    BloomFilter, BytewiseComparator, Comparator, Compression, Error, ErrorKind, FilterPolicy,
    RandomAccessFile, Result, WritableFile,
};
use siltstone_cloud::Bucket;
use siltstone_remote::{
    Attempt, Capabilities, Costs, FailureCode, JobFailure, JobResult, JobRunner, JobSpec,
    ObjectName, OutputTable, RunContext,
};

use crate::convert;
use crate::input::{BucketFile, Meter};
use crate::output::{Upload, Uploads};

/// A job's inputs share so much memory to read ahead in; each has some.
const AHEAD_BYTES: u64 = 64 << 20;
const AHEAD_BYTES_MIN: u64 = 256 << 10;
const AHEAD_BYTES_MAX: u64 = 8 << 20;

/// Runs jobs on the tables of a bucket. Holds one output in memory, and up to 64 MiB of inputs, for each job.
pub struct BucketRunner {
    bucket: Arc<dyn Bucket>,
    tools: JobTools,
}

impl BucketRunner {
    /// A runner on a bucket in which names are what specs say. `tools` are the comparators and filter policies that databases
    /// use beyond the built-in ones.
    pub fn new(bucket: Arc<dyn Bucket>, tools: JobTools) -> Self {
        BucketRunner { bucket, tools }
    }

    /// What a worker with this runner may be given.
    pub fn capabilities(&self) -> Capabilities {
        let comparators = self.tools.comparators.iter().map(|known| known.name().to_owned());
        let filters = self.tools.filters.iter().map(|known| known.name().to_owned());
        Capabilities {
            comparators: comparators.chain([BytewiseComparator.name().to_owned()]).collect(),
            filters: filters.chain([BloomFilter::new(10).name().to_owned()]).collect(),
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
        let desk = Arc::new(Desk {
            bucket: Arc::clone(&self.bucket),
            names: spec.inputs.iter().map(|input| (input.number, input.name.clone())).collect(),
            ahead_bytes: ahead(spec.inputs.len()),
            place: spec.place.clone(),
            attempt: context.id().attempt,
            meter: Arc::default(),
            uploads: Arc::default(),
        });
        let outputs = Mutex::new(context.resumed().to_vec());
        let watch = Watch { context, desk: &desk, outputs: &outputs };
        let last = context.resumed().last();
        let resume = last.map(|last| Resume {
            tables: context.resumed().len(),
            largest: last.largest.as_bytes(),
        });
        let place: Arc<dyn Workplace> = Arc::clone(&desk) as _;
        let ran = run_job(&job, &self.tools, &place, &watch, resume);
        let costs = ran.map_err(|error| failure(&error))?;
        let outputs = outputs.into_inner().unwrap_or_else(PoisonError::into_inner);
        let costs = Costs {
            bytes_written: costs.bytes_written,
            entries_dropped: costs.entries_dropped,
            ..desk.costs()
        };
        Ok(JobResult { outputs, costs })
    }
}

fn ahead(inputs: usize) -> u64 {
    (AHEAD_BYTES / (inputs as u64).max(1)).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX)
}

/// One attempt's place in the bucket.
struct Desk {
    bucket: Arc<dyn Bucket>,
    names: HashMap<u64, ObjectName>,
    ahead_bytes: u64,
    place: ObjectName,
    attempt: Attempt,
    meter: Arc<Meter>,
    uploads: Arc<Uploads>,
}

impl Desk {
    fn output_name(&self, ordinal: usize) -> ObjectName {
        ObjectName::output(&self.place, self.attempt, ordinal)
    }

    fn costs(&self) -> Costs {
        Costs {
            bytes_read: self.meter.bytes_read.load(Ordering::Relaxed),
            requests: self.meter.requests.load(Ordering::Relaxed),
            ..Costs::default()
        }
    }
}

impl Workplace for Desk {
    fn open(&self, input: &JobInput) -> Result<Arc<dyn RandomAccessFile>> {
        let unknown = || Error::invalid_argument(format!("{} is no input", input.number));
        let name = self.names.get(&input.number.0).ok_or_else(unknown)?;
        let object = (name.as_str(), input.bytes);
        Ok(Arc::new(BucketFile::new(&self.bucket, &self.meter, object, self.ahead_bytes)))
    }

    fn create(&self, ordinal: usize) -> Result<Box<dyn WritableFile>> {
        Ok(Box::new(Upload {
            bucket: Arc::clone(&self.bucket),
            meter: Arc::clone(&self.meter),
            uploads: Arc::clone(&self.uploads),
            ordinal,
            name: self.output_name(ordinal).to_string(),
            body: Vec::new(),
        }))
    }
}

struct Watch<'a> {
    context: &'a RunContext,
    desk: &'a Desk,
    outputs: &'a Mutex<Vec<OutputTable>>,
}

impl JobWatch for Watch<'_> {
    fn finished(&self, ordinal: usize, table: JobTable) -> Result<()> {
        let crc32c =
            self.desk.uploads.take(ordinal).expect("tables are synced before they are finished");
        let output = convert::output(self.desk.output_name(ordinal), crc32c, &table);
        // A key may be longer than a message takes.
        let output = output.map_err(Error::invalid_argument)?;
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner).push(output.clone());
        let costs = Costs { bytes_written: table.bytes, ..self.desk.costs() };
        let heard = self.context.finished(output, costs);
        heard.map_err(|failure| Error::new(ErrorKind::Closed, failure.message))
    }

    fn goes_on(&self) -> bool {
        self.context.check().is_ok()
    }
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
