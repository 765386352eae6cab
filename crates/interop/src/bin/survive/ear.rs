//! Listens to a process until it has told enough, and counts what it tells. For `survive full`, whose
//! processes are listened to more than once.

use std::time::{Duration, Instant};

use crate::history::History;
use crate::pipe::{Heard, Message, Worker};

/// A listener with a memory.
pub(crate) struct Ear<'a> {
    pub(crate) worker: Worker,
    history: &'a mut History,
    pub(crate) heard: Told,
}

/// What a process has told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) acks: u64,
    pub(crate) failures: u64,
    pub(crate) right: u64,
    pub(crate) wrong: u64,
    pub(crate) unread: u64,
}

impl<'a> Ear<'a> {
    pub(crate) fn new(worker: Worker, history: &'a mut History) -> Ear<'a> {
        Ear { worker, history, heard: Told::default() }
    }

    /// Listens until `enough`; false if that does not come within `patience`, or at all.
    pub(crate) fn listen(&mut self, patience: Duration, enough: impl Fn(&Told) -> bool) -> bool {
        let deadline = Instant::now() + patience;
        while !enough(&self.heard) {
            match self.worker.listen(deadline) {
                Heard::Messages(messages) => messages.iter().for_each(|told| self.note(*told)),
                Heard::Silence | Heard::End => return false,
            }
            if Instant::now() >= deadline {
                return false;
            }
        }
        true
    }

    fn note(&mut self, message: Message) {
        self.history.note(message);
        match message {
            Message::Acked { .. } => self.heard.acks += 1,
            Message::Failed { .. } => self.heard.failures += 1,
            Message::Read { right } => self.heard.right += right,
            Message::Misread { wrong } => self.heard.wrong += wrong,
            Message::Unread { failed } => self.heard.unread += failed,
            _ => {}
        }
    }
}
