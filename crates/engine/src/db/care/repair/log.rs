//! Reads every whole batch of a log, also behind damage. Recovery stops there, to show a prefix of
//! what was written; a repair saves what it can and says what is missing.

use std::sync::Arc;

use super::report::{LostRange, SalvagedLog};
use crate::base::error::Result;
use crate::base::key::{SeqNo, ValueKind};
use crate::env::fs::RandomAccessFile;
use crate::format::batch::BatchReader;
use crate::format::record::mark::find_sync_mark;
use crate::format::record::reader::{RecordReader, Step};
use crate::format::record::resync::half_stored;

/// One update of a log.
pub(super) struct Update<'a> {
    pub(super) seqno: SeqNo,
    pub(super) kind: ValueKind,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

/// Hands every update to `visit`, whose errors it returns. Notes in `lost` what cannot be read.
pub(super) fn read(
    file: Arc<dyn RandomAccessFile>,
    lost: &mut Vec<LostRange>,
    visit: &mut dyn FnMut(Update<'_>) -> Result<()>,
) -> Result<SalvagedLog> {
    let mut reader = RecordReader::of_log(Arc::clone(&file));
    let mut account = Account::new(&*file, lost);
    let mut record = Vec::new();
    let mut read_to = 0;
    loop {
        match reader.next(&mut record) {
            Ok(Step::End) => return Ok(account.log),
            Ok(Step::Record { offset, end, .. }) => {
                read_to = end;
                match whole_batch(&record) {
                    Ok(batch) => {
                        account.log.batches += 1;
                        account.log.entries += u64::from(batch.count());
                        visit_batch(&batch, visit)?;
                    }
                    Err(error) => account.lose(offset, end - offset, error.message()),
                }
            }
            Ok(Step::Damage(damage)) => match half_stored(&damage, &*file) {
                Ok(Some(bytes)) => return account.end_torn(&*file, (damage.offset, bytes)),
                // The reader comes to what cannot be read by itself.
                Ok(None) | Err(_) => account.lose(damage.offset, damage.bytes, damage.reason),
            },
            Ok(Step::TornTail { offset, bytes }) => {
                return account.end_torn(&*file, (offset, bytes));
            }
            Err(error) => {
                account.lose(read_to, file.len().saturating_sub(read_to), error.message());
                return Ok(account.log);
            }
        }
    }
}

/// What one log gave and did not give.
struct Account<'a> {
    log: SalvagedLog,
    lost: &'a mut Vec<LostRange>,
}

impl<'a> Account<'a> {
    fn new(file: &dyn RandomAccessFile, lost: &'a mut Vec<LostRange>) -> Self {
        let log = SalvagedLog {
            path: file.path().to_owned(),
            bytes: file.len(),
            batches: 0,
            entries: 0,
            bytes_dropped: 0,
            torn_bytes: 0,
        };
        Account { log, lost }
    }

    /// The log ends with a part of a record.
    fn end_torn(
        mut self,
        file: &dyn RandomAccessFile,
        (offset, bytes): (u64, u64),
    ) -> Result<SalvagedLog> {
        self.log.torn_bytes = bytes;
        match find_sync_mark(file, offset)? {
            Some(_) => self.lose(offset, bytes, "a record is cut short"),
            None => self.log.bytes_dropped += bytes,
        }
        Ok(self.log)
    }

    fn lose(&mut self, offset: u64, bytes: u64, reason: &str) {
        self.log.bytes_dropped += bytes;
        if let Some(last) = self.lost.last_mut()
            && last.file == self.log.path
            && last.offset + last.bytes == offset
        {
            last.bytes += bytes; // One damage, met from both of its sides.
            return;
        }
        let (file, reason) = (self.log.path.clone(), reason.to_owned());
        self.lost.push(LostRange { file, offset, bytes, from: None, to: None, reason });
    }
}

/// A batch is saved whole or not at all, as it was written.
fn whole_batch(record: &[u8]) -> Result<BatchReader<'_>> {
    let batch = BatchReader::new(record)?;
    batch.check().map(|()| batch)
}

fn visit_batch(
    batch: &BatchReader<'_>,
    visit: &mut dyn FnMut(Update<'_>) -> Result<()>,
) -> Result<()> {
    let mut seqno = batch.seqno();
    for entry in batch.entries() {
        let (kind, key, value) = entry?;
        visit(Update { seqno, kind, key, value })?;
        seqno = seqno.plus(1);
    }
    Ok(())
}
