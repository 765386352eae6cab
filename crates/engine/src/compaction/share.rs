//! A job that several threads merge, part by part. Who began it takes parts until none is left, and waits
//! for those that helpers have taken; without helpers it does all of them itself.
//!
//! **Concurrency.** A part belongs to the thread that took it. Nobody holds the lock while merging.

use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::{Mutex, Rank, Signal};
use crate::compaction::executor::JobContext;
use crate::compaction::job::{Job, Output};
use crate::compaction::merge;
use crate::compaction::parts::Part;

pub(crate) struct Share {
    job: Arc<Job>,
    parts: Vec<Part>,
    desk: Mutex<Desk>,
    ended: Signal,
}

struct Desk {
    /// Parts before this one are taken.
    next: usize,
    /// Taken, and not ended yet.
    running: usize,
    /// By part.
    outputs: Vec<Option<Output>>,
    /// The first failure. No more parts are taken then.
    failed: Option<Error>,
}

impl Share {
    pub(crate) fn new(job: Arc<Job>, parts: Vec<Part>) -> Self {
        let outputs = parts.iter().map(|_| None).collect();
        let desk = Desk { next: 0, running: 0, outputs, failed: None };
        Share { job, parts, desk: Mutex::new(Rank::Leaf, desk), ended: Signal::default() }
    }

    /// Takes a part and merges it; false if none is left. A failure is for [`outcome`](Self::outcome) to tell.
    pub(crate) fn work(&self, context: &JobContext<'_>) -> bool {
        let Some(taken) = self.take() else { return false };
        let output = merge::run_part(&self.job, context, &self.parts[taken.nth]);
        taken.end(output);
        true
    }

    fn take(&self) -> Option<Taken<'_>> {
        let mut desk = self.desk.lock();
        let nth = desk.next;
        if desk.failed.is_some() || nth == self.parts.len() {
            return None;
        }
        desk.next += 1;
        desk.running += 1;
        Some(Taken { share: self, nth, is_over: false })
    }

    fn end(&self, nth: usize, output: Result<Output>) {
        let mut desk = self.desk.lock();
        desk.running -= 1;
        match output {
            Ok(output) => desk.outputs[nth] = Some(output),
            Err(error) => {
                desk.failed.get_or_insert(error);
            }
        }
        drop(desk);
        self.ended.notify_all();
    }

    /// Waits for the parts that others have taken. The output of all of them, its names durable; or, with nothing of it
    /// left, why there is none.
    pub(crate) fn outcome(&self, context: &JobContext<'_>) -> Result<Output> {
        let mut desk = self.desk.lock();
        while desk.running > 0 {
            desk = self.ended.wait(desk);
        }
        let outputs: Vec<Output> = desk.outputs.iter_mut().filter_map(Option::take).collect();
        let failed = desk.failed.clone();
        drop(desk);
        match failed {
            None => merge::join(&self.job, context, outputs),
            Some(error) => {
                outputs.iter().for_each(|output| merge::discard(context, output));
                Err(error)
            }
        }
    }
}

/// A part being merged. Dropped without its end, its thread has panicked.
struct Taken<'a> {
    share: &'a Share,
    nth: usize,
    is_over: bool,
}

impl Taken<'_> {
    fn end(mut self, output: Result<Output>) {
        self.is_over = true;
        self.share.end(self.nth, output);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let message = "a panic in the engine or in a callback; reopen";
            self.share.end(self.nth, Err(Error::new(ErrorKind::ReadOnly, message)));
        }
    }
}
