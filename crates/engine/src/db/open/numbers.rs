//! Sequence numbers as replay meets them: which records stand in another one's place. The disk may
//! write a sector to the wrong place, or leave an old one; where records end with sectors, checksums
//! cannot tell.
//!
//! Within a log numbers rise. They may jump: failed appends use up numbers, and copies of memtables
//! leave such gaps. What failed never comes later, so a number that was passed over and comes after all
//! shows that the record behind the gap was out of place. It was applied by then, and so the open must
//! fail. The rest is a tail to cut.
//!
//! A mark carries no write and may bear the number of a failed one: two logs that took over in turn
//! begin with the same, and a crash may leave both.

use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::format::batch::BatchReader;
use crate::format::record::mark::MARK_SPAN_MAX;

/// What has been met so far.
#[derive(Default)]
pub(super) struct Numbers {
    /// Behind the last record of this log; none before its first.
    next_here: Option<SeqNo>,
    /// Numbers that no log had.
    gaps: Vec<Range<SeqNo>>,
    /// There is a gap in this log, and no mark behind it yet to say that nothing is missing.
    unsettled: bool,
}

/// A record that does not belong where it stands.
pub(super) enum Misplaced {
    /// It can be cut off, with all that follows.
    Here(Error),
    /// One before it, which was applied.
    Before(Error),
}

impl Numbers {
    pub(super) fn begin_log(&mut self) {
        self.next_here = None;
        self.unsettled = false;
    }

    /// Goes on to a batch. `next` is the number behind all that were applied.
    pub(super) fn follow(
        &mut self,
        batch: &BatchReader<'_>,
        next: SeqNo,
    ) -> std::result::Result<(), Misplaced> {
        let seqno = batch.seqno();
        if batch.count() > 0 && self.gaps.iter().any(|gap| gap.contains(&seqno)) {
            let message = format!("write {seqno} comes behind later ones");
            return Err(Misplaced::Before(Error::corruption(message)));
        }
        if let Some(expected) = self.next_here.filter(|expected| seqno < *expected) {
            let error = Error::corruption(format!("write {seqno} stands where {expected} belongs"));
            return Err(match self.gaps.is_empty() {
                true => Misplaced::Here(error),
                false => Misplaced::Before(error),
            });
        }
        if batch.count() == 0 {
            self.unsettled = false;
        } else if self.next_here.is_some() && seqno > next {
            self.gaps.push(next..seqno);
            self.unsettled = true;
        }
        self.next_here = Some(seqno.plus(u64::from(batch.count())));
        Ok(())
    }

    /// Checks a log at its end. It may repeat older logs, but then it goes as far as they: else it is
    /// one of them in the place of a newer one.
    pub(super) fn check_end(&self, next: SeqNo) -> Result<()> {
        match self.next_here {
            Some(end) if end < next => {
                let message = format!("holds writes up to {end}, and the logs before up to {next}");
                Err(Error::corruption(message))
            }
            _ => Ok(()),
        }
    }

    /// True if cutting the log's last bytes may leave a hole: the record before them is behind a gap. A
    /// copy of memtables may have gaps, too, but before its mark it ends with them.
    pub(super) fn may_hide_a_hole(&self, cut_bytes: u64) -> bool {
        self.unsettled && cut_bytes > MARK_SPAN_MAX
    }
}
