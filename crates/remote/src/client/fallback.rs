//! When a job runs at home after all: the policies, as pure decisions.

use std::time::Duration;

use crate::job::spec::JobSpec;

/// What becomes of a job that might run elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Elsewhere, however long it takes.
    RemoteOnly,
    /// Elsewhere, unless that fails.
    PreferRemote(Patience),
    /// At home, unless it is large or deep; then elsewhere, unless that fails.
    LocalFirst {
        /// So many bytes of inputs are large.
        bytes_min: u64,
        /// A target at this level is deep.
        level_min: u8,
        /// For those that go elsewhere.
        patience: Patience,
    },
}

/// What is borne before a job comes home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Waiting for a worker, in one go.
    pub wait: Duration,
    /// Failed attempts.
    pub failures: u32,
}

impl Patience {
    /// Ten seconds, two failures.
    pub const USUAL: Patience = Patience { wait: Duration::from_secs(10), failures: 2 };
}

impl Default for Policy {
    fn default() -> Self {
        Policy::PreferRemote(Patience::USUAL)
    }
}

/// Why a job comes home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HomeReason {
    /// It is not worth the way.
    Small,
    /// No worker took it in time, or there is no connection.
    Waited,
    /// It failed too often.
    Failures,
    /// The broker does not take it.
    Refused,
}

/// What has happened to a job so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Situation {
    /// For how long it has had no worker that we know of.
    pub(crate) waited: Duration,
    pub(crate) failures: u32,
    pub(crate) refused: bool,
}

impl Policy {
    /// Asked once, before a job is submitted.
    pub(crate) fn at_start(&self, spec: &JobSpec) -> Option<HomeReason> {
        match *self {
            Policy::LocalFirst { bytes_min, level_min, .. }
                if spec.target.level < level_min && spec.input_bytes() < bytes_min =>
            {
                Some(HomeReason::Small)
            }
            _ => None,
        }
    }

    /// Asked whenever something has happened, and when [`Patience::wait`] is over.
    pub(crate) fn on_the_way(&self, situation: Situation) -> Option<HomeReason> {
        let patience = self.patience()?;
        if situation.refused {
            Some(HomeReason::Refused)
        } else if situation.failures >= patience.failures {
            Some(HomeReason::Failures)
        } else if situation.waited >= patience.wait {
            Some(HomeReason::Waited)
        } else {
            None
        }
    }

    /// `None` if nothing brings a job home.
    pub(crate) fn patience(&self) -> Option<Patience> {
        match *self {
            Policy::RemoteOnly => None,
            Policy::PreferRemote(patience) | Policy::LocalFirst { patience, .. } => Some(patience),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::spec;

    #[test]
    fn remote_only_bears_everything() {
        let worst = Situation { waited: Duration::MAX, failures: u32::MAX, refused: true };
        assert_eq!(Policy::RemoteOnly.on_the_way(worst), None);
        assert_eq!(Policy::RemoteOnly.at_start(&spec(1)), None);
    }

    #[test]
    fn prefer_remote_comes_home_after_a_wait_or_two_failures() {
        let policy = Policy::default();
        let secs = |secs| Situation { waited: Duration::from_secs(secs), ..Situation::default() };
        assert_eq!(policy.at_start(&spec(1)), None);
        assert_eq!(policy.on_the_way(secs(9)), None);
        assert_eq!(policy.on_the_way(secs(10)), Some(HomeReason::Waited));
        let failed = |failures| Situation { failures, ..Situation::default() };
        assert_eq!(policy.on_the_way(failed(1)), None);
        assert_eq!(policy.on_the_way(failed(2)), Some(HomeReason::Failures));
        let refused = Situation { refused: true, ..Situation::default() };
        assert_eq!(policy.on_the_way(refused), Some(HomeReason::Refused));
    }

    #[test]
    fn local_first_sends_what_is_large_or_deep() {
        let policy = |bytes_min, level_min| Policy::LocalFirst {
            bytes_min,
            level_min,
            patience: Patience::USUAL,
        };
        let spec = spec(1);
        let (bytes, level) = (spec.input_bytes(), spec.target.level);
        assert_eq!(policy(bytes + 1, level + 1).at_start(&spec), Some(HomeReason::Small));
        assert_eq!(policy(bytes, level + 1).at_start(&spec), None);
        assert_eq!(policy(bytes + 1, level).at_start(&spec), None);
    }
}
