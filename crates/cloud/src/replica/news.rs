//! News of versions, from whoever knows of them before the replica has looked: a broker that passes on what writers announce.
//!
//! News is a hint, and all that comes of it is a look at the bucket, sooner than the next one was due. So none that is lost,
//! late, doubled or wrong does harm: what is shown already is no news (I1), and after news of something that is not there
//! none is heeded for as long as a busy replica waits between two looks (I2). Whoever tells lies without end makes the
//! replica ask as often as if it had nobody to tell it.

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use super::Shared;
use crate::names::VersionNumber;

/// Tells a [`Replica`](super::Replica) of versions. Cheap to clone, and keeps nothing alive.
#[derive(Clone)]
pub struct News(Weak<Shared>);

impl News {
    pub(super) fn new(shared: Weak<Shared>) -> Self {
        News(shared)
    }

    /// Says that this version is in the bucket: a replica that follows looks for it at once, from any thread. Does not
    /// block. After the replica has gone, or if it does not follow, nothing happens.
    pub fn tell(&self, version: u64) {
        let Some(shared) = self.0.upgrade() else { return };
        let mut state = shared.state();
        let shown = state.version;
        if state.ear.hear(version, shown) {
            drop(state);
            shared.rung.notify_all();
        }
    }
}

impl fmt::Debug for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("News")
    }
}

/// What was told and not looked for yet. Under the replica's lock.
#[derive(Debug, Default)]
pub(super) struct Ear {
    /// The highest number; 0 for none.
    told: u64,
    /// Nothing is heeded before.
    deaf_until: Duration,
}

impl Ear {
    /// True if it is news (I1).
    fn hear(&mut self, version: u64, shown: VersionNumber) -> bool {
        let is_news = version > shown.0;
        if is_news {
            self.told = self.told.max(version);
        }
        is_news
    }

    /// Whether there is something to look for.
    pub(super) fn wants_a_look(&self, now: Duration) -> bool {
        self.told > 0 && now >= self.deaf_until
    }

    /// What is to be looked for now; 0 for nothing.
    pub(super) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.told)
    }

    /// A version is shown, while so much was looked for. True if that was all of what is known to be there.
    pub(super) fn found(&mut self, told: u64, version: VersionNumber) -> bool {
        let told = told.max(self.told);
        let is_all = told == version.0;
        self.told = if told > version.0 { told } else { 0 };
        is_all
    }

    /// There was nothing of it (I2).
    pub(super) fn was_misled(&mut self, until: Duration) {
        self.deaf_until = until;
    }

    /// It could not be looked for.
    pub(super) fn put_off(&mut self, told: u64, until: Duration) {
        self.told = self.told.max(told);
        self.deaf_until = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(7);
    const LATER: Duration = Duration::from_secs(8);

    fn version(number: u64) -> VersionNumber {
        VersionNumber(number)
    }

    #[test]
    fn news_is_looked_for_once() {
        let mut ear = Ear::default();
        assert!(!ear.wants_a_look(NOW));
        assert!(ear.hear(5, version(4)) && ear.wants_a_look(NOW));
        assert_eq!(ear.take(), 5);
        assert!(!ear.wants_a_look(NOW));
        assert!(ear.found(5, version(5)), "that was all");
        assert!(!ear.wants_a_look(NOW));
    }

    #[test]
    fn late_and_doubled_news_is_none() {
        let mut ear = Ear::default();
        assert!(!ear.hear(4, version(4)) && !ear.hear(0, version(0)) && !ear.hear(1, version(9)));
        assert!(!ear.wants_a_look(NOW));
        // Told while it is on its way to be shown.
        assert!(ear.hear(5, version(4)));
        let told = ear.take();
        assert!(ear.hear(5, version(4)));
        assert!(ear.found(told, version(5)) && !ear.wants_a_look(NOW));
    }

    #[test]
    fn of_several_versions_all_are_looked_for() {
        let mut ear = Ear::default();
        assert!(ear.hear(7, version(4)) && ear.hear(6, version(4)));
        let told = ear.take();
        for (number, is_all) in [(5, false), (6, false), (7, true)] {
            assert_eq!(ear.found(told, version(number)), is_all, "{number}");
            assert_eq!(ear.wants_a_look(NOW), !is_all);
        }
        // One that comes meanwhile is not lost.
        assert!(ear.hear(8, version(7)));
        let told = ear.take();
        assert!(ear.hear(9, version(7)));
        assert!(!ear.found(told, version(8)) && ear.wants_a_look(NOW));
    }

    #[test]
    fn what_was_found_without_news_is_not_all() {
        let mut ear = Ear::default();
        assert!(!ear.found(0, version(5)), "there may be more, of which nobody tells");
    }

    #[test]
    fn liars_are_not_heeded_for_a_while_and_then_forgotten() {
        let mut ear = Ear::default();
        assert!(ear.hear(u64::MAX, version(4)));
        assert_eq!(ear.take(), u64::MAX);
        ear.was_misled(LATER);
        assert!(!ear.wants_a_look(LATER), "nothing is left of it");
        assert!(ear.hear(5, version(4)), "the truth is kept");
        assert!(!ear.wants_a_look(NOW) && ear.wants_a_look(LATER));
        let told = ear.take();
        assert!(ear.found(told, version(5)));
    }

    #[test]
    fn what_could_not_be_looked_for_is_tried_again() {
        let mut ear = Ear::default();
        assert!(ear.hear(5, version(4)));
        let told = ear.take();
        ear.put_off(told, LATER);
        assert!(!ear.wants_a_look(NOW) && ear.wants_a_look(LATER));
        assert_eq!(ear.take(), 5);
    }
}
