//! The pipe from the process that will be killed to the one that kills it: what was begun, what was
//! acknowledged, and what the process is about. Each message is one `write` call, so a kill
//! cuts none in two, and what was said before it is read after it.
//!
//! **Layout** of a message: kind (1 byte), detail (1), number (8, little endian).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Pid;

const MESSAGE_BYTES: usize = 10;
/// Linux's default capacity of a pipe.
const PIPE_BYTES: usize = 64 << 10;

/// What the process tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The writer is about to write the batch.
    Begun { writer: u8, number: u64, synced: bool },
    /// The write has returned, without an error.
    Acked { writer: u8, number: u64 },
    /// The write has returned an error.
    Failed { writer: u8, number: u64 },
    /// A phase begins.
    Phase(Phase),
    /// A compaction in the background begins or ends.
    Compaction { begins: bool },
    /// The first synced write behind a change of logs was acknowledged, and nothing follows.
    Rotated,
    /// The database could not be opened or cared for.
    Broken,
    /// After a failed write, acknowledged ones were read: so many were there.
    Read { right: u64 },
    /// So many were not, or were other than written.
    Misread { wrong: u64 },
    /// So many reads failed.
    Unread { failed: u64 },
}

/// What the process is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Opening,
    Writing,
    Flushing,
    Compacting,
    Checkpoint,
    Closing,
}

impl Phase {
    pub(crate) const ALL: [Phase; 6] = [
        Phase::Opening,
        Phase::Writing,
        Phase::Flushing,
        Phase::Compacting,
        Phase::Checkpoint,
        Phase::Closing,
    ];

    /// For figures: "killed while ...".
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Opening => "opening",
            Phase::Writing => "writing",
            Phase::Flushing => "flushing by hand",
            Phase::Compacting => "compacting by hand",
            Phase::Checkpoint => "making a checkpoint",
            Phase::Closing => "closing",
        }
    }
}

impl Message {
    fn encode(self) -> [u8; MESSAGE_BYTES] {
        let (kind, detail, number) = match self {
            Message::Begun { writer, number, synced: false } => (0, writer, number),
            Message::Begun { writer, number, synced: true } => (1, writer, number),
            Message::Acked { writer, number } => (2, writer, number),
            Message::Failed { writer, number } => (3, writer, number),
            Message::Phase(phase) => (4, phase as u8, 0),
            Message::Compaction { begins } => (5, begins.into(), 0),
            Message::Rotated => (6, 0, 0),
            Message::Broken => (7, 0, 0),
            Message::Read { right } => (8, 0, right),
            Message::Misread { wrong } => (9, 0, wrong),
            Message::Unread { failed } => (10, 0, failed),
        };
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..2].copy_from_slice(&[kind, detail]);
        bytes[2..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; MESSAGE_BYTES]) -> Message {
        let [kind, detail, number @ ..] = bytes;
        let number = u64::from_le_bytes(number);
        match kind {
            0 | 1 => Message::Begun { writer: detail, number, synced: kind == 1 },
            2 => Message::Acked { writer: detail, number },
            3 => Message::Failed { writer: detail, number },
            4 => Message::Phase(Phase::ALL[usize::from(detail)]),
            5 => Message::Compaction { begins: detail == 1 },
            6 => Message::Rotated,
            7 => Message::Broken,
            8 => Message::Read { right: number },
            9 => Message::Misread { wrong: number },
            10 => Message::Unread { failed: number },
            _ => panic!("the child speaks another language: {bytes:?}"),
        }
    }
}

/// The child's end: its standard output. May be shared by threads.
pub(crate) struct Voice(File);

impl Voice {
    pub(crate) fn new() -> Voice {
        let out = io::stdout().as_fd().try_clone_to_owned();
        Voice(File::from(out.expect("a process may copy its output's descriptor")))
    }

    /// Without a listener there is nothing left to do, and the process ends.
    pub(crate) fn say(&self, message: Message) {
        if (&self.0).write_all(&message.encode()).is_err() {
            std::process::exit(0);
        }
    }
}

/// The parent's end, and the process. Ends it when dropped.
pub(crate) struct Worker {
    child: Child,
    /// The child ends when this does: even if we are killed, it does not stay.
    _input: Option<ChildStdin>,
    output: ChildStdout,
    /// The beginning of a message whose rest has not come yet.
    partial: Vec<u8>,
}

/// What listening brought.
pub(crate) enum Heard {
    Messages(Vec<Message>),
    /// Nothing until the deadline.
    Silence,
    /// The process is gone.
    End,
}

impl Worker {
    pub(crate) fn start(command: &mut Command) -> Worker {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.expect("the program starts once more");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("the output is piped");
        Worker { child, _input: input, output, partial: Vec::new() }
    }

    /// Waits for messages until `deadline`.
    pub(crate) fn listen(&mut self, deadline: Instant) -> Heard {
        let left = deadline.saturating_duration_since(Instant::now());
        if !is_readable(self.output.as_fd(), left) {
            return Heard::Silence;
        }
        let mut bytes = vec![0; PIPE_BYTES];
        let read = self.output.read(&mut bytes).expect("a pipe can be read");
        if read == 0 {
            return Heard::End;
        }
        self.partial.extend_from_slice(&bytes[..read]);
        let whole = self.partial.len() / MESSAGE_BYTES * MESSAGE_BYTES;
        let rest = self.partial.split_off(whole);
        let whole = std::mem::replace(&mut self.partial, rest);
        let (messages, _) = whole.as_chunks::<MESSAGE_BYTES>();
        Heard::Messages(messages.iter().map(|bytes| Message::decode(*bytes)).collect())
    }

    /// For calls that say which process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Ends the process as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself, which `wait` tells.
        let _ = self.child.kill();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a child can be waited for")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

fn is_readable(output: BorrowedFd<'_>, left: Duration) -> bool {
    let timeout = Timespec::try_from(left).expect("deadlines are near");
    let mut fds = [PollFd::new(&output, PollFlags::IN)];
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        Ok(ready) => ready > 0,
        // As if nothing had come: the caller looks at its clock and asks again.
        Err(rustix::io::Errno::INTR) => false,
        Err(error) => panic!("a pipe can be waited for: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_said() {
        let messages = [
            Message::Begun { writer: 2, number: u64::MAX, synced: true },
            Message::Begun { writer: 0, number: 1, synced: false },
            Message::Acked { writer: 1, number: 77 },
            Message::Failed { writer: 1, number: 78 },
            Message::Phase(Phase::Closing),
            Message::Compaction { begins: true },
            Message::Compaction { begins: false },
            Message::Rotated,
            Message::Broken,
            Message::Read { right: 5 },
            Message::Misread { wrong: 6 },
            Message::Unread { failed: 7 },
        ];
        for message in messages {
            assert_eq!(Message::decode(message.encode()), message);
        }
        for (at, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, at);
        }
    }
}
