//! A table on its way to a bucket: gathered in memory, and put whole once it is finished, while the merge goes on with the next one.
//!
//! I1: at most one table is on its way, or put and not told of yet: that much a worker that dies has made in vain.

use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use siltstone::{Error, ErrorKind, Result, Site, WritableFile};
use siltstone_cloud::{Call, Condition, Purpose};

use crate::input::{Counter, to_error};

/// The table that is complete, and not on its way yet.
#[derive(Default)]
pub(crate) struct Outbox(Mutex<Option<Letter>>);

struct Letter {
    name: String,
    body: Bytes,
}

impl Outbox {
    fn fill(&self, letter: Letter) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(letter);
    }

    /// Puts what is in it. Returns at once if there is a crew.
    pub(crate) fn send(&self, counter: &Arc<Counter>) -> Sent {
        let letter = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let letter = letter.expect("tables are synced before they are finished");
        let (sender, answer) = sync_channel(1);
        let put = {
            let counter = Arc::clone(counter);
            // Nobody may want to know any more.
            move || drop(sender.send(letter.put(&counter)))
        };
        match &counter.crew {
            Some(crew) => crew.have_done(Box::new(put)),
            None => put(),
        }
        Sent(answer)
    }
}

impl Letter {
    /// Returns the CRC-32C of all its bytes. No attempt but this one has the name, so a put that nobody is sure of does no harm, whenever it
    /// arrives.
    fn put(self, counter: &Counter) -> Result<u32> {
        counter.meter.count_request();
        let crc32c = crc32c::crc32c(&self.body);
        let call = Call::new(Purpose::CompactOut);
        let put = counter.bucket.put(&self.name, self.body, Condition::Always, call);
        put.map_err(|error| match to_error(&error) {
            // It is not an input that is missing.
            error if error.is_not_found() => {
                Error::new(ErrorKind::Io, error.message()).in_file(Path::new(&self.name))
            }
            error => error,
        })?;
        Ok(crc32c)
    }
}

/// A table that is on its way.
pub(crate) struct Sent(Receiver<Result<u32>>);

impl Sent {
    /// Whether somebody who waits for it would not have to.
    pub(crate) fn poll(&self) -> Option<Result<u32>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(nobody_put_it())),
        }
    }

    /// Waits until it is durable. Returns its checksum.
    pub(crate) fn wait(&self) -> Result<u32> {
        self.0.recv().unwrap_or_else(|_| Err(nobody_put_it()))
    }
}

fn nobody_put_it() -> Error {
    Error::new(ErrorKind::Io, "the worker ended before the table was put")
}

/// A table that is being written.
pub(crate) struct Draft {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) name: String,
    pub(crate) body: Vec<u8>,
}

impl WritableFile for Draft {
    fn append(&mut self, data: &[u8], _: Site) -> Result<()> {
        self.body.extend_from_slice(data);
        Ok(())
    }

    /// The table is complete. It goes as soon as the one before is told of, and is told of once it is durable.
    fn sync(&mut self, _: Site) -> Result<()> {
        let body = Bytes::from(std::mem::take(&mut self.body));
        self.outbox.fill(Letter { name: self.name.clone(), body });
        Ok(())
    }

    fn close(&mut self, _: Site) -> Result<()> {
        Ok(())
    }
}
