//! How a user reads: every way there is, and each answer is right or a failure.

use siltstone::{Db, ReadOptions, Snapshot};

use super::ledger::{Pairs, difference};
use super::promise::{Checked, Promise};
use super::user::User;
use crate::{scan, scan_back};

impl User {
    /// Reads all there is, now and by snapshots, every way there is.
    pub(crate) fn read(&self) -> Checked {
        let Some(db) = &self.db else { return Ok(()) };
        for (snapshot, then) in &self.snapshots {
            self.read_as_of(db, Some(snapshot), then)?;
        }
        self.read_as_of(db, None, &self.ledger.now)
    }

    fn read_as_of(&self, db: &Db, snapshot: Option<&Snapshot>, expected: &Pairs) -> Checked {
        for key in ["key03", "key14", "key21", "mark0004", "no such key"] {
            let options = ReadOptions { snapshot: snapshot.cloned(), ..Default::default() };
            let Some(got) = self.excused("get", db.get_with(key, &options))? else { continue };
            let got = got.map(|value| String::from_utf8_lossy(&value).into_owned());
            if got.as_ref() != expected.get(key) {
                let how = format!("get of {key}: {got:?}, expected {:?}", expected.get(key));
                return Promise::RightAnswers.broken(how);
            }
        }
        if let Some(found) = self.excused("scan", read_all(db, snapshot))?
            && found != *expected
        {
            let how = format!("scan: {}", difference(&found, expected));
            return Promise::RightAnswers.broken(how);
        }
        self.walk(db, snapshot, expected)
    }

    /// Moves one iterator to and fro. After a failure it stands nowhere, and a seek helps.
    fn walk(&self, db: &Db, snapshot: Option<&Snapshot>, expected: &Pairs) -> Checked {
        let options = ReadOptions { snapshot: snapshot.cloned(), ..Default::default() };
        let Some(mut iter) = self.excused("iter", db.iter_with(&options))? else { return Ok(()) };
        for target in ["key1", "mark0003", "a"] {
            let keys: Vec<&String> = expected.keys().collect();
            let mut at = keys.partition_point(|key| key.as_str() < target);
            let mut moved = iter.seek(target);
            for step in [1, 1, -1, 1, 1, 1, -1, -1] {
                if self.excused("move", moved)?.is_none() {
                    if iter.valid() {
                        return Promise::RightAnswers.broken("valid after a failure");
                    }
                    break;
                }
                let there = iter.valid().then(|| String::from_utf8_lossy(iter.key()));
                if there.as_deref() != keys.get(at).map(|key| key.as_str()) {
                    let how = format!("stands on {there:?}, expected {:?}", keys.get(at));
                    return Promise::RightAnswers.broken(how);
                }
                let next = at.checked_add_signed(step).filter(|next| *next < keys.len());
                (at, moved) = match next {
                    Some(next) if step > 0 => (next, iter.next()),
                    Some(next) => (next, iter.prev()),
                    None => break,
                };
            }
        }
        Ok(())
    }

    /// What only looks at sizes, and waits.
    pub(crate) fn look(&self) -> Checked {
        let Some(db) = &self.db else { return Ok(()) };
        self.excused("approximate_sizes", db.approximate_sizes(&[(b"key05", b"mark0009")]))?;
        self.excused("wait_for_background", db.wait_for_background()).map(drop)
    }
}

/// Everything, forwards and backwards, which must agree.
pub(crate) fn read_all(db: &Db, snapshot: Option<&Snapshot>) -> siltstone::Result<Pairs> {
    let options = ReadOptions { snapshot: snapshot.cloned(), ..Default::default() };
    let forward = scan(&mut db.iter_with(&options)?)?;
    let mut backward = scan_back(&mut db.iter_with(&options)?)?;
    backward.reverse();
    assert_eq!(forward, backward, "both directions show the same");
    Ok(forward.into_iter().collect())
}
