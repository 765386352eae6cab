//! A file system that fails on demand. It wraps another one, gives all calls a running number, counts
//! those of each [`Site`] and notes their order, and lets rules make some of them fail, with the errors
//! that the operating system's files would give.
//!
//! ```text
//! let (env, faults) = FaultFs::over(Env::memory());
//! faults.fail_nth(Site::WalSync, 2, Fault::Io);          // the second sync from now, once
//! faults.fail_from(Site::TableAppend, 1, Fault::NoSpace); // every one from now, until heal()
//! faults.fail_call(17, Fault::TooManyFiles);              // the 17th call from now, if it opens a file
//! ```

mod kind;
mod rules;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use siltstone::{
    Env, FileLock, FileSystem, Metadata, RandomAccessFile, Result, Site, WritableFile,
};

pub use kind::{Fault, NAMED, Op};
pub use rules::{Call, Fired};
use rules::{Counted, Rules};

/// The wrapper. Rules may be set at any time, from any thread.
pub struct FaultFs {
    inner: Arc<dyn FileSystem>,
    gate: Gate,
}

/// What every call passes through.
#[derive(Clone, Default)]
struct Gate {
    rules: Arc<Rules>,
    /// The process that makes the calls was killed: they come from destructors, and do nothing.
    killed: Arc<AtomicBool>,
}

impl FaultFs {
    /// Wraps `inner`. Without rules, nothing differs from it.
    pub fn new(inner: Arc<dyn FileSystem>) -> Arc<Self> {
        Arc::new(FaultFs { inner, gate: Gate::default() })
    }

    /// `env` with its file system wrapped, and the wrapper.
    pub fn over(mut env: Env) -> (Env, Arc<Self>) {
        let faults = FaultFs::new(env.file_system);
        env.file_system = faults.clone();
        (env, faults)
    }

    /// The same rules and counts over another disk, or for another process.
    pub fn onto(&self, inner: Arc<dyn FileSystem>) -> Arc<Self> {
        let gate = Gate { rules: self.gate.rules.clone(), killed: Arc::default() };
        Arc::new(FaultFs { inner, gate })
    }

    /// Ends the process that uses this wrapper: whatever it still calls does nothing. Locks are
    /// released as their holders are dropped.
    pub fn kill(&self) {
        self.gate.killed.store(true, Ordering::Relaxed);
    }

    /// Makes the `n`-th call from now at `site` fail (the next one is the first).
    pub fn fail_nth(&self, site: Site, n: u64, fault: Fault) {
        self.gate.rules.add(Counted::From(site), n, 1, fault);
    }

    /// Makes all calls at `site` fail, from the `n`-th from now on and until [`heal`](Self::heal).
    pub fn fail_from(&self, site: Site, n: u64, fault: Fault) {
        self.gate.rules.add(Counted::From(site), n, u64::MAX, fault);
    }

    /// Makes one call of any kind fail: the first that `fault` suits, from the `n`-th from now on.
    pub fn fail_call(&self, n: u64, fault: Fault) {
        self.gate.rules.add(Counted::All, n, 1, fault);
    }

    /// Makes all calls fail that `fault` suits, from the `n`-th from now on and until
    /// [`heal`](Self::heal).
    pub fn fail_calls_from(&self, n: u64, fault: Fault) {
        self.gate.rules.add(Counted::All, n, u64::MAX, fault);
    }

    /// Makes one call in `one_in` fail, in any way that suits it, until [`heal`](Self::heal).
    pub fn fail_by_chance(&self, seed: u64, one_in: u64) {
        self.gate.rules.add_chance(seed, one_in);
    }

    /// Makes all reads of files with `part` in their name fail, until [`heal`](Self::heal).
    pub fn fail_reads(&self, part: &str) {
        self.gate.rules.state().unreadable.push(part.to_owned());
    }

    /// Drops all rules.
    pub fn heal(&self) {
        self.gate.rules.clear();
    }

