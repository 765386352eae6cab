//! Puts pieces: one thread, one piece at a time, in order.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use siltstone::{Error as EngineError, ErrorKind as EngineKind, FileSystem, Site};

use super::piece::{Piece, Stream};
use super::progress::{PIECE_BYTES_MAX, Part, Progress};
use crate::bucket::{Condition, Purpose};
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::{Decision, Home};
use crate::names::{Epoch, Name, Token};

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a wait looks away at most.
const GLANCE: Duration = Duration::from_millis(20);
/// What nobody waits for gathers so long: it leaves with the next write that somebody does wait for, or by itself.
const LINGER: Duration = Duration::from_millis(100);
/// So many needless pieces are removed at once.
const TRIM: usize = 256;

/// When the log goes to the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogArchive {
    /// Never: what is in no table yet is lost with the machine.
    Off,
    /// So long after it was written. A lost machine takes no more with it than was written in that time and that of a
    /// request, as long as the bucket is in reach.
    Every(Duration),
    /// Before a write with [`sync`](siltstone::WriteOptions::sync) is acknowledged: nothing that was is ever lost. Takes
    /// the time of a request for all writers that wait together, with the sync of the folder's log beside it. What is not
    /// synced follows within 100 ms and a request.
    BeforeAcknowledging {
        /// A write fails, and with it all later ones, if the bucket does not take it for so long.
        patience: Duration,
    },
}

impl LogArchive {
    /// For how long what was written waits for more that leaves with it, if nobody waits for it.
    fn gathers_for(self) -> Duration {
        match self {
            LogArchive::Off => Duration::ZERO,
            LogArchive::Every(time) => time,
            LogArchive::BeforeAcknowledging { .. } => LINGER,
        }
    }
}

/// A piece that is to be put, or may have been.
struct Ready {
    part: Part,
    number: u64,
    bytes: Bytes,
}

/// The log's way to the bucket, in its owner's hands.
pub(crate) struct Archive {
    home: Home,
    fs: Arc<dyn FileSystem>,
    epoch: Epoch,
    token: Token,
    when: LogArchive,
    state: Mutex<State>,
    changed: Condvar,
    /// The thread waits for something to be written.
    parked: AtomicBool,
    pub(crate) pieces: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Reads and puts that failed, and were tried again.
    pub(crate) failures: AtomicU64,
}

struct State {
    progress: Progress,
    /// The next piece's number.
    next: u64,
    /// Pieces that are there, and which log each is of.
    there: Vec<(u64, u64)>,
    /// The log that the committed version needs first, once a version of this opening is committed (I3).
    needed: Option<u64>,
    /// Somebody waits until so much of a stream is there.
    awaited: Vec<(u64, u64)>,
    stopping: bool,
    failed: Option<Error>,
}

impl State {
    /// Somebody waits for what is not there yet.
    fn is_awaited(&self) -> bool {
        self.awaited.iter().any(|(stream, bytes)| !self.progress.is_there(*stream, *bytes))
    }
}

/// Somebody who waits for a part of the log to be in the bucket. While there is one, the part does not wait for more.
pub(super) struct Wait<'a> {
    archive: &'a Archive,
    stream: u64,
    bytes: u64,
    patience: Duration,
}

impl Wait<'_> {
    pub(super) fn done(self) -> siltstone::Result<()> {
        self.archive.wait_for(self.stream, self.bytes, self.patience)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let awaited = &mut self.archive.state().awaited;
        if let Some(at) = awaited.iter().position(|its| *its == (self.stream, self.bytes)) {
            awaited.swap_remove(at);
        }
    }
}

