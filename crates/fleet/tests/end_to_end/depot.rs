//! A database's tables, all of them in a bucket, and a bucket that takes its time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use siltstone::{
    Env, Error, ErrorKind, FileNumber, RandomAccessFile, Result, Site, TableStore, WritableFile,
};
use siltstone_cloud as cloud;
use siltstone_cloud::{
    Bucket, Call, Condition, Epoch, JobId, MemoryBucket, Part, Purpose, Root, TableId,
};
use siltstone_fleet::{ObjectRef, Tables};
use siltstone_remote::{ObjectName, OutputTable};

/// A bucket in memory of which puts take so long.
#[derive(Default)]
pub(crate) struct Slow {
    inner: MemoryBucket,
    /// Of what merges make.
    pause_ms: AtomicU64,
    /// Of what the database itself uploads.
    upload_ms: AtomicU64,
    no_versions: AtomicBool,
}

impl Slow {
    pub(crate) fn set_pause(&self, pause: Duration) {
        self.pause_ms.store(pause.as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn slow_uploads(&self, pause: Duration) {
        self.upload_ms.store(pause.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Slow {
    /// No version is committed meanwhile.
    pub(crate) fn refuse_versions(&self, refuses: bool) {
        self.no_versions.store(refuses, Ordering::Relaxed);
    }
}

impl Bucket for Slow {
    fn get(&self, name: &str, part: Part, call: Call) -> cloud::Result<cloud::Object> {
        self.inner.get(name, part, call)
    }

    fn head(&self, name: &str, call: Call) -> cloud::Result<cloud::Stat> {
        self.inner.head(name, call)
    }

    fn put(
        &self,
        name: &str,
        body: Bytes,
        when: Condition,
        call: Call,
    ) -> cloud::Result<cloud::Tag> {
        let pause_ms = match call.purpose {
            Purpose::CompactOut => self.pause_ms.load(Ordering::Relaxed),
            Purpose::Flush => self.upload_ms.load(Ordering::Relaxed),
            _ => 0,
        };
        std::thread::sleep(Duration::from_millis(pause_ms));
        if name.contains("/v/") && self.no_versions.load(Ordering::Relaxed) {
            let failure = cloud::Failure::Unavailable;
            return Err(cloud::BucketError::new(failure, name, "as the test wants it"));
        }
        self.inner.put(name, body, when, call)
    }

    fn delete(&self, names: &[String], call: Call) -> cloud::Result<()> {
        self.inner.delete(names, call)
    }

    fn list(&self, prefix: &str, after: &str, call: Call) -> cloud::Result<cloud::Page> {
        self.inner.list(prefix, after, call)
    }
}

pub(crate) struct Depot {
    pub(crate) bucket: Arc<Slow>,
    pub(crate) root: Root,
    pub(crate) epoch: Epoch,
    /// The database's own machine.
    pub(crate) env: Env,
    tables: Mutex<BTreeMap<u64, ObjectRef>>,
    /// Those of workers.
    adopted: Mutex<BTreeSet<String>>,
    open_jobs: Mutex<BTreeSet<u64>>,
    /// Whether records of jobs are kept, and if so, whether they are where the next opening finds them.
    records: Mutex<Option<bool>>,
}

impl Depot {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Depot {
            bucket: Arc::default(),
            root: Root::new("shop/orders").unwrap(),
            epoch: Epoch(3),
            env: Env::memory(),
            tables: Mutex::default(),
            adopted: Mutex::default(),
            open_jobs: Mutex::default(),
            records: Mutex::default(),
        })
    }

    /// Keeps records from now on.
    pub(crate) fn keep_records(&self, are_found: bool) {
        *self.records.lock().unwrap() = Some(are_found);
    }

    pub(crate) fn adopted(&self) -> BTreeSet<String> {
        self.adopted.lock().unwrap().clone()
    }

    pub(crate) fn open_jobs(&self) -> usize {
        self.open_jobs.lock().unwrap().len()
    }

    fn put(&self, number: FileNumber, body: Vec<u8>) {
        let name = self.root.table(TableId::Own { epoch: self.epoch, number: number.0 });
        let (bytes, crc32c) = (body.len() as u64, Some(crc32c::crc32c(&body)));
        let call = Call::new(Purpose::Flush);
        self.bucket.put(&name, Bytes::from(body), Condition::Always, call).unwrap();
        let name = ObjectName::new(&name).unwrap();
        self.tables.lock().unwrap().insert(number.0, ObjectRef { name, bytes, crc32c });
    }
}

impl Tables for Depot {
    fn object_of(&self, number: u64) -> Option<ObjectRef> {
        self.tables.lock().unwrap().get(&number).cloned()
    }

    fn adopt(&self, number: u64, output: &OutputTable, end: &Bytes) -> Result<()> {
        assert_eq!(end.len() as u64, self.end_bytes(output.bytes));
        let OutputTable { name, bytes, crc32c, .. } = output.clone();
        self.adopted.lock().unwrap().insert(name.to_string());
        let object = ObjectRef { name, bytes, crc32c: Some(crc32c) };
        assert!(self.tables.lock().unwrap().insert(number, object).is_none());
        Ok(())
    }

    fn end_bytes(&self, bytes: u64) -> u64 {
        bytes.min(1_000)
    }

    fn job_begins(&self, number: u64) -> u64 {
        // As where uploads have overtaken the engine's.
        let number = number + 1_000_000;
        assert!(self.open_jobs.lock().unwrap().insert(number), "a number of its own");
        number
    }

    fn keep_job(&self, _: u64, _: Bytes) -> bool {
        self.records.lock().unwrap().is_some()
    }

    fn is_kept(&self, _: JobId) -> bool {
        *self.records.lock().unwrap() == Some(true)
    }

    fn job_ends(&self, job: JobId) {
        assert!(self.open_jobs.lock().unwrap().remove(&job.number), "once");
    }
}

/// The database's side of it.
pub(crate) struct Store(pub(crate) Arc<Depot>);

fn missing(number: FileNumber) -> Error {
    Error::new(ErrorKind::NotFound, format!("no table {number}"))
}

impl TableStore for Store {
    fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>> {
        Ok(Box::new(Growing { depot: Arc::clone(&self.0), number, body: Vec::new() }))
    }

    fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
        let object = self.0.object_of(number.0).ok_or_else(|| missing(number))?;
        let name = object.name.as_str();
        let body = self.0.bucket.get(name, Part::Whole, Call::new(Purpose::Get)).unwrap().body;
        Ok(Arc::new(Fixed { body, path: name.into() }))
    }

    fn remove(&self, number: FileNumber) -> Result<()> {
        let object = self.0.tables.lock().unwrap().remove(&number.0);
        let name = object.ok_or_else(|| missing(number))?.name.to_string();
        self.0.bucket.delete(&[name], Call::new(Purpose::Collect)).unwrap();
        Ok(())
    }

    fn list(&self) -> Result<Vec<FileNumber>> {
        Ok(self.0.tables.lock().unwrap().keys().copied().map(FileNumber).collect())
    }

    fn sync_names(&self) -> Result<()> {
        Ok(())
    }
}

struct Growing {
    depot: Arc<Depot>,
    number: FileNumber,
    body: Vec<u8>,
}

impl WritableFile for Growing {
    fn append(&mut self, data: &[u8], _: Site) -> Result<()> {
        self.body.extend_from_slice(data);
        Ok(())
    }

    fn sync(&mut self, _: Site) -> Result<()> {
        self.depot.put(self.number, self.body.clone());
        Ok(())
    }

    fn close(&mut self, _: Site) -> Result<()> {
        Ok(())
    }
}

struct Fixed {
    body: Bytes,
    path: PathBuf,
}

impl RandomAccessFile for Fixed {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let rest = self.body.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn len(&self) -> u64 {
        self.body.len() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
