//! A file system that knows what a power cut would leave: the bytes that were synced, under the
//! names that a sync of their folder made durable, and nothing more. It is the meanest disk that
//! keeps the promises of [`FileSystem`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siltstone::{FileLock, FileSystem, Metadata, RandomAccessFile, Result, Site, WritableFile};

/// Wraps another file system, which must be empty.
pub struct PowerFs {
    inner: Arc<dyn FileSystem>,
    disk: Arc<Disk>,
}

#[derive(Default)]
struct Disk(Mutex<State>);

#[derive(Default)]
struct State {
    /// Each file made, with its durable bytes and those written so far.
    files: Vec<File>,
    live: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    /// Folders that the next power cut takes away, whatever was synced inside.
    new_folders: BTreeSet<PathBuf>,
}

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    synced: usize,
}

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PowerFs {
    pub fn new(inner: Arc<dyn FileSystem>) -> Arc<Self> {
        Arc::new(PowerFs { inner, disk: Arc::default() })
    }

    /// Makes all that is there now durable.
    pub fn settle(&self) {
        let mut state = self.disk.state();
        for file in &mut state.files {
            file.synced = file.bytes.len();
        }
        state.durable = state.live.clone();
        state.new_folders.clear();
    }

    /// The files that a power cut now would leave in `dir`.
    pub fn after_power_cut(&self, dir: &Path) -> Vec<(String, Vec<u8>)> {
        let state = self.disk.state();
        let is_kept = dir.ancestors().all(|folder| !state.new_folders.contains(folder));
        let inside = state.durable.iter().filter(|(path, _)| is_kept && path.parent() == Some(dir));
        let left = inside.map(|(path, file)| {
            let file = &state.files[*file];
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, file.bytes[..file.synced].to_vec())
        });
        left.collect()
    }
}

impl FileSystem for PowerFs {
    fn create(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        let inner = self.inner.create(path, site)?;
        let mut state = self.disk.state();
        let file = state.files.len();
        state.files.push(File::default());
        state.live.insert(path.to_owned(), file);
        Ok(Box::new(PowerWriter { inner, file, disk: self.disk.clone() }))
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
        let is_new = |dir: &&Path| self.inner.metadata(dir).is_err();
        let new: Vec<PathBuf> = dir.ancestors().take_while(is_new).map(Path::to_owned).collect();
        self.inner.create_dir(dir, site)?;
        self.disk.state().new_folders.extend(new);
        Ok(())
    }

    fn remove_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.inner.remove_dir(dir, site)?;
        self.disk.state().new_folders.remove(dir);
        Ok(())
    }

    fn remove_file(&self, path: &Path, site: Site) -> Result<()> {
        self.inner.remove_file(path, site)?;
        self.disk.state().live.remove(path);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.inner.rename(from, to, site)?;
        let mut state = self.disk.state();
        if let Some(file) = state.live.remove(from) {
            state.live.insert(to.to_owned(), file);
        }
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.inner.hard_link(from, to, site)?;
        let mut state = self.disk.state();
        if let Some(file) = state.live.get(from).copied() {
            state.live.insert(to.to_owned(), file);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.inner.sync_dir(dir, site)?;
        let mut state = self.disk.state();
        let state = &mut *state;
        state.new_folders.retain(|folder| folder.parent() != Some(dir));
        state.durable.retain(|path, _| path.parent() != Some(dir));
        let inside = state.live.iter().filter(|(path, _)| path.parent() == Some(dir));
        state.durable.extend(inside.map(|(path, file)| (path.clone(), *file)));
        Ok(())
    }

    fn lock(&self, path: &Path, site: Site) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path, site)
    }
}

struct PowerWriter {
    inner: Box<dyn WritableFile>,
    file: usize,
    disk: Arc<Disk>,
}

impl WritableFile for PowerWriter {
    fn append(&mut self, data: &[u8], site: Site) -> Result<()> {
        self.inner.append(data, site)?;
        self.disk.state().files[self.file].bytes.extend_from_slice(data);
        Ok(())
    }

    fn sync(&mut self, site: Site) -> Result<()> {
        self.inner.sync(site)?;
        let mut state = self.disk.state();
        let file = &mut state.files[self.file];
        file.synced = file.bytes.len();
        Ok(())
    }

    fn close(&mut self, site: Site) -> Result<()> {
        self.inner.close(site)
    }
}
