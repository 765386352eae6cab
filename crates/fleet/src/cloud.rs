//! A tiered database's tables, as a fleet asks for them.

use std::time::Duration;

use bytes::Bytes;
use siltstone::{Error, FileNumber, Result};
use siltstone_cloud::{CloudTables, JobId, Name, Table};
use siltstone_remote::{ObjectName, OutputTable};

use crate::tables::{ObjectRef, Tables};

impl Tables for CloudTables {
    fn object_of(&self, number: u64) -> Option<ObjectRef> {
        let object = CloudTables::object_of(self, FileNumber(number))?;
        let name = ObjectName::new(&object.name).ok()?;
        Some(ObjectRef { name, bytes: object.bytes, crc32c: Some(object.crc32c) })
    }

    fn when_there(&self, numbers: Vec<u64>, within: Duration, then: Box<dyn FnOnce() + Send>) {
        CloudTables::when_there(self, numbers, within, then);
    }

    fn adopt(&self, number: u64, output: &OutputTable, end: &Bytes) -> Result<()> {
        let Some(Name::Table(id)) = self.home().root().parse(output.name.as_str()) else {
            let message =
                format!("{} is not where workers put tables of this database", output.name);
            return Err(Error::corruption(message));
        };
        let table = Table { home: 0, id, bytes: output.bytes, crc32c: output.crc32c };
        CloudTables::adopt(self, FileNumber(number), table, end)
    }

    fn end_bytes(&self, bytes: u64) -> u64 {
        CloudTables::end_bytes(self, bytes)
    }

    fn job_begins(&self, number: u64) -> u64 {
        self.begin_job(number)
    }

    fn keep_job(&self, number: u64, record: Bytes) -> bool {
        CloudTables::keep_job(self, number, record);
        true
    }

    fn is_kept(&self, job: JobId) -> bool {
        CloudTables::is_kept(self, job)
    }

    fn left_jobs(&self) -> Vec<(JobId, Bytes)> {
        CloudTables::left_jobs(self)
    }

    fn has_begun(&self, job: JobId) -> bool {
        CloudTables::has_begun(self, job)
    }

    fn job_ends(&self, job: JobId) {
        self.end_job(job);
    }
}
