//! How the database learns that a job has ended: a value that is used once, or lost, which says something, too.

use std::fmt;

use crate::compaction::service::JobOutcome;

/// Whom to tell.
pub(crate) type Told = Box<dyn FnOnce(JobOutcome) + Send>;

/// Tells a database how a job has ended. Outlives the database, if need be, which then does not care.
pub struct Completion(Option<Told>);

impl Completion {
    pub(crate) fn new(told: impl FnOnce(JobOutcome) + Send + 'static) -> Self {
        Completion(Some(Box::new(told)))
    }

    /// The job has ended. Does not block: a lane does what is to be done.
    pub fn complete(mut self, outcome: JobOutcome) {
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: JobOutcome) {
        if let Some(told) = self.0.take() {
            told(outcome);
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn told(end: impl FnOnce(Completion)) -> Vec<String> {
        let (sender, told) = mpsc::channel();
        end(Completion::new(move |outcome| {
            let JobOutcome::RunHere(why) = outcome else { panic!("nobody has done it") };
            sender.send(why).unwrap();
        }));
        told.iter().collect()
    }

    #[test]
    fn an_end_is_told_once_and_a_loss_is_one() {
        let whys = told(|done| done.complete(JobOutcome::RunHere("too small".to_owned())));
        assert_eq!(whys, ["too small"]);
        assert_eq!(told(drop), ["the service has let go of it"]);
    }
}
