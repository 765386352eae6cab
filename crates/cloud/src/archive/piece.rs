//! A piece of the write-ahead log, or a fence: the objects `wal/<number>`.
//!
//! | field | encoding |
//! | --- | --- |
//! | frame, `slwp` | [`coding`](crate::coding) |
//! | kind | u8: 1 piece, 2 fence |
//! | epoch | u64 |
//! | token | 16 bytes, the owner's |
//! | log | u64: the log's file number |
//! | stream | u64: counts the logs of an opening, for one may take another's number |
//! | needs | u64: the stream counts from so many bytes on |
//! | offset | u64: where in the log it begins |
//! | body | count, bytes |

use bytes::Bytes;

use crate::coding::{Reader, Writer};
use crate::error::Outcome;
use crate::names::{Epoch, Token};

const MAGIC: [u8; 4] = *b"slwp";

/// Whose pieces they are, and which log's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) epoch: Epoch,
    pub(crate) log: u64,
    pub(crate) number: u64,
    pub(crate) needs: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Log { token: Token, stream: Stream, offset: u64, body: Bytes },
    Fence { token: Token, epoch: Epoch },
}

impl Piece {
    pub(crate) fn epoch(&self) -> Epoch {
        match self {
            Piece::Log { stream, .. } => stream.epoch,
            Piece::Fence { epoch, .. } => *epoch,
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let none = Stream { epoch: self.epoch(), log: 0, number: 0, needs: 0 };
        let nothing = Bytes::new();
        let (kind, token, stream, offset, body) = match self {
            Piece::Log { token, stream, offset, body } => (1, token, stream, *offset, body),
            Piece::Fence { token, .. } => (2, token, &none, 0, &nothing),
        };
        let mut writer = Writer::new(MAGIC);
        writer.u8(kind);
        writer.u64(stream.epoch.0);
        writer.token(*token);
        [stream.log, stream.number, stream.needs, offset].into_iter().for_each(|n| writer.u64(n));
        writer.count(body.len());
        writer.bytes(body);
        writer.finish()
    }

    pub(crate) fn decode(name: &str, bytes: &Bytes) -> Outcome<Self> {
        let mut reader = Reader::new(name, MAGIC, bytes)?;
        let kind = reader.u8()?;
        let (epoch, token) = (Epoch(reader.u64()?), reader.token()?);
        let (log, number, needs) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let offset = reader.u64()?;
        let len = reader.count(1)?;
        let body = reader.bytes(len)?;
        let piece = match kind {
            1 => Piece::Log { token, stream: Stream { epoch, log, number, needs }, offset, body },
            2 => Piece::Fence { token, epoch },
            other => return Err(reader.wrong(format!("kind {other}"))),
        };
        reader.end()?;
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_back_and_no_other() {
        let stream = Stream { epoch: Epoch(3), log: 57, number: 2, needs: 9 };
        let (token, body) = (Token(5), Bytes::from_static(b"records"));
        let log = Piece::Log { token, stream, offset: 1 << 40, body };
        for piece in [log.clone(), Piece::Fence { token, epoch: Epoch(4) }] {
            let bytes = piece.encode();
            assert_eq!(Piece::decode("wal/1", &bytes).unwrap(), piece);
            for cut in 0..bytes.len() {
                assert!(Piece::decode("wal/1", &bytes.slice(..cut)).is_err());
            }
        }
        let mut bytes = log.encode().to_vec();
        for place in 0..bytes.len() {
            bytes[place] ^= 1;
            assert!(Piece::decode("wal/1", &Bytes::from(bytes.clone())).is_err(), "{place}");
            bytes[place] ^= 1;
        }
    }
}
