//! The store of tables that the engine sees: writes go to the folder, reads come from there or from the bucket, and what
//! the engine has made durable is told to the ledger.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use siltstone::{
    Error, ErrorKind, FileNumber, Installed, RandomAccessFile, Result, TableStore, WritableFile,
};

use super::ledger::Change;
use super::shared::Shared;
use super::tables::Placed;
use super::{nearness, remote};

/// Tables that lie in the folder at first, and in the bucket for good.
pub(super) struct TieredStore {
    pub(super) shared: Arc<Shared>,
}

impl TieredStore {
    /// Waits while too much is here only. Who waits is a lane of the engine's, and writers do when memory is full.
    fn wait_for_room(&self) -> Result<()> {
        let shared = &self.shared;
        let bytes_max = shared.options.bytes_waiting_max;
        let ready = |state: &mut super::shared::State| match &state.failed {
            Some(failed) => Some(Err(failed.clone().into())),
            None if state.closing || state.ledger.bytes_waiting() < bytes_max => Some(Ok(())),
            None => None,
        };
        if let Some(now) = ready(&mut shared.state()) {
            return now;
        }
        let begin = shared.home.now();
        let done = shared.wait(ready);
        let waited = shared.home.now().saturating_sub(begin);
        shared.counters.waits.fetch_add(1, Relaxed);
        shared.counters.wait_micros.fetch_add(waited.as_micros() as u64, Relaxed);
        done
    }
}

impl TableStore for TieredStore {
    fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>> {
        self.wait_for_room()?;
        self.shared.local.create(number.0)
    }

    fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
        let shared = &self.shared;
        let placed = match shared.local.open(number.0)? {
            Some(file) => Placed::Here(file),
            None => {
                let file = remote::open(shared, number.0)?;
                Placed::There(file.ok_or_else(|| missing(number))?)
            }
        };
        let table = shared.open.add(number.0, placed, shared);
        if shared.state().copies.awaits(number.0) {
            shared.open.let_hurry(&[number.0]);
        }
        Ok(table)
    }

    fn remove(&self, number: FileNumber) -> Result<()> {
        self.shared.change(|state| state.ledger.forget(number.0));
        self.shared.notes.remove(number.0);
        remote::forget(&self.shared, number.0);
        // Its object is the collector's.
        self.shared.local.remove(number.0)
    }

    fn list(&self) -> Result<Vec<FileNumber>> {
        let mut numbers = self.shared.local.list()?;
        numbers.extend(self.shared.state().ledger.in_bucket());
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers.into_iter().map(FileNumber).collect())
    }

    fn sync_names(&self) -> Result<()> {
        self.shared.local.sync_names()
    }

    fn installed(&self, change: &Installed<'_>) {
        let numbers = |numbers: &[FileNumber]| numbers.iter().map(|number| number.0).collect();
        let change = Change {
            payload: Bytes::copy_from_slice(change.edit),
            is_whole: change.is_whole,
            added: numbers(change.added),
            removed: numbers(change.removed),
        };
        let size_of = |number| self.shared.local.size(number).unwrap_or(0);
        let local = self.shared.options.local;
        let adopted = self.shared.change(|state| {
            let mut adopted = state.ledger.tell(change, size_of);
            let bytes = |number| state.ledger.table(number).map_or(0, |table| table.bytes);
            adopted.retain(|number| local.takes(bytes(*number)));
            state.copies.want(&adopted, self.shared.home.now());
            adopted
        });
        self.shared.open.let_hurry(&adopted);
    }

    fn near(&self, number: FileNumber) -> Vec<Range<u64>> {
        nearness::of(&self.shared, number.0)
    }

    fn bring_near(&self, tables: &[(FileNumber, Vec<Range<u64>>)]) {
        nearness::bring(&self.shared, tables);
    }
}

fn missing(number: FileNumber) -> Error {
    let message = format!("table {number} is neither in the folder nor in the bucket's version");
    Error::new(ErrorKind::NotFound, message)
}

impl From<crate::error::Error> for Error {
    fn from(error: crate::error::Error) -> Self {
        use crate::error::ErrorKind as Cloud;
        let kind = match error.kind() {
            Cloud::Fenced => ErrorKind::Fenced,
            Cloud::Damaged if error.is_of_object() => ErrorKind::Corruption,
            Cloud::Gone => ErrorKind::NotFound,
            Cloud::Misuse | Cloud::Exists => ErrorKind::InvalidArgument,
            Cloud::Damaged
            | Cloud::Contended
            | Cloud::Undecided
            | Cloud::Unavailable
            | Cloud::Denied => ErrorKind::Io,
        };
        Error::new(kind, error.to_string())
    }
}
