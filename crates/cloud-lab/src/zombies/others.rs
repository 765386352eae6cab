//! Who lives beside the owners: a collector, which stands still as they do, and a reader without a lease. And who looks when all
//! is over.

use std::collections::BTreeSet;
use std::sync::Arc;

use siltstone::Env;
use siltstone_cloud::{
    Bucket, CollectOptions, Collector, Failure, Home, Replay, Root, Token, object_of, read_newest,
};

use super::history::is_kept;
use super::owner::{read as read_table, written};
use super::turns::{AGE_MIN, Seat, Turns};

const COLLECTIONS: u64 = 12;
const READS: u64 = 12;
/// A collection has about so many calls.
const PAUSE_WITHIN: u64 = 40;

/// Collects now and then, and at times goes on with it long after it has looked.
pub(super) fn collect(seat: &Arc<Seat>) {
    let Ok(home) = seat.home() else { return };
    let options = |seed: u64| CollectOptions {
        age_min: AGE_MIN,
        reconcile: seed.is_multiple_of(2),
        batch: 1 + seed as usize,
        ..CollectOptions::default()
    };
    let mut collector = Collector::new(&home, options(seat.turns.roll(6)));
    for _ in 0..COLLECTIONS {
        seat.rest(AGE_MIN);
        if seat.turns.roll(4) == 0 {
            seat.pause_within(PAUSE_WITHIN);
        }
        if seat.turns.roll(4) == 0 {
            // Another process.
            collector = Collector::new(&home, options(seat.turns.roll(6)));
        }
        let collected = collector.collect(seat.turns.token());
        let mut history = seat.turns.history();
        match collected {
            Ok(collection) => history.tally.collected += collection.removed.len() as u64,
            Err(error) => history.heed(&error),
        }
    }
}

/// Reads the newest version now and then, all of it.
pub(super) fn read(seat: &Arc<Seat>) {
    let Ok(home) = seat.home() else { return };
    for _ in 0..READS {
        seat.rest(AGE_MIN);
        let began = seat.turns.now();
        let since = seat.turns.history().committed().clone();
        match read_newest(&home) {
            Ok(Some(replay)) => {
                let found = look(&home, seat.as_ref(), &replay);
                judge(&seat.turns, (&since, &replay), found, is_kept(began, seat.turns.now()));
            }
            Ok(None) => {}
            Err(error) => seat.turns.history().heed(&error),
        }
    }
}

/// The writes in a version's tables.
fn look(home: &Home, bucket: &dyn Bucket, replay: &Replay) -> Result<BTreeSet<u64>, Failure> {
    let mut writes = BTreeSet::new();
    for table in replay.state.tables().values() {
        writes.extend(read_table(bucket, &object_of(home, &replay.state, table))?);
    }
    Ok(writes)
}

/// A version's edits and its tables must have all that was committed before somebody read them, while it is kept.
fn judge(
    turns: &Turns,
    (since, replay): (&BTreeSet<u64>, &Replay),
    found: Result<BTreeSet<u64>, Failure>,
    is_kept: bool,
) {
    let mut history = turns.history();
    history.compare(since, &written(replay));
    match found {
        Ok(writes) => history.compare(since, &writes),
        Err(Failure::Missing) => history.tally.deleted_reads += u64::from(is_kept),
        Err(failure) => history.note_mistake(&format!("a table was read: {failure:?}")),
    }
}

/// Collects once more when everybody has gone, and reads what is left.
pub(super) fn look_at_the_end(turns: &Turns) {
    let bucket = Arc::clone(&turns.memory);
    let Ok(root) = Root::new("db") else { return };
    let home = Home::new(bucket.clone(), root, Env::posix().clock);
    let options = CollectOptions { age_min: AGE_MIN, reconcile: true, ..CollectOptions::default() };
    for round in 1..=2_u32 {
        turns.set_bucket_clock(AGE_MIN * 10 * round);
        let token = Token(u128::from(round));
        if let Err(error) = Collector::new(&home, options).collect(token) {
            // Nobody is there whom it could meet.
            return turns.history().note_mistake(&error);
        }
    }
    let since = turns.history().committed().clone();
    match read_newest(&home) {
        Ok(Some(replay)) => {
            let found = look(&home, bucket.as_ref(), &replay);
            judge(turns, (&since, &replay), found, true);
        }
        Ok(None) => turns.history().compare(&since, &BTreeSet::new()),
        Err(error) => turns.history().note_mistake(&error),
    }
}
