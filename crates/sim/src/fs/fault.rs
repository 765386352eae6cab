//! A file system that fails on demand. It wraps another one, counts the calls of each [`Site`] and
//! notes their order, and lets rules make some of them fail.
//!
//! ```text
//! let (env, faults) = FaultFs::over(Env::memory());
//! faults.fail_nth(Site::WalSync, 2, Fault::Io);          // the second sync from now, once
//! faults.fail_from(Site::TableAppend, 1, Fault::NoSpace); // every one from now, until heal()
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siltstone::{
    Env, Error, FileLock, FileSystem, Metadata, RandomAccessFile, Result, Site, WritableFile,
};

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done; an I/O error is told.
    Io,
    /// Nothing is done; the disk is told to be full.
    NoSpace,
    /// An append writes its first so many bytes, then an I/O error is told. Of other calls nothing
    /// is done.
    Torn(usize),
    /// As `Torn`, but the disk is told to be full.
    Full(usize),
    /// The call is done, and yet an I/O error is told: an answer that was lost.
    DoneUntold,
}

/// The wrapper. Rules may be set at any time, from any thread.
pub struct FaultFs {
    inner: Arc<dyn FileSystem>,
    rules: Arc<Rules>,
}

#[derive(Default)]
struct Rules(Mutex<State>);

/// A call that changed the disk, or tried to: where from, and the name of the file or folder.
pub type Call = (Site, String);

#[derive(Default)]
struct State {
    calls: BTreeMap<Site, u64>,
    trace: Vec<Call>,
    rules: Vec<Rule>,
    unreadable: Vec<String>,
    fired: u64,
}

struct Rule {
    site: Site,
    /// The first call that fails, counted from the beginning.
    first: u64,
    /// The last one.
    last: u64,
    fault: Fault,
}

impl FaultFs {
    /// Wraps `inner`. Without rules, nothing differs from it.
    pub fn new(inner: Arc<dyn FileSystem>) -> Arc<Self> {
        Arc::new(FaultFs { inner, rules: Arc::default() })
    }

    /// `env` with its file system wrapped, and the wrapper.
    pub fn over(mut env: Env) -> (Env, Arc<Self>) {
        let faults = FaultFs::new(env.file_system);
        env.file_system = faults.clone();
        (env, faults)
    }

    /// Makes the `n`-th call from now at `site` fail (the next one is the first).
    pub fn fail_nth(&self, site: Site, n: u64, fault: Fault) {
        self.rules.add(site, n, 1, fault);
    }

    /// Makes all calls at `site` fail, from the `n`-th from now on and until [`heal`](Self::heal).
    pub fn fail_from(&self, site: Site, n: u64, fault: Fault) {
        self.rules.add(site, n, u64::MAX, fault);
    }

    /// Makes all reads of files with `part` in their name fail, until [`heal`](Self::heal).
    pub fn fail_reads(&self, part: &str) {
        self.rules.state().unreadable.push(part.to_owned());
    }

    /// Drops all rules.
    pub fn heal(&self) {
        let mut state = self.rules.state();
        state.rules.clear();
        state.unreadable.clear();
    }

    /// How many calls came from `site`, failed ones included.
    pub fn calls(&self, site: Site) -> u64 {
        self.rules.state().calls.get(&site).copied().unwrap_or(0)
    }

    /// The sites that calls came from.
    pub fn sites_reached(&self) -> Vec<Site> {
        self.rules.state().calls.keys().copied().collect()
    }

    /// The calls since the last `take_trace`, in order, failed ones included.
    pub fn take_trace(&self) -> Vec<Call> {
        std::mem::take(&mut self.rules.state().trace)
    }

    /// How many calls failed by a rule.
    pub fn fired(&self) -> u64 {
        self.rules.state().fired
    }
}

