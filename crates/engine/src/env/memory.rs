//! Files in memory: for tests, caches and whatever need not outlive the process. Made by
//! [`Env::memory`](crate::Env::memory).
//!
//! Paths are taken apart by name alone: `db`, `./db` and `/db` are the same, and the root folder
//! is always there. There are no symbolic links. Syncs have nothing to do.
//!
//! **Concurrency.** The tree of names has one lock and each file's content another, both leaves:
//! no call holds two at a time.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::{Mutex, Rank};
use crate::env::fs::{FileLock, FileSystem, Metadata, RandomAccessFile, WritableFile};
use crate::env::site::Site;

/// A file system of its own, gone with the value and what was opened from it.
pub(crate) struct MemoryFileSystem {
    tree: Mutex<Tree>,
}

/// Every name but the root's, by its path from the root. Paths are kept as bytes: comparing them part
/// by part would take a good share of a short run.
#[derive(Default)]
struct Tree {
    nodes: BTreeMap<OsString, Node>,
}

#[derive(Clone)]
enum Node {
    Folder,
    File(Arc<MemoryFile>),
}

/// A file, which may have several names or none.
struct MemoryFile {
    content: Mutex<Content>,
}

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    locked: bool,
}

impl MemoryFileSystem {
    pub(crate) fn new() -> Self {
        MemoryFileSystem { tree: Mutex::new(Rank::Leaf, Tree::default()) }
    }
}

