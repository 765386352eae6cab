//! The file system over a [`Disk`]: checks each call, does it, and writes it down.

use std::collections::HashSet;
use std::hash::Hasher;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siltstone::{
    Error, ErrorKind, FileLock, FileSystem, Metadata, RandomAccessFile, Result, Site, WritableFile,
};

use super::{Disk, FileId, Node, Step};
use crate::crash::mutant::{Mutant, Treatment};
use crate::hash::Mixer;

/// One call that changed the disk.
#[derive(Clone, Debug)]
pub struct Entry {
    pub site: Site,
    pub step: Step,
    /// A creation that emptied a file that was there.
    pub replaced: bool,
}

/// Files on a [`Disk`], with a journal of all calls that changed it.
#[derive(Clone)]
pub struct StrictFs(Arc<Mutex<State>>);

struct State {
    disk: Disk,
    journal: Vec<Entry>,
    locked: HashSet<FileId>,
    mutant: Option<Mutant>,
    /// Syncs that a mutant holds back until the call that relies on them is done.
    held_back: Vec<Entry>,
}

impl StrictFs {
    pub fn new(disk: Disk) -> Self {
        StrictFs::with_mutant(disk, None)
    }

    /// A file system that does not do all that it says.
    pub fn with_mutant(disk: Disk, mutant: Option<Mutant>) -> Self {
        StrictFs(Arc::new(Mutex::new(State {
            disk,
            journal: Vec::new(),
            locked: HashSet::new(),
            mutant,
            held_back: Vec::new(),
        })))
    }

    /// Calls so far.
    pub fn position(&self) -> usize {
        self.state().journal.len()
    }

    /// The calls so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.state().journal.clone()
    }

    pub fn take_journal(&self) -> Vec<Entry> {
        std::mem::take(&mut self.state().journal)
    }

    /// The disk as it is now.
    pub fn disk(&self) -> Disk {
        self.state().disk.clone()
    }

    /// A hash of all calls so far: the same run has the same.
    pub fn trace_hash(&self) -> u64 {
        let mut mixer = Mixer::default();
        for entry in &self.state().journal {
            mixer.write(entry.site.name().as_bytes());
            mixer.write(format!("{:?}", entry.step).as_bytes());
        }
        mixer.finish()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn call(&mut self, site: Site, step: Step, replaced: bool) {
        let entry = Entry { site, step, replaced };
        let Some(mutant) = self.mutant else { return self.enter(entry) };
        match mutant.treats(&entry) {
            Treatment::Done => self.enter(entry),
            Treatment::LeftOut => self.enter(Entry { step: Step::Nothing, ..entry }),
            Treatment::HeldBack => self.held_back.push(entry),
        }
        if mutant.releases_after(site) {
            let due = std::mem::take(&mut self.held_back);
            due.into_iter().for_each(|entry| self.enter(entry));
        }
    }

    fn enter(&mut self, entry: Entry) {
        self.disk.apply(&entry.step);
        self.journal.push(entry);
    }

    fn node(&self, path: &Path) -> Option<Node> {
        if path.parent().is_none() { Some(Node::Folder) } else { self.disk.live.get(path).copied() }
    }

    fn file(&self, path: &Path) -> std::result::Result<FileId, io::ErrorKind> {
        match self.node(path) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Folder) => Err(io::ErrorKind::IsADirectory),
            None => Err(io::ErrorKind::NotFound),
        }
    }

    /// Whether a name may be put there.
    fn place(&self, path: &Path) -> std::result::Result<(), io::ErrorKind> {
        match path.parent().map(|parent| self.node(parent)) {
            Some(Some(Node::Folder)) => Ok(()),
            Some(Some(Node::File(_))) => Err(io::ErrorKind::NotADirectory),
            Some(None) => Err(io::ErrorKind::NotFound),
            None => Err(io::ErrorKind::IsADirectory),
        }
    }

    /// A file that is there, or a new one.
    fn create(&mut self, path: PathBuf, site: Site) -> std::result::Result<FileId, io::ErrorKind> {
        self.place(&path)?;
        let found = self.node(&path);
        if found == Some(Node::Folder) {
            return Err(io::ErrorKind::IsADirectory);
        }
        self.call(site, Step::Create { path: path.clone() }, found.is_some());
        self.file(&path)
    }
}

fn normal(path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
    Path::new("/").join(parts.collect::<PathBuf>())
}

fn failed(action: &str, path: &Path) -> impl FnOnce(io::ErrorKind) -> Error {
    move |kind| Error::io(action, path, kind.into())
}

impl FileSystem for StrictFs {
    fn create(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        let file = self.state().create(normal(path), site).map_err(failed("create", path))?;
        Ok(Box::new(Writer { fs: self.clone(), file, is_log: false }))
    }

