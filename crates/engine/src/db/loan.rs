//! What a database has borrowed of its block cache: memory that write buffers take while they wait, and that no budget of its own
//! is there for.

use std::sync::Arc;

use crate::base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::format::table::cache::Cache;

/// Beside a write buffer of eight eighths these are its hash table, what its flush takes, and what tables of level 0 take that are open.
const EIGHTHS: usize = 11;

/// Given back when it is dropped, and not before: most of the memory of a memtable that is gone is kept for the next.
pub(crate) struct Loan {
    cache: Arc<dyn Cache>,
    bytes: AtomicU64,
}

impl Loan {
    pub(crate) fn new(cache: Arc<dyn Cache>) -> Self {
        Loan { cache, bytes: AtomicU64::new(0) }
    }

    /// So many write buffers wait now. Called by one thread at a time.
    pub(crate) fn need_for(&self, waiting: usize, write_buffer_bytes: usize) {
        let bytes = (waiting * (write_buffer_bytes / 8 * EIGHTHS)) as u64;
        let has = self.bytes.load(Relaxed);
        if bytes > has {
            self.bytes.store(bytes, Relaxed);
            self.cache.lend(bytes - has);
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.cache.take_back(self.bytes.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::handle::Db;
    use crate::db::options::{Background, Options};
    use crate::env::Env;
    use crate::store::block_cache::BlockCache;

    #[test]
    fn a_database_borrows_what_waits_to_be_flushed_until_it_closes() {
        let cache = Arc::new(BlockCache::new(16 << 20));
        let options = Options {
            create_if_missing: true,
            env: Env::memory(),
            block_cache: Some(Arc::clone(&cache) as Arc<dyn Cache>),
            write_buffer_size: 64 << 10,
            background: Background::ByHand,
            unclamped: true,
            ..Options::default()
        };
        let db = Db::open("db", options).unwrap();
        assert_eq!(cache.lent(), 0);
        for round in 0..20 {
            db.put("k", vec![round; 30 << 10]).unwrap();
        }
        let lent = cache.lent();
        let each = (64 << 10) / 8 * EIGHTHS as u64;
        assert!(lent == each || lent == 2 * each, "{lent}");
        db.flush().unwrap();
        assert_eq!(cache.lent(), lent, "the memory is kept");
        drop(db);
        assert_eq!(cache.lent(), 0);
    }
}
