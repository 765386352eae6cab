//! Tables in memory files, on a file system that notes every call and fails the one it is told to.

use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::key::InternalKey;
use crate::base::sync::{Mutex, Rank};
use crate::env::Env;
use crate::env::fs::{FileLock, FileSystem, Metadata, RandomAccessFile, WritableFile};
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};
use crate::format::table::compress::Compression;
use crate::format::table::{ReadSettings, TableBuilder, TableSettings};
use crate::store::TableStore;
use crate::store::block_cache::BlockCache;
use crate::store::local::LocalStore;
use crate::store::table_cache::TableCache;
use crate::version::table_meta::TableMeta;
use crate::version::testing::{order, sized};

pub(crate) const DIR: &str = "db";

/// A table store with its cache.
pub(crate) struct Shelf {
    pub(crate) spy: Arc<Spy>,
    pub(crate) store: Arc<dyn TableStore>,
    pub(crate) cache: Arc<TableCache>,
    pub(crate) settings: TableSettings,
}

impl Shelf {
    pub(crate) fn new() -> Self {
        let (fs, spy) = spied();
        let store: Arc<dyn TableStore> = Arc::new(LocalStore::new(fs, Path::new(DIR)));
        let settings = TableSettings {
            order: order(),
            block_bytes: 256,
            restart_interval: 4,
            compression: Compression::None,
            filter: None,
        };
        let blocks = Arc::new(BlockCache::new(1 << 20));
        let read = ReadSettings { order: order(), filter: None, check_places: true };
        let cache = Arc::new(TableCache::new(Arc::clone(&store), read, blocks, 100));
        Shelf { spy, store, cache, settings }
    }

    /// Writes a table of these entries, which must ascend.
    pub(crate) fn table(&self, number: u64, entries: &[(InternalKey, String)]) -> Arc<TableMeta> {
        let file = self.store.create(FileNumber(number)).unwrap();
        let mut builder = TableBuilder::new(file, FileNumber(number), self.settings.clone());
        for (key, value) in entries {
            builder.add(key.as_bytes(), value.as_bytes()).unwrap();
        }
        let built = builder.finish().unwrap();
        sized(number, built.bytes, (built.smallest, built.largest))
    }

    /// Takes a table's file away behind the engine's back.
    pub(crate) fn lose(&self, number: u64) {
        self.cache.evict(FileNumber(number));
        self.store.remove(FileNumber(number)).unwrap();
    }

    pub(crate) fn stored(&self) -> Vec<u64> {
        self.store.list().unwrap().into_iter().map(|number| number.0).collect()
    }
}

/// An empty database folder in memory.
pub(crate) fn spied() -> (Arc<dyn FileSystem>, Arc<Spy>) {
    let inner = Env::memory().file_system;
    inner.create_dir(Path::new(DIR), Site::DbDirCreate).unwrap();
    let spy = Arc::new(Spy(Mutex::new(Rank::Leaf, Notes::default())));
    (Arc::new(SpyFs { inner, spy: Arc::clone(&spy) }), spy)
}

/// Puts a file in the database folder.
pub(crate) fn put_file(fs: &dyn FileSystem, name: FileName, bytes: &[u8]) {
    let mut file = fs.create(&name.in_dir(Path::new(DIR)), Site::InfoLogCreate).unwrap();
    file.append(bytes, Site::InfoLogAppend).unwrap();
    file.close(Site::InfoLogClose).unwrap();
}

/// What happened, and what is to fail.
pub(crate) struct Spy(Mutex<Notes>);

#[derive(Default)]
struct Notes {
    calls: Vec<&'static str>,
    /// A site, and the number of its calls that still succeed.
    fails: Option<(Site, usize)>,
}

impl Spy {
    /// The calls since the last time this was asked.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().calls)
    }

    /// Makes every call of `site` fail after so many more.
    pub(crate) fn fail_after(&self, site: Site, calls: usize) {
        self.0.lock().fails = Some((site, calls));
    }

    pub(crate) fn heal(&self) {
        self.0.lock().fails = None;
    }

    fn note(&self, site: Site) -> Result<()> {
        let mut notes = self.0.lock();
        notes.calls.push(site.name());
        match &mut notes.fails {
            Some((failing, 0)) if *failing == site => {
                let cause = std::io::Error::other("on purpose");
                Err(Error::io(site.name(), Path::new(DIR), cause))
            }
            Some((failing, calls)) if *failing == site => {
                *calls -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

struct SpyFs {
    inner: Arc<dyn FileSystem>,
    spy: Arc<Spy>,
}

impl FileSystem for SpyFs {
    fn create(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        self.spy.note(site)?;
        let inner = self.inner.create(path, site)?;
        Ok(Box::new(SpyFile { inner, spy: Arc::clone(&self.spy) }))
    }
    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.open(path)
    }
    fn metadata(&self, path: &Path) -> Result<Metadata> {
        self.inner.metadata(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.spy.note(site)?;
        self.inner.create_dir(dir, site)
    }
    fn remove_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.spy.note(site)?;
        self.inner.remove_dir(dir, site)
    }
    fn remove_file(&self, path: &Path, site: Site) -> Result<()> {
        self.spy.note(site)?;
        self.inner.remove_file(path, site)
    }
    fn rename(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.spy.note(site)?;
        self.inner.rename(from, to, site)
    }
    fn hard_link(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.spy.note(site)?;
        self.inner.hard_link(from, to, site)
    }
    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.spy.note(site)?;
        self.inner.sync_dir(dir, site)
    }
    fn lock(&self, path: &Path, site: Site) -> Result<Box<dyn FileLock>> {
        self.spy.note(site)?;
        self.inner.lock(path, site)
    }
}

struct SpyFile {
    inner: Box<dyn WritableFile>,
    spy: Arc<Spy>,
}

impl WritableFile for SpyFile {
    fn append(&mut self, data: &[u8], site: Site) -> Result<()> {
        self.spy.note(site)?;
        self.inner.append(data, site)
    }
    fn sync(&mut self, site: Site) -> Result<()> {
        self.spy.note(site)?;
        self.inner.sync(site)
    }
    fn close(&mut self, site: Site) -> Result<()> {
        self.spy.note(site)?;
        self.inner.close(site)
    }
}
