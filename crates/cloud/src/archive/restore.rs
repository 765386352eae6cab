//! Who takes over puts a fence behind the last piece, and has logs out of those before it.

use std::collections::BTreeMap;
use std::path::Path;

use siltstone::{FileSystem, Site};

use super::piece::{Piece, Stream};
use crate::bucket::{Condition, Purpose, Stat};
use crate::error::{Error, Outcome};
use crate::home::{Decision, Home, OBJECT_BYTES_MAX};
use crate::names::{Epoch, Name, Token};

/// So many pieces are asked for together at the most: the bucket has those wait that it would not ask for at once.
const PIECES_AT_ONCE: usize = 256;
/// And no more bytes, but for a piece that is longer by itself: they are in memory beside the logs that they make.
const BYTES_AT_ONCE: u64 = 32 << 20;

/// A piece that was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
}

/// What is in the bucket of the log, behind a fence.
pub(crate) struct Archived {
    /// The number behind the fence.
    pub(crate) next: u64,
    /// All pieces before it, ascending.
    pub(crate) pieces: Vec<Listed>,
}

/// Ends the archive of all owners before: what they still put comes too late.
pub(crate) fn fence(home: &Home, epoch: Epoch, token: Token) -> Outcome<Archived> {
    let mut pieces = list(home)?;
    let mut next = pieces.last().map_or(1, |last| last.number + 1);
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
                pieces.push(Listed { number: next, bytes: object.bytes });
                next += 1;
            }
        }
    }
    pieces.push(Listed { number: next, bytes: body.len() as u64 });
    Ok(Archived { next: next + 1, pieces })
}

/// All pieces, ascending.
pub(crate) fn list(home: &Home) -> Outcome<Vec<Listed>> {
    let stats = home.list("wal/", "", Purpose::Wal)?;
    let piece = |stat: &Stat| match home.root().parse(&stat.name) {
        Some(Name::Wal(number)) => Some(Listed { number, bytes: stat.bytes }),
        _ => None,
    };
    Ok(stats.iter().filter_map(piece).collect())
}

/// The first of these pieces that are asked for together: one at least.
fn together(pieces: &[Listed]) -> usize {
    let ends = pieces.iter().scan(0_u64, |end, piece| {
        *end = end.saturating_add(piece.bytes);
        Some(*end)
    });
    ends.take(PIECES_AT_ONCE).take_while(|end| *end <= BYTES_AT_ONCE).count().max(1)
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
    mut pieces: &[Listed],
    (needed, fs, folder): (u64, &dyn FileSystem, &Path),
) -> siltstone::Result<()> {
    let mut logs: BTreeMap<u64, Vec<Gathered>> = BTreeMap::new();
    while !pieces.is_empty() {
        let (first, rest) = pieces.split_at(together(pieces));
        pieces = rest;
        let names: Vec<_> =
            first.iter().map(|piece| home.object(&Name::Wal(piece.number))).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_asked_for_together_as_far_as_memory_goes() {
        let pieces = |bytes: &[u64]| -> Vec<Listed> {
            let number = |(at, bytes): (usize, &u64)| Listed { number: at as u64, bytes: *bytes };
            bytes.iter().enumerate().map(number).collect()
        };
        assert_eq!(together(&pieces(&[1000; 300])), PIECES_AT_ONCE);
        assert_eq!(together(&pieces(&[10 << 20; 300])), 3);
        assert_eq!(together(&pieces(&[1 << 40, 1])), 1);
        assert_eq!(together(&pieces(&[1, u64::MAX, u64::MAX])), 1);
        assert_eq!(together(&pieces(&[7])), 1);
    }
}
