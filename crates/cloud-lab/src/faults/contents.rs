//! What a database holds, in short: a sum of each value.

use siltstone::Result;

use crate::merges::backlog::Backlog;
use crate::stage::{Opened, Plan, key, wrong};

/// By the number of the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contents(Vec<Option<u32>>);

impl Contents {
    /// What was written.
    pub(super) fn written(backlog: Backlog, plan: &Plan) -> Result<Self> {
        let mut sums = Vec::new();
        backlog.each(plan, &mut |number, value| {
            let number = usize::try_from(number).map_err(wrong)?;
            if sums.len() <= number {
                sums.resize(number + 1, None);
            }
            sums[number] = Some(sum(value));
            Ok(())
        })?;
        Ok(Contents(sums))
    }

    /// What is there, by an iterator over all.
    pub(super) fn of(db: &Opened, plan: &Plan) -> Result<Self> {
        let mut sums = vec![None; usize::try_from(plan.records).map_err(wrong)?];
        let mut iter = db.iter()?;
        iter.seek_to_first()?;
        while iter.valid() {
            let number = std::str::from_utf8(iter.key()).ok().and_then(|key| key.parse().ok());
            let place = number.and_then(|number: usize| sums.get_mut(number));
            let place = place.ok_or_else(|| wrong("there is a key that nobody has written"))?;
            *place = Some(sum(iter.value()));
            iter.next()?;
        }
        Ok(Contents(sums))
    }

    /// Entries that are not there, or with another value than this one's.
    pub(super) fn lost_in(&self, found: &Contents) -> u64 {
        let found = found.0.iter().chain(std::iter::repeat(&None));
        self.0.iter().zip(found).filter(|(wanted, found)| wanted != found).count() as u64
    }

    /// A sum of all keys and values.
    pub(super) fn digest(&self) -> u32 {
        let there = self.0.iter().zip(0..).filter_map(|(sum, number)| Some((number, (*sum)?)));
        let bytes = there.flat_map(|(number, sum)| {
            key(number).into_bytes().into_iter().chain(sum.to_le_bytes())
        });
        fnv(bytes)
    }
}

fn sum(value: &[u8]) -> u32 {
    fnv(value.iter().copied())
}

/// FNV-1a: nobody here cheats.
fn fnv(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::small;

    #[test]
    fn what_is_missing_or_other_is_lost() {
        let plan = small("contents");
        let backlog = Backlog { again: 500, flush_tables: 1 };
        let written = Contents::written(backlog, &plan).unwrap();
        assert_eq!(written.0.iter().flatten().count() as u64, plan.records);
        assert_eq!(written.lost_in(&written), 0);
        let mut found = written.clone();
        found.0[7] = None;
        found.0[8] = Some(0);
        found.0.pop();
        assert_eq!(written.lost_in(&found), 3);
        assert_ne!(written.digest(), found.digest());
        assert_eq!(fnv(b"foobar".iter().copied()), 0xbf9c_f968, "as its authors say");
    }
}
