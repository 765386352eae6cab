//! Block compression: none, Snappy (raw, without framing), Zstandard (one frame with its content
//! size). The table builder compresses, the block fetcher decompresses.
//!
//! Decompression never allocates more than the codec could honestly have packed into its input:
//! see [`bytes_max`].

use crate::base::error::{Error, ErrorKind, Result};
use crate::format::table::snappy::{self, Packer, Unpacker};

/// Type byte of a block stored as it is.
pub(crate) const RAW: u8 = 0;
pub(crate) const SNAPPY: u8 = 1;
const ZSTD: u8 = 2;

/// A block that large may always be decompressed, however small it is packed. Larger ones are
/// written as they are, unless the codec stays within its usual ratio.
const BLOCK_BYTES_MAX: usize = 64 << 20;
/// Past [`BLOCK_BYTES_MAX`], a Zstandard block may grow by this factor and no more.
const ZSTD_RATIO_MAX: usize = 256;
/// Snappy's densest element makes 64 bytes out of three.
const SNAPPY_RATIO_MAX: usize = 22;

/// How blocks of new tables are compressed. Tables already written stay as they are; all kinds can
/// be read at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None,
    /// Snappy: fast, and readable by every LevelDB. The default.
    #[default]
    Snappy,
    /// Zstandard at this level (LevelDB's default is 1; 22 packs tightest, negative is fastest):
    /// tighter and slower. Tagged releases of LevelDB, 1.23 included, cannot read such tables.
    /// Needs the feature `zstd`.
    Zstd(i32),
}

impl Compression {
    /// Zstandard at LevelDB's default level.
    pub const ZSTD: Compression = Compression::Zstd(1);

    /// Whether this build has the codec, and the codec the level.
    pub fn is_known(self) -> bool {
        self.check().is_ok()
    }

    /// An error if this build lacks the codec or the codec the level. Checked when a database is
    /// opened.
    pub(crate) fn check(self) -> Result<()> {
        self.compressor().map(drop)
    }

    pub(crate) fn compressor(self) -> Result<Option<Box<dyn Compressor>>> {
        match self {
            Compression::None => Ok(None),
            Compression::Snappy => Ok(Some(Box::new(Snappy(Packer::new())))),
            Compression::Zstd(level) => zstd_compressor(level).map(Some),
        }
    }
}

/// A codec with its working memory, kept from block to block. One writer uses it.
pub(crate) trait Compressor: Send {
    /// The type byte of blocks it makes.
    fn id(&self) -> u8;

    /// Compresses `raw` into the start of `out`, whose length the codec may raise but never
    /// lowers, and returns the compressed length. `None`: store the block as it is.
    fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Option<usize>;
}

/// Compresses a block if that saves more than an eighth of it, which is LevelDB's rule.
pub(crate) fn compress_if_worth(
    codec: &mut dyn Compressor,
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Option<usize> {
    let len = codec.compress(raw, out)?;
    let worth = len < raw.len() - raw.len() / 8;
    (worth && raw.len() <= bytes_max(codec.id(), len)).then_some(len)
}

/// The most bytes that a block of `len` compressed bytes may decompress to.
fn bytes_max(id: u8, len: usize) -> usize {
    match id {
        SNAPPY => len.saturating_mul(SNAPPY_RATIO_MAX),
        _ => len.saturating_mul(ZSTD_RATIO_MAX).max(BLOCK_BYTES_MAX),
    }
}

/// Makes `out` the content of a block whose type byte is `id`, reusing its memory.
pub(crate) fn decompress(id: u8, stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match id {
        RAW => {
            out.clear();
            out.extend_from_slice(stored);
            Ok(())
        }
        SNAPPY => decompress_snappy(stored, out),
        ZSTD => decompress_zstd(stored, out),
        // Not "corrupted": the checksum held, so another program wrote this on purpose.
        _ => Err(Error::new(ErrorKind::Incompatible, format!("bad block type {id}"))),
    }
}

struct Snappy(Packer);

impl Compressor for Snappy {
    fn id(&self) -> u8 {
        SNAPPY
    }

    fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        self.0.pack(raw, out)
    }
}

/// To unpack a Snappy block piece by piece into `out`.
pub(crate) fn start_snappy<'a>(stored: &'a [u8], out: &mut Vec<u8>) -> Result<Unpacker<'a>> {
    Unpacker::start(stored, bytes_max(SNAPPY, stored.len()), out).ok_or_else(corrupted_snappy)
}

fn decompress_snappy(stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
    snappy::unpack(stored, bytes_max(SNAPPY, stored.len()), out).ok_or_else(corrupted_snappy)
}

#[cold]
pub(crate) fn corrupted_snappy() -> Error {
    Error::corruption("corrupted snappy compressed block contents")
}

