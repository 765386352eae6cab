//! The way from a parser to a writer: batches over a bounded channel, each side on its own thread.
//! Used by the verb `load` and by the demo.
//!
//! Concurrency: at most `BATCHES_WAITING` batches are in memory. The writer stops by dropping its
//! end, at which the parser's next send fails. A parser that waits for its input (a terminal, a
//! pipe) is left behind when the user asks to stop; it holds nothing but that input.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{Pair, Sink};
use crate::errors::{Exit, Failure};
use crate::interrupt;

const BATCH_PAIRS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;
const BATCHES_WAITING: usize = 4;
/// How long a request to stop may go unseen while no pairs come.
const GLANCE: Duration = Duration::from_millis(50);

/// What came through.
#[derive(Debug, Default)]
pub(crate) struct Piped {
    pub(crate) pairs: u64,
    /// Time the parser spent parsing, not waiting for the writer.
    pub(crate) parse: Duration,
}

enum Message {
    Batch(Vec<Pair>),
    /// The last message: how the parsing went, and the time it took.
    End(Result<(), Failure>, Duration),
}

/// Runs `parse` on a thread of its own and `write` here, until either ends or the user asks to
/// stop. Pairs that come before a fault in the input are written.
pub(crate) fn pipe(
    parse: impl FnOnce(Sink<'_>) -> Result<(), Failure> + Send + 'static,
    write: impl FnMut(&[Pair]) -> Result<(), Failure>,
) -> Result<Piped, Failure> {
    let (sender, receiver) = sync_channel(BATCHES_WAITING);
    let parser = thread::spawn(move || parse_into(&sender, parse));
    if let Some(piped) = drain(&receiver, write)? {
        return Ok(piped);
    }
    match parser.join() {
        Ok(()) => unreachable!("the parser sends its end before it leaves"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Writes what comes. None if the parser left without a word.
fn drain(
    receiver: &Receiver<Message>,
    mut write: impl FnMut(&[Pair]) -> Result<(), Failure>,
) -> Result<Option<Piped>, Failure> {
    let mut piped = Piped::default();
    while !interrupt::asked() {
        match receiver.recv_timeout(GLANCE) {
            Ok(Message::Batch(batch)) => {
                write(&batch)?;
                piped.pairs += batch.len() as u64;
            }
            Ok(Message::End(result, parse)) => {
                piped.parse = parse;
                return result.map(|()| Some(piped));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
    Ok(Some(piped))
}

/// Parses and sends full batches, then the rest, then the end. A send that fails means that the
/// writer left for a reason that it reports itself.
fn parse_into(sender: &SyncSender<Message>, parse: impl FnOnce(Sink<'_>) -> Result<(), Failure>) {
    let start = Instant::now();
    let mut waited = Duration::ZERO;
    let mut batch = Vec::with_capacity(BATCH_PAIRS);
    let mut batch_bytes = 0;
    let result = parse(&mut |pair| {
        batch_bytes += pair.0.len() + pair.1.len();
        batch.push(pair);
        if batch.len() < BATCH_PAIRS && batch_bytes < BATCH_BYTES {
            return Ok(());
        }
        batch_bytes = 0;
        let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH_PAIRS));
        let sending = Instant::now();
        let sent = sender.send(Message::Batch(full));
        waited += sending.elapsed();
        sent.map_err(|_| Failure::new(Exit::Interrupted, "E-INTERRUPTED", "the writer stopped"))
    });
    let parsing = start.elapsed().saturating_sub(waited);
    if !batch.is_empty() {
        drop(sender.send(Message::Batch(batch)));
    }
    drop(sender.send(Message::End(result, parsing)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(number: usize) -> Pair {
        (number.to_string().into_bytes(), vec![0; 10])
    }

    #[test]
    fn every_pair_comes_through_in_order() {
        let mut seen = Vec::new();
        let piped = pipe(
            |sink| (0..2500).try_for_each(|number| sink(pair(number))),
            |batch| {
                assert!(batch.len() <= BATCH_PAIRS);
                seen.extend_from_slice(batch);
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(piped.pairs, 2500);
        assert_eq!(seen, (0..2500).map(pair).collect::<Vec<_>>());
    }

    #[test]
    fn pairs_before_a_fault_in_the_input_are_written() {
        let mut count = 0;
        let result = pipe(
            |sink| {
                sink(pair(0))?;
                Err(Failure::usage("bad line"))
            },
            |batch| {
                count += batch.len();
                Ok(())
            },
        );
        assert!(format!("{:?}", result.unwrap_err()).contains("bad line"));
        assert_eq!(count, 1);
    }

    #[test]
    fn a_failed_write_stops_an_endless_parser() {
        let result = pipe(
            |sink| (0..).try_for_each(|number| sink(pair(number))),
            |_| Err(Failure::usage("disk full")),
        );
        assert!(format!("{:?}", result.unwrap_err()).contains("disk full"));
    }
}
