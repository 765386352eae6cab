//! `Db::write`, the only way in: queue, make room, commit, publish.

pub(crate) mod backlog;
pub(crate) mod committer;
pub(crate) mod crowd;
pub(crate) mod heal;
pub(crate) mod pace;
pub(crate) mod queue;
pub(crate) mod room;
pub(crate) mod spare;
pub(crate) mod turns;
pub(crate) mod waiter;
pub(crate) mod wal;

#[cfg(test)]
mod helped_tests;
#[cfg(test)]
mod tests;

use std::panic::resume_unwind;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key::SeqNo;
use crate::db::core::{Core, panicked};
use crate::db::options::WriteOptions;
use crate::db::write::committer::{Committer, Lead};
use crate::db::write::queue::{Request, Turn, WriteQueue};
use crate::db::write::waiter::Waiter;
use crate::format::batch::WriteBatch;

/// Bodies gathered behind one leader; small leaders take less along, so that they are not slowed
/// by others' bulk. LevelDB's figures.
const GROUP_BYTES_MAX: usize = 1 << 20;
const GROUP_BYTES_SMALL: usize = 128 << 10;

/// Those whom a leader takes along.
type Group = Vec<Arc<Waiter>>;

impl Core {
    pub(crate) fn write(&self, batch: &WriteBatch, options: WriteOptions) -> Result<()> {
        batch.check()?;
        let queue = self.queue.as_ref().ok_or_else(read_only)?;
        let request = Request { body: batch.body(), count: batch.count(), sync: options.sync };
        if !options.sync {
            self.turns.make_way(&*self.env.clock, || self.view.load().memtable.help() > 0);
        }
        match queue.join(request) {
            Turn::Done(result) => {
                // Only who makes way begins to count anew.
                if !options.sync {
                    self.turns.met(&*self.env.clock);
                }
                result
            }
            Turn::Lead(committer) => self.lead(queue, committer, request),
        }
    }

    /// Commits the leader's own write with those that wait, then those that came meanwhile, and gives the lead away.
    fn lead(&self, queue: &WriteQueue<Lead>, mut committer: Lead, own: Request<'_>) -> Result<()> {
        let mut group = Group::new();
        let led = self.watch(|| self.commit_own(queue, &mut committer, own, &mut group));
        if own.sync || !matches!(led, Ok(Ok(()))) {
            queue.finish(committer, &group, &outcome(&led));
            return led.unwrap_or_else(|panic| resume_unwind(panic));
        }
        queue.tell(&group, &Ok(()));
        let Some(mut committer) = queue.rest(committer) else { return Ok(()) };
        let mut late = Group::new();
        let led = self.watch(|| self.commit_late(queue, &mut committer, &mut late));
        queue.finish(committer, &late, &outcome(&led));
        // Whether that went well is the business of those whose writes they are.
        led.map_or_else(|panic| resume_unwind(panic), |_| Ok(()))
    }

    /// Makes room, takes along who waits, and commits.
    fn commit_own(
        &self,
        queue: &WriteQueue<Lead>,
        committer: &mut Committer,
        own: Request<'_>,
        group: &mut Group,
    ) -> Result<()> {
        self.make_room(committer, own.body.len())?;
        if own.sync {
            queue.gather();
        }
        *group = queue.take_group(own.sync, group_limit(own.body.len()));
        self.refuse_if_failed()?;
        if !own.sync {
            return self.commit(committer, own, group);
        }
        let begin = self.env.clock.now();
        self.commit(committer, own, group)?;
        queue.synced(self.env.clock.now().saturating_sub(begin));
        Ok(())
    }

    /// Commits for those who came while the leader did, if that makes nobody wait. To make one of them the next leader
    /// takes a sleep and a call of each, by turns, and moves the memtable from one processor's cache to the other's.
    fn commit_late(
        &self,
        queue: &WriteQueue<Lead>,
        committer: &mut Committer,
        late: &mut Group,
    ) -> Result<()> {
        if !self.has_room(committer, GROUP_BYTES_SMALL) {
            return Ok(());
        }
        *late = queue.take_group(false, GROUP_BYTES_SMALL);
        let Some((first, rest)) = late.split_first() else { return Ok(()) };
        self.refuse_if_failed()?;
        self.commit(committer, Request { body: &first.body, count: first.count, sync: false }, rest)
    }

    /// Commits, inserts and publishes (C1).
    fn commit(
        &self,
        committer: &mut Committer,
        own: Request<'_>,
        group: &[Arc<Waiter>],
    ) -> Result<()> {
        let first = committer.next_seqno;
        if let Err(error) = committer.commit(self, own, group) {
            self.note_write_failure(&error);
            return Err(error);
        }
        let is_helped = self.turns.are_helped();
        let mut next = committer.insert(first, own.body, is_helped);
        let mut bytes = own.body.len();
        for waiter in group {
            next = committer.insert(next, &waiter.body, is_helped);
            bytes += waiter.body.len();
        }
        debug_assert_eq!(next, committer.next_seqno);
        self.counters.bytes_written.add_alone(bytes as u64);
        self.view.show(SeqNo(next.0 - 1));
        Ok(())
    }

    /// Rule R6: a full disk may heal; any other failure of the log ends writing.
    fn note_write_failure(&self, error: &Error) {
        let fatal = !matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::InvalidArgument);
        if fatal {
            self.fail(error.clone());
        }
        self.tell_background_error(error, !fatal);
    }
}

/// What a group is told of how its writes went.
fn outcome(led: &std::thread::Result<Result<()>>) -> Result<()> {
    led.as_ref().map_or_else(|_| Err(panicked()), Result::clone)
}

fn group_limit(own: usize) -> usize {
    if own <= GROUP_BYTES_SMALL { GROUP_BYTES_SMALL } else { GROUP_BYTES_MAX.saturating_sub(own) }
}

pub(crate) fn read_only() -> Error {
    Error::new(ErrorKind::ReadOnly, "the database is open read-only")
}
