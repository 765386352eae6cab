//! Jobs that an earlier opening of the database has given away: what of them is worth going on with is the engine's to say.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use siltstone::service::{Completion, JobSpec, LeftJob, Submitted};
use siltstone_cloud::JobId;
use siltstone_remote as remote;
use siltstone_remote::{KeyOrder, Priority, RemoteClient};

use crate::convert;
use crate::fleet::Shared;
use crate::job::{AwayHandle, Going, OpenJob};

/// Those of them that nobody has asked for yet. Each ends when it is dropped.
#[derive(Default)]
pub(crate) struct Left(Mutex<Vec<Record>>);

struct Record {
    open: OpenJob,
    spec: remote::JobSpec,
    /// The same, as the engine has it.
    told: JobSpec,
    /// A worker may hold tables of it. Else a broker that has just started would wait for one that does not exist.
    begun: bool,
}

impl Left {
    /// Asks the store, once.
    pub(crate) fn ask(shared: &Arc<Shared>) -> Self {
        let left = shared.tables.left_jobs().into_iter();
        let records = left.filter_map(|(job, record)| Record::read(shared, job, &record));
        Left(Mutex::new(records.collect()))
    }

    pub(crate) fn take(
        &self,
        client: &RemoteClient,
        order: &Arc<dyn KeyOrder + Send + Sync>,
    ) -> Vec<Box<dyn LeftJob>> {
        // Nothing under the lock stops half way.
        let records = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let job = |record| {
            let (client, order) = (client.clone(), Arc::clone(order));
            Box::new(Leftover { record, client, order }) as Box<dyn LeftJob>
        };
        records.into_iter().map(job).collect()
    }
}

impl Record {
    /// `None` of what makes no sense, or is of tables that are others now.
    fn read(shared: &Arc<Shared>, job: JobId, record: &Bytes) -> Option<Self> {
        let open = OpenJob::left(shared, job);
        let spec = remote::JobSpec::from_bytes(record).ok()?;
        let is_there = |input: &remote::InputTable| {
            let object = shared.tables.object_of(input.number);
            object.is_some_and(|object| {
                (object.name, object.bytes) == (input.name.clone(), input.bytes)
            })
        };
        let is_ours =
            spec.db == shared.config.db && Some(&spec.place) == shared.place(job).as_ref();
        let fits = is_ours && spec.inputs.iter().all(is_there);
        let told = fits.then(|| convert::to_engine(&spec).ok())??;
        // Whoever asks for it now is this opening.
        let spec = remote::JobSpec { epoch: shared.config.epoch.0, ..spec };
        let begun = shared.tables.has_begun(job);
        Some(Record { open, spec, told, begun })
    }
}

struct Leftover {
    record: Record,
    client: RemoteClient,
    order: Arc<dyn KeyOrder + Send + Sync>,
}

impl LeftJob for Leftover {
    fn spec(&self) -> &JobSpec {
        &self.record.told
    }

    fn go_on(self: Box<Self>, done: Completion) -> Box<dyn Submitted> {
        let Leftover { record: Record { open, spec, begun, .. }, client, order } = *self;
        let (spec, priority) = (Arc::new(spec), Priority::default());
        let away = AwayHandle::default();
        away.0.note_kept(&open);
        Going { client, spec, begun, priority, order, open, done }.go(&away.0);
        Box::new(away)
    }
}
