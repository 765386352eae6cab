//! A disk that promises as little as a disk may: a successful sync of a file keeps its bytes, a
//! successful sync of a folder keeps its names, and of everything else any part may survive a power
//! cut, in any order, torn anywhere.
//!
//! [`Disk`] is the state; [`StrictFs`] puts a file system over it and writes down every change, so
//! that the run can be replayed to any point; [`Cut`] decides what a power cut at such a point leaves.

mod cut;
mod strict_fs;

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use cut::{Cut, CutKind, Fate, Filler};
pub use strict_fs::{Entry, StrictFs};

use crate::hash::Mixer;

/// A file's identity, whatever its names.
pub type FileId = usize;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Folder,
    File(FileId),
}

/// A change to the disk as the engine asked for it, with paths that are already normal.
#[derive(Clone, Debug)]
pub enum Step {
    MakeFolder {
        path: PathBuf,
    },
    RemoveFolder {
        path: PathBuf,
    },
    /// A new, empty file; a file that was there is emptied and keeps its identity, as on POSIX.
    Create {
        path: PathBuf,
    },
    Append {
        file: FileId,
        data: Arc<[u8]>,
    },
    /// Into a log, which is longer than what was appended: zeros follow.
    AppendToLog {
        file: FileId,
        data: Arc<[u8]>,
    },
    /// Ends a log where what was appended ends.
    TrimLog {
        file: FileId,
    },
    SyncFile {
        file: FileId,
    },
    SyncFolder {
        path: PathBuf,
    },
    Link {
        from: PathBuf,
        to: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    /// A close, or a sync that a mutant left out: nothing happens.
    Nothing,
}

/// A change that is not durable yet.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    Truncate {
        file: FileId,
        len: usize,
    },
    Write {
        file: FileId,
        offset: usize,
        data: Arc<[u8]>,
    },
    /// A name that appears.
    Put {
        path: PathBuf,
        node: Node,
    },
    /// A name that goes.
    Take {
        path: PathBuf,
    },
    /// Both at once, within one folder.
    Move {
        from: PathBuf,
        to: PathBuf,
        node: Node,
    },
}

impl Pending {
    fn is_of_file(&self, wanted: FileId) -> bool {
        match self {
            Pending::Truncate { file, .. } | Pending::Write { file, .. } => *file == wanted,
            Pending::Put { .. } | Pending::Take { .. } | Pending::Move { .. } => false,
        }
    }

    /// True for the names in a folder.
    fn is_in(&self, folder: &Path) -> bool {
        match self {
            Pending::Put { path, .. } | Pending::Take { path } => path.parent() == Some(folder),
            Pending::Move { to, .. } => to.parent() == Some(folder),
            Pending::Truncate { .. } | Pending::Write { .. } => false,
        }
    }
}

#[derive(Clone, Default)]
struct FileState {
    live: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    /// Of a log: the bytes appended.
    log_end: usize,
}

/// Logs grow by such pieces: small, so that small workloads see many.
const LOG_PIECE: usize = 1000;

type Names = BTreeMap<PathBuf, Node>;

/// What processes see, what a power cut leaves for sure, and what hangs between. Cheap to clone:
/// bytes are shared until they change.
#[derive(Clone, Default)]
pub struct Disk {
    files: Vec<FileState>,
    live: Names,
    durable: Names,
    pending: Vec<Pending>,
}

impl Disk {
    /// An empty disk with a folder that is there for good.
    pub fn with_folder(path: &Path) -> Self {
        let mut disk = Disk::default();
        for folder in path.ancestors().filter(|folder| folder.parent().is_some()) {
            disk.live.insert(folder.to_owned(), Node::Folder);
        }
        disk.durable = disk.live.clone();
        disk
    }

