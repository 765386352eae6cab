//! Readers: replicas that follow under a lease, and visitors that have none and are quick.

use std::time::Duration;

use siltstone_cloud::{
    ErrorKind, Follower, Following, Home, Renewal, Replay, VersionNumber, VersionState, read_newest,
};

use super::actor::{Actor, Got};
use super::content::{self, Content};

/// Follows the database, and starts again when it has missed too much.
pub(super) fn replica(actor: &Actor, root: &str) {
    while !actor.stage.is_over() {
        actor.rest(120);
        let (home, token) = (actor.home(root), actor.stage.token());
        let rules = actor.stage.rules;
        let busy = Duration::from_secs(20);
        let following = Following { lease: rules.lease, busy, idle: Duration::from_secs(120) };
        match Follower::start(&home, following, token) {
            Ok((follower, replay)) => {
                Replica { actor, root, home, follower }.follow(&replay);
            }
            Err(error) => actor.heed(&error),
        }
    }
}

struct Replica<'a> {
    actor: &'a Actor,
    root: &'a str,
    home: Home,
    follower: Follower,
}

impl Replica<'_> {
    fn follow(mut self, replay: &Replay) {
        let mut content = content::replayed(&replay.payloads);
        self.tell();
        while !self.actor.stage.is_over() {
            self.check(&content);
            let pause = self.follower.pause().min(self.follower.lease().due_in());
            self.actor.stage.sleep(self.actor.me, pause);
            if self.follower.lease().due_in().is_zero() && !self.renew() {
                break;
            }
            match self.follower.probe() {
                Ok(Some(next)) => {
                    if next.is_whole {
                        content.clear();
                    }
                    for payload in &next.payloads {
                        content::apply(&mut content, payload);
                    }
                    self.follower.switch(next);
                }
                Ok(None) => {}
                Err(error) => self.actor.heed(&error),
            }
            if self.actor.one_in(120) {
                self.actor.rest(2 * self.actor.stage.rules.age_min.as_secs());
            }
        }
        self.actor.stage.ledger().release(self.root, self.follower.lease().token());
        self.follower.stop();
    }

    /// Says what it relies on.
    fn tell(&self) {
        let lease = self.follower.lease();
        let until = self.actor.stage.now() + lease.alive_for();
        let version = self.follower.state().version().0;
        self.actor.stage.ledger().lease(self.root, lease.token(), version, until);
    }

    /// False if it must start again.
    fn renew(&mut self) -> bool {
        let version = self.follower.state().version();
        // From now on it relies on nothing older.
        self.tell();
        let (before, fresh) = (self.follower.lease().token(), self.actor.stage.token());
        match self.follower.renew(version, fresh) {
            Ok(renewal) => {
                if renewal == Renewal::Again {
                    self.actor.stage.ledger().release(self.root, before);
                }
                self.tell();
                true
            }
            Err(error) => {
                self.actor.heed(&error);
                error.kind() != ErrorKind::Gone
            }
        }
    }

    fn check(&self, content: &Content) {
        let state = self.follower.state();
        let lease = self.follower.lease();
        if !lease.is_alive() {
            return;
        }
        compare(self.actor, self.root, state.version(), content);
        let at = self.actor.stage.roll(state.tables().len().max(1) as u64) as usize;
        let Some((number, table)) = state.tables().iter().nth(at) else { return };
        let missing = matches!(self.actor.table(&self.home, state, table), Got::Missing);
        if missing && lease.is_alive() {
            let root = self.root;
            self.actor.violation(format!("{root}: table {number} is missing under a lease"));
        }
    }
}

/// What a reader sees against what the version holds.
pub(super) fn compare(actor: &Actor, root: &str, version: VersionNumber, content: &Content) {
    let ledger = actor.stage.ledger();
    let held = ledger.version(root, version.0).map(|version| version.content.clone());
    drop(ledger);
    if held.as_ref() != Some(content) {
        let instead = format!("{content:?} instead of {held:?}");
        actor.violation(format!("{root}: version {version} was read as {instead}"));
    }
}

/// Looks at the newest version without a lease, and is gone before collectors may come.
pub(super) fn visitor(actor: &Actor, root: &str) {
    while !actor.stage.is_over() {
        actor.rest(300);
        let home = actor.home(root);
        let until = actor.stage.now() + actor.stage.rules.age_min;
        match read_newest(&home) {
            Ok(Some(replay)) => {
                let content = content::replayed(&replay.payloads);
                compare(actor, root, replay.state.version(), &content);
                read_all(actor, root, (&home, &replay.state), until, &content);
            }
            Ok(None) => {}
            Err(error) => actor.heed(&error),
        }
    }
}

/// Reads every table of a version that is kept until then; they must be there, and hold its content.
pub(super) fn read_all(
    actor: &Actor,
    root: &str,
    (home, state): (&Home, &VersionState),
    until: Duration,
    content: &Content,
) {
    let mut all = Content::new();
    for (number, table) in state.tables() {
        match actor.table(home, state, table) {
            Got::Table(writes) => content::merge(&mut all, &writes),
            Got::Missing if actor.stage.now() < until => {
                let version = state.version();
                actor.violation(format!("{root}: version {version} lacks table {number}"));
                return;
            }
            Got::Missing | Got::Unavailable => return,
        }
    }
    if all != *content {
        actor.violation(format!(
            "{root}: tables of version {} hold something else",
            state.version()
        ));
    }
}
