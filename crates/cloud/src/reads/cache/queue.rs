//! Extents that are to be written, and can be read meanwhile: so a reader that brings one does not wait for the disk.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::Key;

/// What waits at most. More is dropped: the disk cannot follow.
const WAITING_BYTES_MAX: usize = 16 << 20;

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Something has come, or is done, or the end has.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    line: VecDeque<Key>,
    waiting: BTreeMap<Key, Bytes>,
    bytes: usize,
    is_closed: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // Line and map are changed together, by what cannot panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False if there is no room.
    pub(super) fn push(&self, key: Key, bytes: Bytes) -> bool {
        let mut state = self.state();
        if state.is_closed || state.bytes + bytes.len() > WAITING_BYTES_MAX {
            return false;
        }
        let len = bytes.len();
        if state.waiting.insert(key, bytes).is_none() {
            state.bytes += len;
            state.line.push_back(key);
            self.changed.notify_all();
        }
        true
    }

    pub(super) fn get(&self, key: &Key) -> Option<Bytes> {
        self.state().waiting.get(key).cloned()
    }

    /// Forgets what is to be written of these.
    pub(super) fn forget(&self, is_gone: impl Fn(&Key) -> bool) {
        let mut state = self.state();
        let State { line, waiting, bytes, .. } = &mut *state;
        line.retain(|key| {
            let gone = is_gone(key);
            if gone && let Some(content) = waiting.remove(key) {
                *bytes -= content.len();
            }
            !gone
        });
    }

    /// Waits for the next to write; `None` once all is written and the queue closed. It can be read until it is [`done`](Self::done).
    pub(super) fn next(&self) -> Option<(Key, Bytes)> {
        let mut state = self.state();
        loop {
            if let Some(key) = state.line.front().copied()
                && let Some(bytes) = state.waiting.get(&key).cloned()
            {
                return Some((key, bytes));
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What came [`next`](Self::next) lies on the disk, or never will.
    pub(super) fn done(&self, key: &Key) {
        let mut state = self.state();
        if state.line.front() == Some(key) {
            state.line.pop_front();
            if let Some(bytes) = state.waiting.remove(key) {
                state.bytes -= bytes.len();
            }
        }
        self.changed.notify_all();
    }

    /// Waits until nothing waits.
    pub(super) fn settle(&self) {
        let mut state = self.state();
        while !state.line.is_empty() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }
}