    /// Does `act` without counting its calls, or failing any.
    pub fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        let before = std::mem::replace(&mut self.gate.rules.state().aside, true);
        let done = act();
        self.gate.rules.state().aside = before;
        done
    }

    /// Panics at the first call beyond so many: nothing that ends takes so long.
    pub fn limit_calls(&self, most: u64) {
        self.gate.rules.state().calls_max = Some(most);
    }

    /// How many calls came from `site`, failed ones included.
    pub fn calls(&self, site: Site) -> u64 {
        self.gate.rules.state().calls.get(&site).copied().unwrap_or(0)
    }

    /// All calls so far, in order: the first has the running number 1.
    pub fn all_calls(&self) -> Vec<(Op, Option<Site>)> {
        self.gate.rules.state().all.clone()
    }

    /// The sites that calls came from.
    pub fn sites_reached(&self) -> Vec<Site> {
        self.gate.rules.state().calls.keys().copied().collect()
    }

    /// The calls since the last `take_trace`, in order, failed ones included.
    pub fn take_trace(&self) -> Vec<Call> {
        std::mem::take(&mut self.gate.rules.state().trace)
    }

    /// How many calls failed by a rule.
    pub fn fired(&self) -> u64 {
        self.gate.rules.state().fired.len() as u64
    }

    /// The calls that failed by a rule.
    pub fn all_fired(&self) -> Vec<Fired> {
        self.gate.rules.state().fired.clone()
    }

    /// Files and locks that are open now.
    pub fn open_files(&self) -> u64 {
        self.gate.rules.state().open
    }
}

/// A file or lock that counts as open while this lives.
struct Opened(Arc<Rules>);

impl Opened {
    fn new(gate: &Gate) -> Self {
        gate.rules.state().open += 1;
        Opened(gate.rules.clone())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.state().open -= 1;
    }
}

impl Gate {
    fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    /// Does `call`, or fails it.
    fn pass<T>(
        &self,
        (op, site): (Op, Option<Site>),
        path: &Path,
        call: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if self.is_killed() {
            return Err(Fault::Io.error(op, path));
        }
        match self.rules.next(op, site, path) {
            None => call(),
            Some(fault) => {
                if fault == Fault::DoneUntold {
                    call()?;
                }
                Err(fault.error(op, path))
            }
        }
    }

    fn change<T>(
        &self,
        (op, site): (Op, Site),
        path: &Path,
        call: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.pass((op, Some(site)), path, call)
    }
}

impl FaultFs {
    fn writer(
        &self,
        (site, is_log): (Site, bool),
        path: &Path,
        create: impl FnOnce() -> Result<Box<dyn WritableFile>>,
    ) -> Result<Box<dyn WritableFile>> {
        let inner = self.gate.change((Op::Create, site), path, create)?;
        let opened = Some(Opened::new(&self.gate));
        let (gate, path) = (self.gate.clone(), path.to_owned());
        Ok(Box::new(FaultWriter { inner, gate, path, opened, is_log, ended: false, lost: false }))
    }
}

impl FileSystem for FaultFs {
    fn create(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        self.writer((site, false), path, || self.inner.create(path, site))
    }

    fn create_log(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        self.writer((site, true), path, || self.inner.create_log(path, site))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let inner = self.gate.pass((Op::Open, None), path, || self.inner.open(path))?;
        let opened = Opened::new(&self.gate);
        Ok(Arc::new(FaultReader { inner, gate: self.gate.clone(), _opened: opened }))
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        self.gate.pass((Op::Metadata, None), path, || self.inner.metadata(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.gate.pass((Op::List, None), dir, || self.inner.list(dir))
    }

    fn create_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.gate.change((Op::CreateDir, site), dir, || self.inner.create_dir(dir, site))
    }

    fn remove_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.gate.change((Op::RemoveDir, site), dir, || self.inner.remove_dir(dir, site))
    }

    fn remove_file(&self, path: &Path, site: Site) -> Result<()> {
        self.gate.change((Op::RemoveFile, site), path, || self.inner.remove_file(path, site))
    }

    fn rename(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.gate.change((Op::Rename, site), from, || self.inner.rename(from, to, site))
    }

    fn hard_link(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.gate.change((Op::HardLink, site), from, || self.inner.hard_link(from, to, site))
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.gate.change((Op::SyncDir, site), dir, || self.inner.sync_dir(dir, site))
    }

