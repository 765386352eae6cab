//! A run that was written down: the calls that changed the disk, and between them what the database
//! had promised by then.

use std::path::PathBuf;

use super::history::{Chain, Effect, History, Span, StateHash};
use crate::disk::{CutKind, Disk, Entry, StrictFs};

/// What the workload knows at a position in the journal.
#[derive(Clone, Debug)]
pub enum Note {
    /// So many writes were begun: no more may be found.
    Begun(usize),
    /// So many were acknowledged: the death of the process alone loses none.
    Acknowledged(usize),
    /// So many were promised to be durable: a power cut loses none.
    Promised(usize),
    CopyBegun {
        path: PathBuf,
        hash: StateHash,
    },
    CopyDone {
        path: PathBuf,
    },
}

/// A copy of the database, made by a checkpoint or a repair.
#[derive(Clone, Debug)]
pub struct Copied {
    pub path: PathBuf,
    /// What it holds if it can be opened.
    pub hash: StateHash,
    /// It must be there.
    pub done: bool,
}

/// What must be found at some point.
#[derive(Clone)]
pub struct Expectation<'a> {
    /// After a power cut.
    pub span: Span<'a>,
    /// After the death of the process alone.
    pub acknowledged: usize,
    pub copies: Vec<Copied>,
}

impl<'a> Expectation<'a> {
    /// What the first look after a cut must find: where all was kept, nothing acknowledged is missing.
    pub fn at_once_after(&self, kind: CutKind) -> Expectation<'a> {
        let mut now = self.clone();
        if kind.keeps_all() {
            now.span.from = now.span.from.max(now.acknowledged);
        }
        now
    }

    /// What still holds while a recovery goes on: the death of a process makes nothing durable.
    pub fn later_after(&self, kind: CutKind) -> Expectation<'a> {
        if kind == CutKind::ProcessDeath {
            return self.clone();
        }
        let mut later = self.at_once_after(kind);
        later.acknowledged = later.span.from;
        later
    }
}

/// Writes down a run as it happens.
pub struct Recorder {
    fs: StrictFs,
    start: Disk,
    history: History,
    notes: Vec<(usize, Note)>,
    /// Where the first of the own notes stands: before it, what held before the run holds on.
    known_from: usize,
}

impl Recorder {
    /// A run that begins on `start` with `history`, all of which is durable once
    /// [`known`](Self::known) is called.
    pub fn new(fs: StrictFs, start: Disk, history: History) -> Self {
        Recorder { fs, start, history, notes: Vec::new(), known_from: 0 }
    }

    /// From now on the run's own history counts.
    pub fn known(&mut self, history: History) {
        self.history = history;
        self.known_from = self.fs.position();
        self.promise_all();
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    pub fn note(&mut self, note: Note) {
        self.notes.push((self.fs.position(), note));
    }

    pub fn begin(&mut self) {
        self.note(Note::Begun(self.history.len() + 1));
    }

    pub fn done(&mut self, effect: Effect, synced: bool) {
        self.history.done(effect);
        self.note(Note::Acknowledged(self.history.len()));
        if synced {
            self.promise_all();
        }
    }

    pub fn failed(&mut self, effect: Effect) {
        self.history.failed(effect);
    }

    /// All writes so far are durable from now on.
    pub fn promise_all(&mut self) {
        let count = self.history.len();
        self.note(Note::Begun(count));
        self.note(Note::Acknowledged(count));
        self.note(Note::Promised(count));
    }

    pub fn end(self) -> Run {
        Run {
            trace_hash: self.fs.trace_hash(),
            journal: self.fs.take_journal(),
            start: self.start,
            chain: self.history.chain(),
            notes: self.notes,
            known_from: self.known_from,
            history: self.history,
        }
    }
}

/// A run that is over.
pub struct Run {
    pub start: Disk,
    pub journal: Vec<Entry>,
    pub history: History,
    pub trace_hash: u64,
    chain: Chain,
    notes: Vec<(usize, Note)>,
    known_from: usize,
}

impl Run {
    /// What must be found if the run is cut when the first `position` calls are done. `before` is
    /// what held when the run began.
    pub fn expectation<'a>(
        &'a self,
        position: usize,
        before: Option<&Expectation<'a>>,
    ) -> Expectation<'a> {
        if let Some(before) = before.filter(|_| position < self.known_from) {
            return before.clone();
        }
        let mut span = Span { chain: &self.chain, from: 0, to: 0 };
        let mut acknowledged = 0;
        let mut copies = before.map_or_else(Vec::new, |before| before.copies.clone());
        for (_, note) in self.notes.iter().take_while(|(at, _)| *at <= position) {
            match note {
                Note::Begun(count) => span.to = *count,
                Note::Acknowledged(count) => acknowledged = *count,
                Note::Promised(count) => span.from = *count,
                Note::CopyBegun { path, hash } => {
                    copies.push(Copied { path: path.clone(), hash: *hash, done: false });
                }
                Note::CopyDone { path } => {
                    copies.iter_mut().filter(|copy| copy.path == *path).for_each(|copy| {
                        copy.done = true;
                    });
                }
            }
        }
        Expectation { span, acknowledged, copies }
    }
}
