//! The differential campaign against LevelDB itself: the operation lists of the ground, as far as
//! LevelDB can do them, done by both engines side by side, each in a folder of its own. Both must
//! answer as the model does, thus alike. At every reopening, at least after each thousand operations,
//! the engines swap their folders, so that each goes on from what the other wrote.
//!
//! The program `rivals` runs it, the test `rivals` a slice of it. Like the campaigns of the ground, a
//! failing list shrinks by itself and is told with the command that repeats it.

mod round;
mod session;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use siltstone_sim::Report;
use siltstone_sim::differential::generator::Generator;
use siltstone_sim::differential::kind::Kind;
use siltstone_sim::differential::operation::{Act, Closing, Operation};
use siltstone_sim::differential::reference::Flaw;
use siltstone_sim::differential::run::judge::Mismatch;
use siltstone_sim::differential::shrink::shrink;
use siltstone_sim::report::Goal;

use crate::leveldb::LevelDb;
use round::{Round, Tally};

/// The engines swap folders at least after so many operations.
const SWAP_AFTER: usize = 1000;
/// Keys are made from numbers below this.
const KEYS: u32 = 2500;
/// LevelDB's compactions depend on its thread's timing: a list gets so many chances to fail.
const CHANCES: usize = 2;

/// What to run.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The first list's seed; the others take the ones after it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Operations of all lists together, at least
    #[arg(long, default_value_t = 200_000)]
    pub operations: u64,
    /// Operations of one list
    #[arg(long, default_value_t = 6000)]
    pub len: usize,
    /// Of each list only the operations with these indices
    #[arg(long, value_delimiter = ',')]
    pub keep: Option<Vec<usize>>,
}

impl Default for Args {
    fn default() -> Args {
        Args { seed: 1, operations: 200_000, len: 6000, keep: None }
    }
}

/// Runs lists up to the first difference, which is printed.
pub fn run(leveldb: LevelDb, args: &Args) -> Report {
    let lists = args.operations.div_ceil(args.len as u64).max(1);
    let (major, minor) = leveldb.version();
    println!("rivals: LevelDB {major}.{minor}, {lists} lists, seeds from {}", args.seed);
    let mut tally = Tally::default();
    let mut differences = 0;
    for seed in (0..lists).map(|list| args.seed.wrapping_add(list)) {
        let list = List { leveldb, seed, len: args.len, flaw: Flaw::None };
        match list.run(args.keep.as_deref()) {
            Ok(done) => tally.add(&done),
            Err(failure) => {
                println!("{}", failure.report());
                differences += 1;
                break;
            }
        }
    }
    // A replay of a part has less of everything.
    let least = if args.keep.is_some() { Goal::None } else { Goal::AtLeast(args.operations) };
    let mut report = Report::new("rivals");
    report
        .figure("operations", tally.operations, least)
        .figure("differences", differences, Goal::AtMost(0))
        .figure("kinds of operation", kinds().count() as u64, Goal::None)
        .figure("swaps of folders", tally.swaps, Goal::None)
        .figure("entries compared at swaps", tally.entries, Goal::None);
    report
}

/// The kinds of operation that both engines can do.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| can_be_done(*kind))
}

fn can_be_done(kind: Kind) -> bool {
    use Kind::*;
    let wanting = [PutByClone, GetUncached, GetUnchecked, GetInPlace, GetByClone];
    let wanting_too = [BatchOfParts, Flush, Step, WaitForBackground, ApproximateSizes];
    let closing = [ReopenDropped, ReopenUnderReaders, ReopenKilled, DestroyAndRecreate];
    let looks =
        [ReadOnlyBeside, Checkpoint, CheckpointReadOnly, Verify, RepairCopy, DumpFiles, Refusals];
    let failures = [
        DiskFull,
        DiskFullKilled,
        WriteFails,
        FlushFails,
        FlushFailsKilled,
        CompactionFails,
        ManifestFull,
        ManifestFails,
        ReadFails,
    ];
    let lists: [&[Kind]; 5] = [&wanting, &wanting_too, &closing, &looks, &failures];
    !lists.iter().any(|list| list.contains(&kind))
}

/// A list of operations to be done by both engines.
#[derive(Clone, Copy)]
pub struct List {
    /// The rival.
    pub leveldb: LevelDb,
    /// What the operations are made from.
    pub seed: u64,
    /// How many operations.
    pub len: usize,
    /// What is wrong with the model, to prove that the comparison would notice.
    pub flaw: Flaw,
}

/// A list with a difference, shrunk.
pub struct Failure {
    list: List,
    first: String,
    last: String,
    kept: Vec<usize>,
    /// What is left of the list.
    pub operations: Vec<Operation>,
}

impl List {
    fn operations(&self) -> Vec<Operation> {
        let mut list = Generator::new(self.seed, KEYS).list(self.len, can_be_done);
        for (number, operation) in list.iter_mut().skip(SWAP_AFTER).step_by(SWAP_AFTER).enumerate()
        {
            let act = Act::Reopen { closing: Closing::Close, variant: Some(number as u32) };
            *operation = Operation { kind: Kind::ReopenVaried, act };
        }
        list
    }

    /// Does the list, or the part of it that is kept.
    ///
    /// # Errors
    ///
    /// The first difference, with the list shrunk to what shows it.
    pub fn run(&self, kept: Option<&[usize]>) -> Result<Tally, Box<Failure>> {
        let all = self.operations();
        let indices = kept.map_or_else(|| (0..all.len()).collect(), <[usize]>::to_vec);
        let (at, Mismatch(first)) = match self.attempt(&select(&all, &indices)) {
            Ok(tally) => return Ok(tally),
            Err(difference) => difference,
        };
        let mut last = first.clone();
        let kept = match kept {
            Some(kept) => kept.to_vec(),
            None => shrink((at + 1).min(all.len()), |kept| {
                let list = select(&all, kept);
                (0..CHANCES).any(|_| match self.attempt(&list) {
                    Ok(_) => false,
                    Err((_, Mismatch(told))) => {
                        last = told;
                        true
                    }
                })
            }),
        };
        let operations = select(&all, &kept);
        Err(Box::new(Failure { list: *self, first, last, kept, operations }))
    }

    /// The difference comes with the index of its operation. A panic is one, too.
    fn attempt(&self, list: &[Operation]) -> Result<Tally, (usize, Mismatch)> {
        let round = || Round::new(self.leveldb, self.seed, self.flaw).run(list);
        catch_unwind(AssertUnwindSafe(round)).unwrap_or_else(|panic| {
            let told = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            Err((list.len(), Mismatch(format!("panic: {}", told.unwrap_or("of unknown cause")))))
        })
    }
}

fn select(operations: &[Operation], kept: &[usize]) -> Vec<Operation> {
    kept.iter().filter_map(|index| operations.get(*index)).cloned().collect()
}

impl Failure {
    /// What differed, in how few operations, and how to see it again.
    pub fn report(&self) -> String {
        let List { seed, len, .. } = self.list;
        let kept: Vec<String> = self.kept.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "seed {seed}: {}\nshrunk to {} of {len} operations: {}\n",
            self.first,
            kept.len(),
            self.last
        );
        for (index, operation) in self.kept.iter().zip(&self.operations) {
            let _ = writeln!(text, "{index:6}  {operation:?}");
        }
        let replay = format!(
            "cargo run -p siltstone-interop --bin rivals -- --seed {seed} --len {len} --operations \
             {len}"
        );
        let _ = writeln!(text, "the whole list:  {replay}");
        let _ = writeln!(text, "the shrunk list: {replay} --keep {}", kept.join(","));
        text
    }
}
