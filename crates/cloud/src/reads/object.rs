//! Which bytes a table is: its object's name, size and checksum, and the key by which caches know it.

use siltstone::{Error, Result};

use crate::home::Home;
use crate::log::record::Table;
use crate::log::state::VersionState;
use crate::table::object_of;

/// A table's object, as the version that names it has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableObject {
    /// Its name in the bucket.
    pub name: String,
    /// All its bytes.
    pub bytes: u64,
    /// Of all of them.
    pub crc32c: u32,
}

impl TableObject {
    /// A table of a version.
    pub fn of(home: &Home, state: &VersionState, table: &Table) -> Self {
        let name = object_of(home, state, table);
        TableObject { name, bytes: table.bytes, crc32c: table.crc32c }
    }

    pub(super) fn key(&self) -> ObjectKey {
        let mut hash = Fnv::default();
        hash.add(self.name.as_bytes());
        hash.add(&self.bytes.to_le_bytes());
        hash.add(&self.crc32c.to_le_bytes());
        ObjectKey(hash.0.to_le_bytes())
    }
}

/// Stands for a name and for what lies under it: should a name be used again after all, by people who put a database back,
/// what is cached of the old table is not taken for the new one's. Of a million tables two have the same with a
/// probability of 10^-27; who chooses names to that end may as well write other tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectKey(pub(super) [u8; 16]);

/// FNV-1a of 128 bits: the same on every machine and in every release.
struct Fnv(u128);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }
}

/// A piece of an object: a part of a fixed size, counted from the object's beginning. The last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExtentBytes(u32);

/// Smaller ones cost more to keep account of than they are worth, larger ones would hold what nobody asked for.
const EXTENT_BYTES: std::ops::RangeInclusive<u32> = (4 << 10)..=(64 << 10);

/// Who keeps nothing needs no account of it, and asks for what he reads: of a table of up to 256 GiB.
const FINEST_BYTES: u32 = 64;

impl ExtentBytes {
    /// Where nothing is kept: a get brings hardly more than is read.
    pub(super) const FINEST: Self = ExtentBytes(FINEST_BYTES);

    pub(super) fn new(bytes: u32) -> Result<Self> {
        if bytes.is_power_of_two() && EXTENT_BYTES.contains(&bytes) {
            return Ok(ExtentBytes(bytes));
        }
        let message = format!("extents of {bytes} bytes: a power of two from 4096 to 65536 fits");
        Err(Error::invalid_argument(message))
    }

    pub(super) fn bytes(self) -> u32 {
        self.0
    }

    /// The extent that holds the byte at `offset`. Objects are no longer than their extents can be counted.
    pub(super) fn at(self, offset: u64) -> u32 {
        u32::try_from(offset / u64::from(self.0)).unwrap_or(u32::MAX)
    }

    /// Where an extent begins.
    pub(super) fn start(self, extent: u32) -> u64 {
        u64::from(extent) * u64::from(self.0)
    }

    /// The extents that bytes lie in.
    pub(super) fn span(self, bytes: &std::ops::Range<u64>) -> std::ops::Range<u32> {
        if bytes.is_empty() {
            return self.at(bytes.start)..self.at(bytes.start);
        }
        self.at(bytes.start)..self.at(bytes.end - 1).saturating_add(1)
    }

    /// The bytes of extents, in an object of so many.
    pub(super) fn bytes_of(
        self,
        extents: &std::ops::Range<u32>,
        object_bytes: u64,
    ) -> std::ops::Range<u64> {
        let end = self.start(extents.end).min(object_bytes);
        self.start(extents.start).min(end)..end
    }

    /// How many an object has; `None` if they cannot be counted.
    pub(super) fn count(self, object_bytes: u64) -> Option<u32> {
        u32::try_from(object_bytes.div_ceil(u64::from(self.0)))
            .ok()
            .filter(|count| *count < u32::MAX)
    }
}

/// Copies as much as both have; returns how much.
pub(super) fn copy_from(from: &[u8], buf: &mut [u8]) -> usize {
    let len = from.len().min(buf.len());
    if let (Some(to), Some(from)) = (buf.get_mut(..len), from.get(..len)) {
        to.copy_from_slice(from);
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_names_sizes_and_contents_apart() {
        let object =
            |name: &str, bytes, crc32c| TableObject { name: name.to_owned(), bytes, crc32c }.key();
        let keys = [object("a", 1, 2), object("b", 1, 2), object("a", 2, 2), object("a", 1, 3)];
        for (at, key) in keys.iter().enumerate() {
            assert!(keys[..at].iter().all(|other| other != key));
        }
        // They lie on disks: they must not change.
        let golden = 0x3473_6d3e_c29f_4ed7_u64;
        let found = u64::from_le_bytes(keys[0].0[..8].try_into().unwrap());
        assert_eq!(found, golden, "{found:#x}");
    }

    #[test]
    fn extents_cover_what_is_asked_for() {
        let extents = ExtentBytes::new(4096).unwrap();
        assert_eq!(extents.span(&(0..1)), 0..1);
        assert_eq!(extents.span(&(4095..4097)), 0..2);
        assert_eq!(extents.span(&(4096..8192)), 1..2);
        assert_eq!(extents.bytes_of(&(1..3), 10_000), 4096..10_000);
        assert_eq!(extents.bytes_of(&(5..6), 10_000), 10_000..10_000);
        assert_eq!((extents.count(8192), extents.count(8193)), (Some(2), Some(3)));
        assert_eq!(extents.count(u64::MAX), None);
        for bytes in [0, 2048, 5000, 128 << 10] {
            assert!(ExtentBytes::new(bytes).is_err(), "{bytes}");
        }
    }
}