    fn lock(&self, path: &Path, site: Site) -> Result<Box<dyn FileLock>> {
        let inner = self.gate.change((Op::Lock, site), path, || self.inner.lock(path, site))?;
        Ok(Box::new(FaultLock { _inner: inner, _opened: Opened::new(&self.gate) }))
    }
}

struct FaultLock {
    _inner: Box<dyn FileLock>,
    _opened: Opened,
}

impl FileLock for FaultLock {}

struct FaultWriter {
    inner: Box<dyn WritableFile>,
    gate: Gate,
    path: PathBuf,
    /// `None` once closed.
    opened: Option<Opened>,
    is_log: bool,
    /// An append to a log failed, and the file ends where it broke off.
    ended: bool,
    /// A sync has failed in such a way that none makes anything durable any more.
    lost: bool,
}

impl WritableFile for FaultWriter {
    fn append(&mut self, data: &[u8], site: Site) -> Result<()> {
        if self.gate.is_killed() || self.ended {
            return Err(Fault::Io.error(Op::Append, &self.path));
        }
        match self.gate.rules.next(Op::Append, Some(site), &self.path) {
            None => self.inner.append(data, site),
            Some(fault) => {
                self.inner.append(&data[..fault.bytes_written(data.len())], site)?;
                if self.is_log {
                    // Copies into a log's allocated room do not fail. What breaks off was to grow it.
                    self.inner.close(site)?;
                    self.ended = true;
                }
                Err(fault.error(Op::Append, &self.path))
            }
        }
    }

    fn sync(&mut self, site: Site) -> Result<()> {
        if self.gate.is_killed() || self.ended {
            return Err(Fault::Io.error(Op::Sync, &self.path));
        }
        let fault = self.gate.rules.next(Op::Sync, Some(site), &self.path);
        self.lost |= matches!(fault, Some(Fault::LostSync | Fault::LostSyncFull));
        if !self.lost && matches!(fault, None | Some(Fault::DoneUntold)) {
            self.inner.sync(site)?;
        }
        fault.map_or(Ok(()), |fault| Err(fault.error(Op::Sync, &self.path)))
    }

    fn end_appends(&mut self) -> Option<Box<dyn Send>> {
        self.inner.end_appends()
    }

    fn expect_removal(&mut self) {
        self.inner.expect_removal();
    }

    fn close(&mut self, site: Site) -> Result<()> {
        self.opened = None; // Whatever is answered: a file is closed once only.
        let ended = self.ended;
        let close = || if ended { Ok(()) } else { self.inner.close(site) };
        self.gate.change((Op::Close, site), &self.path, close)
    }
}

struct FaultReader {
    inner: Arc<dyn RandomAccessFile>,
    gate: Gate,
    _opened: Opened,
}

impl FaultReader {
    fn is_unreadable(&self) -> bool {
        let mut state = self.gate.rules.state();
        let name = self.path().file_name().unwrap_or_default().to_string_lossy();
        let hit = !state.aside && state.unreadable.iter().any(|part| name.contains(part));
        if hit {
            let number = state.all.len() as u64;
            let fault = Fault::Io;
            state.fired.push(Fired { number, op: Op::Read, site: None, fault, by_place: true });
        }
        hit
    }
}

impl RandomAccessFile for FaultReader {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let failed = |fault: Fault| fault.error(Op::Read, self.path()).at(offset);
        if self.gate.is_killed() || self.is_unreadable() {
            return Err(failed(Fault::Io));
        }
        match self.gate.rules.next(Op::Read, None, self.path()) {
            None => self.inner.read_at(buf, offset),
            Some(Fault::ShortRead) => {
                let there = self.inner.read_at(buf, offset)?;
                buf[there / 2..].fill(0xa5); // Nobody may rely on it.
                Ok(there / 2)
            }
            Some(fault) => Err(failed(fault)),
        }
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn keep_in_memory(&self) -> bool {
        !self.gate.is_killed() && self.inner.keep_in_memory()
    }

    fn let_go(&self) {
        self.inner.let_go();
    }

    fn is_in_memory(&self) -> bool {
        self.inner.is_in_memory()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}
