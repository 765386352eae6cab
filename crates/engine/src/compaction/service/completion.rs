//! How the database learns that a job has begun and ended: a value that is used once, or lost, which says something, too.

use std::fmt;
use std::sync::Arc;

use crate::compaction::service::JobOutcome;

/// Who is told that a job has begun.
type OnBegin = Arc<dyn Fn() + Send + Sync>;
/// Who is told how it has ended.
type OnEnd = Box<dyn FnOnce(JobOutcome) + Send>;

/// Tells a database how a job has ended. Outlives the database, if need be, which then does not care.
pub struct Completion {
    on_begin: OnBegin,
    on_end: Option<OnEnd>,
}

/// Tells a database that a job has begun.
#[derive(Clone)]
pub struct Beginning(OnBegin);

impl Beginning {
    /// Somebody runs it now. Does not block, and means nothing more once it has ended.
    pub fn tell(&self) {
        (self.0)();
    }
}

impl Completion {
    pub(crate) fn new(
        on_begin: impl Fn() + Send + Sync + 'static,
        on_end: impl FnOnce(JobOutcome) + Send + 'static,
    ) -> Self {
        Completion { on_begin: Arc::new(on_begin), on_end: Some(Box::new(on_end)) }
    }

    /// By which the database is to be told that somebody runs the job:
    /// [`CompactionService::tells_beginnings`](super::CompactionService::tells_beginnings).
    pub fn beginning(&self) -> Beginning {
        Beginning(Arc::clone(&self.on_begin))
    }

    /// The job has ended. Does not block: a lane does what is to be done.
    pub fn complete(mut self, outcome: JobOutcome) {
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: JobOutcome) {
        if let Some(on_end) = self.on_end.take() {
            on_end(outcome);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.tell(JobOutcome::RunHere("the service has let go of it".to_owned()));
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion")
    }
}

impl fmt::Debug for Beginning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Beginning")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn told(end: impl FnOnce(Completion)) -> Vec<String> {
        let (sender, told) = mpsc::channel();
        let begun = sender.clone();
        let on_begin = move || begun.send("begun".to_owned()).unwrap();
        end(Completion::new(on_begin, move |outcome| {
            let JobOutcome::RunHere(why) = outcome else { panic!("nobody has done it") };
            sender.send(why).unwrap();
        }));
        told.iter().collect()
    }

    #[test]
    fn an_end_is_told_once_and_a_loss_is_one() {
        let whys = told(|done| done.complete(JobOutcome::RunHere("too small".to_owned())));
        assert_eq!(whys, ["too small"]);
        let whys = told(|done| {
            done.beginning().tell();
            done.complete(JobOutcome::RunHere("too late".to_owned()));
        });
        assert_eq!(whys, ["begun", "too late"]);
        assert_eq!(told(drop), ["the service has let go of it"]);
    }
}
