//! Jobs that an earlier opening has given away, and that go on.
//!
//! What such a job may do is decided as for any plan, by the rules of today: it goes on only if the same tables would now go
//! to the same place, and nothing lies below them that it did not know of. So it does not matter how old the record of a job
//! is, nor what has happened since.

use std::sync::Arc;

use crate::base::error::Result;
use crate::compaction::Plan;
use crate::compaction::job::Job;
use crate::compaction::parts::Part;
use crate::compaction::service::LeftJob;
use crate::compaction::service::spec::JobSpec;
use crate::db::background::away::Waits;
use crate::db::background::compact::Accepted;
use crate::db::core::Core;

impl Core {
    /// Called before lanes start: no plan has taken the tables yet. One that cannot go on costs the work that was done.
    pub(crate) fn go_on_with_left_jobs(&self) {
        let Some(service) = &self.options.compaction_service else { return };
        let left = self.watch_job(|| Ok(service.left_behind()));
        let went_on = left.and_then(|left| left.into_iter().try_for_each(|job| self.take_up(job)));
        if let Err(error) = went_on {
            self.tell_background_error(&error, true);
        }
    }

    fn take_up(&self, left: Box<dyn LeftJob>) -> Result<()> {
        let Some(job) = self.accept_left(left.spec()) else { return Ok(()) };
        let prepared = self.watch_job(|| self.begin_merge(&job));
        {
            let mut state = self.state.lock();
            let begun = prepared.inspect_err(|_| state.in_flight.end(job.id))?;
            state.away.begin(&job, begun, Waits::Nobody);
        }
        self.send_away(job.id, |done| left.go_on(done))
    }

    fn accept_left(&self, spec: &JobSpec) -> Option<Arc<Job>> {
        let mut state = self.state.lock();
        match self.accept(&mut state, &plan(spec))? {
            Accepted::Merge(job) if spec.fits(&self.settings.order.user, &job) => Some(job),
            Accepted::Merge(job) => {
                state.in_flight.end(job.id);
                None
            }
            Accepted::Move { job, .. } => {
                state.in_flight.end(job);
                None
            }
        }
    }
}

/// What would make a job of these tables.
fn plan(spec: &JobSpec) -> Plan {
    let part = Part { from: spec.part.from.clone(), until: spec.part.until.clone() };
    match spec.inputs.first() {
        Some(first) if part != Part::all() => Plan::Slice { from: first.slot, part },
        _ => {
            let inputs = spec.inputs.iter().map(|input| input.number).collect();
            Plan::Merge { inputs, to: spec.target }
        }
    }
}
