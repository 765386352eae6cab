//! What must come of a damage, told before the engine sees it: from what lies where in the logs, and
//! from nothing else.

use std::borrow::Cow;
use std::ops::Range;

use super::damage::{Case, Damage};
use super::specimen::{Kind, Specimen};
use super::wal_map::Record;

/// What must be found.
pub(super) enum Label {
    /// All that was written, and no error.
    Whole,
    /// An error, at open or at the reads that need what is damaged; every answer that is given is
    /// right.
    RightOrError,
    /// Rule R8: bytes that a later sync mark covers have changed, or a log is gone that the manifest
    /// names. The open fails.
    Damage,
    /// Rule R8: nothing that is left says that the lost bytes were promised. The first `batches` are
    /// found, all of them and no other.
    Tail {
        batches: usize,
        /// What was dropped is there, and must be reported.
        told: bool,
    },
    /// As `Tail`, or an error at open: records that are sound where they do not belong.
    TailOrError { batches: usize },
    /// A sound file of another database, which the format gives no means to tell: an error, or each
    /// answer as one of the two has it.
    Foreign,
}

impl Label {
    pub(super) fn of(specimen: &Specimen, case: &Case) -> Self {
        let kind = Kind::of(case.file_name(specimen));
        match (&case.damage, kind) {
            (Damage::None, _) => Label::Whole,
            (Damage::Extra { copy, name }, _) => of_extra(specimen, name, *copy),
            (Damage::Folder, _) => Label::RightOrError,
            // Logs have no name inside. Tables have their number, which is the same in a twin.
            (Damage::FromTwin, Kind::Wal | Kind::Table) => Label::Foreign,
            (_, Kind::Wal) => Log::of(specimen, case).label(&case.damage),
            _ => Label::RightOrError,
        }
    }
}

/// Files that the manifest does not name change nothing; what is no log is a crash's tail.
fn of_extra(specimen: &Specimen, name: &str, copy: bool) -> Label {
    let batches = specimen.history.len();
    let is_needed = specimen.named(Kind::Wal).next().is_some_and(|oldest| name > oldest);
    match Kind::of(name) {
        // Its numbers have been: it does not belong there.
        Kind::Wal if is_needed && copy => Label::TailOrError { batches },
        Kind::Wal if is_needed => Label::Tail { batches, told: true },
        _ => Label::Whole,
    }
}

/// A damaged log, and those behind it.
struct Log<'a> {
    specimen: &'a Specimen,
    /// Its place among the logs, by number.
    place: usize,
    name: &'a str,
    old: &'a [u8],
    /// `None` if it is gone.
    new: Option<Cow<'a, [u8]>>,
}

impl<'a> Log<'a> {
    fn of(specimen: &'a Specimen, case: &'a Case) -> Self {
        let name = case.file_name(specimen);
        let place = specimen.wals.keys().position(|wal| wal == name).unwrap_or_default();
        let old = specimen.file(name).unwrap_or_default();
        Log { specimen, place, name, old, new: case.damage.bytes(specimen, case.file) }
    }

    fn label(&self, damage: &Damage) -> Label {
        // The manifest names the oldest log it needs, and a log's name is durable before that.
        if *damage == Damage::Remove && self.place == 0 {
            return Label::Damage;
        }
        let new = self.new.as_deref().unwrap_or_default();
        let changed = first_difference(self.old, new);
        match damage {
            Damage::SwapWith(_) | Damage::CopyOf(_) => {
                Label::TailOrError { batches: self.batches_before(0) }
            }
            Damage::Doubled(_) | Damage::Garbage { .. } => self.lengthened(new),
            _ if changed.is_none() => Label::Whole,
            Damage::Swap { .. } | Damage::Misdirected { .. } | Damage::Stale { .. } => {
                let batches = self.batches_before(changed.unwrap_or_default());
                Label::TailOrError { batches }
            }
            _ => self.decided(new, changed.unwrap_or_default()),
        }
    }

    /// Rule R8, for damage that leaves no sound record where it does not belong.
    fn decided(&self, new: &[u8], changed: usize) -> Label {
        let Some(start) = self.first_loss(changed) else {
            // No batch is lost: marks and padding are not missed.
            return Label::Tail { batches: self.specimen.history.len(), told: false };
        };
        let rest = new.get(start..).unwrap_or_default();
        if self.holds_mark(rest) || self.later().any(|log| self.holds_mark(log)) {
            return Label::Damage;
        }
        let told = rest.iter().any(|byte| *byte != 0) || self.later().any(|log| !log.is_empty());
        Label::Tail { batches: self.batches_before(changed), told }
    }

    fn lengthened(&self, new: &[u8]) -> Label {
        if self.holds_mark(&new[self.old.len()..]) {
            return Label::TailOrError { batches: self.specimen.history.len() };
        }
        Label::Tail { batches: self.specimen.history.len(), told: false }
    }

    fn records(&self) -> &'a [Record] {
        &self.specimen.wals[self.name]
    }

    /// Where the first record begins that the damage reaches, if it or one behind it is a batch.
    fn first_loss(&self, changed: usize) -> Option<usize> {
        let mut reached = self.records().iter().filter(|record| record.bytes.end > changed);
        let first = reached.next()?;
        let lost = !first.is_mark || reached.any(|record| !record.is_mark);
        lost.then_some(first.bytes.start)
    }

    /// The batches before the record that a byte belongs to.
    fn batches_before(&self, changed: usize) -> usize {
        let reached = self.records().iter().find(|record| record.bytes.end > changed);
        let later = || self.specimen.wals.values().skip(self.place + 1).flatten().next();
        let record = reached.or_else(later);
        record.map_or(self.specimen.history.len(), |record| record.batches_before)
    }

    /// The logs behind this one.
    fn later(&self) -> impl Iterator<Item = &'a [u8]> {
        let names = self.specimen.wals.keys().skip(self.place + 1);
        names.filter_map(|name| self.specimen.file(name))
    }

    /// True if one of the marks that were ever written stands in these bytes.
    fn holds_mark(&self, bytes: &[u8]) -> bool {
        self.specimen.wals.iter().any(|(name, records)| {
            let log = self.specimen.file(name).unwrap_or_default();
            let marks = records.iter().filter(|record| record.is_mark);
            let mut marks = marks.map(|mark| &log[mark.bytes.clone()]);
            marks.any(|mark| bytes.windows(mark.len()).any(|window| window == mark))
        })
    }
}

/// The first byte that differs, or is missing, or too many.
pub(super) fn first_difference(old: &[u8], new: &[u8]) -> Option<usize> {
    let differs = old.iter().zip(new).position(|(old, new)| old != new);
    differs.or_else(|| (old.len() != new.len()).then(|| old.len().min(new.len())))
}

/// True if a change of a file of records can be seen in what it leaves: no, if the file ends clean,
/// or in zeros, where a record begins, since nothing tells that more was there.
pub(super) fn leaves_a_trace(stretches: &[Range<usize>], changed: usize, new: &[u8]) -> bool {
    let reached = stretches.iter().find(|stretch| stretch.end > changed);
    let Some(reached) = reached else { return false };
    new.get(reached.start..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0))
}
