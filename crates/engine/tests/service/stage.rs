//! A store in memory, a workplace on it, and a service that does what a test says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use siltstone::service::{
    CompactionService, Completion, FinishedJob, JobInput, JobOutcome, JobSpec, JobSummary,
    JobTable, JobTools, JobWatch, Resume, Submitted, Workplace, run_job,
};
use siltstone::{
    Error, ErrorKind, FileNumber, Installed, RandomAccessFile, Result, Site, TableStore,
    WritableFile,
};

pub(crate) type Bytes = Arc<Vec<u8>>;

/// Tables by number. Whoever else makes some puts them in under the numbers that the database gives them.
#[derive(Default)]
pub(crate) struct Objects {
    tables: Mutex<BTreeMap<FileNumber, Bytes>>,
    /// Tables whose names a power cut would take.
    unnamed: Mutex<BTreeSet<FileNumber>>,
    /// What a merge of the database's own has written.
    pub(crate) creations: Mutex<Vec<FileNumber>>,
}

impl Objects {
    pub(crate) fn get(&self, number: FileNumber) -> Option<Bytes> {
        self.tables.lock().unwrap().get(&number).cloned()
    }

    pub(crate) fn put(&self, number: FileNumber, bytes: Bytes) {
        self.unnamed.lock().unwrap().insert(number);
        self.tables.lock().unwrap().insert(number, bytes);
    }

    pub(crate) fn numbers(&self) -> Vec<FileNumber> {
        self.tables.lock().unwrap().keys().copied().collect()
    }
}

/// They as a database's store.
pub(crate) struct Shop(pub(crate) Arc<Objects>);

impl TableStore for Shop {
    fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>> {
        self.0.creations.lock().unwrap().push(number);
        let objects = Arc::clone(&self.0);
        Ok(Box::new(Growing {
            bytes: Vec::new(),
            put: Box::new(move |all| objects.put(number, all)),
        }))
    }

    fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
        let missing = || Error::new(ErrorKind::NotFound, format!("no table {number}"));
        Ok(Arc::new(Fixed::new(self.0.get(number).ok_or_else(missing)?)))
    }

    fn remove(&self, number: FileNumber) -> Result<()> {
        let missing = || Error::new(ErrorKind::NotFound, format!("no table {number}"));
        self.0.tables.lock().unwrap().remove(&number).map(drop).ok_or_else(missing)
    }

    fn list(&self) -> Result<Vec<FileNumber>> {
        Ok(self.0.numbers())
    }

    fn sync_names(&self) -> Result<()> {
        self.0.unnamed.lock().unwrap().clear();
        Ok(())
    }

    /// Rule R1, of adopted tables, too.
    fn installed(&self, change: &Installed<'_>) {
        let unnamed = self.0.unnamed.lock().unwrap();
        assert!(change.added.iter().all(|number| !unnamed.contains(number)));
    }
}

struct Fixed {
    bytes: Bytes,
    path: PathBuf,
}

impl Fixed {
    fn new(bytes: Bytes) -> Self {
        Fixed { bytes, path: "object".into() }
    }
}

impl RandomAccessFile for Fixed {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// There once it is synced, as an object is.
struct Growing {
    bytes: Vec<u8>,
    put: Box<dyn Fn(Bytes) + Send>,
}

impl WritableFile for Growing {
    fn append(&mut self, data: &[u8], _: Site) -> Result<()> {
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn sync(&mut self, _: Site) -> Result<()> {
        (self.put)(Arc::new(self.bytes.clone()));
        Ok(())
    }

    fn close(&mut self, _: Site) -> Result<()> {
        Ok(())
    }
}

/// What a run has made, in order.
pub(crate) type Made = Vec<(Bytes, JobTable)>;

/// Where a test runs jobs.
pub(crate) struct Bench {
    store: Arc<Objects>,
    written: Mutex<BTreeMap<usize, Bytes>>,
    made: Mutex<BTreeMap<usize, (Bytes, JobTable)>>,
    /// Stops once it has made so many.
    tables_max: usize,
}

impl Bench {
    pub(crate) fn new(store: &Arc<Objects>, tables_max: usize) -> Arc<Self> {
        let (written, made) = Default::default();
        Arc::new(Bench { store: Arc::clone(store), written, made, tables_max })
    }
}

struct Place(Arc<Bench>);

impl Workplace for Place {
    fn open(&self, input: &JobInput) -> Result<Arc<dyn RandomAccessFile>> {
        Shop(Arc::clone(&self.0.store)).open(input.number)
    }

