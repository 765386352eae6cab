//! A table on its way to a bucket: gathered in memory, and put whole when it is synced.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use siltstone::{Error, ErrorKind, Result, Site, WritableFile};
use siltstone_cloud::{Bucket, Call, Condition, Purpose};

use crate::input::{Meter, to_error};

/// Checksums of what was uploaded, by ordinal.
#[derive(Default)]
pub(crate) struct Uploads(Mutex<HashMap<usize, u32>>);

impl Uploads {
    /// CRC-32C of all bytes of a table that was uploaded.
    pub(crate) fn take(&self, ordinal: usize) -> Option<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&ordinal)
    }

    fn note(&self, ordinal: usize, crc32c: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(ordinal, crc32c);
    }
}

pub(crate) struct Upload {
    pub(crate) bucket: Arc<dyn Bucket>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) ordinal: usize,
    pub(crate) name: String,
    pub(crate) body: Vec<u8>,
}

impl WritableFile for Upload {
    fn append(&mut self, data: &[u8], _: Site) -> Result<()> {
        self.body.extend_from_slice(data);
        Ok(())
    }

    /// No attempt but this one has the name, so a put that nobody is sure of does no harm, whenever it arrives.
    fn sync(&mut self, _: Site) -> Result<()> {
        self.meter.count_request();
        let body = Bytes::from(std::mem::take(&mut self.body));
        let crc32c = crc32c::crc32c(&body);
        let call = Call::new(Purpose::CompactOut);
        let put = self.bucket.put(&self.name, body, Condition::Always, call);
        put.map_err(|error| match to_error(&error) {
            // It is not an input that is missing.
            error if error.is_not_found() => {
                Error::new(ErrorKind::Io, error.message()).in_file(Path::new(&self.name))
            }
            error => error,
        })?;
        self.uploads.note(self.ordinal, crc32c);
        Ok(())
    }

    fn close(&mut self, _: Site) -> Result<()> {
        Ok(())
    }
}
