//! The register `owner`: whose turn it is to commit. Writers claim it when they open a database and look at it while they
//! hold a lease; collectors look before they delete.
//!
//! The register alone fences nobody, since who commits does not read it: the record of the takeover does that, at the next
//! number of the version log. The register gives out epochs, and tells who is to stop.
//!
//! I1: no two claims that succeed have the same epoch, and epochs only grow. Therefore the object is never deleted.
//!
//! | field | encoding |
//! | --- | --- |
//! | frame, `slow` | [`coding`](crate::coding) |
//! | epoch | u64 |
//! | token | 16 bytes |
//! | lease | u64, milliseconds; 0: none |
//! | address | text, for people |

use std::time::Duration;

use bytes::Bytes;

use crate::bucket::{Condition, Purpose, Tag};
use crate::coding::{Reader, Writer};
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::{Decision, Home, REGISTER_BYTES_MAX};
use crate::names::{Epoch, Name, Token};

const MAGIC: [u8; 4] = *b"slow";
const ADDRESS_BYTES_MAX: usize = 1 << 10;
/// So many others may claim the same database while one tries.
const CLAIMS_MAX: usize = 32;

/// Who owns a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// How often the database has changed hands.
    pub epoch: Epoch,
    /// By which the owner knows his own records.
    pub token: Token,
    /// For how long he may acknowledge without a look at the register; zero: for as long as he likes.
    pub lease: Duration,
    /// Where he can be reached, for people.
    pub address: String,
}

/// What an owner's address becomes when he has closed the database.
const RELEASED: &str = "nobody: the last owner has closed it";

impl Owner {
    /// True if he has said that he is done: who takes over takes nothing from him.
    pub fn is_released(&self) -> bool {
        self.address == RELEASED
    }

    fn encode(&self) -> Bytes {
        let mut writer = Writer::new(MAGIC);
        writer.u64(self.epoch.0);
        writer.token(self.token);
        writer.u64(u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX));
        writer.text(&self.address);
        writer.finish()
    }

    fn decode(name: &str, bytes: &Bytes) -> Outcome<Self> {
        let mut reader = Reader::new(name, MAGIC, bytes)?;
        let owner = Owner {
            epoch: Epoch(reader.u64()?),
            token: reader.token()?,
            lease: Duration::from_millis(reader.u64()?),
            address: reader.text()?,
        };
        reader.end()?;
        Ok(owner)
    }
}

/// Who owns the database, and the register's tag; `None` if nobody ever has. One request.
pub(crate) fn look(home: &Home, purpose: Purpose) -> Outcome<Option<(Owner, Tag)>> {
    let name = home.object(&Name::Owner);
    let Some(object) = home.read(&name, purpose, REGISTER_BYTES_MAX)? else { return Ok(None) };
    Ok(Some((Owner::decode(&name, &object.body)?, object.tag)))
}

/// Takes the next epoch, which is above `floor`, and waits until the last owner's lease is over, unless he `is_gone`.
pub(crate) fn claim(home: &Home, wanted: &Owner, floor: Epoch, is_gone: bool) -> Outcome<Owner> {
    let name = home.object(&Name::Owner);
    if wanted.address.len() > ADDRESS_BYTES_MAX {
        let message = format!("an address of {} bytes", wanted.address.len());
        return Err(Error::new(ErrorKind::Misuse, &name, message));
    }
    for _ in 0..CLAIMS_MAX {
        let last = look(home, Purpose::Manifest)?;
        let (last_epoch, lease, when) = match last {
            Some((last, tag)) => (last.epoch, last.lease, Condition::Tagged(tag)),
            None => (Epoch(0), Duration::ZERO, Condition::Absent),
        };
        let epoch = last_epoch.max(floor).0.checked_add(1);
        let epoch = epoch.ok_or_else(|| Error::damaged(&name, "has the last of all epochs"))?;
        let owner = Owner { epoch: Epoch(epoch), ..wanted.clone() };
        if let Decision::Mine = home.decide(&name, &owner.encode(), &when, Purpose::Manifest)? {
            // He began to count when he sent his last proof, which was before this claim.
            if !is_gone {
                home.clock().sleep(lease);
            }
            return Ok(owner);
        }
    }
    Err(Error::new(ErrorKind::Contended, &name, "others claim the database again and again"))
}

/// The owner is done. That nobody knows of it, if this fails, does no harm; two requests.
pub(crate) fn release(home: &Home, epoch: Epoch, token: Token) -> Outcome<()> {
    let Some((owner, tag)) = look(home, Purpose::Manifest)? else { return Ok(()) };
    if (owner.epoch, owner.token) != (epoch, token) || owner.is_released() {
        return Ok(());
    }
    let released = Owner { address: RELEASED.to_owned(), lease: Duration::ZERO, ..owner };
    let (name, when) = (home.object(&Name::Owner), Condition::Tagged(tag));
    home.decide(&name, &released.encode(), &when, Purpose::Manifest).map(|_| ())
}

/// An owner's proof that he still is: for databases that fail over while the last owner may still run. He stops
/// acknowledging when it is no longer fresh; who follows him waits that long.
pub struct OwnerLease {
    home: Home,
    owner: Owner,
    /// When the last look that showed us was sent.
    proved: Duration,
}

impl OwnerLease {
    pub(crate) fn new(home: Home, owner: Owner, proved: Duration) -> Self {
        OwnerLease { home, owner, proved }
    }

    /// True if writes may be acknowledged now. Costs nothing but a look at the clock.
    pub fn is_proved(&self) -> bool {
        let life = self.owner.lease;
        life.is_zero() || self.home.now().saturating_sub(self.proved) < life
    }

    pub(crate) fn life(&self) -> Duration {
        self.owner.lease
    }

    /// When writes may be acknowledged no more, without another proof.
    pub(crate) fn lapses_at(&self) -> Duration {
        self.proved.saturating_add(self.owner.lease)
    }

    /// How long until it should be proved again: a third of its life after the last time.
    pub fn due_in(&self) -> Duration {
        if self.owner.lease.is_zero() {
            return Duration::MAX;
        }
        (self.proved + self.owner.lease / 3).saturating_sub(self.home.now())
    }

    /// Looks at the register: one request. [`ErrorKind::Fenced`] if it is another's; after any other error the proof is as
    /// old as before.
    pub fn prove(&mut self) -> Result<(), Error> {
        let sent = self.home.now();
        match look(&self.home, Purpose::Manifest)? {
            Some((owner, _)) if owner == self.owner => {
                self.proved = sent;
                Ok(())
            }
            other => Err(fenced(&self.home.object(&Name::Owner), other.map(|(owner, _)| owner))),
        }
    }
}

fn fenced(name: &str, by: Option<Owner>) -> Error {
    let by = by.map_or("nobody".to_owned(), |owner| {
        format!("{} in epoch {}", owner.address.escape_debug(), owner.epoch.0)
    });
    Error::new(ErrorKind::Fenced, name, format!("the database is owned by {by}"))
}
