//! A file made of given bytes, for the tests of this floor and the fuzz bodies.

use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(test)]
use super::encoder::RecordEncoder;
#[cfg(test)]
use super::reader::{RecordReader, Step};
use crate::base::error::Result;
use crate::env::fs::RandomAccessFile;

/// Bytes that pass for an open file.
pub(crate) struct ByteFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl ByteFile {
    pub(crate) fn new(name: &str, bytes: impl Into<Vec<u8>>) -> Arc<Self> {
        Arc::new(ByteFile { path: PathBuf::from(name), bytes: bytes.into() })
    }
}

impl RandomAccessFile for ByteFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let rest = &self.bytes[start..];
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// The file that holds these records and nothing else.
#[cfg(test)]
pub(crate) fn encode_all<T: AsRef<[u8]>>(records: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut encoder = RecordEncoder::new(0);
    let mut bytes = Vec::new();
    for record in records {
        encoder.encode(&[record.as_ref()], &mut bytes);
    }
    bytes
}

/// Every step of reading `bytes`, with each record's content, up to the step that ends it.
#[cfg(test)]
pub(crate) fn read_all(bytes: &[u8]) -> Vec<(Step, Vec<u8>)> {
    let mut reader = RecordReader::new(ByteFile::new("000003.log", bytes));
    let mut steps = Vec::new();
    loop {
        let mut record = Vec::new();
        let step = reader.next(&mut record).unwrap();
        if step == Step::End {
            return steps;
        }
        steps.push((step, record));
    }
}
