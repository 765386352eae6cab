//! The operating system's files, by way of `std::fs`. Made by [`Env::posix`](crate::Env::posix).
//!
//! **Locks.** A database is locked as LevelDB does it, by a write lock of `fcntl` on the whole lock
//! file, so that either engine keeps the other out. Such locks belong to a process: it may take
//! its own lock again, and closing *any* descriptor of the file gives the lock up. Hence [`HELD`],
//! the files this process has locked, by identity. It is asked before the file is opened a second
//! time, and its own lock is kept until the answer is acted on.
//!
//! **Invariant E1.** While a lock is held, this process opens its file no second time: nothing
//! outside this module opens a lock file.
#![expect(clippy::disallowed_methods, reason = "the one place that reaches for the disk")]

#[cfg(target_os = "linux")]
mod log;
#[cfg(target_os = "linux")]
mod resident;
#[cfg(target_os = "linux")]
mod writeback;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Flock, FlockType};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::sync::{LazyLock, Mutex, Rank};
use crate::env::fs::{FileLock, FileSystem, Metadata, RandomAccessFile, WritableFile};
use crate::env::site::Site;

/// Reads leave no trace in a file's access time: keeping it costs each of them a little.
#[cfg(any(target_os = "linux", target_os = "android"))]
const NO_ACCESS_TIME: i32 = OFlags::NOATIME.bits() as i32;
/// A file never follows a symbolic link planted under a name that we write.
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits() as i32;

/// A start for random choices, different in each call. Not for secrets.
pub(crate) fn random_seed() -> u64 {
    // The standard library keys its hash maps from the system's random source.
    RandomState::new().hash_one(0_u64)
}

/// The operating system's file system.
pub(crate) struct PosixFileSystem(());

impl PosixFileSystem {
    pub(crate) fn new() -> Self {
        PosixFileSystem(())
    }
}

