//! How small objects are put into bytes and read back: a frame that every one of them has, and a reader that checks
//! bounds. Called by all modules that have an object of their own.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | magic: which kind of object |
//! | 4 | 2 | format, 1 |
//! | 6 | n | the object's own fields |
//! | 6 + n | 4 | CRC-32C of all before it |
//!
//! Numbers are little-endian. Texts have their length in two bytes before them.

use bytes::Bytes;

use crate::error::{Error, Outcome};
use crate::names::Token;

/// The format that is written, and the only one that is read.
const FORMAT: u16 = 1;
const CRC_BYTES: usize = 4;

/// Puts an object together.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(magic: [u8; 4]) -> Self {
        let mut writer = Writer(magic.to_vec());
        writer.u16(FORMAT);
        writer
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn token(&mut self, token: Token) {
        self.bytes(&token.0.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.u16(u16::try_from(text.len()).expect("texts are checked when they are made"));
        self.bytes(text.as_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// How many things follow. There are fewer than 2^32 of anything: objects have a size limit.
    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("an object's parts are counted before it is made"));
    }

    pub(crate) fn finish(mut self) -> Bytes {
        let crc = crc32c::crc32c(&self.0);
        self.u32(crc);
        Bytes::from(self.0)
    }
}

/// Takes an object apart. Every error names the object, and where in it.
pub(crate) struct Reader<'a> {
    name: &'a str,
    all: &'a Bytes,
    at: usize,
    /// Where the checksum begins.
    end: usize,
}

impl<'a> Reader<'a> {
    /// Checks the frame.
    pub(crate) fn new(name: &'a str, magic: [u8; 4], all: &'a Bytes) -> Outcome<Self> {
        let (fields, crc) = all
            .split_last_chunk::<CRC_BYTES>()
            .ok_or_else(|| Error::damaged(name, format!("has {} bytes", all.len())))?;
        let mut reader = Reader { name, all, at: 0, end: fields.len() };
        if reader.array::<4>()? != magic {
            return Err(Error::damaged(name, "is something else: its first four bytes are wrong"));
        }
        if crc32c::crc32c(fields) != u32::from_le_bytes(*crc) {
            return Err(Error::damaged(name, "does not match its checksum"));
        }
        match reader.u16()? {
            FORMAT => Ok(reader),
            other => Err(reader.wrong(format!("format {other}, which needs a newer release"))),
        }
    }

    /// An error about what was just read.
    pub(crate) fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::damaged(self.name, format!("before byte {}: {what}", self.at))
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Outcome<Bytes> {
        let to = self.at.checked_add(len).filter(|to| *to <= self.end);
        let to = to.ok_or_else(|| self.wrong(format!("{len} bytes expected behind it")))?;
        let bytes = self.all.slice(self.at..to);
        self.at = to;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Outcome<[u8; N]> {
        let bytes = self.bytes(N)?;
        Ok(bytes.as_ref().try_into().expect("as many bytes as were asked for"))
    }

    pub(crate) fn u8(&mut self) -> Outcome<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Outcome<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Outcome<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Outcome<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn token(&mut self) -> Outcome<Token> {
        Ok(Token(u128::from_le_bytes(self.array()?)))
    }

    pub(crate) fn text(&mut self) -> Outcome<String> {
        let len = self.u16()?;
        let bytes = self.bytes(usize::from(len))?;
        String::from_utf8(bytes.to_vec()).map_err(|_| self.wrong("a text that is not UTF-8"))
    }

    /// A count of things that take at least `each` bytes: more than fit are not believed, so that nothing is allocated
    /// for them.
    pub(crate) fn count(&mut self, each: usize) -> Outcome<usize> {
        let count = self.u32()? as usize;
        let fits = count.checked_mul(each).is_some_and(|bytes| bytes <= self.end - self.at);
        if fits { Ok(count) } else { Err(self.wrong(format!("a count of {count}"))) }
    }

    /// There must be nothing left.
    pub(crate) fn end(self) -> Outcome<()> {
        let left = self.end - self.at;
        if left == 0 { Ok(()) } else { Err(self.wrong(format!("{left} bytes too many"))) }
    }
}
