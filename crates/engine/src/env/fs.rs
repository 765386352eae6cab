//! The file system seam. Syncs of files and of folders are explicit calls, and every call that
//! changes the disk says from which [`Site`] it comes, so that crash tests can stop before and
//! after each.
//!
//! What an implementation promises, and no more: a successful `sync` makes a file's bytes and size
//! durable; a successful `sync_dir` makes a folder's entries durable. Nothing orders unsynced work.
//!
//! Calls that were interrupted (EINTR), or that did only a part, are an implementation's business: it
//! goes on until they are done or have failed. The engine tries no call again for such a reason; an
//! interruption that does come up counts as any other I/O error.

use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::env::site::Site;

/// Files and folders by path. Errors name the path.
pub trait FileSystem: Send + Sync {
    /// Makes an empty file for writing, replacing what was there; what those who have the old file
    /// open then read is not defined. The folder must exist. A symbolic link is not followed.
    fn create(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>>;

    /// As [`create`](Self::create), for a log: many small appends. Until it is closed, and for good if
    /// the process dies before, the file may be longer than what was appended, with zeros behind.
    /// An append that the death of the process cuts short shows nothing of its first eight bytes, or
    /// the file's end is where it was cut.
    fn create_log(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        self.create(path, site)
    }

    /// Opens a file for reading at any offset.
    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>>;

    /// Size and kind of what is at `path`; [`ErrorKind::NotFound`](crate::ErrorKind) if nothing is.
    fn metadata(&self, path: &Path) -> Result<Metadata>;

    /// The names in a folder, in any order. Names that are not UTF-8 are left out: none is ours.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Makes a folder and its missing parents; fine if it exists as a folder.
    fn create_dir(&self, dir: &Path, site: Site) -> Result<()>;

    /// Removes an empty folder.
    fn remove_dir(&self, dir: &Path, site: Site) -> Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path, site: Site) -> Result<()>;

    /// Moves a file, replacing what is at `to`, atomically.
    fn rename(&self, from: &Path, to: &Path, site: Site) -> Result<()>;

    /// Gives the file at `from` a second name `to`, which must be free.
    fn hard_link(&self, from: &Path, to: &Path, site: Site) -> Result<()>;

    /// Makes the names in `dir` durable: creations, renames and removals done before the call.
    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()>;

    /// Takes the lock file at `path`, creating it if need be, without waiting. The lock is told by
    /// the file's identity, not its name, and shuts out LevelDB too. Dropping the value releases
    /// it; the file stays. [`ErrorKind::Locked`](crate::ErrorKind) if it is held. Nobody may open a
    /// lock file by other means: on POSIX systems that loses the lock.
    fn lock(&self, path: &Path, site: Site) -> Result<Box<dyn FileLock>>;
}

/// What [`FileSystem::metadata`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Length in bytes.
    pub len: u64,
    /// True for a folder.
    pub is_dir: bool,
}

/// A file being written front to back. Nothing is buffered here: callers hand over large pieces.
pub trait WritableFile: Send {
    /// Writes `data` at the end. After an error the file's tail is unknown.
    fn append(&mut self, data: &[u8], site: Site) -> Result<()>;

    /// Makes all appended bytes and the file's size durable. After an error nothing is known, and
    /// a second call means nothing.
    fn sync(&mut self, site: Site) -> Result<()>;

    /// Says that so many bytes will be appended soon. What can be made ready for them is made ready now.
    fn expect_appends(&mut self, _bytes: u64) {}

    /// Says that of what was [expected](Self::expect_appends) so many bytes are likely, that they will come fast, and that nobody will
    /// sync them: makes a piece of the file ready that was not worth it otherwise. True if there is more to make ready.
    fn get_ahead(&mut self, _bytes: u64) -> bool {
        false
    }

    /// Says that no append follows; syncs may. Hands out what only appends need, whose end may take a while: to be
    /// dropped at leisure, by any thread.
    fn end_appends(&mut self) -> Option<Box<dyn Send>> {
        None
    }

    /// Says that the file's name has been removed, or is about to be: closing need not leave it as it should be read.
    fn expect_removal(&mut self) {}

    /// Closes the file and reports what dropping it would swallow. Does not sync. No other call may
    /// follow.
    fn close(&mut self, site: Site) -> Result<()>;
}

/// What a table is read for. Files that are near need not know; those that are far away read ahead by it, and tell by it
/// what their requests were for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// To open it: what lies behind the data.
    Open,
    /// A block for a get.
    Get,
    /// Blocks for a user's scan, which may end at any of them.
    Scan,
    /// For a merge or a check, which mostly goes on to the table's end.
    Merge,
}

/// An open file to read at any offset, from many threads at once. It stays readable after its
/// name is removed.
pub trait RandomAccessFile: Send + Sync {
    /// Fills `buf` from `offset` on; returns fewer bytes only at the file's end, and none past it,
    /// however large `offset` is. Bytes appended since the file was opened are seen. Where fewer bytes
    /// come than [`len`](Self::len) tells of, the caller has an error: nobody makes our files shorter.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// As [`read_at`](Self::read_at), by a reader of tables, which says what for.
    fn read_for(&self, buf: &mut [u8], offset: u64, _access: Access) -> Result<usize> {
        self.read_at(buf, offset)
    }

    /// Told of damage in bytes that were read, before it becomes an error. True if they came from a copy, which is dropped
    /// now: to read again may bring what was written.
    fn drop_copy(&self, _offset: u64, _len: usize) -> bool {
        false
    }

    /// The file's length when it was opened (files being read do not grow, save a live WAL).
    fn len(&self) -> u64;

    /// True if the file was empty when opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks that the file's bytes be kept in memory until they are [let go](Self::let_go), so that reading them takes no
    /// call to the system, and no disk can fail in between. Reads the whole file if need be. False if that cannot be had:
    /// then all is as before. One thread at a time calls this and `let_go`; reads go on meanwhile.
    fn keep_in_memory(&self) -> bool {
        false
    }

    /// Ends [`keep_in_memory`](Self::keep_in_memory).
    fn let_go(&self) {}

    /// True while the file is kept in memory: to read much at a time saves nothing.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Its path, for error messages.
    fn path(&self) -> &Path;
}

/// A held lock; dropping it releases it.
pub trait FileLock: Send + Sync {}

/// As [`read_at`](RandomAccessFile::read_at), of bytes that were there when the file was opened: a file
/// that now ends before them was cut short by somebody, or the disk makes it seem so. To take that for
/// the file's end would lose what a log or a manifest says there.
pub(crate) fn read_there(
    file: &dyn RandomAccessFile,
    buf: &mut [u8],
    offset: u64,
) -> Result<usize> {
    let read = file.read_at(buf, offset)?;
    let there = file.len().saturating_sub(offset).min(buf.len() as u64);
    if (read as u64) < there {
        let message = format!("read: {read} bytes, expected {there}: the file has become shorter");
        return Err(Error::new(ErrorKind::Io, message).at(offset).in_file(file.path()));
    }
    Ok(read)
}

/// Reads a whole file of at most `bytes_max` bytes.
pub(crate) fn read_whole(fs: &dyn FileSystem, path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let file = fs.open(path)?;
    if file.len() > bytes_max {
        let message = format!("file has {} bytes, more than {bytes_max}", file.len());
        return Err(Error::corruption(message).in_file(path));
    }
    // The length is bounded above, so it fits a usize.
    let mut bytes = vec![0; file.len() as usize];
    let read = read_there(&*file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}
