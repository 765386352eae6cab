//! The file system that the engine gets when its log is archived, or its owner has a lease: the same files, and each log's
//! appends counted, and acknowledged by leave.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use siltstone::{FileLock, FileSystem, Metadata, RandomAccessFile, Result, Site, WritableFile};

use super::ship::{Archive, Wait};
use crate::tiered::lease::Gate;

pub(crate) struct LogFiles {
    pub(crate) inner: Arc<dyn FileSystem>,
    pub(crate) archive: Option<Arc<Archive>>,
    pub(crate) gate: Option<Arc<Gate>>,
}

impl LogFiles {
    fn watch(&self, path: &Path, file: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        let archived = self.archive.as_ref().map(|archive| {
            let (stream, appended) = archive.change(|progress| progress.begin(path));
            ArchivedLog { archive: Arc::clone(archive), stream, appended }
        });
        Box::new(WatchedLog { inner: file, archived, gate: self.gate.clone() })
    }
}

impl FileSystem for LogFiles {
    fn create(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        let file = self.inner.create(path, site)?;
        Ok(if site == Site::WalCreate { self.watch(path, file) } else { file })
    }

    fn create_log(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        let file = self.inner.create_log(path, site)?;
        Ok(self.watch(path, file))
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
        self.inner.create_dir(dir, site)
    }

    fn remove_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.inner.remove_dir(dir, site)
    }

    fn remove_file(&self, path: &Path, site: Site) -> Result<()> {
        let waits = |archive: &Arc<Archive>| archive.change(|progress| progress.remove(path));
        match self.archive.as_ref().is_some_and(waits) {
            true => Ok(()),
            false => self.inner.remove_file(path, site),
        }
    }

    fn rename(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.inner.rename(from, to, site)?;
        if let Some(archive) = &self.archive {
            archive.change(|progress| progress.rename(from, to));
        }
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.inner.hard_link(from, to, site)
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.inner.sync_dir(dir, site)
    }

    fn lock(&self, path: &Path, site: Site) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path, site)
    }
}

/// A log whose bytes go to the bucket as well.
struct ArchivedLog {
    archive: Arc<Archive>,
    stream: u64,
    appended: Arc<AtomicU64>,
}

struct WatchedLog {
    inner: Box<dyn WritableFile>,
    archived: Option<ArchivedLog>,
    gate: Option<Arc<Gate>>,
}

impl WatchedLog {
    /// Behind what is to be acknowledged.
    fn pass(&self) -> Result<()> {
        self.gate.as_ref().map_or(Ok(()), |gate| gate.pass())
    }
}

impl WritableFile for WatchedLog {
    fn append(&mut self, data: &[u8], site: Site) -> Result<()> {
        self.inner.append(data, site)?;
        if let Some(log) = &self.archived {
            log.appended.fetch_add(data.len() as u64, SeqCst);
            log.archive.wake();
        }
        self.pass()
    }

    fn sync(&mut self, site: Site) -> Result<()> {
        // The disk and the bucket at the same time: what is in one of them only was acknowledged to nobody.
        let log = self.archived.as_ref();
        let wait = log.and_then(|log| log.archive.hurry(log.stream, log.appended.load(SeqCst)));
        self.inner.sync(site)?;
        wait.map_or(Ok(()), Wait::done)?;
        self.pass()
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
        self.inner.close(site)
    }
}