impl Rules {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, site: Site, n: u64, count: u64, fault: Fault) {
        assert!(n > 0, "the next call is the first");
        let mut state = self.state();
        let first = state.calls.get(&site).copied().unwrap_or(0) + n;
        let last = first.saturating_add(count - 1);
        state.rules.push(Rule { site, first, last, fault });
    }

    /// Counts and notes a call, and tells how it is to fail.
    fn next(&self, site: Site, path: &Path) -> Option<Fault> {
        let mut state = self.state();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        state.trace.push((site, name.into_owned()));
        let calls = state.calls.entry(site).or_default();
        *calls += 1;
        let now = *calls;
        let rule = |rule: &&Rule| rule.site == site && (rule.first..=rule.last).contains(&now);
        let fault = state.rules.iter().find(rule).map(|rule| rule.fault);
        state.fired += u64::from(fault.is_some());
        fault
    }

    /// Does `call`, or fails it.
    fn apply<T>(&self, site: Site, path: &Path, call: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.next(site, path) {
            None => call(),
            Some(Fault::DoneUntold) => {
                call()?;
                Err(injected(site.name(), path, Fault::DoneUntold))
            }
            Some(fault) => Err(injected(site.name(), path, fault)),
        }
    }
}

fn injected(action: &str, path: &Path, fault: Fault) -> Error {
    let cause = match fault {
        Fault::NoSpace | Fault::Full(_) => io::ErrorKind::StorageFull.into(),
        Fault::Io | Fault::Torn(_) | Fault::DoneUntold => io::Error::other("injected fault"),
    };
    Error::io(action, path, cause)
}

impl FileSystem for FaultFs {
    fn create(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        let inner = self.rules.apply(site, path, || self.inner.create(path, site))?;
        Ok(Box::new(FaultWriter { inner, rules: self.rules.clone(), path: path.to_owned() }))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let inner = self.inner.open(path)?;
        Ok(Arc::new(FaultReader { inner, rules: self.rules.clone() }))
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        self.inner.metadata(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.rules.apply(site, dir, || self.inner.create_dir(dir, site))
    }

    fn remove_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.rules.apply(site, dir, || self.inner.remove_dir(dir, site))
    }

    fn remove_file(&self, path: &Path, site: Site) -> Result<()> {
        self.rules.apply(site, path, || self.inner.remove_file(path, site))
    }

    fn rename(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.rules.apply(site, from, || self.inner.rename(from, to, site))
    }

    fn hard_link(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.rules.apply(site, from, || self.inner.hard_link(from, to, site))
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.rules.apply(site, dir, || self.inner.sync_dir(dir, site))
    }

    fn lock(&self, path: &Path, site: Site) -> Result<Box<dyn FileLock>> {
        self.rules.apply(site, path, || self.inner.lock(path, site))
    }
}

struct FaultWriter {
    inner: Box<dyn WritableFile>,
    rules: Arc<Rules>,
    path: PathBuf,
}

impl WritableFile for FaultWriter {
    fn append(&mut self, data: &[u8], site: Site) -> Result<()> {
        match self.rules.next(site, &self.path) {
            None => self.inner.append(data, site),
            Some(fault) => {
                let written = match fault {
                    Fault::Io | Fault::NoSpace => 0,
                    Fault::Torn(bytes) | Fault::Full(bytes) => bytes.min(data.len()),
                    Fault::DoneUntold => data.len(),
                };
                self.inner.append(&data[..written], site)?;
                Err(injected(site.name(), &self.path, fault))
            }
        }
    }

    fn sync(&mut self, site: Site) -> Result<()> {
        self.rules.apply(site, &self.path, || self.inner.sync(site))
    }

    fn close(&mut self, site: Site) -> Result<()> {
        self.rules.apply(site, &self.path, || self.inner.close(site))
    }
}

struct FaultReader {
    inner: Arc<dyn RandomAccessFile>,
    rules: Arc<Rules>,
}

impl RandomAccessFile for FaultReader {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let name = self.path().file_name().unwrap_or_default().to_string_lossy();
        let mut state = self.rules.state();
        if state.unreadable.iter().any(|part| name.contains(part)) {
            state.fired += 1;
            return Err(injected("read", self.path(), Fault::Io).at(offset));
        }
        drop(state);
        self.inner.read_at(buf, offset)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}
