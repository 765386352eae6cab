//! A runner for toy tables: as slow as asked for, and honest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use siltstone_remote::{
    Capabilities, Costs, JobFailure, JobId, JobResult, JobRunner, JobSpec, RunContext,
};

use crate::toy::{self, Store};

pub(crate) struct ToyRunner {
    store: Arc<Mutex<Store>>,
    pause: Duration,
    /// When each job was first begun.
    started: Mutex<BTreeMap<JobId, Instant>>,
}

impl ToyRunner {
    pub(crate) fn new(store: &Arc<Mutex<Store>>, pause: Duration) -> Self {
        ToyRunner { store: Arc::clone(store), pause, started: Mutex::default() }
    }

    pub(crate) fn known() -> Capabilities {
        Capabilities {
            comparators: vec![toy::layout().comparator],
            filters: Vec::new(),
            zstd: false,
            formats: vec![0],
            features: Vec::new(),
        }
    }

    pub(crate) fn started(&self, job: JobId) -> Instant {
        self.started.lock().unwrap()[&job]
    }

    pub(crate) fn runs(&self) -> usize {
        self.started.lock().unwrap().len()
    }
}

impl JobRunner for ToyRunner {
    fn run(&self, spec: &JobSpec, context: &RunContext) -> Result<JobResult, JobFailure> {
        self.started.lock().unwrap().entry(spec.job).or_insert_with(Instant::now);
        let tables = toy::merge(spec, &self.store.lock().unwrap());
        let mut outputs = context.resumed().to_vec();
        for (ordinal, entries) in tables.into_iter().enumerate().skip(outputs.len()) {
            context.check()?;
            std::thread::sleep(self.pause);
            let name = context.output_name(ordinal);
            let output = toy::output(name.clone(), &entries);
            assert!(self.store.lock().unwrap().put(&name, Arc::new(entries)), "{name} twice");
            context.finished(output.clone(), Costs::default())?;
            outputs.push(output);
        }
        Ok(JobResult { outputs, costs: Costs::default() })
    }
}
