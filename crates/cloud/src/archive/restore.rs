//! Who takes over puts a fence behind the last piece, and has logs out of those before it.

use std::collections::BTreeMap;
use std::path::Path;

use siltstone::{FileSystem, Site};

use super::piece::{Piece, Stream};
use crate::bucket::{Condition, Purpose};
use crate::error::{Error, Outcome};
use crate::home::{Decision, Home, OBJECT_BYTES_MAX};
use crate::names::{Epoch, Name, Token};

/// So many pieces are asked for together, and in memory at once beside the logs that they make.
const AT_ONCE: usize = 32;

/// What is in the bucket of the log, behind a fence.
pub(crate) struct Archived {
    /// The number behind the fence.
    pub(crate) next: u64,
    /// Numbers of all pieces before it, ascending.
    pub(crate) pieces: Vec<u64>,
}

/// Ends the archive of all owners before: what they still put comes too late.
pub(crate) fn fence(home: &Home, epoch: Epoch, token: Token) -> Outcome<Archived> {
    let mut pieces = list(home)?;
    let mut next = pieces.last().map_or(1, |last| last + 1);
    let body = Piece::Fence { token, epoch }.encode();
    loop {
        let name = home.object(&Name::Wal(next));
        match home.decide(&name, &body, &Condition::Absent, Purpose::Wal)? {
            Decision::Mine => break,
            Decision::Other(object) => {
                let other = Piece::decode(&name, &object.body)?;
                if other.epoch() > epoch {
                    let message = format!("is of epoch {}", other.epoch().0);
                    return Err(Error::new(crate::error::ErrorKind::Fenced, &name, message));
                }
                pieces.push(next);
                next += 1;
            }
        }
    }
    pieces.push(next);
    Ok(Archived { next: next + 1, pieces })
}

/// The numbers of all pieces, ascending.
pub(crate) fn list(home: &Home) -> Outcome<Vec<u64>> {
    let names = home.list("wal/", "", Purpose::Wal)?;
    let number = |name: &str| match home.root().parse(name) {
        Some(Name::Wal(number)) => Some(number),
        _ => None,
    };
    Ok(names.iter().filter_map(|stat| number(&stat.name)).collect())
}

/// A log out of pieces.
#[derive(Debug)]
struct Gathered {
    stream: Stream,
    body: Vec<u8>,
}

impl Gathered {
    fn is_whole(&self) -> bool {
        self.body.len() as u64 >= self.stream.needs
    }
}

/// Writes the logs from `needed` on into a folder.
pub(crate) fn restore(
    home: &Home,
    pieces: &[u64],
    (needed, fs, folder): (u64, &dyn FileSystem, &Path),
) -> siltstone::Result<()> {
    let mut logs: BTreeMap<u64, Vec<Gathered>> = BTreeMap::new();
    for together in pieces.chunks(AT_ONCE) {
        let names: Vec<_> =
            together.iter().map(|number| home.object(&Name::Wal(*number))).collect();
        for (name, object) in
            names.iter().zip(home.read_each(&names, Purpose::Wal, OBJECT_BYTES_MAX))
        {
            // Trimmed by the owner before, while it was listed.
            let Some(object) = object? else { continue };
            if let Piece::Log { stream, offset, body, .. } = Piece::decode(name, &object.body)?
                && stream.log >= needed
            {
                gather(name, logs.entry(stream.log).or_default(), (stream, offset, &body))?;
            }
        }
    }
    if !logs.is_empty() && needed > 0 {
        // Nothing was written into it, or it would be there; the engine wants to see it all the same.
        logs.entry(needed).or_default();
    }
    for (number, streams) in &logs {
        let last = streams.iter().rev().find(|log| log.is_whole());
        write(fs, folder, (*number, last.map_or(&[], |log| &log.body)))?;
    }
    Ok(())
}

fn gather(
    name: &str,
    streams: &mut Vec<Gathered>,
    (stream, offset, body): (Stream, u64, &[u8]),
) -> Outcome<()> {
    let last = streams.last_mut().filter(|log| log.stream == stream);
    match last {
        Some(log) if log.body.len() as u64 == offset => log.body.extend_from_slice(body),
        None if offset == 0 => streams.push(Gathered { stream, body: body.to_vec() }),
        _ => {
            let message =
                format!("begins at byte {offset} of log {}, not where the last ends", stream.log);
            return Err(Error::damaged(name, message));
        }
    }
    Ok(())
}

fn write(
    fs: &dyn FileSystem,
    folder: &Path,
    (number, body): (u64, &[u8]),
) -> siltstone::Result<()> {
    let path = folder.join(format!("{number:06}.log"));
    let mut file = fs.create(&path, Site::WalCreate)?;
    file.append(body, Site::WalAppend)?;
    file.sync(Site::WalSync)?;
    file.close(Site::WalClose)?;
    fs.sync_dir(folder, Site::WalDirSync)
}