impl FileSystem for PosixFileSystem {
    fn create(&self, path: &Path, _: Site) -> Result<Box<dyn WritableFile>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644).custom_flags(NO_FOLLOW);
        let file = options.open(path).map_err(|cause| Error::io("create", path, cause))?;
        Ok(Box::new(PosixWriter {
            file: Some(file),
            path: path.to_owned(),
            #[cfg(target_os = "linux")]
            writeback: writeback::Writeback::default(),
        }))
    }

    #[cfg(target_os = "linux")]
    fn create_log(&self, path: &Path, _: Site) -> Result<Box<dyn WritableFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let options = options.mode(0o644).custom_flags(NO_FOLLOW);
        let file = options.open(path).map_err(|cause| Error::io("create", path, cause))?;
        Ok(Box::new(log::create(file, path)))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let failed = |cause| Error::io("open", path, cause);
        let file = open_to_read(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        Ok(Arc::new(PosixReader {
            file,
            len: metadata.len(),
            path: path.to_owned(),
            #[cfg(target_os = "linux")]
            resident: resident::Resident::default(),
        }))
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        let found = fs::metadata(path).map_err(|cause| Error::io("stat", path, cause))?;
        Ok(Metadata { len: found.len(), is_dir: found.is_dir() })
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let failed = |cause| Error::io("list", dir, cause);
        let mut names = Vec::new();
        for entry in fs::read_dir(or_current(dir)).map_err(failed)? {
            names.extend(entry.map_err(failed)?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn create_dir(&self, dir: &Path, _: Site) -> Result<()> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
        made.map_err(|cause| Error::io("create folder", dir, cause))
    }

    fn remove_dir(&self, dir: &Path, _: Site) -> Result<()> {
        fs::remove_dir(dir).map_err(|cause| Error::io("remove folder", dir, cause))
    }

    fn remove_file(&self, path: &Path, _: Site) -> Result<()> {
        fs::remove_file(path).map_err(|cause| Error::io("remove", path, cause))
    }

    fn rename(&self, from: &Path, to: &Path, _: Site) -> Result<()> {
        let failed = |cause| Error::io(&format!("rename to {}", to.display()), from, cause);
        fs::rename(from, to).map_err(failed)
    }

    fn hard_link(&self, from: &Path, to: &Path, _: Site) -> Result<()> {
        let failed = |cause| Error::io(&format!("link to {}", to.display()), from, cause);
        fs::hard_link(from, to).map_err(failed)
    }

    fn sync_dir(&self, dir: &Path, _: Site) -> Result<()> {
        let failed = |cause| Error::io("sync folder", dir, cause);
        let folder = File::open(or_current(dir)).map_err(failed)?;
        match folder.sync_all() {
            // Some file systems (network and FUSE ones above all) cannot sync a folder, and this
            // is how they say so. There is no other way to ask them, and refusing to run there
            // would help nobody.
            Err(cause) if is_unsupported(&cause) => Ok(()),
            other => other.map_err(failed),
        }
    }

    fn lock(&self, path: &Path, _: Site) -> Result<Box<dyn FileLock>> {
        lock_file(path)
    }
}

/// The folder of a bare file name is the empty path, which the system calls `.`.
fn or_current(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

fn is_unsupported(cause: &io::Error) -> bool {
    // EINVAL; ENOTSUP and its kin.
    matches!(cause.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

struct PosixWriter {
    /// `None` once closed.
    file: Option<File>,
    path: PathBuf,
    #[cfg(target_os = "linux")]
    writeback: writeback::Writeback,
}

impl PosixWriter {
    fn open_file(&self) -> &File {
        self.file.as_ref().expect("no call follows close")
    }
}

/// Without access times where the system grants it: it does to a file's owner only.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn open_to_read(path: &Path) -> io::Result<File> {
    match OpenOptions::new().read(true).custom_flags(NO_ACCESS_TIME).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(path),
        opened => opened,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open_to_read(path: &Path) -> io::Result<File> {
    File::open(path)
}

impl WritableFile for PosixWriter {
    fn append(&mut self, data: &[u8], _: Site) -> Result<()> {
        // `write_all` goes on after short writes and interruptions.
        let mut file = self.open_file();
        file.write_all(data).map_err(|cause| Error::io("append", &self.path, cause))?;
        #[cfg(target_os = "linux")]
        if let Some(file) = &self.file {
            self.writeback.appended(file, data.len());
        }
        Ok(())
    }

    fn sync(&mut self, _: Site) -> Result<()> {
        // Goes on after interruptions. `fdatasync` covers the size as well; on Apple's systems the library asks for F_FULLFSYNC.
        let synced = self.open_file().sync_data();
        synced.map_err(|cause| Error::io("sync", &self.path, cause))
    }

    fn close(&mut self, _: Site) -> Result<()> {
        // The standard library does not tell what `close` answers. Nothing rests on it: what must
        // last was synced, and `sync` has reported every error up to then.
        self.file = None;
        Ok(())
    }
}

struct PosixReader {
    file: File,
    len: u64,
    path: PathBuf,
    #[cfg(target_os = "linux")]
    resident: resident::Resident,
}

/// Fills `buf` with what `read` gives, from so many bytes on, through short reads and interruptions.
fn fill(buf: &mut [u8], read: impl Fn(&mut [u8], usize) -> io::Result<usize>) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match read(&mut buf[filled..], filled) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(filled)
}

impl RandomAccessFile for PosixReader {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        #[cfg(target_os = "linux")]
        if self.resident.read_at(buf, offset) {
            return Ok(buf.len());
        }
        if offset.saturating_add(buf.len() as u64) > i64::MAX as u64 {
            // The system's offsets are signed: no file reaches here, and asking is an error.
            return Ok(0);
        }
        // The C library's call has a thread be cancelled in it, and makes it ready for that before and after.
        let read = fill(buf, |rest, filled| {
            Ok(rustix::io::pread(&self.file, rest, offset + filled as u64)?)
        });
        read.map_err(|cause| Error::io("read", &self.path, cause).at(offset))
    }

    fn len(&self) -> u64 {
        self.len
    }

    #[cfg(target_os = "linux")]
    fn keep_in_memory(&self) -> bool {
        self.resident.keep(&self.file, self.len)
    }

    #[cfg(target_os = "linux")]
    fn let_go(&self) {
        self.resident.let_go();
    }

    #[cfg(target_os = "linux")]
    fn is_in_memory(&self) -> bool {
        self.resident.is_kept()
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// What a file is, whatever it is called: device and inode.
type FileId = (u64, u64);

/// The lock files this process holds. Kept locked across the calls that take and release them:
/// see the module's doc.
static HELD: LazyLock<Mutex<BTreeSet<FileId>>> =
    LazyLock::new(|| Mutex::new(Rank::Leaf, BTreeSet::new()));

struct PosixLock {
    id: FileId,
    /// `None` only while being dropped.
    file: Option<File>,
}

impl FileLock for PosixLock {}

impl Drop for PosixLock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        // Closing gives the lock up. It comes before the table forgets the file: the other way
        // round it would take the lock from whoever came in between.
        self.file = None;
        held.remove(&self.id);
    }
}

fn lock_file(path: &Path) -> Result<Box<dyn FileLock>> {
    let failed = |cause| Error::io("lock", path, cause);
    let mut held = HELD.lock();
    if fs::metadata(path).is_ok_and(|found| held.contains(&id_of(&found))) {
        return Err(locked(path, "already held by process"));
    }

    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.mode(0o644).custom_flags(NO_FOLLOW).open(path).map_err(failed)?;
    let id = id_of(&file.metadata().map_err(failed)?);
    if held.contains(&id) {
        // The name was moved to a locked file since we looked. Closing this descriptor would give
        // that lock up, so it stays open for good.
        std::mem::forget(file);
        return Err(locked(path, "already held by process"));
    }

    let exclusive = FlockOperation::NonBlockingLockExclusive;
    match retry_on_intr(|| rustix::fs::fcntl_lock(&file, exclusive)) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::ACCESS) => {
            return Err(locked(
                path,
                &format!("Resource temporarily unavailable{}", holder(&file)),
            ));
        }
        Err(cause) => return Err(failed(cause.into())),
    }
    // Whoever held the lock until now may have destroyed the database; a lock on a file without a
    // name keeps nobody out.
    if !fs::metadata(path).is_ok_and(|found| id_of(&found) == id) {
        return Err(locked(path, "Resource temporarily unavailable (being removed)"));
    }
    held.insert(id);
    Ok(Box::new(PosixLock { id, file: Some(file) }))
}

