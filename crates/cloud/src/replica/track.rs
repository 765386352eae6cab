//! What the thread of a replica that follows does: it looks for the next version, shows it, and rests until it is due or told.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use siltstone::{ErrorKind as EngineKind, fold_edits};

use super::Shared;
use super::eager::Eager;
use crate::error::{Error, ErrorKind};
use crate::home::Home;
use crate::log::state::VersionState;
use crate::names::{Token, VersionNumber};
use crate::pins::follow::{Follower, Following};

/// How long it looks away from the clock at most: nobody rings for that.
const GLANCE: Duration = Duration::from_millis(20);

/// Follows the log.
pub(super) struct Track {
    pub(super) shared: Arc<Shared>,
    pub(super) follower: Follower,
    pub(super) following: Following,
    pub(super) token: Token,
    pub(super) eager: Option<Arc<Eager>>,
}

impl Track {
    pub(super) fn run(mut self) {
        while !self.shared.state().stopping {
            let told = self.shared.state().ear.take();
            self.set_haste(told > 0);
            let stepped = self.step();
            self.set_haste(false);
            let soon = self.shared.home.now().saturating_add(self.following.busy);
            let mut state = self.shared.state();
            match stepped {
                Ok(Some(version)) => {
                    // Unless somebody tells all of it, there may be more at once.
                    if !state.ear.found(told, version) {
                        continue;
                    }
                    self.follower.rely_on_news();
                }
                Ok(None) if told > 0 => state.ear.was_misled(soon),
                Err(error) if error.may_pass() && told > 0 => state.ear.put_off(told, soon),
                Ok(None) => {}
                Err(error) if error.may_pass() => {}
                Err(error) => {
                    state.failed = Some(error);
                    break;
                }
            }
            drop(state);
            self.rest();
        }
        self.follower.stop();
    }

    fn set_haste(&self, in_haste: bool) {
        if let Some(eager) = &self.eager {
            eager.set_haste(in_haste);
        }
    }

    /// The version that is shown since, if there was a new one.
    fn step(&mut self) -> Result<Option<VersionNumber>, Error> {
        if self.follower.lease().due_in().is_zero() {
            self.token = Token(self.token.0.wrapping_add(1));
            match self.follower.renew(self.shared.oldest(), self.token) {
                Err(error) if error.kind() == ErrorKind::Gone => return self.start_again(),
                renewed => renewed?,
            };
        }
        let Some(upcoming) = self.follower.probe()? else { return Ok(None) };
        let edits = {
            let mut edits =
                if upcoming.is_whole { Vec::new() } else { self.shared.state().edits.clone() };
            edits.extend(upcoming.payloads.iter().cloned());
            edits
        };
        let (state, edits) = (upcoming.state.clone(), folded(&self.shared.home, edits)?);
        self.show(&state, edits)?;
        self.follower.switch(upcoming);
        Ok(Some(state.version()))
    }

    /// A collector has passed while the lease was over.
    fn start_again(&mut self) -> Result<Option<VersionNumber>, Error> {
        let token = Token(self.token.0.wrapping_add(1 << 32));
        let (follower, replay) = Follower::start(&self.shared.home, self.following, token)?;
        (self.follower, self.token) = (follower, token);
        let version = replay.state.version();
        self.show(&replay.state, replay.payloads)?;
        Ok(Some(version))
    }

    fn show(&self, state: &VersionState, edits: Vec<Bytes>) -> Result<(), Error> {
        self.shared.show(state, edits).map_err(|error| {
            let kind = match error.kind() {
                EngineKind::Corruption => ErrorKind::Damaged,
                EngineKind::Incompatible | EngineKind::InvalidArgument => ErrorKind::Misuse,
                _ => ErrorKind::Unavailable,
            };
            Error::new(kind, self.shared.home.root().as_str(), error.to_string())
        })
    }

    fn rest(&self) {
        // A lease that cannot be renewed is due all the time.
        let pause = self.follower.pause().min(self.follower.lease().due_in()).max(GLANCE);
        let home = &self.shared.home;
        let until = home.now().saturating_add(pause);
        let mut state = self.shared.state();
        while !state.stopping && home.now() < until && !state.ear.wants_a_look(home.now()) {
            let rung = self.shared.rung.wait_timeout(state, GLANCE);
            (state, _) = rung.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Few edits: all that came since the last whole one would be read again for each version.
fn folded(home: &Home, edits: Vec<Bytes>) -> Result<Vec<Bytes>, Error> {
    let whole = fold_edits(&edits)
        .map_err(|error| Error::damaged(home.root().as_str(), format!("its edits: {error}")))?;
    Ok(vec![Bytes::from(whole)])
}
