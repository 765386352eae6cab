//! Logs -> memtables. What comes out is always a prefix of what was written: never a hole.
//!
//! **Invariants.**
//! - P1: replay stops for good at the first place where writes are missing: a bad record that
//!   nothing newer repeats, or a jump in the sequence numbers where bytes may have been lost.
//! - P2 (rule R8): if a sync mark lies behind that place, the missing writes had been promised; that
//!   is damage, and an error naming file and offset. Without one they are a crash's tail, and are
//!   reported as dropped.
//! - P3: a write that two logs hold is replayed once. Healing after a full disk copies writes into
//!   a new log under their old numbers; the torn log before it is then no loss.
//! - P4: no record is taken that stands in another one's place, as their numbers tell (`numbers.rs`).
//!
//! Failed appends use up numbers, so not every jump is a hole. Within one log it is none unless
//! bytes were lost before it. Between logs it is one, save where the later log begins with a mark:
//! then it holds all that memory held when it was made, and its mark says from which number on. If a
//! log yet to come does so, the logs in between may be skipped.

use std::path::Path;
use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::base::error::{Error, Result};
use crate::base::event::{Dropped, RecoveryReport};
use crate::base::key::SeqNo;
use crate::db::open::numbers::{Misplaced, Numbers};
use crate::env::fs::FileSystem;
use crate::format::batch::BatchReader;
use crate::format::filename::{FileName, FileNumber};
use crate::format::record::mark::{find_sync_mark, is_sync_mark};
use crate::format::record::reader::{RecordReader, Step};
use crate::format::record::resync::half_stored;
use crate::memtable::{Inserter, MemTable};

/// How replay is done.
pub(crate) struct ReplaySettings {
    pub(crate) order: UserOrder,
    pub(crate) memtable_bytes: usize,
    /// Any bad record but a torn tail is an error.
    pub(crate) paranoid: bool,
    /// The manifest's last sequence number: the first log's first write must follow it, or be older.
    pub(crate) baseline: SeqNo,
    pub(crate) seed: u64,
}

/// Takes full memtables, oldest first.
pub(crate) type Sink<'a> = dyn FnMut(&Arc<MemTable>) -> Result<()> + 'a;

pub(crate) struct WalReplay<'a> {
    settings: ReplaySettings,
    fs: &'a dyn FileSystem,
    dir: &'a Path,
    sink: &'a mut Sink<'a>,
    inserter: Inserter,
    /// The last sequence number replayed; none before the first batch.
    last: Option<SeqNo>,
    /// A place at which a log ended before its time, until a later log proves it harmless.
    broken: Option<Broken>,
    /// The torn tail of the log before, if it had one: where a hole between the two begins.
    torn: Option<Broken>,
    numbers: Numbers,
    pub(crate) report: RecoveryReport,
}

/// Where reading a log could not go on.
struct Broken {
    wal: FileNumber,
    offset: u64,
    bytes: u64,
    reason: String,
}

impl<'a> WalReplay<'a> {
    pub(crate) fn new(
        settings: ReplaySettings,
        fs: &'a dyn FileSystem,
        dir: &'a Path,
        sink: &'a mut Sink<'a>,
    ) -> Self {
        let (_, inserter) =
            MemTable::new(settings.order.clone(), settings.memtable_bytes, settings.seed);
        let report = RecoveryReport::default();
        WalReplay {
            settings,
            fs,
            dir,
            sink,
            inserter,
            last: None,
            broken: None,
            torn: None,
            numbers: Numbers::default(),
            report,
        }
    }

    /// Replays logs, which must ascend, and returns the inserter of the last memtable,
    /// which the sink has not seen.
    pub(crate) fn run(mut self, wals: &[FileNumber]) -> Result<(Inserter, RecoveryReport)> {
        for (index, wal) in wals.iter().enumerate() {
            self.report.wals.push(wal.0);
            if !self.replay(*wal, &wals[index..])? {
                break;
            }
        }
        if let Some(broken) = self.broken.take() {
            self.drop_rest(broken, &[])?;
        }
        self.report.last_seqno = self.last.unwrap_or_default().max(self.settings.baseline);
        Ok((self.inserter, self.report))
    }