fn id_of(metadata: &fs::Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

fn locked(path: &Path, reason: &str) -> Error {
    // LevelDB's text, in which the path stands after the verb.
    Error::new(ErrorKind::Locked, format!("lock {}: {reason}", path.display()))
}

/// Who holds the lock on `file`, for the error's text; nothing if it was just let go.
fn holder(file: &File) -> String {
    let wanted = Flock::from(FlockType::WriteLock);
    let blocking = rustix::process::fcntl_getlk(file, &wanted).ok().flatten();
    match blocking.and_then(|lock| lock.pid).map(|pid| pid.as_raw_nonzero().get()) {
        // A lock that belongs to an open file, not to a process, has the id -1.
        Some(pid) if pid > 0 => format!(" (held by process {pid})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What holds for every file system is in `tests/env_conformance.rs`.
    #[test]
    fn a_full_disk_an_exceeded_quota_and_the_largest_file_are_no_space() {
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
            let error = Error::io("append", Path::new("000003.log"), errno.into());
            assert!(error.is_no_space(), "{error}");
        }
    }

    #[test]
    fn only_a_file_system_that_cannot_sync_folders_is_excused() {
        for errno in [Errno::INVAL, Errno::NOTSUP, Errno::OPNOTSUPP] {
            assert!(is_unsupported(&errno.into()), "{errno}");
        }
        for errno in [Errno::IO, Errno::NOSPC, Errno::BADF, Errno::ACCESS, Errno::NOENT] {
            assert!(!is_unsupported(&errno.into()), "{errno}");
        }
    }

    /// Appends and syncs go through `write_all` and `sync_data`, which do the same.
    #[test]
    fn interruptions_and_short_reads_do_not_reach_the_engine() {
        let calls = std::cell::Cell::new(0);
        let read = |rest: &mut [u8], filled: usize| {
            calls.set(calls.get() + 1);
            match (calls.get() % 3, b"content".get(filled)) {
                (0, _) => Err(Errno::INTR.into()),
                (_, None) => Ok(0),
                (_, Some(byte)) => {
                    rest[0] = *byte;
                    Ok(1)
                }
            }
        };
        let mut buf = [0; 10];
        assert_eq!(fill(&mut buf, read).unwrap(), 7);
        assert_eq!(&buf[..7], b"content");
        let broken = |_: &mut [u8], filled| {
            if filled < 3 { Ok(1) } else { Err(Errno::IO.into()) }
        };
        assert_eq!(fill(&mut buf, broken).unwrap_err().raw_os_error(), Some(5));
    }

    #[test]
    fn seeds_differ() {
        assert_ne!(random_seed(), random_seed());
    }
}
