//! The register `gc/boundary`: versions before it may be collected. A collector moves it before it removes anything; who
//! commits a version, or pins one, looks at it afterwards.
//!
//! I1: it only grows, and is never deleted.
//! I2: who has written something at version `n`, and then finds the boundary at or below `n`, knows that no collector had
//! taken `n` for past when it was written. So a commit is not one into a gap that a collector made (SlateDB's #1622: a
//! writer slept through a takeover and the removal of its record), and a pin is seen by whoever moves the boundary later.
//!
//! | field | encoding |
//! | --- | --- |
//! | frame, `slbd` | [`coding`](crate::coding) |
//! | version | u64 |
//! | token | 16 bytes: whose move it was |

use crate::bucket::{Condition, Purpose, Tag};
use crate::coding::{Reader, Writer};
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::{Decision, Home, REGISTER_BYTES_MAX};
use crate::names::{Name, Token, VersionNumber};

const MAGIC: [u8; 4] = *b"slbd";
const MOVES_MAX: usize = 32;

/// The oldest version that is not past; 0 if nothing was ever collected. One request.
pub(crate) fn look(home: &Home, purpose: Purpose) -> Outcome<VersionNumber> {
    Ok(look_tagged(home, purpose)?.0)
}

fn look_tagged(home: &Home, purpose: Purpose) -> Outcome<(VersionNumber, Condition)> {
    let name = home.object(&Name::Boundary);
    let Some(object) = home.read(&name, purpose, REGISTER_BYTES_MAX)? else {
        return Ok((VersionNumber(0), Condition::Absent));
    };
    let mut reader = Reader::new(&name, MAGIC, &object.body)?;
    let version = VersionNumber(reader.u64()?);
    reader.token()?;
    reader.end()?;
    let tag: Tag = object.tag;
    Ok((version, Condition::Tagged(tag)))
}

/// Moves it up to `version`, unless it is there or beyond; returns where it is then.
pub(crate) fn advance(home: &Home, version: VersionNumber, token: Token) -> Outcome<VersionNumber> {
    let name = home.object(&Name::Boundary);
    for _ in 0..MOVES_MAX {
        let (now, when) = look_tagged(home, Purpose::Collect)?;
        if now >= version {
            return Ok(now);
        }
        let mut writer = Writer::new(MAGIC);
        writer.u64(version.0);
        writer.token(token);
        let body = writer.finish();
        if let Decision::Mine = home.decide(&name, &body, &when, Purpose::Collect)? {
            return Ok(version);
        }
    }
    Err(Error::new(ErrorKind::Contended, &name, "others move it again and again"))
}
