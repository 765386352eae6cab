//! What must hold after each step of a history.

use super::{Checked, Cuts, Entry, KEYS, Model};

impl Model {
    /// A3 and A5 over all entries, and every read.
    pub(super) fn check(&self) -> Checked {
        if self.rules.tolerated == Cuts::BetweenKeys {
            self.check_disjoint()?;
        }
        let mut found: Vec<Vec<Entry>> = vec![Vec::new(); usize::from(KEYS)];
        for entry in self.memtable.iter().rev() {
            found[usize::from(entry.0)].push(*entry);
        }
        for (_, table) in self.version.tables() {
            let entries = self.contents[&table.number].iter();
            let counts = |entry: &&Entry| table.counts(&self.order.user, &[entry.0]);
            entries.filter(counts).for_each(|entry| found[usize::from(entry.0)].push(*entry));
        }
        let mut written: Vec<Vec<Entry>> = vec![Vec::new(); usize::from(KEYS)];
        for entry in self.history.iter().rev() {
            written[usize::from(entry.0)].push(*entry);
        }
        for (found, written) in found.iter().zip(&written) {
            if !found.is_sorted_by(|newer, older| newer.1 > older.1) {
                return Err(format!("A3: {found:?}"));
            }
            for seqno in self.snapshots.iter().copied().chain([self.last_seqno()]) {
                let (got, expected) = (read(found, seqno), read(written, seqno));
                if got != expected {
                    return Err(format!("read at {seqno}: {got:?} of {written:?}"));
                }
            }
        }
        Ok(())
    }

    fn check_disjoint(&self) -> Checked {
        for (slot, tables) in self.version.slots().filter(|(slot, _)| slot.is_sorted()) {
            for pair in tables.windows(2) {
                if pair[0].largest.user() >= pair[1].smallest.user() {
                    return Err(format!("A5: {} and {} in {slot}", pair[0].number, pair[1].number));
                }
            }
        }
        Ok(())
    }
}

/// The first entry in order that a read at `seqno` sees.
fn read(newest_first: &[Entry], seqno: u64) -> Option<u32> {
    newest_first.iter().find(|entry| entry.1 <= seqno)?.2
}