impl Archive {
    /// `next` is behind the fence of this owner; `there` are pieces of before.
    pub(crate) fn new(
        home: &Home,
        fs: &Arc<dyn FileSystem>,
        (epoch, token): (Epoch, Token),
        when: LogArchive,
        (next, there): (u64, Vec<(u64, u64)>),
    ) -> Self {
        let state = State {
            progress: Progress::default(),
            next,
            there,
            needed: None,
            awaited: Vec::new(),
            stopping: false,
            failed: None,
        };
        Archive {
            home: home.clone(),
            fs: Arc::clone(fs),
            epoch,
            token,
            when,
            state: Mutex::new(state),
            changed: Condvar::new(),
            parked: AtomicBool::new(false),
            pieces: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// True if what is written goes to the bucket; else it is there only to remove what others have put.
    pub(crate) fn is_on(&self) -> bool {
        self.when != LogArchive::Off
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock stops half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of logs, and wakes whoever waits for that.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Progress) -> T) -> T {
        let changed = change(&mut self.state().progress);
        self.changed.notify_all();
        changed
    }

    /// Something was appended, and counted. Costs a look unless the thread is parked.
    pub(super) fn wake(&self) {
        if self.parked.load(SeqCst) {
            // The lock is what the thread holds between its last look and its rest.
            drop(self.state());
            self.changed.notify_all();
        }
    }

    /// Has so much of a stream go to the bucket soon, if that is what acknowledging waits for.
    pub(super) fn hurry(&self, stream: u64, bytes: u64) -> Option<Wait<'_>> {
        let LogArchive::BeforeAcknowledging { patience } = self.when else { return None };
        self.state().awaited.push((stream, bytes));
        self.changed.notify_all();
        Some(Wait { archive: self, stream, bytes, patience })
    }

    /// Waits until so much of a stream is in the bucket.
    fn wait_for(&self, stream: u64, bytes: u64, patience: Duration) -> siltstone::Result<()> {
        let until = self.home.now().saturating_add(patience);
        let mut state = self.state();
        while !state.progress.is_there(stream, bytes) {
            if let Some(failed) = &state.failed {
                return Err(failed.clone().into());
            }
            if state.stopping || self.home.now() >= until {
                let message = format!("the bucket has not taken the log within {patience:?}");
                return Err(EngineError::new(EngineKind::Io, message));
            }
            state = self.rest(state, GLANCE);
        }
        Ok(())
    }

    /// A version is committed that needs logs from this one on.
    pub(crate) fn committed(&self, needed: u64) {
        let doomed = {
            let mut state = self.state();
            state.needed = state.needed.max(Some(needed));
            state.progress.forget_before(needed)
        };
        self.changed.notify_all();
        self.remove_files(doomed);
    }

    /// Bytes of the log that a lost machine would take with it.
    pub(crate) fn lag(&self) -> u64 {
        self.state().progress.unshipped()
    }

    pub(crate) fn stop(&self) {
        self.state().stopping = true;
        self.changed.notify_all();
    }

