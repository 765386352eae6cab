//! Iterators, as users have them.

pub(crate) mod entries;
pub(crate) mod scan;

use std::sync::Arc;

use crate::base::error::Result;
use crate::db::core::Core;
use crate::db::options::ReadOptions;
use crate::db::read::iterator::entries::Entries;
use crate::db::read::iterator::scan::Scan;

/// A position in the database's keys, as of one moment: it does not see later writes.
///
/// A new iterator stands nowhere: seek first. Movement reads blocks as it needs them and never waits for
/// writers. It takes no lock, but for a moment when scans have paid for a merge
/// ([`Options::scan_compaction`](crate::Options::scan_compaction)). It returns an error (`Corruption`, `Io`) if bytes could not be read;
/// the iterator then stands nowhere until the next seek. It keeps the database open and the files it
/// reads on disk. An iterator is used by one thread at a time, and may be sent to another.
///
/// ```
/// # fn main() -> siltstone::Result<()> {
/// # let options = siltstone::Options {
/// #     create_if_missing: true, env: siltstone::Env::memory(), ..Default::default()
/// # };
/// let db = siltstone::Db::open("fruit", options)?;
/// db.put("apple", "red")?;
/// db.put("banana", "yellow")?;
/// let mut iter = db.iter()?;
/// iter.seek("b")?;
/// assert!(iter.valid());
/// assert_eq!((iter.key(), iter.value()), (&b"banana"[..], &b"yellow"[..]));
/// iter.prev()?;
/// assert_eq!(iter.key(), b"apple");
/// # Ok(())
/// # }
/// ```
pub struct DbIterator {
    /// Until it is dropped.
    scan: Option<Box<Scan>>,
}

impl DbIterator {
    pub(crate) fn new(core: &Arc<Core>, options: &ReadOptions) -> Result<Self> {
        core.readers.note();
        Ok(DbIterator { scan: Some(Scan::begin(core, options)?) })
    }

    #[inline(always)]
    fn scan(&self) -> &Scan {
        self.scan.as_ref().expect("it is there until the iterator is dropped")
    }

    #[inline(always)]
    fn scan_mut(&mut self) -> &mut Scan {
        self.scan.as_mut().expect("it is there until the iterator is dropped")
    }

    /// True when on an entry; only then may the other methods but the seeks be called.
    #[inline]
    pub fn valid(&self) -> bool {
        self.scan().valid()
    }

    /// The current key.
    ///
    /// # Panics
    ///
    /// If the iterator is not [`valid`](Self::valid).
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.scan().key()
    }

    /// The current value.
    ///
    /// # Panics
    ///
    /// If the iterator is not [`valid`](Self::valid).
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.scan().value()
    }

    /// Moves to the first key, if there is one.
    #[inline]
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.scan_mut().seek_to_first()
    }

    /// Moves to the last key, if there is one.
    #[inline]
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.scan_mut().seek_to_last()
    }

    /// Moves to the first key that is not less than `target`, if there is one.
    #[inline]
    pub fn seek(&mut self, target: impl AsRef<[u8]>) -> Result<()> {
        self.scan_mut().seek(target.as_ref())
    }

    /// Moves to the next key; past the last one the iterator stands nowhere.
    ///
    /// # Panics
    ///
    /// If the iterator is not [`valid`](Self::valid).
    #[expect(
        clippy::should_implement_trait,
        reason = "LevelDB's name; it moves and yields nothing"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        self.scan_mut().next()
    }

    /// Moves to the key before; before the first one the iterator stands nowhere.
    ///
    /// # Panics
    ///
    /// If the iterator is not [`valid`](Self::valid).
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.scan_mut().prev()
    }

    /// The entries from here on as owned pairs; from the first one if the iterator stands nowhere.
    pub fn entries(mut self) -> Result<Entries> {
        if !self.valid() {
            self.seek_to_first()?;
        }
        Ok(Entries::of(self))
    }
}

impl Drop for DbIterator {
    fn drop(&mut self) {
        if let Some(scan) = self.scan.take() {
            scan.end();
        }
    }
}