    fn create_log(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        let file = self.state().create(normal(path), site).map_err(failed("create", path))?;
        Ok(Box::new(Writer { fs: self.clone(), file, is_log: true }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let state = self.state();
        let file = state.file(&normal(path)).map_err(failed("open", path))?;
        let len = state.disk.files[file].live.len() as u64;
        drop(state);
        Ok(Arc::new(Reader { fs: self.clone(), file, len, path: path.to_owned() }))
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        let state = self.state();
        match state.node(&normal(path)) {
            Some(Node::Folder) => Ok(Metadata { len: 0, is_dir: true }),
            Some(Node::File(file)) => {
                Ok(Metadata { len: state.disk.files[file].live.len() as u64, is_dir: false })
            }
            None => Err(failed("stat", path)(io::ErrorKind::NotFound)),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let state = self.state();
        let folder = normal(dir);
        match state.node(&folder) {
            Some(Node::Folder) => {}
            Some(Node::File(_)) => return Err(failed("list", dir)(io::ErrorKind::NotADirectory)),
            None => return Err(failed("list", dir)(io::ErrorKind::NotFound)),
        }
        let inside = state.disk.live.keys().filter(|path| path.parent() == Some(&folder));
        let names = inside.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        Ok(names.collect())
    }

    fn create_dir(&self, dir: &Path, site: Site) -> Result<()> {
        let mut state = self.state();
        let path = normal(dir);
        let mut missing = Vec::new();
        for folder in path.ancestors() {
            match state.node(folder) {
                Some(Node::Folder) => break,
                Some(Node::File(_)) => {
                    return Err(failed("create folder", dir)(io::ErrorKind::AlreadyExists));
                }
                None => missing.push(folder.to_owned()),
            }
        }
        for path in missing.into_iter().rev() {
            state.call(site, Step::MakeFolder { path }, false);
        }
        Ok(())
    }

    fn remove_dir(&self, dir: &Path, site: Site) -> Result<()> {
        let mut state = self.state();
        let path = normal(dir);
        let full = state.disk.live.keys().any(|inside| inside.parent() == Some(&path));
        let cause = match state.node(&path) {
            Some(Node::Folder) if full => io::ErrorKind::DirectoryNotEmpty,
            Some(Node::Folder) => {
                state.call(site, Step::RemoveFolder { path }, false);
                return Ok(());
            }
            Some(Node::File(_)) => io::ErrorKind::NotADirectory,
            None => io::ErrorKind::NotFound,
        };
        Err(failed("remove folder", dir)(cause))
    }

    fn remove_file(&self, path: &Path, site: Site) -> Result<()> {
        let mut state = self.state();
        let name = normal(path);
        state.file(&name).map_err(failed("remove", path))?;
        state.call(site, Step::Remove { path: name }, false);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        let mut state = self.state();
        let (old, new) = (normal(from), normal(to));
        state.file(&old).map_err(failed("rename", from))?;
        state.place(&new).map_err(failed("rename", to))?;
        state.call(site, Step::Rename { from: old, to: new }, false);
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        let mut state = self.state();
        let (old, new) = (normal(from), normal(to));
        state.file(&old).map_err(failed("link", from))?;
        state.place(&new).map_err(failed("link", to))?;
        if state.node(&new).is_some() {
            return Err(failed("link", to)(io::ErrorKind::AlreadyExists));
        }
        state.call(site, Step::Link { from: old, to: new }, false);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        let mut state = self.state();
        let path = normal(dir);
        match state.node(&path) {
            Some(Node::Folder) => {
                state.call(site, Step::SyncFolder { path }, false);
                Ok(())
            }
            Some(Node::File(_)) => Err(failed("sync", dir)(io::ErrorKind::NotADirectory)),
            None => Err(failed("sync", dir)(io::ErrorKind::NotFound)),
        }
    }

    fn lock(&self, path: &Path, site: Site) -> Result<Box<dyn FileLock>> {
        let mut state = self.state();
        let name = normal(path);
        let found = state.file(&name);
        let file = match found {
            Err(io::ErrorKind::NotFound) => state.create(name, site),
            found => found,
        };
        let file = file.map_err(failed("lock", path))?;
        if !state.locked.insert(file) {
            return Err(Error::new(ErrorKind::Locked, "already held").in_file(path));
        }
        drop(state);
        Ok(Box::new(Lock { fs: self.clone(), file }))
    }
}

struct Lock {
    fs: StrictFs,
    file: FileId,
}

impl FileLock for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        self.fs.state().locked.remove(&self.file);
    }
}

struct Writer {
    fs: StrictFs,
    file: FileId,
    is_log: bool,
}

impl WritableFile for Writer {
    fn append(&mut self, data: &[u8], site: Site) -> Result<()> {
        let (file, data) = (self.file, data.into());
        let step = match self.is_log {
            true => Step::AppendToLog { file, data },
            false => Step::Append { file, data },
        };
        self.fs.state().call(site, step, false);
        Ok(())
    }

    fn sync(&mut self, site: Site) -> Result<()> {
        self.fs.state().call(site, Step::SyncFile { file: self.file }, false);
        Ok(())
    }

    fn close(&mut self, site: Site) -> Result<()> {
        let step = match self.is_log {
            true => Step::TrimLog { file: self.file },
            false => Step::Nothing,
        };
        self.fs.state().call(site, step, false);
        Ok(())
    }
}

struct Reader {
    fs: StrictFs,
    file: FileId,
    len: u64,
    path: PathBuf,
}

impl RandomAccessFile for Reader {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let bytes = Arc::clone(&self.fs.state().disk.files[self.file].live);
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
        let rest = rest.unwrap_or_default();
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