    /// How many changes a power cut now could lose.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Files by path, as processes see them.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.live.iter().filter_map(|(path, node)| match node {
            Node::File(file) => Some((path.as_path(), self.files[*file].live.as_slice())),
            Node::Folder => None,
        })
    }

    /// True if processes see a file or folder there.
    pub fn exists(&self, path: &Path) -> bool {
        path.parent().is_none() || self.live.contains_key(path)
    }

    /// Does one step. It must be possible: the file system has checked it.
    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::MakeFolder { path } => self.put(path, Node::Folder),
            Step::RemoveFolder { path } | Step::Remove { path } => self.take(path),
            Step::Create { path } => self.create(path),
            Step::Append { file, data } => self.append(*file, data),
            Step::AppendToLog { file, data } => self.append_to_log(*file, data),
            Step::TrimLog { file } => self.trim_log(*file),
            Step::SyncFile { file } => self.sync_file(*file),
            Step::SyncFolder { path } => self.sync_folder(path),
            Step::Link { from, to } => self.put(to, self.live[from]),
            Step::Rename { from, to } => self.rename(from, to),
            Step::Nothing => {}
        }
    }

    fn put(&mut self, path: &Path, node: Node) {
        self.live.insert(path.to_owned(), node);
        self.pending.push(Pending::Put { path: path.to_owned(), node });
    }

    fn take(&mut self, path: &Path) {
        self.live.remove(path);
        self.pending.push(Pending::Take { path: path.to_owned() });
    }

    fn create(&mut self, path: &Path) {
        if let Some(Node::File(file)) = self.live.get(path).copied() {
            self.files[file].live = Arc::default();
            self.files[file].log_end = 0;
            self.pending.push(Pending::Truncate { file, len: 0 });
        } else {
            self.files.push(FileState::default());
            self.put(path, Node::File(self.files.len() - 1));
        }
    }

    fn append(&mut self, file: FileId, data: &Arc<[u8]>) {
        let live = Arc::make_mut(&mut self.files[file].live);
        let offset = live.len();
        live.extend_from_slice(data);
        self.pending.push(Pending::Write { file, offset, data: Arc::clone(data) });
    }

    fn append_to_log(&mut self, file: FileId, data: &Arc<[u8]>) {
        let state = &mut self.files[file];
        let (old_len, offset) = (state.live.len(), state.log_end);
        state.log_end += data.len();
        let live = Arc::make_mut(&mut state.live);
        if state.log_end > old_len {
            live.resize(state.log_end.next_multiple_of(LOG_PIECE), 0);
            let zeros = vec![0; live.len() - old_len].into();
            self.pending.push(Pending::Write { file, offset: old_len, data: zeros });
        }
        live[offset..state.log_end].copy_from_slice(data);
        self.pending.push(Pending::Write { file, offset, data: Arc::clone(data) });
    }

    fn trim_log(&mut self, file: FileId) {
        let state = &mut self.files[file];
        if state.live.len() > state.log_end {
            Arc::make_mut(&mut state.live).truncate(state.log_end);
            self.pending.push(Pending::Truncate { file, len: state.log_end });
        }
    }

    fn sync_file(&mut self, file: FileId) {
        let state = &mut self.files[file];
        state.durable = Arc::clone(&state.live);
        self.pending.retain(|pending| !pending.is_of_file(file));
    }

    fn sync_folder(&mut self, folder: &Path) {
        self.durable.retain(|path, _| path.parent() != Some(folder));
        let inside = self.live.iter().filter(|(path, _)| path.parent() == Some(folder));
        self.durable.extend(inside.map(|(path, node)| (path.clone(), *node)));
        self.pending.retain(|pending| !pending.is_in(folder));
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        let node = self.live[from];
        self.live.remove(from);
        self.live.insert(to.to_owned(), node);
        if from.parent() == to.parent() {
            let (from, to) = (from.to_owned(), to.to_owned());
            self.pending.push(Pending::Move { from, to, node });
        } else {
            // Two folders are made durable by two syncs.
            self.pending.push(Pending::Put { path: to.to_owned(), node });
            self.pending.push(Pending::Take { path: from.to_owned() });
        }
    }

    /// A hash of all names and bytes that processes see.
    pub fn content_hash(&self) -> u64 {
        let mut mixer = Mixer::default();
        for (path, node) in &self.live {
            mixer.write(path.as_os_str().as_encoded_bytes());
            match node {
                Node::Folder => mixer.write_u64(u64::MAX),
                Node::File(file) => {
                    let bytes = &self.files[*file].live;
                    mixer.write_usize(bytes.len());
                    mixer.write(bytes);
                }
            }
        }
        mixer.finish()
    }
}

#[cfg(test)]
mod tests;
