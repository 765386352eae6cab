//! A file system that tells somebody of every call that changes the disk, after it was done.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use siltstone::{FileLock, FileSystem, Metadata, RandomAccessFile, Result, Site, WritableFile};

/// Told of a call: from where, on which file or folder, and the bytes of an append.
pub trait Watcher: Send + Sync {
    fn done(&self, site: Site, path: &Path, data: &[u8]);
}

/// Wraps another file system.
pub struct WatchFs {
    inner: Arc<dyn FileSystem>,
    watcher: Arc<dyn Watcher>,
}

impl WatchFs {
    pub fn new(inner: Arc<dyn FileSystem>, watcher: Arc<dyn Watcher>) -> Arc<Self> {
        Arc::new(WatchFs { inner, watcher })
    }

    fn tell<T>(&self, site: Site, path: &Path, done: T) -> T {
        self.watcher.done(site, path, &[]);
        done
    }
}

impl WatchFs {
    fn writer(
        &self,
        site: Site,
        path: &Path,
        created: Result<Box<dyn WritableFile>>,
    ) -> Result<Box<dyn WritableFile>> {
        let inner = self.tell(site, path, created)?;
        let watcher = Arc::clone(&self.watcher);
        Ok(Box::new(WatchedWriter { inner, watcher, path: path.to_owned() }))
    }
}

impl FileSystem for WatchFs {
    fn create(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        self.writer(site, path, self.inner.create(path, site))
    }

    fn create_log(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        self.writer(site, path, self.inner.create_log(path, site))
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
        self.tell(site, dir, self.inner.create_dir(dir, site))
    }

    fn remove_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.tell(site, dir, self.inner.remove_dir(dir, site))
    }

    fn remove_file(&self, path: &Path, site: Site) -> Result<()> {
        self.tell(site, path, self.inner.remove_file(path, site))
    }

    fn rename(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.tell(site, to, self.inner.rename(from, to, site))
    }

    fn hard_link(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.tell(site, to, self.inner.hard_link(from, to, site))
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.tell(site, dir, self.inner.sync_dir(dir, site))
    }

    fn lock(&self, path: &Path, site: Site) -> Result<Box<dyn FileLock>> {
        self.tell(site, path, self.inner.lock(path, site))
    }
}

struct WatchedWriter {
    inner: Box<dyn WritableFile>,
    watcher: Arc<dyn Watcher>,
    path: PathBuf,
}

impl WritableFile for WatchedWriter {
    fn append(&mut self, data: &[u8], site: Site) -> Result<()> {
        let appended = self.inner.append(data, site);
        self.watcher.done(site, &self.path, data);
        appended
    }

    fn sync(&mut self, site: Site) -> Result<()> {
        let synced = self.inner.sync(site);
        self.watcher.done(site, &self.path, &[]);
        synced
    }

    fn expect_appends(&mut self, bytes: u64) {
        self.inner.expect_appends(bytes);
    }

    fn get_ahead(&mut self, bytes: u64) -> bool {
        self.inner.get_ahead(bytes)
    }

    fn end_appends(&mut self) -> Option<Box<dyn Send>> {
        self.inner.end_appends()
    }

    fn expect_removal(&mut self) {
        self.inner.expect_removal();
    }

    fn close(&mut self, site: Site) -> Result<()> {
        let closed = self.inner.close(site);
        self.watcher.done(site, &self.path, &[]);
        closed
    }
}
