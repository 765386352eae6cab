//! A safe wrapper over LevelDB's C API, opened at run time: LevelDB's own library, or any that exports
//! the same functions. The tests against LevelDB and the benchmark call it; so the workspace builds
//! without the library.
//!
//! The unsafe code rests on three invariants:
//!
//! - **I1.** The library is never unloaded: LevelDB starts a background thread that never ends, so
//!   its code must stay mapped. [`LevelDb`] is therefore a `&'static` table of functions.
//! - **I2.** Every object of the library has one owner, a `Handle`, made beside the call that
//!   created it and paired there with the function that destroys it.
//! - **I3.** What an object uses outlives it. Iterators and snapshots borrow their [`Db`]; a `Db`
//!   owns its filter, cache and comparator and drops them after closing.
//!
//! Debian's LevelDB keeps its assertions, which end the process. The wrapper checks what they
//! check (an iterator is valid before it is read or moved) and panics instead.
#![expect(unsafe_code, reason = "calls into a C library")]

mod batch;
mod db;
mod error;
mod handle;
mod iter;
mod options;
mod symbols;
#[cfg(test)]
mod tests;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::{env, fmt};

pub use batch::WriteBatch;
pub use db::Db;
pub use error::{Error, Result};
pub use iter::{Iter, Snapshot};
pub use options::{Comparator, Compression, Options, ReadOptions, WriteOptions};

use handle::checked;
use options::Parts;
use symbols::Symbols;

/// Where LevelDB is looked for when `SILTSTONE_LEVELDB` does not say: Debian's name, upstream's
/// name, the development link.
const LIBRARY_NAMES: [&str; 3] = ["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"];

/// The loaded library.
#[derive(Clone, Copy)]
pub struct LevelDb(&'static Symbols);

impl LevelDb {
    /// Loads LevelDB, once per process. `None` if it is not installed: `SILTSTONE_LEVELDB` names
    /// the library, else it is looked for under its usual names.
    pub fn load() -> Option<LevelDb> {
        LevelDb::find().ok()
    }

    /// As [`load`](Self::load), for tests: says that the test is skipped, or fails it if
    /// `SILTSTONE_REQUIRE_LEVELDB` is set, so that a run without the library cannot pass for tested.
    ///
    /// # Panics
    ///
    /// If the library is required and missing.
    pub fn load_or_skip() -> Option<LevelDb> {
        match LevelDb::find() {
            Ok(leveldb) => Some(leveldb),
            Err(reason) if env::var_os("SILTSTONE_REQUIRE_LEVELDB").is_some() => {
                panic!("LevelDB is required here: {reason}")
            }
            Err(_) => {
                println!("SKIPPED (libleveldb not found)");
                None
            }
        }
    }

    /// Loads `library`, a path or a name that the system's loader finds, as often as it is called. It
    /// may be anyone's, as long as it exports LevelDB's functions.
    ///
    /// # Errors
    ///
    /// Why it cannot be loaded, or which function it lacks.
    pub fn load_from(library: &str) -> std::result::Result<LevelDb, String> {
        // Leaked, for it is never unloaded (I1).
        Symbols::load(&[library]).map(|symbols| LevelDb(Box::leak(Box::new(symbols))))
    }

    fn find() -> std::result::Result<LevelDb, &'static str> {
        static LOADED: OnceLock<std::result::Result<Symbols, String>> = OnceLock::new();
        let named = || match env::var("SILTSTONE_LEVELDB") {
            Ok(name) => Symbols::load(&[&name]),
            Err(_) => Symbols::load(&LIBRARY_NAMES),
        };
        LOADED.get_or_init(named).as_ref().map(LevelDb).map_err(String::as_str)
    }

    /// The library's major and minor version.
    pub fn version(self) -> (i32, i32) {
        // SAFETY: neither function has any condition.
        unsafe { ((self.0.major_version)(), (self.0.minor_version)()) }
    }

    /// Opens the database in the folder `path`; dropping the [`Db`] closes it.
    pub fn open(self, path: &Path, options: &Options) -> Result<Db> {
        Db::open(self.0, path, options)
    }

    /// Removes the database in the folder `path`. There being none is no error.
    pub fn destroy(self, path: &Path, options: &Options) -> Result<()> {
        let (parts, name) = (Parts::new(self.0, options), c_path(path));
        // SAFETY: the options and the name are alive during the call.
        checked(self.0, |error| unsafe {
            (self.0.destroy_db)(parts.options(), name.as_ptr(), error);
        })
    }

    /// Rebuilds what it can of the database in the folder `path`, which no one may have open:
    /// LevelDB does not check that.
    pub fn repair(self, path: &Path, options: &Options) -> Result<()> {
        let (parts, name) = (Parts::new(self.0, options), c_path(path));
        // SAFETY: the options and the name are alive during the call.
        checked(self.0, |error| unsafe {
            (self.0.repair_db)(parts.options(), name.as_ptr(), error);
        })
    }

    /// An empty write batch.
    pub fn batch(self) -> WriteBatch {
        WriteBatch::new(self.0)
    }
}

impl fmt::Debug for LevelDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.version();
        write!(f, "LevelDB {major}.{minor}")
    }
}

/// `path` as the library takes it.
fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path holds no zero byte")
}