impl FileSystem for MemoryFileSystem {
    fn create(&self, path: &Path, _: Site) -> Result<Box<dyn WritableFile>> {
        // A new file in the old one's place, so that readers of the old one keep its bytes.
        let file = MemoryFile::new();
        let placed = self.tree.lock().place(&normal(path), file.clone());
        placed.map_err(|kind| failed("create", path, kind))?;
        Ok(Box::new(MemoryWriter { file: Some(file) }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let found = self.tree.lock().file(&normal(path));
        let file = found.map_err(|kind| failed("open", path, kind))?;
        let len = file.len();
        let is_kept = AtomicBool::new(false);
        Ok(Arc::new(MemoryReader { file, len, path: path.to_owned(), is_kept }))
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        let found = self.tree.lock().node(&normal(path));
        match found.map_err(|kind| failed("stat", path, kind))? {
            Node::Folder => Ok(Metadata { len: 0, is_dir: true }),
            Node::File(file) => Ok(Metadata { len: file.len(), is_dir: false }),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let listed = self.tree.lock().list(&normal(dir));
        listed.map_err(|kind| failed("list", dir, kind))
    }

    fn create_dir(&self, dir: &Path, _: Site) -> Result<()> {
        let made = self.tree.lock().create_dir(&normal(dir));
        made.map_err(|kind| failed("create folder", dir, kind))
    }

    fn remove_dir(&self, dir: &Path, _: Site) -> Result<()> {
        let removed = self.tree.lock().remove_dir(&normal(dir));
        removed.map_err(|kind| failed("remove folder", dir, kind))
    }

    fn remove_file(&self, path: &Path, _: Site) -> Result<()> {
        let removed = self.tree.lock().take(&normal(path));
        removed.map(drop).map_err(|kind| failed("remove", path, kind))
    }

    fn rename(&self, from: &Path, to: &Path, _: Site) -> Result<()> {
        let renamed = self.tree.lock().rename(&normal(from), &normal(to));
        renamed.map_err(|kind| failed(&format!("rename to {}", to.display()), from, kind))
    }

    fn hard_link(&self, from: &Path, to: &Path, _: Site) -> Result<()> {
        let linked = self.tree.lock().hard_link(&normal(from), &normal(to));
        linked.map_err(|kind| failed(&format!("link to {}", to.display()), from, kind))
    }

    fn sync_dir(&self, dir: &Path, _: Site) -> Result<()> {
        let found = self.tree.lock().folder(&normal(dir));
        found.map_err(|kind| failed("sync folder", dir, kind))
    }

    fn lock(&self, path: &Path, _: Site) -> Result<Box<dyn FileLock>> {
        let found = self.tree.lock().file_or_new(&normal(path));
        let file = found.map_err(|kind| failed("lock", path, kind))?;
        if std::mem::replace(&mut file.content.lock().locked, true) {
            let message = format!("lock {}: already held by process", path.display());
            return Err(Error::new(ErrorKind::Locked, message));
        }
        Ok(Box::new(MemoryLock(file)))
    }
}

/// The path from the root, without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    normal
}

fn failed(action: &str, path: &Path, kind: io::ErrorKind) -> Error {
    Error::io(action, path, kind.into())
}

/// What a call on the tree gives, or why the operating system would have refused it.
type Answer<T> = std::result::Result<T, io::ErrorKind>;

impl Tree {
    fn node(&self, path: &Path) -> Answer<Node> {
        if path.as_os_str().is_empty() {
            return Ok(Node::Folder);
        }
        if let Some(node) = self.nodes.get(path.as_os_str()) {
            return Ok(node.clone());
        }
        self.parent(path)?;
        Err(io::ErrorKind::NotFound)
    }

    fn file(&self, path: &Path) -> Answer<Arc<MemoryFile>> {
        match self.node(path)? {
            Node::File(file) => Ok(file),
            Node::Folder => Err(io::ErrorKind::IsADirectory),
        }
    }

    fn folder(&self, path: &Path) -> Answer<()> {
        match self.node(path)? {
            Node::Folder => Ok(()),
            Node::File(_) => Err(io::ErrorKind::NotADirectory),
        }
    }

    /// Checks that the folder for `path` is there.
    fn parent(&self, path: &Path) -> Answer<()> {
        path.parent().map_or(Ok(()), |parent| self.folder(parent))
    }

    /// Gives `file` the name `path`, taking it from the file that had it.
    fn place(&mut self, path: &Path, file: Arc<MemoryFile>) -> Answer<()> {
        match self.node(path) {
            Ok(Node::Folder) => return Err(io::ErrorKind::IsADirectory),
            Ok(Node::File(_)) => {}
            Err(_) => self.parent(path)?,
        }
        self.nodes.insert(path.into(), Node::File(file));
        Ok(())
    }

    /// Takes the file's name `path` away.
    fn take(&mut self, path: &Path) -> Answer<Arc<MemoryFile>> {
        let file = self.file(path)?;
        self.nodes.remove(path.as_os_str());
        Ok(file)
    }

    fn file_or_new(&mut self, path: &Path) -> Answer<Arc<MemoryFile>> {
        match self.file(path) {
            Err(io::ErrorKind::NotFound) => {
                let file = MemoryFile::new();
                self.place(path, file.clone())?;
                Ok(file)
            }
            found => found,
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Answer<()> {
        let file = self.file(from)?;
        self.place(to, file)?;
        if from != to {
            self.nodes.remove(from.as_os_str());
        }
        Ok(())
    }

    fn hard_link(&mut self, from: &Path, to: &Path) -> Answer<()> {
        let file = self.file(from)?;
        if self.node(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists);
        }
        self.place(to, file)
    }

    fn list(&self, dir: &Path) -> Answer<Vec<String>> {
        self.folder(dir)?;
        let children = self.below(dir).filter(|path| path.parent() == Some(dir));
        let names = children.filter_map(|path| path.file_name()?.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    fn create_dir(&mut self, dir: &Path) -> Answer<()> {
        let missing: Vec<&Path> =
            dir.ancestors().take_while(|dir| self.folder(dir).is_err()).collect();
        for dir in missing.into_iter().rev() {
            if self.node(dir).is_ok() {
                return Err(io::ErrorKind::AlreadyExists);
            }
            self.parent(dir)?;
            self.nodes.insert(dir.into(), Node::Folder);
        }
        Ok(())
    }

    fn remove_dir(&mut self, dir: &Path) -> Answer<()> {
        self.folder(dir)?;
        if self.below(dir).next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty);
        }
        // The root has no entry to remove.
        self.nodes.remove(dir.as_os_str()).map(drop).ok_or(io::ErrorKind::ResourceBusy)
    }

    /// Everything below `dir`, children's children included.
    fn below(&self, dir: &Path) -> impl Iterator<Item = &Path> {
        // What begins so stands in one piece. The root's path is empty.
        let mut start = dir.as_os_str().to_owned();
        if !start.is_empty() {
            start.push("/");
        }
        let behind = (Bound::Included(start.as_os_str()), Bound::Unbounded);
        let paths = self.nodes.range::<OsStr, _>(behind).map(|(path, _)| path);
        let inside =
            move |path: &&OsString| path.as_encoded_bytes().starts_with(start.as_encoded_bytes());
        paths.take_while(inside).map(Path::new)
    }
}

impl MemoryFile {
    fn new() -> Arc<Self> {
        Arc::new(MemoryFile { content: Mutex::new(Rank::Leaf, Content::default()) })
    }

    fn len(&self) -> u64 {
        self.content.lock().bytes.len() as u64
    }
}

struct MemoryWriter {
    /// `None` once closed.
    file: Option<Arc<MemoryFile>>,
}

impl WritableFile for MemoryWriter {
    fn append(&mut self, data: &[u8], _: Site) -> Result<()> {
        let file = self.file.as_ref().expect("no call follows close");
        file.content.lock().bytes.extend_from_slice(data);
        Ok(())
    }

    fn sync(&mut self, _: Site) -> Result<()> {
        assert!(self.file.is_some(), "no call follows close");
        Ok(())
    }

    fn close(&mut self, _: Site) -> Result<()> {
        self.file = None;
        Ok(())
    }
}

struct MemoryReader {
    file: Arc<MemoryFile>,
    len: u64,
    path: PathBuf,
    /// As it was asked for: it makes no difference here, but may to who asks.
    is_kept: AtomicBool,
}

impl RandomAccessFile for MemoryReader {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let content = self.file.content.lock();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = content.bytes.get(start..).unwrap_or_default();
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn keep_in_memory(&self) -> bool {
        self.is_kept.store(true, Relaxed);
        true
    }

    fn let_go(&self) {
        self.is_kept.store(false, Relaxed);
    }

    fn is_in_memory(&self) -> bool {
        self.is_kept.load(Relaxed)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

struct MemoryLock(Arc<MemoryFile>);

impl FileLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.content.lock().locked = false;
    }
}
