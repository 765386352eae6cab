//! Asset 5, the corruption sweep: every bit, every length, every sector of small databases of every
//! kind, and every fault of their set of files. Each damaged database is opened and read in every
//! way, and every answer held against what was written.
//!
//! | label | when | what must be |
//! | --- | --- | --- |
//! | damage | a sync mark behind the lost batches survived, or the log that the manifest names is gone | the open fails, naming file and offset |
//! | tail | no mark did: the lost bytes may never have been promised | the batches before the loss, no others, and a report |
//! | right or error | anything in tables, manifests, CURRENT | right answers; an error where there is none |
//! | whole | files beside the database's own | all answers |
//!
//! A log without marks, as LevelDB writes them, has tails only: its prefix must hold.
//!
//! An offset is due in every error about bytes that have changed within a file; none where a file as
//! a whole is to blame: it is missing, a folder, of another length than the manifest says, or another
//! one than its name says. A flipped bit lies at or behind the offset told.
//!
//! **What cannot be told** with LevelDB's formats. A log that ends where a record ends, or goes on in
//! zeros, may have been longer. A newest log that is gone, or is a copy of the one before, may never
//! have been, unless the manifest names it. A file of another database is told by the number that our
//! tables carry, or by its size; one of the same name and size, with the same numbers inside, is taken
//! for ours (`Label::Foreign`), and so is a block of it at the same offset.

mod damage;
mod history;
mod judge;
mod label;
mod look;
mod specimen;
mod tally;
mod wal_map;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use damage::{Case, cases};
use judge::{Outcome, judge};
use specimen::{RECIPES, Specimen};
use tally::Tally;

use crate::Report;

/// Damages small databases in every way and reads them
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// What the databases hold
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Tries only each so many'th case
    #[arg(long, default_value_t = 1)]
    pub every: usize,
    /// Tries only this case, or all of this database, or of this file of it (wal-mixed/CURRENT)
    #[arg(long)]
    pub case: Option<String>,
    /// Threads to work on
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
}

impl Default for Args {
    fn default() -> Self {
        Args { seed: 1, every: 1, case: None, threads: 1 }
    }
}

/// Runs the sweep.
pub fn run(args: &Args) -> Report {
    let started = Instant::now();
    let made = RECIPES.iter().map(|recipe| recipe.make(args.seed));
    let specimens: Vec<Specimen> = made.chain([Specimen::by_leveldb()]).collect();
    let threads = args.threads.max(1);
    let tally = std::thread::scope(|scope| {
        let worker = |thread| {
            let specimens = &specimens;
            scope.spawn(move || work(args, specimens, thread..threads))
        };
        let workers: Vec<_> = (0..threads).map(worker).collect();
        let tallies = workers.into_iter().map(|worker| worker.join().unwrap());
        tallies.fold(Tally::default(), Tally::and)
    });
    tally.print_failures(args.seed);
    tally.report(started.elapsed(), args.every == 1 && args.case.is_none())
}

/// One thread's share of the cases: thread `share.start` of `share.end`.
fn work(args: &Args, specimens: &[Specimen], share: std::ops::Range<usize>) -> Tally {
    let mut tally = Tally::default();
    let mut turn = 0;
    for specimen in specimens {
        let keys = specimen.history.keys_to_ask();
        for case in cases(specimen) {
            turn += 1;
            let asked_for = match &args.case {
                Some(asked) => is_within(&case.name(specimen), asked),
                None => turn % args.every == 0,
            };
            if asked_for && turn / args.every % share.end == share.start {
                tally.add(specimen, &case, try_case(specimen, &case, &keys, turn));
            }
        }
    }
    tally
}

/// True if `name` is `asked`, or the name of a part of it.
fn is_within(name: &str, asked: &str) -> bool {
    name.strip_prefix(asked).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The outcome, or `None` if the engine panicked.
fn try_case(specimen: &Specimen, case: &Case, keys: &[Vec<u8>], turn: usize) -> Option<Outcome> {
    catch_unwind(AssertUnwindSafe(|| judge(specimen, case, keys, turn))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice of the sweep; all of it is `ground corrupt`.
    #[test]
    fn no_damage_is_answered_wrongly() {
        let report = run(&Args { every: 53, ..Args::default() });
        assert!(report.passed(), "{}", report.lines());
    }

    /// Who reads another database than was written, however alike, is noticed without any damage.
    #[test]
    fn other_answers_are_noticed() {
        for recipe in &RECIPES {
            let mut specimen = recipe.make(1);
            let untouched = Case { file: 0, damage: damage::Damage::None };
            let keys = specimen.history.keys_to_ask();
            assert!(judge(&specimen, &untouched, &keys, 0).is_clean(), "{}", specimen.name);
            specimen.history = specimen.twin.take().unwrap().history;
            assert!(!judge(&specimen, &untouched, &keys, 0).wrong.is_empty(), "{}", specimen.name);
        }
    }
}