    fn rest<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        let (state, _) =
            self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
        state
    }

    /// The thread's work. Returns what has ended it, unless it was told to stop.
    pub(crate) fn run(&self) -> Option<Error> {
        let mut pause = PAUSE_MIN;
        let mut open = None;
        while let Some(piece) = open.take().or_else(|| self.next()) {
            match self.ship(&piece) {
                Ok(()) => pause = PAUSE_MIN,
                Err(error) if error.may_pass() => {
                    self.failures.fetch_add(1, Relaxed);
                    let state = self.rest(self.state(), pause);
                    pause = (2 * pause).min(PAUSE_MAX);
                    // It may be there, or come to be: nothing else is put at its number (I5).
                    open = (!state.stopping).then_some(piece);
                }
                Err(error) => {
                    self.state().failed = Some(error.clone());
                    self.changed.notify_all();
                    return Some(error);
                }
            }
            self.trim(TRIM);
        }
        self.trim(1);
        None
    }

    /// The next piece; `None` at the end.
    fn next(&self) -> Option<Ready> {
        loop {
            let (part, number) = self.next_part()?;
            match self.read(&part) {
                Ok(body) => return Some(self.ready(part, number, body)),
                // A version has made that log needless meanwhile; or its file cannot be read just now.
                Err(_) => {
                    self.failures.fetch_add(1, Relaxed);
                    drop(self.rest(self.state(), PAUSE_MIN));
                }
            }
        }
    }

    /// Waits for something to put, and then a little for more; `None` at the end.
    fn next_part(&self) -> Option<(Part, u64)> {
        let mut state = self.state();
        loop {
            if state.stopping {
                return None;
            }
            let may_ship = state.needed.is_some() && self.is_on();
            // While nothing may be put, what is appended need not wake anybody.
            self.parked.store(may_ship, SeqCst);
            if !may_ship || state.progress.next().is_none() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            self.parked.store(false, SeqCst);
            state = self.gather(state);
            // Meanwhile a version may have made needless what there was to put.
            if let Some(part) = state.progress.next() {
                return Some((part, state.next));
            }
        }
    }

    /// Waits a little for more, unless somebody waits for what there is.
    fn gather<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let until = self.home.now().saturating_add(self.when.gathers_for());
        while !state.is_awaited() && !state.stopping && state.progress.unshipped() < PIECE_BYTES_MAX
        {
            let left = until.saturating_sub(self.home.now());
            if left.is_zero() {
                break;
            }
            state = self.rest(state, left);
        }
        state
    }

    fn ready(&self, part: Part, number: u64, body: Bytes) -> Ready {
        let (log, needs) = (part.log, part.needs);
        let stream = Stream { epoch: self.epoch, log, number: part.stream, needs };
        let piece = Piece::Log { token: self.token, stream, offset: part.offset, body };
        Ready { part, number, bytes: piece.encode() }
    }

    fn ship(&self, Ready { part, number, bytes }: &Ready) -> Outcome<()> {
        let name = self.home.object(&Name::Wal(*number));
        let decision = self.home.decide(&name, bytes, &Condition::Absent, Purpose::Wal)?;
        if let Decision::Other(object) = decision {
            let owner = Piece::decode(&name, &object.body).map(|piece| piece.epoch().0);
            let owner = owner.map_or("somebody".to_owned(), |epoch| format!("epoch {epoch}"));
            return Err(Error::new(ErrorKind::Fenced, &name, format!("is of {owner}")));
        }
        self.pieces.fetch_add(1, Relaxed);
        self.bytes.fetch_add(part.len, Relaxed);
        let doomed = {
            let mut state = self.state();
            state.next = number + 1;
            state.there.push((*number, part.log));
            state.progress.shipped(part)
        };
        self.changed.notify_all();
        self.remove_files(doomed);
        Ok(())
    }

    fn read(&self, part: &Part) -> siltstone::Result<Bytes> {
        let file = self.fs.open(&part.path)?;
        let mut body = vec![0; part.len as usize];
        let read = file.read_at(&mut body, part.offset)?;
        if read < body.len() {
            let message = format!("the log has become shorter: {read} bytes of {}", body.len());
            return Err(EngineError::corruption(message).at(part.offset).in_file(&part.path));
        }
        Ok(Bytes::from(body))
    }

    /// Removes pieces of logs that no version needs, if there are so many.
    fn trim(&self, pieces_min: usize) {
        let needless: Vec<u64> = {
            let state = self.state();
            let Some(needed) = state.needed else { return };
            let needless = state.there.iter().filter(|(_, log)| *log < needed);
            needless.map(|(number, _)| *number).collect()
        };
        if needless.len() < pieces_min {
            return;
        }
        let names: Vec<String> =
            needless.iter().map(|number| self.home.object(&Name::Wal(*number))).collect();
        // What cannot be removed now is removed another time, by whoever opens the database next.
        if names.chunks(1000).all(|names| self.home.remove(names, Purpose::Wal).is_ok()) {
            self.state().there.retain(|(number, _)| !needless.contains(number));
        }
    }

    fn remove_files(&self, paths: Vec<PathBuf>) {
        for path in paths {
            // The engine counts it as removed; what stays is swept when the database is opened next.
            let _ = self.fs.remove_file(&path, Site::WalRemove);
        }
    }
}
