//! Pins: each keeps one version, and all that makes it up. A checkpoint is one with a user's name; a clone has one in each
//! database whose tables it shares. Called by users, clones and collectors.
//!
//! I1: a pin counts if the boundary was at or below its version after the pin was put (`boundary`'s I2), or if another pin
//! on the same version was still there then.
//! I2: each has a token in its name, so that a removal that comes late meets no other pin.
//!
//! | field | encoding |
//! | --- | --- |
//! | frame, `slpn` | [`coding`](crate::coding) |
//! | version | u64 |
//! | life | u64, milliseconds after it was put by the bucket's clock; 0: until it is removed |
//! | note | text, for people |

use std::time::Duration;

use bytes::Bytes;

use crate::bucket::{Condition, Purpose, Stat};
use crate::coding::{Reader, Writer};
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::{Decision, Home, REGISTER_BYTES_MAX};
use crate::log::{boundary, replay};
use crate::names::{Name, PinName, Token, VersionNumber};

const MAGIC: [u8; 4] = *b"slpn";
const NOTE_BYTES_MAX: usize = 1 << 10;

/// A pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// What it is called. Names are unique unless two make one at the same moment.
    pub name: PinName,
    /// Which of that name: fresh for every pin.
    pub token: Token,
    /// What it keeps.
    pub version: VersionNumber,
    /// How long it keeps it, by the bucket's clock; zero: until it is removed.
    pub life: Duration,
    /// For people. A clone's names the clone.
    pub note: String,
}

impl Pin {
    fn encode(&self) -> Bytes {
        let mut writer = Writer::new(MAGIC);
        writer.u64(self.version.0);
        writer.u64(u64::try_from(self.life.as_millis()).unwrap_or(u64::MAX));
        writer.text(&self.note);
        writer.finish()
    }

    fn decode(object: &str, name: PinName, token: Token, bytes: &Bytes) -> Outcome<Self> {
        let mut reader = Reader::new(object, MAGIC, bytes)?;
        let version = VersionNumber(reader.u64()?);
        let life = Duration::from_millis(reader.u64()?);
        let note = reader.text()?;
        reader.end()?;
        Ok(Pin { name, token, version, life, note })
    }

    fn object(&self, home: &Home) -> String {
        home.object(&Name::Pin(self.name.clone(), self.token))
    }
}

/// Keeps a version under a name: a checkpoint. Four requests. [`ErrorKind::Exists`] if the name is taken,
/// [`ErrorKind::Gone`] if the version is past already: take the newest. After [`ErrorKind::Undecided`] the pin may be
/// there, or come to be.
pub fn create_checkpoint(home: &Home, pin: &Pin) -> Result<(), Error> {
    if find_checkpoint(home, &pin.name)?.is_some() {
        let message = "there is a checkpoint of that name";
        return Err(Error::new(ErrorKind::Exists, pin.name.as_str(), message));
    }
    put(home, pin)?;
    check_in_time(home, pin)
}

/// The checkpoint of a name. A request for the names, and one for the pin.
pub fn find_checkpoint(home: &Home, name: &PinName) -> Result<Option<Pin>, Error> {
    let folder = format!("pins/{}.", name.as_str());
    let stats = home.list(&folder, "", Purpose::Manifest)?;
    Ok(read_all(home, stats, Purpose::Manifest)?.into_iter().next().map(|(pin, _)| pin))
}

/// All pins, clones' too.
pub fn list_pins(home: &Home) -> Result<Vec<Pin>, Error> {
    Ok(read_pins(home, Purpose::Tool)?.into_iter().map(|(pin, _)| pin).collect())
}

/// Lets a version go, as far as this pin is concerned. Only who has made a pin, or knows that nobody needs it, may.
pub fn remove_pin(home: &Home, pin: &Pin) -> Result<(), Error> {
    home.remove(&[pin.object(home)], Purpose::Manifest)
}

/// Every pin, and when it was put by the bucket's clock.
pub(crate) fn read_pins(home: &Home, purpose: Purpose) -> Outcome<Vec<(Pin, Stat)>> {
    let stats = home.list("pins/", "", purpose)?;
    read_all(home, stats, purpose)
}

fn read_all(home: &Home, stats: Vec<Stat>, purpose: Purpose) -> Outcome<Vec<(Pin, Stat)>> {
    let mut pins = Vec::new();
    for stat in stats {
        let pin = read_pin(home, &stat.name, purpose)?;
        pins.extend(pin.map(|pin| (pin, stat)));
    }
    Ok(pins)
}

/// The pin that an object is; `None` if it is none, or was removed since it was listed.
pub(crate) fn read_pin(home: &Home, object: &str, purpose: Purpose) -> Outcome<Option<Pin>> {
    let Some(Name::Pin(name, token)) = home.root().parse(object) else { return Ok(None) };
    let Some(found) = home.read(object, purpose, REGISTER_BYTES_MAX)? else { return Ok(None) };
    Pin::decode(object, name, token, &found.body).map(Some)
}

/// [`ErrorKind::Gone`] unless the pin is there.
pub(crate) fn check_there(home: &Home, pin: &Pin) -> Outcome<()> {
    let object = pin.object(home);
    let gone = || Error::new(ErrorKind::Gone, &object, "is not there any more");
    home.head(&object, Purpose::Manifest)?.map(drop).ok_or_else(gone)
}

/// Keeps what another pin keeps (I1), however long ago its version was.
pub(crate) fn copy(home: &Home, from: &Pin, to: &Pin) -> Outcome<()> {
    put(home, to)?;
    check_there(home, from)
}

/// Keeps a version that is not past. [`ErrorKind::Undecided`] if an earlier call has put the pin, and the version is past by
/// now: then the pin may have been in time, and stays.
pub(crate) fn keep(home: &Home, pin: &Pin) -> Outcome<()> {
    let is_first = home.head(&pin.object(home), Purpose::Manifest)?.is_none();
    if is_first {
        put(home, pin)?;
        return check_in_time(home, pin);
    }
    if boundary::look(home, Purpose::Manifest)? > pin.version {
        let message = "was put by an earlier call, and whether in time is not known";
        return Err(Error::new(ErrorKind::Undecided, &pin.object(home), message));
    }
    Ok(())
}

fn put(home: &Home, pin: &Pin) -> Outcome<()> {
    let object = pin.object(home);
    if pin.note.len() > NOTE_BYTES_MAX {
        let message = format!("a note of {} bytes", pin.note.len());
        return Err(Error::new(ErrorKind::Misuse, &object, message));
    }
    match home.decide(&object, &pin.encode(), &Condition::Absent, Purpose::Manifest)? {
        Decision::Mine => Ok(()),
        Decision::Other(_) => Err(Error::new(ErrorKind::Exists, &object, "its token is not fresh")),
    }
}

fn check_in_time(home: &Home, pin: &Pin) -> Outcome<()> {
    let past = boundary::look(home, Purpose::Manifest)? > pin.version;
    if past || replay::fetch(home, pin.version, Purpose::Manifest)?.is_none() {
        remove_pin(home, pin)?;
        return Err(replay::gone(home, pin.version));
    }
    Ok(())
}
