//! Room for copies: once a table is in the bucket, its file is a copy, and the oldest ones go when all take too much.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::shared::Shared;
use super::tables::Placed;
use super::{LocalCopies, nearness, remote};

/// Lets copies go, as many as need be. What cannot go now goes another time.
pub(super) fn make(shared: &Arc<Shared>) {
    let LocalCopies::UpTo(bytes_max) = shared.options.local else { return };
    // What cannot be listed now is let go another time.
    let here = shared.local.list().unwrap_or_default();
    let copies: Vec<(u64, u64)> = {
        let state = shared.state();
        let committed = state.ledger.committed();
        here.iter().filter_map(|number| Some((*number, committed.get(number)?.bytes))).collect()
    };
    let mut bytes: u64 = copies.iter().map(|(_, bytes)| bytes).sum();
    for (number, size) in copies {
        if bytes <= bytes_max {
            return;
        }
        if shared.open.is_in_memory(number) {
            continue;
        }
        // Versions wait for this: with the bucket out of reach one look is enough.
        if !let_go(shared, number) {
            return;
        }
        shared.counters.evicted.fetch_add(1, Relaxed);
        bytes -= size;
    }
}

/// Who reads the table reads it from the bucket before its file goes.
fn let_go(shared: &Arc<Shared>, number: u64) -> bool {
    let Ok(Some(there)) = remote::open(shared, number) else { return false };
    // Without it, its readers ask the bucket once more.
    let _ = nearness::keep_of(shared, number);
    shared.open.switch(number, || Ok(Placed::There(there))).is_ok()
        && shared.local.remove(number).is_ok()
}
