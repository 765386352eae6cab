//! File systems that C brings: `siltstone_file_system_t` behind the engine's seam.
//!
//! Callbacks answer 0, or a number of `errno.h`, which becomes an error that names the path.
//!
//! **Invariants.**
//! - S1: every callback but those that may be null is there; checked when the environment is made.
//! - S2: a handle comes from `create`, `open` or `lock`, and goes to `close`, `release` or `unlock`
//!   once. Nothing is called with it after that.
#![expect(unsafe_code, reason = "functions that call C")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use siltstone::{
    Error, ErrorKind, FileLock, FileSystem, Metadata, RandomAccessFile, Result, Site, WritableFile,
};

use crate::border::{Destructor, State};

type Code = c_int;
type Handle = *mut c_void;
type OnPath = unsafe extern "C" fn(*mut c_void, *const c_char) -> Code;
type OnPaths = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> Code;
type OnFile = unsafe extern "C" fn(*mut c_void, Handle) -> Code;
type End = unsafe extern "C" fn(*mut c_void, Handle);
type Make = unsafe extern "C" fn(*mut c_void, *const c_char, *mut Handle) -> Code;
type Append = unsafe extern "C" fn(*mut c_void, Handle, *const u8, usize) -> Code;
type Open = unsafe extern "C" fn(*mut c_void, *const c_char, *mut Handle, *mut u64) -> Code;
type Read = unsafe extern "C" fn(*mut c_void, Handle, *mut u8, usize, u64, *mut usize) -> Code;
type Look = unsafe extern "C" fn(*mut c_void, *const c_char, *mut u64, *mut u8) -> Code;
type AddName = unsafe extern "C" fn(*mut c_void, *const c_char);
type List = unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void, AddName) -> Code;

/// What C fills in; `siltstone/c.h` tells what each member does.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct siltstone_file_system_t {
    size: usize,
    state: *mut c_void,
    destructor: Option<Destructor>,
    create: Option<Make>,
    append: Option<Append>,
    sync: Option<OnFile>,
    close: Option<OnFile>,
    open: Option<Open>,
    read: Option<Read>,
    release: Option<End>,
    metadata: Option<Look>,
    list: Option<List>,
    create_dir: Option<OnPath>,
    remove_dir: Option<OnPath>,
    remove_file: Option<OnPath>,
    rename: Option<OnPaths>,
    hard_link: Option<OnPaths>,
    sync_dir: Option<OnPath>,
    lock: Option<Make>,
    unlock: Option<End>,
}

impl siltstone_file_system_t {
    /// The members that the program at `given` knows of; those that came later count as null.
    pub(crate) fn copied(given: *const siltstone_file_system_t) -> Self {
        let mut copy = MaybeUninit::<siltstone_file_system_t>::zeroed();
        // SAFETY: C1: `given` begins with its size, and has as many bytes. Members may all be zero.
        unsafe {
            let known = (*given).size.min(size_of::<siltstone_file_system_t>());
            ptr::copy_nonoverlapping(given.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), known);
            copy.assume_init()
        }
    }

    /// The first callback that is missing (S1).
    fn missing(&self) -> Option<&'static str> {
        let there = [
            ("create", self.create.is_some()),
            ("append", self.append.is_some()),
            ("sync", self.sync.is_some()),
            ("close", self.close.is_some()),
            ("open", self.open.is_some()),
            ("read", self.read.is_some()),
            ("release", self.release.is_some()),
            ("metadata", self.metadata.is_some()),
            ("list", self.list.is_some()),
            ("create_dir", self.create_dir.is_some()),
            ("remove_dir", self.remove_dir.is_some()),
            ("remove_file", self.remove_file.is_some()),
            ("rename", self.rename.is_some()),
            ("sync_dir", self.sync_dir.is_some()),
            ("lock", self.lock.is_some()),
            ("unlock", self.unlock.is_some()),
        ];
        there.into_iter().find(|(_, there)| !there).map(|(name, _)| name)
    }
}

/// A file system of C's. Files and locks hold on to it.
#[derive(Clone)]
pub(crate) struct CFileSystem(Arc<Callbacks>);

