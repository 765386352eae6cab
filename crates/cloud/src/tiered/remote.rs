//! Tables of the committed version, read from the bucket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use siltstone::{Error, ErrorKind, RandomAccessFile, Result, Site};

use super::shared::{File, Shared};
use crate::bucket::{Call, Part, Purpose};
use crate::home::Home;
use crate::pins::clone::home_of;
use crate::table::{download, object_of};

/// A table that is in the bucket; `None` if the committed version has none of this number, and none was adopted.
pub(super) fn open(shared: &Arc<Shared>, number: u64) -> Result<Option<File>> {
    let found = {
        let state = shared.state();
        let table = state.ledger.table(number);
        table.map(|table| (object_of(&shared.home, &state.version, &table), table.bytes))
    };
    Ok(found.map(|(name, bytes)| {
        let path = PathBuf::from(&name);
        Arc::new(RemoteFile { home: shared.home.clone(), name, bytes, path }) as File
    }))
}

/// The table is needed no more.
pub(super) fn forget(_shared: &Shared, _number: u64) {}

struct RemoteFile {
    home: Home,
    name: String,
    bytes: u64,
    path: PathBuf,
}

impl RandomAccessFile for RemoteFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let len = (buf.len() as u64).min(self.bytes.saturating_sub(offset));
        if len == 0 {
            return Ok(0);
        }
        let part = Part::Range { offset, len };
        let got = self.home.bucket().get(&self.name, part, Call::new(Purpose::Get));
        let object = got.map_err(|failed| Error::from(crate::error::Error::from(failed)))?;
        if object.bytes != self.bytes || object.body.len() as u64 != len {
            let message = format!("has {} bytes, expected {}", object.bytes, self.bytes);
            return Err(Error::new(ErrorKind::Corruption, message).at(offset).in_file(&self.path));
        }
        buf[..object.body.len()].copy_from_slice(&object.body);
        Ok(object.body.len())
    }

    fn len(&self) -> u64 {
        self.bytes
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes a copy of a table in the folder, unless there is one.
pub(super) fn fetch(shared: &Arc<Shared>, number: u64) -> Result<()> {
    let there = shared.state().ledger.table(number);
    let Some(table) = there.filter(|table| shared.local.size(number) != Some(table.bytes)) else {
        return Ok(());
    };
    let body = {
        let version = Arc::clone(&shared.state().version);
        let home = home_of(&shared.home, &version, &table).unwrap_or_else(|| shared.home.clone());
        download(&home, &table, Purpose::Warm)?
    };
    let mut file = shared.local.create(number)?;
    file.append(&body, Site::TableAppend)?;
    file.sync(Site::TableSync)?;
    file.close(Site::TableClose)?;
    shared.local.sync_names()
}