#[cfg(feature = "zstd")]
struct Zstd(zstd::bulk::Compressor<'static>);

#[cfg(feature = "zstd")]
impl Compressor for Zstd {
    fn id(&self) -> u8 {
        ZSTD
    }

    fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let bound = zstd::zstd_safe::compress_bound(raw.len());
        if out.len() < bound {
            out.resize(bound, 0);
        }
        self.0.compress_to_buffer(raw, out.as_mut_slice()).ok()
    }
}

#[cfg(feature = "zstd")]
fn zstd_compressor(level: i32) -> Result<Box<dyn Compressor>> {
    let codec = zstd::bulk::Compressor::new(level)
        .map_err(|cause| Error::invalid_argument(format!("zstd level {level}: {cause}")))?;
    Ok(Box::new(Zstd(codec)))
}

#[cfg(feature = "zstd")]
thread_local! {
    /// A context takes longer to make than a block to unpack, so each reading thread keeps one.
    static ZSTD_CONTEXT: std::cell::RefCell<Option<zstd::bulk::Decompressor<'static>>> =
        const { std::cell::RefCell::new(None) };
}

#[cfg(feature = "zstd")]
fn decompress_zstd(stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let corrupted = || Error::corruption("corrupted zstd compressed block contents");
    let len = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
    let len = len.and_then(|len| usize::try_from(len).ok()).ok_or_else(corrupted)?;
    if len > bytes_max(ZSTD, stored.len()) {
        let message = format!("zstd block of {} bytes claims to hold {len}", stored.len());
        return Err(Error::corruption(message));
    }
    out.resize(len, 0);
    let written = ZSTD_CONTEXT.with_borrow_mut(|kept| {
        let context = match kept {
            Some(context) => context,
            None => kept.insert(zstd::bulk::Decompressor::new().ok()?),
        };
        context.decompress_to_buffer(stored, out.as_mut_slice()).ok()
    });
    if written != Some(len) {
        return Err(corrupted());
    }
    Ok(())
}

#[cfg(not(feature = "zstd"))]
fn without_zstd() -> Error {
    let message = "zstd compressed block, and this build lacks the feature \"zstd\"";
    Error::new(ErrorKind::Incompatible, message)
}

#[cfg(not(feature = "zstd"))]
fn zstd_compressor(_: i32) -> Result<Box<dyn Compressor>> {
    Err(without_zstd())
}

#[cfg(not(feature = "zstd"))]
fn decompress_zstd(_: &[u8], _: &mut Vec<u8>) -> Result<()> {
    Err(without_zstd())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Compression> {
        let mut all = vec![Compression::Snappy];
        if cfg!(feature = "zstd") {
            all.extend([Compression::ZSTD, Compression::Zstd(-5), Compression::Zstd(19)]);
        }
        all
    }

    #[test]
    fn blocks_round_trip_through_reused_memory() {
        for compression in all() {
            let mut codec = compression.compressor().unwrap().unwrap();
            let (mut packed, mut out) = (Vec::new(), b"left over".to_vec());
            for raw in [vec![b'a'; 5000], b"abcabcabc".repeat(30), vec![b'x'; 100]] {
                let len = compress_if_worth(&mut *codec, &raw, &mut packed).unwrap();
                assert!(len < raw.len());
                decompress(codec.id(), &packed[..len], &mut out).unwrap();
                assert_eq!(out, raw);
            }
        }
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        let mut seed = 1u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        })
        .take(4096)
        .collect();
        for compression in all() {
            let mut codec = compression.compressor().unwrap().unwrap();
            assert_eq!(compress_if_worth(&mut *codec, &noise, &mut Vec::new()), None);
            assert_eq!(compress_if_worth(&mut *codec, b"", &mut Vec::new()), None);
        }
    }

    #[test]
    fn false_lengths_allocate_nothing() {
        // Snappy: a varint length of almost 4 GiB before one literal.
        let mut out = Vec::new();
        let error = decompress(SNAPPY, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, b'a'], &mut out);
        assert!(error.unwrap_err().is_corruption());
        // Zstandard: a single segment frame of 2^40 bytes.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0];
        assert!(decompress(ZSTD, &frame, &mut out).is_err());
        assert_eq!(out.capacity(), 0);
    }

    #[test]
    fn unknown_types_are_incompatible_not_corrupt() {
        let error = decompress(4, b"", &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert_eq!(error.message(), "bad block type 4");
    }

    #[test]
    fn garbage_is_corruption() {
        for id in [SNAPPY, ZSTD] {
            for garbage in [&b""[..], b"\x05", b"\x28\xb5\x2f\xfd", &[0xff; 40]] {
                assert!(decompress(id, garbage, &mut Vec::new()).is_err());
            }
        }
    }
}