    /// Replays one log. False if replay must end here (P1). `later` begins with this log.
    fn replay(&mut self, wal: FileNumber, later: &[FileNumber]) -> Result<bool> {
        let path = FileName::Wal(wal).in_dir(self.dir);
        let mut reader = RecordReader::of_log(self.fs.open(&path)?);
        let file_len = reader.file().len();
        let mut record = Vec::new();
        let mut end = 0;
        let mut first = true;
        self.numbers.begin_log();
        loop {
            let step = reader.next(&mut record)?;
            match step {
                Step::End => {
                    let Err(error) = self.numbers.check_end(self.next_seqno()) else {
                        return Ok(true);
                    };
                    return self.broke(wal, (0, file_len), error.message().to_owned(), &reader);
                }
                Step::Record { offset, after_zeros, end: record_end } => {
                    let before = match (first, after_zeros) {
                        (true, _) => Before::OtherLogs,
                        (false, true) => Before::Zeros,
                        (false, false) => Before::Nothing,
                    };
                    match self.take(&record, before) {
                        Taken::Whole => {}
                        Taken::Hole(reason) => {
                            let next = self.next_seqno();
                            if first && one_takes_over(self.fs, self.dir, &later[1..], next)? {
                                return Ok(true);
                            }
                            let here = Broken { wal, offset: end, bytes: file_len - end, reason };
                            // Where an earlier log broke off is where the hole begins.
                            let place = self.broken.take().or(self.torn.take()).unwrap_or(here);
                            return self.drop_rest(place, later).map(|()| false);
                        }
                        Taken::Bad(error) => {
                            let reason = error.message().to_owned();
                            return self.broke(wal, (offset, file_len), reason, &reader);
                        }
                        Taken::Late(error) => return Err(error.at(offset).in_file(&path)),
                        Taken::Failed(error) => return Err(error.in_file(&path)),
                    }
                    first = false;
                    (self.broken, self.torn) = (None, None);
                    end = record_end;
                }
                Step::TornTail { offset, bytes } => {
                    return self.tore(wal, (offset, bytes), &reader);
                }
                Step::Damage(damage) => {
                    if let Some(bytes) = half_stored(&damage, reader.file())? {
                        return self.tore(wal, (damage.offset, bytes), &reader);
                    }
                    let reason = damage.reason.to_owned();
                    return self.broke(wal, (end, file_len), reason, &reader);
                }
            }
        }
    }

    /// The log ends with a part of a record.
    fn tore(
        &mut self,
        wal: FileNumber,
        (offset, bytes): (u64, u64),
        reader: &RecordReader,
    ) -> Result<bool> {
        let path = FileName::Wal(wal).in_dir(self.dir);
        self.report.torn_bytes += bytes;
        let reason = "a record is cut short";
        if let Some(mark) = find_sync_mark(reader.file(), offset)? {
            return Err(promised(&path, offset, mark, reason));
        }
        if self.numbers.may_hide_a_hole(bytes) {
            return Err(Error::corruption(reason).at(offset).in_file(&path));
        }
        self.torn = Some(Broken { wal, offset, bytes, reason: reason.to_owned() });
        Ok(true)
    }

    /// The number that the next write has, if nothing is missing.
    fn next_seqno(&self) -> SeqNo {
        self.last.unwrap_or(self.settings.baseline).plus(1)
    }

    /// A bad record: promised bytes, or a crash's tail, which a later log may repeat (P3).
    fn broke(
        &mut self,
        wal: FileNumber,
        (offset, file_len): (u64, u64),
        reason: String,
        reader: &RecordReader,
    ) -> Result<bool> {
        let path = FileName::Wal(wal).in_dir(self.dir);
        if let Some(mark) = find_sync_mark(reader.file(), offset)? {
            return Err(promised(&path, offset, mark, &reason));
        }
        let bytes = file_len - offset;
        if self.settings.paranoid || self.numbers.may_hide_a_hole(bytes) {
            return Err(Error::corruption(reason).at(offset).in_file(&path));
        }
        self.broken = Some(Broken { wal, offset, bytes, reason });
        Ok(true)
    }