struct Callbacks {
    calls: siltstone_file_system_t,
    state: State,
}

// SAFETY: C6.
unsafe impl Send for Callbacks {}
// SAFETY: C6.
unsafe impl Sync for Callbacks {}

impl CFileSystem {
    pub(crate) fn new(calls: siltstone_file_system_t) -> Result<Self> {
        if let Some(name) = calls.missing() {
            return Err(Error::invalid_argument(format!("the file system has no {name}")));
        }
        let state = State::new(calls.state, calls.destructor);
        Ok(CFileSystem(Arc::new(Callbacks { calls, state })))
    }

    fn state(&self) -> *mut c_void {
        self.0.state.get()
    }

    fn on_path(&self, what: &str, call: Option<OnPath>, path: &Path) -> Result<()> {
        let name = c_path(path)?;
        // SAFETY: C6.
        done(what, path, unsafe { there(call)(self.state(), name.as_ptr()) })
    }

    fn on_paths(&self, what: &str, call: Option<OnPaths>, paths: [&Path; 2]) -> Result<()> {
        let (from, to) = (c_path(paths[0])?, c_path(paths[1])?);
        // SAFETY: C6.
        let code = unsafe { there(call)(self.state(), from.as_ptr(), to.as_ptr()) };
        done(what, paths[0], code)
    }

    /// Calls `create` or `lock`, and returns the answer with what was made.
    fn make(&self, call: Option<Make>, path: &Path) -> Result<(Code, Made)> {
        let name = c_path(path)?;
        let mut handle = ptr::null_mut();
        // SAFETY: C6.
        let code = unsafe { there(call)(self.state(), name.as_ptr(), &mut handle) };
        Ok((code, Made { fs: self.clone(), handle, path: path.to_owned() }))
    }
}

/// A handle of C's, and where it came from. Not to be used if making it failed.
struct Made {
    fs: CFileSystem,
    handle: Handle,
    path: PathBuf,
}

// SAFETY: C6.
unsafe impl Send for Made {}
// SAFETY: C6.
unsafe impl Sync for Made {}

impl Made {
    fn calls(&self) -> &siltstone_file_system_t {
        &self.fs.0.calls
    }

    fn on_file(&self, what: &str, call: Option<OnFile>) -> Result<()> {
        // SAFETY: C6 and S2.
        done(what, &self.path, unsafe { there(call)(self.fs.state(), self.handle) })
    }

    fn end(&self, call: Option<End>) {
        // SAFETY: C6 and S2.
        unsafe { there(call)(self.fs.state(), self.handle) }
    }
}

