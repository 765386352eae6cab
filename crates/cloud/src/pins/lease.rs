//! A reader's lease: while it lives, nothing goes from its version on, so that the reader may stay there or follow the log
//! as it likes. Held by replicas, and by owners whose iterators live long.
//!
//! I1: the reader takes it for ended before any collector may: he counts from when he sent the last renewal that was
//! acknowledged, and a tenth less; they count from when it was written, by the bucket's clock.
//! I2: an ended lease is not renewed. A new one is made under a new name, and checked against the boundary, so that a
//! collector which removes the old one meets nobody.
//!
//! | field | encoding |
//! | --- | --- |
//! | frame, `slrd` | [`coding`](crate::coding) |
//! | version | u64: the lowest that is read |
//! | life | u64, milliseconds after it was written |

use std::time::Duration;

use bytes::Bytes;

use crate::bucket::{Purpose, Stat};
use crate::coding::{Reader, Writer};
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::{Home, REGISTER_BYTES_MAX};
use crate::log::{boundary, replay};
use crate::names::{Name, Token, VersionNumber};

const MAGIC: [u8; 4] = *b"slrd";
/// A reader that has died holds a database's garbage no longer than this.
const LIFE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A lease, in its reader's hands.
pub struct ReaderLease {
    home: Home,
    token: Token,
    version: VersionNumber,
    life: Duration,
    /// When the last write that was acknowledged was sent.
    sent: Duration,
}

/// How a renewal went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease had not ended.
    InTime,
    /// It had, but nothing was missed: a new one is in its place.
    Again,
}

impl ReaderLease {
    /// Keeps everything from `version` on for `life`, which is at most a day. Two requests. [`ErrorKind::Gone`] if the
    /// version is past already: take the newest.
    pub fn new(
        home: &Home,
        version: VersionNumber,
        life: Duration,
        token: Token,
    ) -> Result<Self, Error> {
        if life.is_zero() || life > LIFE_MAX {
            let message = format!("a lease of {life:?}");
            return Err(Error::new(ErrorKind::Misuse, home.root().as_str(), message));
        }
        let sent = home.now();
        let mut lease = ReaderLease { home: home.clone(), token, version, life, sent };
        lease.write()?;
        if boundary::look(home, Purpose::Replica)? > version {
            // Even if it stays, it keeps nothing that is still there, and ends by itself.
            let _ = home.remove(&[lease.object()], Purpose::Replica);
            return Err(replay::gone(home, version));
        }
        Ok(lease)
    }

    /// By which its object is named.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The lowest version that is kept.
    pub fn version(&self) -> VersionNumber {
        self.version
    }

    /// True if what it keeps is kept for sure. Costs nothing but a look at the clock.
    pub fn is_alive(&self) -> bool {
        !self.alive_for().is_zero()
    }

    /// For how long it is alive unless it is renewed.
    pub fn alive_for(&self) -> Duration {
        (self.sent + self.life / 10 * 9).saturating_sub(self.home.now())
    }

    /// How long until it should be renewed: a third of its life after the last time.
    pub fn due_in(&self) -> Duration {
        (self.sent + self.life / 3).saturating_sub(self.home.now())
    }

    /// Renews it, and lets go of what is below `version`. One request, or two if the lease has ended; `fresh` is for that
    /// case. [`ErrorKind::Gone`]: collectors have passed, open the newest version; after other errors try again.
    pub fn renew(&mut self, version: VersionNumber, fresh: Token) -> Result<Renewal, Error> {
        let (before, asked) = (self.sent, self.version.max(version));
        self.version = asked;
        if self.is_alive() {
            self.write()?;
            // If it ended on the way, somebody may have found it so.
            if self.home.now().saturating_sub(before) < self.life / 10 * 9 {
                return Ok(Renewal::InTime);
            }
        }
        let old = self.object();
        *self = ReaderLease::new(&self.home, asked, self.life, fresh)?;
        let _ = self.home.remove(&[old], Purpose::Replica);
        Ok(Renewal::Again)
    }

    /// Ends it. One request; if that fails, it ends by itself.
    pub fn release(self) {
        let _ = self.home.remove(&[self.object()], Purpose::Replica);
    }

    fn object(&self) -> String {
        self.home.object(&Name::Reader(self.token))
    }

    fn write(&mut self) -> Outcome<()> {
        let sent = self.home.now();
        let mut writer = Writer::new(MAGIC);
        writer.u64(self.version.0);
        writer.u64(u64::try_from(self.life.as_millis()).unwrap_or(u64::MAX));
        self.home.write(&self.object(), &writer.finish(), Purpose::Replica)?;
        self.sent = sent;
        Ok(())
    }
}

/// A lease as a collector finds it.
pub(crate) struct Leased {
    pub(crate) version: VersionNumber,
    pub(crate) life: Duration,
    pub(crate) stat: Stat,
}

/// Every lease, ended ones too.
pub(crate) fn read_leases(home: &Home, purpose: Purpose) -> Outcome<Vec<Leased>> {
    let mut leases = Vec::new();
    for stat in home.list("readers/", "", purpose)? {
        leases.extend(read_lease(home, &stat, purpose)?);
    }
    Ok(leases)
}

/// The lease that an object is; `None` if it is none, or was removed since it was listed.
pub(crate) fn read_lease(home: &Home, stat: &Stat, purpose: Purpose) -> Outcome<Option<Leased>> {
    let Some(Name::Reader(_)) = home.root().parse(&stat.name) else { return Ok(None) };
    let Some(object) = home.read(&stat.name, purpose, REGISTER_BYTES_MAX)? else { return Ok(None) };
    let (version, life) = decode(&stat.name, &object.body)?;
    Ok(Some(Leased { version, life, stat: stat.clone() }))
}

fn decode(name: &str, bytes: &Bytes) -> Outcome<(VersionNumber, Duration)> {
    let mut reader = Reader::new(name, MAGIC, bytes)?;
    let (version, life) = (VersionNumber(reader.u64()?), reader.u64()?);
    reader.end()?;
    Ok((version, Duration::from_millis(life).min(LIFE_MAX)))
}