    fn create(&self, ordinal: usize) -> Result<Box<dyn WritableFile>> {
        let bench = Arc::clone(&self.0);
        let put = move |all| drop(bench.written.lock().unwrap().insert(ordinal, all));
        Ok(Box::new(Growing { bytes: Vec::new(), put: Box::new(put) }))
    }
}

impl JobWatch for Place {
    fn finished(&self, ordinal: usize, table: JobTable) -> Result<()> {
        let bytes = self.0.written.lock().unwrap()[&ordinal].clone();
        assert!(self.0.made.lock().unwrap().insert(ordinal, (bytes, table)).is_none());
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.0.made.lock().unwrap().len() < self.0.tables_max
    }
}

/// Runs a job, behind `earlier` if there are any, until so many tables are made.
pub(crate) fn run(
    store: &Arc<Objects>,
    (spec, tools): (&JobSpec, &JobTools),
    earlier: &[(Bytes, JobTable)],
    tables_max: usize,
) -> Result<Made> {
    let bench = Bench::new(store, tables_max);
    let place: Arc<dyn Workplace> = Arc::new(Place(Arc::clone(&bench)));
    let resume = earlier
        .last()
        .map(|(_, last)| Resume { tables: earlier.len(), largest: &last.span.largest });
    let ran = run_job(spec, tools, &place, &Place(Arc::clone(&bench)), resume);
    let made = std::mem::take(&mut *bench.made.lock().unwrap());
    assert!(made.keys().copied().eq(earlier.len()..earlier.len() + made.len()));
    let stopped = made.len() >= tables_max;
    match ran {
        Err(error) if stopped && error.kind() == ErrorKind::Closed => {}
        ran => drop(ran?),
    }
    Ok(made.into_values().collect())
}

/// A job that was given away.
pub(crate) struct Given {
    pub(crate) spec: JobSpec,
    pub(crate) summary: JobSummary,
    pub(crate) done: Completion,
}

impl Given {
    /// As a worker does it that works as it should.
    pub(crate) fn run(self, store: &Arc<Objects>) {
        let made = run(store, (&self.spec, &JobTools::default()), &[], usize::MAX).unwrap();
        self.done.complete(finished(store, made));
    }
}

/// The outcome of a job that has made these.
pub(crate) fn finished(store: &Arc<Objects>, made: Made) -> JobOutcome {
    let (bytes, tables) = made.into_iter().unzip();
    JobOutcome::Done(Box::new(Finished { store: Arc::clone(store), bytes, tables }))
}

struct Finished {
    store: Arc<Objects>,
    bytes: Vec<Bytes>,
    tables: Vec<JobTable>,
}

impl FinishedJob for Finished {
    fn tables(&self) -> &[JobTable] {
        &self.tables
    }

    fn entries_dropped(&self) -> u64 {
        7
    }

    fn adopt(&self, nth: usize, number: FileNumber) -> Result<()> {
        self.store.put(number, Arc::clone(&self.bytes[nth]));
        Ok(())
    }
}

type Wants = dyn Fn(&JobSummary) -> bool + Send;

/// Takes jobs, and keeps them for the test.
#[derive(Default)]
pub(crate) struct Desk {
    given: Mutex<VecDeque<Given>>,
    arrived: Condvar,
    cancelled: Arc<Mutex<Vec<FileNumber>>>,
    left: Arc<Mutex<Vec<FileNumber>>>,
    wants: Mutex<Option<Box<Wants>>>,
    /// Gives none back.
    keeps: bool,
    /// The database is told when a job begins: by the test.
    tells: bool,
}

impl Desk {
    /// One that takes what this says.
    pub(crate) fn taking(wants: impl Fn(&JobSummary) -> bool + Send + 'static) -> Arc<Self> {
        Arc::new(Desk { wants: Mutex::new(Some(Box::new(wants))), ..Desk::default() })
    }

    /// One that tells when a job begins, or has the test do so, if that is wanted.
    pub(crate) fn telling(tells: bool, wants: fn(&JobSummary) -> bool) -> Arc<Self> {
        Arc::new(Desk { wants: Mutex::new(Some(Box::new(wants))), tells, ..Desk::default() })
    }

    /// One that takes all, and gives none back.
    pub(crate) fn keeping() -> Arc<Self> {
        Arc::new(Desk { keeps: true, ..Desk::default() })
    }

    /// The next job; waits for it.
    pub(crate) fn next(&self) -> Given {
        let mut given = self.given.lock().unwrap();
        loop {
            match given.pop_front() {
                Some(next) => return next,
                None => given = self.arrived.wait(given).unwrap(),
            }
        }
    }

    pub(crate) fn is_asked(&self) -> bool {
        !self.given.lock().unwrap().is_empty()
    }

    pub(crate) fn try_next(&self) -> Option<Given> {
        self.given.lock().unwrap().pop_front()
    }

    pub(crate) fn cancelled(&self) -> Vec<FileNumber> {
        self.cancelled.lock().unwrap().clone()
    }

    /// Jobs that were away when a database closed.
    pub(crate) fn left(&self) -> Vec<FileNumber> {
        self.left.lock().unwrap().clone()
    }
}

impl CompactionService for Desk {
    fn wants(&self, job: &JobSummary) -> bool {
        self.wants.lock().unwrap().as_ref().is_none_or(|wants| wants(job))
    }

    fn lets_go(&self) -> bool {
        !self.keeps
    }

    fn tells_beginnings(&self) -> bool {
        self.tells
    }

    fn submit(&self, spec: JobSpec, summary: &JobSummary, done: Completion) -> Box<dyn Submitted> {
        let (cancelled, left) = (Arc::clone(&self.cancelled), Arc::clone(&self.left));
        let ticket = Ticket { number: spec.number, cancelled, left };
        self.given.lock().unwrap().push_back(Given { spec, summary: *summary, done });
        self.arrived.notify_all();
        Box::new(ticket)
    }
}

struct Ticket {
    number: FileNumber,
    cancelled: Arc<Mutex<Vec<FileNumber>>>,
    left: Arc<Mutex<Vec<FileNumber>>>,
}

impl Submitted for Ticket {
    fn cancel(&self) {
        self.cancelled.lock().unwrap().push(self.number);
    }

    fn leave(&self) {
        self.left.lock().unwrap().push(self.number);
    }
}