impl FileSystem for CFileSystem {
    fn create(&self, path: &Path, _site: Site) -> Result<Box<dyn WritableFile>> {
        let (code, made) = self.make(self.0.calls.create, path)?;
        done("create", path, code)?;
        Ok(Box::new(CWriter { made, is_open: true }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let name = c_path(path)?;
        let (mut handle, mut len) = (ptr::null_mut(), 0);
        let open = there(self.0.calls.open);
        // SAFETY: C6.
        let code = unsafe { open(self.state(), name.as_ptr(), &mut handle, &mut len) };
        done("open", path, code)?;
        let made = Made { fs: self.clone(), handle, path: path.to_owned() };
        Ok(Arc::new(CReader { made, len }))
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        let name = c_path(path)?;
        let (mut len, mut is_dir) = (0, 0);
        let look = there(self.0.calls.metadata);
        // SAFETY: C6.
        let code = unsafe { look(self.state(), name.as_ptr(), &mut len, &mut is_dir) };
        done("metadata", path, code).map(|()| Metadata { len, is_dir: is_dir != 0 })
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let name = c_path(dir)?;
        let mut names: Vec<String> = Vec::new();
        let list = there(self.0.calls.list);
        // SAFETY: C6; `add_name` gets `names` back, and only during the call.
        let code = unsafe { list(self.state(), name.as_ptr(), (&raw mut names).cast(), add_name) };
        done("list", dir, code).map(|()| names)
    }

    fn create_dir(&self, dir: &Path, _site: Site) -> Result<()> {
        self.on_path("create folder", self.0.calls.create_dir, dir)
    }

    fn remove_dir(&self, dir: &Path, _site: Site) -> Result<()> {
        self.on_path("remove folder", self.0.calls.remove_dir, dir)
    }

    fn remove_file(&self, path: &Path, _site: Site) -> Result<()> {
        self.on_path("remove", self.0.calls.remove_file, path)
    }

    fn rename(&self, from: &Path, to: &Path, _site: Site) -> Result<()> {
        self.on_paths("rename", self.0.calls.rename, [from, to])
    }

    fn hard_link(&self, from: &Path, to: &Path, _site: Site) -> Result<()> {
        match self.0.calls.hard_link {
            Some(call) => self.on_paths("link", Some(call), [from, to]),
            // The engine copies instead.
            None => Err(Error::io("link", from, io::ErrorKind::Unsupported.into())),
        }
    }

    fn sync_dir(&self, dir: &Path, _site: Site) -> Result<()> {
        self.on_path("sync folder", self.0.calls.sync_dir, dir)
    }

    fn lock(&self, path: &Path, _site: Site) -> Result<Box<dyn FileLock>> {
        let (code, made) = self.make(self.0.calls.lock, path)?;
        if matches!(code, libc::EAGAIN | libc::EACCES | libc::EBUSY) {
            let message = format!("lock {}: already held", path.display());
            return Err(Error::new(ErrorKind::Locked, message));
        }
        done("lock", path, code)?;
        Ok(Box::new(CLock(made)))
    }
}

struct CWriter {
    made: Made,
    is_open: bool,
}

impl WritableFile for CWriter {
    fn append(&mut self, data: &[u8], _site: Site) -> Result<()> {
        let Made { fs, handle, path } = &self.made;
        let append = there(fs.0.calls.append);
        // SAFETY: C6 and S2.
        done("append", path, unsafe { append(fs.state(), *handle, data.as_ptr(), data.len()) })
    }

    fn sync(&mut self, _site: Site) -> Result<()> {
        self.made.on_file("sync", self.made.calls().sync)
    }

    fn close(&mut self, _site: Site) -> Result<()> {
        self.is_open = false;
        self.made.on_file("close", self.made.calls().close)
    }
}

impl Drop for CWriter {
    fn drop(&mut self) {
        if self.is_open {
            let _ = self.made.on_file("close", self.made.calls().close);
        }
    }
}

struct CReader {
    made: Made,
    len: u64,
}

impl RandomAccessFile for CReader {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let Made { fs, handle, path } = &self.made;
        let mut count = 0;
        let read = there(fs.0.calls.read);
        // SAFETY: C6 and S2.
        let code =
            unsafe { read(fs.state(), *handle, buf.as_mut_ptr(), buf.len(), offset, &mut count) };
        done("read", path, code).map_err(|error| error.at(offset))?;
        Ok(count.min(buf.len()))
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.made.path
    }
}

impl Drop for CReader {
    fn drop(&mut self) {
        self.made.end(self.made.calls().release);
    }
}

struct CLock(Made);

impl FileLock for CLock {}

impl Drop for CLock {
    fn drop(&mut self) {
        self.0.end(self.0.calls().unlock);
    }
}

fn there<T>(call: Option<T>) -> T {
    call.expect("S1: the callback is there")
}

fn c_path(path: &Path) -> Result<CString> {
    let text = CString::new(path.as_os_str().as_bytes());
    text.map_err(|_| Error::invalid_argument("a path has a zero byte").in_file(path))
}

fn done(what: &str, path: &Path, code: Code) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Error::io(what, path, io::Error::from_raw_os_error(code))),
    }
}

/// What `list` calls for each name. Names that are not UTF-8 are nobody's here.
unsafe extern "C" fn add_name(names: *mut c_void, name: *const c_char) {
    // SAFETY: `names` is what `list` was given, and C4.
    let (names, name) = unsafe { (&mut *names.cast::<Vec<String>>(), CStr::from_ptr(name)) };
    names.extend(name.to_str().ok().map(str::to_owned));
}
