//! What has happened: each record at the moment at which it was put, and what owners were told. The judge of a schedule.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use siltstone_cloud::{Error, ErrorKind, Record, Token};

use super::turns::AGE_MIN;

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) calls: u64,
    pub(super) long_pauses: u64,
    pub(super) takeovers: u64,
    pub(super) collected: u64,
    /// Commits that owners were told of.
    pub(super) acknowledged: u64,
    /// Commits that were begun when a later owner's record was there.
    pub(super) begun_late: u64,
    pub(super) refused_late: u64,
    /// Records that came into the log behind a later owner's, or were told of and are not the log's.
    pub(super) through: u64,
    /// Refused, and nobody had come.
    pub(super) unjust: u64,
    pub(super) lost: u64,
    pub(super) deleted_reads: u64,
    /// Records that were put before the log's beginning: the number was collected.
    pub(super) gaps: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        for (sum, more) in [
            (&mut self.calls, other.calls),
            (&mut self.long_pauses, other.long_pauses),
            (&mut self.takeovers, other.takeovers),
            (&mut self.collected, other.collected),
            (&mut self.acknowledged, other.acknowledged),
            (&mut self.begun_late, other.begun_late),
            (&mut self.refused_late, other.refused_late),
            (&mut self.through, other.through),
            (&mut self.unjust, other.unjust),
            (&mut self.lost, other.lost),
            (&mut self.deleted_reads, other.deleted_reads),
            (&mut self.gaps, other.gaps),
        ] {
            *sum += more;
        }
    }
}

/// A commit, when it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) epoch: u64,
    pub(super) token: Token,
    /// Somebody later has taken over already.
    pub(super) is_late: bool,
}

#[derive(Default)]
pub(super) struct History {
    /// Whose record each version is.
    versions: BTreeMap<u64, (u64, Token)>,
    /// The last owner's who has put a record.
    epoch: u64,
    /// Writes that owners were told are committed.
    committed: BTreeSet<u64>,
    pub(super) tally: Tally,
    mistake: Option<String>,
}

impl History {
    /// An object was written.
    pub(super) fn note_put(&mut self, name: &str, body: &Bytes) {
        if !name.starts_with("db/v/") {
            return;
        }
        match Record::decode(name, body) {
            Ok(record) => self.note_record(record.version.0, record.epoch.0, record.token),
            Err(error) => self.note_mistake(&error),
        }
    }

    fn note_record(&mut self, version: u64, epoch: u64, token: Token) {
        let newest = self.versions.last_key_value().map_or(0, |(version, _)| *version);
        if version <= newest {
            self.tally.gaps += 1;
            return;
        }
        let owner = self.versions.values().rev().find(|(of, _)| *of == epoch);
        let is_anothers = owner.is_some_and(|(_, owner)| *owner != token);
        let is_wrong = version > newest + 1 || epoch < self.epoch || is_anothers;
        self.tally.through += u64::from(is_wrong);
        self.tally.takeovers += u64::from(epoch > self.epoch && self.epoch > 0);
        self.epoch = self.epoch.max(epoch);
        self.versions.insert(version, (epoch, token));
    }

    /// An owner is about to commit.
    pub(super) fn begin(&mut self, epoch: u64, token: Token) -> Begun {
        let is_late = self.epoch > epoch;
        self.tally.begun_late += u64::from(is_late);
        Begun { epoch, token, is_late }
    }

    /// He was told that it is committed, with these writes.
    pub(super) fn acknowledge(&mut self, begun: Begun, version: u64, writes: &BTreeSet<u64>) {
        self.tally.acknowledged += 1;
        let is_his = self.versions.get(&version) == Some(&(begun.epoch, begun.token));
        self.tally.through += u64::from(begun.is_late || !is_his);
        self.committed.extend(writes);
    }

    /// He was told that he is owner no more.
    pub(super) fn refuse(&mut self, begun: Begun) {
        self.tally.refused_late += u64::from(begun.is_late);
        self.tally.unjust += u64::from(self.epoch <= begun.epoch);
    }

    /// Somebody has read the newest version, and it has these writes: all that were committed when he began, `since`, must be.
    pub(super) fn compare(&mut self, since: &BTreeSet<u64>, writes: &BTreeSet<u64>) {
        self.tally.lost += since.difference(writes).count() as u64;
    }

    pub(super) fn committed(&self) -> &BTreeSet<u64> {
        &self.committed
    }

    /// Errors there may be: of a takeover under way, of who has come too late, and of who stood still for so long that he gave up
    /// to ask what had come of it. Damage there is none.
    pub(super) fn heed(&mut self, error: &Error) {
        if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Misuse) {
            self.note_mistake(error);
        }
    }

    /// Something that is no figure.
    pub(super) fn note_mistake(&mut self, error: &dyn std::fmt::Display) {
        self.mistake.get_or_insert_with(|| error.to_string());
    }

    pub(super) fn mistake(&self) -> Option<&str> {
        self.mistake.as_deref()
    }
}

/// True if what was the newest version at a moment must still be there at another.
pub(super) fn is_kept(began: std::time::Duration, now: std::time::Duration) -> bool {
    now < began + AGE_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombies_commits_are_through_or_refused() {
        let (mut history, first, second) = (History::default(), Token(1), Token(2));
        let writes = BTreeSet::from([7]);
        history.note_record(1, 1, first);
        let begun = history.begin(1, first);
        history.note_record(2, 1, first);
        // The answer comes after the takeover, and is right.
        history.note_record(3, 2, second);
        history.acknowledge(begun, 2, &writes);
        assert_eq!((history.tally.through, history.tally.takeovers), (0, 1));
        let late = history.begin(1, first);
        history.refuse(late);
        assert_eq!((history.tally.begun_late, history.tally.refused_late), (1, 1));
        history.acknowledge(late, 4, &BTreeSet::new());
        history.note_record(4, 1, first);
        assert_eq!(history.tally.through, 2, "told, and in the log");
        let owner = history.begin(2, second);
        history.refuse(owner);
        assert_eq!((history.tally.unjust, history.tally.begun_late), (1, 1));
        history.note_record(2, 1, first);
        assert_eq!((history.tally.gaps, history.tally.through), (1, 2));
    }

    #[test]
    fn writes_are_lost_if_they_were_committed_before() {
        let mut history = History::default();
        let begun = history.begin(1, Token(1));
        history.acknowledge(begun, 1, &BTreeSet::from([1, 2, 3]));
        let since = history.committed().clone();
        history.compare(&since, &BTreeSet::from([1, 2, 3, 4]));
        assert_eq!(history.tally.lost, 0);
        history.compare(&since, &BTreeSet::from([2]));
        assert_eq!(history.tally.lost, 2);
    }
}
