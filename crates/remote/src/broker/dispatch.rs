//! Who gets which job. Databases share the slots: the one with the fewest running jobs comes first, and among equals the
//! one whose first job is the most urgent. Within a database it is priority, then age.

use crate::broker::event::SessionId;
use crate::broker::job::{Phase, Rank, Running};
use crate::broker::state::Broker;
use crate::job::id::JobId;
use crate::job::name::DbId;
use crate::job::spec::{JobSpec, Layout};
use crate::message::{Assignment, AttemptId, ClientReply, WorkerOrder};

/// What decides which workers can do a job: one that finds none speaks for all that need the same.
#[derive(PartialEq, Eq)]
struct Needs {
    layout: Layout,
    features: Vec<String>,
}

impl Needs {
    fn of(spec: &JobSpec) -> Self {
        Needs { layout: spec.layout.clone(), features: spec.features.clone() }
    }
}

impl Broker {
    pub(super) fn dispatch(&mut self) {
        while self.has_room() && self.assign_one() {}
    }

    fn has_room(&self) -> bool {
        self.workers.values().any(|worker| !worker.leaving && self.free_slots(worker) > 0)
    }

    /// False if no job that waits finds a worker.
    fn assign_one(&mut self) -> bool {
        let mut databases: Vec<(usize, Rank, DbId)> = Vec::new();
        for (db, database) in &self.databases {
            if let Some(first) = database.waiting.first() {
                databases.push((database.running, *first, db.clone()));
            }
        }
        databases.sort();
        for (_, _, db) in databases {
            if let Some((job, session)) = self.first_that_fits(&db) {
                self.assign(job, session);
                return true;
            }
        }
        false
    }

    fn first_that_fits(&self, db: &DbId) -> Option<(JobId, SessionId)> {
        let mut hopeless: Vec<Needs> = Vec::new();
        for rank in &self.databases.get(db)?.waiting {
            let needs = Needs::of(&self.jobs.get(&rank.job)?.submission.spec);
            if hopeless.contains(&needs) {
                continue;
            }
            if let Some(session) = self.worker_for(rank.job) {
                return Some((rank.job, session));
            }
            hopeless.push(needs);
        }
        None
    }

    /// The worker with the most free slots of those that can and may, and were heard of lately. The one that failed last
    /// is asked only if there is no other.
    fn worker_for(&self, id: JobId) -> Option<SessionId> {
        let job = self.jobs.get(&id)?;
        let spec = &job.submission.spec;
        let quiet = self.config.heartbeat * 2;
        let fitting = self.workers.iter().filter(|(_, worker)| {
            !worker.leaving
                && self.now.saturating_sub(worker.last_heard) <= quiet
                && worker.scope.holds(&spec.db)
                && worker.hello.capabilities.suffice_for(spec)
        });
        let ranked = fitting.filter_map(|(session, worker)| {
            let free = self.free_slots(worker);
            let is_other = job.avoid.as_ref() != Some(&worker.key.worker);
            (free > 0).then_some((is_other, free, std::cmp::Reverse(*session)))
        });
        ranked.max().map(|(_, _, session)| session.0)
    }

    fn assign(&mut self, id: JobId, session: SessionId) {
        let attempt = self.next_attempt();
        let (Some(job), Some(worker)) = (self.jobs.get(&id), self.workers.get(&session)) else {
            return;
        };
        let key = worker.key.clone();
        let assignment = Assignment {
            attempt,
            spec: job.submission.spec.clone(),
            priority: job.submission.priority,
            resumed: job.recorded.clone(),
            storage: job.submission.storage.clone(),
        };
        let resumed = assignment.resumed.len();
        let lease_until = self.now + self.config.lease;
        self.stats.attempts += 1;
        let started = ClientReply::Started(AttemptId { job: id, attempt }, key.worker.clone());
        self.set_phase(id, Phase::Running(Running { attempt, key, resumed, lease_until }));
        self.order(session, WorkerOrder::Assign(assignment));
        self.tell(id, started);
    }
}
