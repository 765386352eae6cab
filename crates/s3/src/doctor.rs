//! Asks a server whether it keeps the promises that a bucket makes. S3's conditions, above all, are ignored, raced or turned
//! round by some servers, silently; a database whose commits are puts on a condition would lose them there. Called by the
//! command, and by whoever opens a database in a bucket for the first time.
//!
//! It writes some 12 MiB below a name of its own, and removes them. It takes seconds, and less than a cent.

mod commits;
mod reads;

use std::fmt;
use std::time::{Duration, Instant};

use siltstone_cloud::{Bucket, BucketError, Call, Failure, Purpose};

use crate::bucket::S3Bucket;
use crate::client::seed_of_the_system;

/// What stands and falls with a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Everything.
    All,
    /// All that commits: modes that keep versions, owners or the log in the bucket.
    Commits,
    /// Comfort, or cost.
    Comfort,
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The promise was kept.
    Held,
    /// It was not, and how.
    Broken(String),
    /// A request failed, so nobody knows.
    Unknown(String),
}

/// One promise, and what became of it.
#[derive(Clone, Debug)]
pub struct Check {
    /// The promise.
    pub name: &'static str,
    /// What stands and falls with it.
    pub weight: Weight,
    /// What happens to users of a server that does not keep it.
    pub consequence: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// What may be done on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All modes.
    Everything,
    /// Reading what others wrote, and copies. No modes that need compare-and-swap.
    NoCommits,
    /// Nothing.
    Nothing,
}

/// What a server was asked, and what may be done on it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which bucket.
    pub place: String,
    /// All checks, in the order in which they were made.
    pub checks: Vec<Check>,
    /// Requests that it took.
    pub requests: u64,
    /// What they cost.
    pub dollars: f64,
}

impl Report {
    /// What may be done on the server. A check whose end nobody knows counts as broken.
    pub fn verdict(&self) -> Verdict {
        let all_held = |weight| {
            let mut checks = self.checks.iter().filter(|check| check.weight == weight);
            checks.all(|check| check.outcome == Outcome::Held)
        };
        match (all_held(Weight::All), all_held(Weight::Commits)) {
            (false, _) => Verdict::Nothing,
            (true, false) => Verdict::NoCommits,
            (true, true) => Verdict::Everything,
        }
    }

    /// Modes that need compare-and-swap may be used.
    pub fn may_commit(&self) -> bool {
        self.verdict() == Verdict::Everything
    }

    /// The check of that name.
    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.place)?;
        for check in &self.checks {
            let (word, why) = match &check.outcome {
                Outcome::Held => ("ok", None),
                Outcome::Broken(why) => ("BROKEN", Some(why)),
                Outcome::Unknown(why) => ("unknown", Some(why)),
            };
            let ms = check.took.as_millis();
            writeln!(f, "  {word:<8}{:<52}{ms:>6} ms", check.name)?;
            if let Some(why) = why {
                writeln!(f, "          found: {why}")?;
                writeln!(f, "          so:    {}", check.consequence)?;
            }
        }
        let verdict = match self.verdict() {
            Verdict::Everything => "all modes may be used",
            Verdict::NoCommits => "no mode that needs compare-and-swap: it would lose commits here",
            Verdict::Nothing => "not to be used",
        };
        write!(f, "  {verdict} ({} requests, {:.4} $)", self.requests, self.dollars)
    }
}

/// A promise, and how to ask for it.
struct Question {
    name: &'static str,
    weight: Weight,
    consequence: &'static str,
    ask: fn(&Patient) -> Result<(), Flaw>,
}

/// Why a check did not hold.
enum Flaw {
    Broken(String),
    Unknown(BucketError),
}

impl From<BucketError> for Flaw {
    fn from(error: BucketError) -> Self {
        Flaw::Unknown(error)
    }
}

/// The bucket that is asked, and the place in it that is the doctor's own.
struct Patient<'a> {
    bucket: &'a S3Bucket,
    folder: String,
}

impl Patient<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn call(&self) -> Call {
        Call::new(Purpose::Tool)
    }

    /// Removes all that was written.
    fn clean(&self) -> siltstone_cloud::Result<()> {
        let prefix = self.name("");
        loop {
            // From the start each time: what was removed is not listed again, or the server is broken, and it ends, too.
            let page = self.bucket.list(&prefix, "", self.call())?;
            if page.is_empty() {
                return Ok(());
            }
            let names: Vec<String> = page.stats.into_iter().map(|stat| stat.name).collect();
            self.bucket.delete(&names, self.call())?;
            if self.bucket.head(&names[0], self.call()).is_ok() {
                let message = "it was removed, and is still there";
                return Err(BucketError::new(Failure::Damaged, &names[0], message));
            }
        }
    }
}

/// Asks all of it. Blocks for some seconds, or for up to a minute each check if the server does not answer.
pub fn probe(bucket: &S3Bucket) -> Report {
    let folder = format!("doctor-{:016x}", seed_of_the_system());
    let patient = Patient { bucket, folder };
    let before = bucket.meter();
    let mut checks = Vec::new();
    for question in reads::QUESTIONS.iter().chain(&commits::QUESTIONS) {
        let check = patient.ask(question);
        let is_in_vain = checks.is_empty() && matches!(check.outcome, Outcome::Unknown(_));
        checks.push(check);
        // Who cannot put and get one object need not be asked for more.
        if is_in_vain {
            break;
        }
    }
    checks.push(patient.ask(&CLEAN));
    let after = bucket.meter();
    Report {
        place: bucket.to_string(),
        checks,
        requests: after.requests() - before.requests(),
        dollars: after.dollars() - before.dollars(),
    }
}

const CLEAN: Question = Question {
    name: "what was deleted is not listed",
    weight: Weight::Comfort,
    consequence: "what the doctor wrote may be left in the bucket; collected tables, too",
    ask: |patient| Ok(patient.clean()?),
};

impl Patient<'_> {
    fn ask(&self, question: &Question) -> Check {
        let begun = Instant::now();
        let outcome = match (question.ask)(self) {
            Ok(()) => Outcome::Held,
            Err(Flaw::Broken(why)) => Outcome::Broken(why),
            Err(Flaw::Unknown(error)) => Outcome::Unknown(error.to_string()),
        };
        let Question { name, weight, consequence, .. } = *question;
        Check { name, weight, consequence, outcome, took: begun.elapsed() }
    }
}

/// The promise is broken if `kept` is not true.
fn hold(kept: bool, why: impl FnOnce() -> String) -> Result<(), Flaw> {
    if kept { Ok(()) } else { Err(Flaw::Broken(why())) }
}

#[cfg(test)]
mod tests;