    /// Replay ends at `place`: whatever lies behind it was promised (an error) or is dropped.
    fn drop_rest(&mut self, place: Broken, later: &[FileNumber]) -> Result<()> {
        let path = FileName::Wal(place.wal).in_dir(self.dir);
        for wal in later {
            let file = self.fs.open(&FileName::Wal(*wal).in_dir(self.dir))?;
            let from = if *wal == place.wal { place.offset } else { 0 };
            if let Some(mark) = find_sync_mark(&*file, from)? {
                let mut what = place.reason;
                if *wal != place.wal {
                    what = format!("{what}, and {} goes on", FileName::Wal(*wal));
                }
                return Err(promised(&path, place.offset, mark, &what));
            }
        }
        if self.settings.paranoid {
            return Err(Error::corruption(place.reason).at(place.offset).in_file(&path));
        }
        for wal in later.iter().filter(|wal| **wal != place.wal) {
            let file = self.fs.open(&FileName::Wal(*wal).in_dir(self.dir))?;
            let reason = format!("it goes on behind what is missing in {}", path.display());
            let dropped =
                Dropped { file: file.path().to_owned(), offset: 0, bytes: file.len(), reason };
            self.report.dropped.push(dropped);
        }
        let Broken { offset, bytes, reason, .. } = place;
        self.report.dropped.push(Dropped { file: path, offset, bytes, reason });
        Ok(())
    }

    /// Applies one batch.
    fn take(&mut self, record: &[u8], before: Before) -> Taken {
        let batch = match BatchReader::new(record) {
            Ok(batch) => batch,
            Err(error) => return Taken::Bad(error),
        };
        let next = self.next_seqno();
        let vouched =
            before == Before::Nothing || (before == Before::OtherLogs && is_sync_mark(record));
        if batch.seqno() > next && !vouched {
            let reason = format!("writes {next} to {} are missing", batch.seqno().0 - 1);
            return Taken::Hole(reason);
        }
        // The whole batch is checked before any of it is applied.
        if let Err(error) = batch.check() {
            return Taken::Bad(error);
        }
        match self.numbers.follow(&batch, next) {
            Ok(()) => {}
            Err(Misplaced::Here(error)) => return Taken::Bad(error),
            Err(Misplaced::Before(error)) => return Taken::Late(error),
        }
        self.apply(&batch);
        match self.pass_full_memtable() {
            Ok(()) => Taken::Whole,
            Err(error) => Taken::Failed(error),
        }
    }

    fn apply(&mut self, batch: &BatchReader<'_>) {
        let mut seqno = batch.seqno();
        for entry in batch.entries() {
            let (kind, key, value) = entry.expect("checked just before");
            if self.last.is_none_or(|last| seqno > last) {
                self.inserter.add(seqno, kind, key, value);
                self.last = Some(seqno);
            }
            seqno = seqno.plus(1);
        }
        if batch.count() > 0 {
            self.report.batches += 1;
        } else if let Some(before) = batch.seqno().0.checked_sub(1) {
            // Numbers below a mark's are accounted for, even if no write carries them.
            self.last = self.last.max(Some(SeqNo(before)));
        }
    }

    fn pass_full_memtable(&mut self) -> Result<()> {
        if self.inserter.table().approximate_bytes() < self.settings.memtable_bytes {
            return Ok(());
        }
        (self.sink)(self.inserter.table())?;
        self.settings.seed = self.settings.seed.wrapping_add(1);
        let order = self.settings.order.clone();
        (_, self.inserter) = MemTable::new(order, self.settings.memtable_bytes, self.settings.seed);
        Ok(())
    }
}

/// What lies between a record and the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Zeros,
    OtherLogs,
}

enum Taken {
    Whole,
    /// Writes before this batch are missing.
    Hole(String),
    /// The record is no batch, or none of this place.
    Bad(Error),
    /// It shows that one before it, which was applied, has none of its own.
    Late(Error),
    /// The sink failed.
    Failed(Error),
}

/// True if one of these logs took over (P3) and begins where replay has got to. Healing removes the logs
/// that it has replaced; a crash may leave any of them, and a hole before each.
pub(crate) fn one_takes_over(
    fs: &dyn FileSystem,
    dir: &Path,
    wals: &[FileNumber],
    next: SeqNo,
) -> Result<bool> {
    for wal in wals {
        let file = fs.open(&FileName::Wal(*wal).in_dir(dir))?;
        let mut record = Vec::new();
        let step = RecordReader::of_log(file).next(&mut record)?;
        if matches!(step, Step::Record { .. })
            && is_sync_mark(&record)
            && BatchReader::new(&record).is_ok_and(|mark| mark.seqno() <= next)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn promised(path: &Path, offset: u64, mark: u64, reason: &str) -> Error {
    let message = format!(
        "{reason}, but a sync at byte {mark} had promised what is missing; restore the file, or see \
         what repair can save"
    );
    Error::corruption(message).at(offset).in_file(path)
}
