//! A table on its way to a bucket: sent in parts while it is made, and ended while the merge goes on with the next one.
//!
//! I1: at most one table is in the bucket, or will be by what is on its way, and not told of yet: that much a worker that dies has made in vain.
//! Parts of the next one are no table until their end is sent, which takes a single request.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use crc32c::crc32c_append;
use siltstone::{Error, ErrorKind, Result, Site, WritableFile};
use siltstone_cloud::{Call, Condition, Purpose, Upload};

use crate::input::{Counter, to_error};

/// So much of a table is sent at once. Longer parts take longer than the requests around them, and several are on their way.
const PART_BYTES: usize = 8 << 20;
/// Where tables are longer than a part, the upload of one that has grown to this begins, so that it has begun when the first part is there.
const BEGIN_BYTES: usize = 1 << 20;
/// What is appended at a time is seldom longer: blocks are.
const LONGEST_USUAL: usize = 256 << 10;
/// An upload in parts takes two more requests, for its begin and its end.
const AROUND_PARTS: usize = 2;

/// Tables that are complete, and whose ends are not on their way yet.
#[derive(Default)]
pub(crate) struct Outbox(Mutex<VecDeque<Letter>>);

struct Letter {
    name: String,
    /// In order. If there is an upload, they are with it.
    parts: Vec<Bytes>,
    upload: Option<Box<dyn Upload>>,
}

impl Outbox {
    fn fill(&self, letter: Letter) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(letter);
    }

    /// Puts the oldest. Returns at once if there is a crew.
    pub(crate) fn send(&self, counter: &Arc<Counter>) -> Sent {
        let letter = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
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
    fn put(mut self, counter: &Counter) -> Result<u32> {
        let crc32c = self.parts.iter().fold(0, |crc, part| crc32c_append(crc, part));
        if !self.end_upload(counter) {
            self.put_whole(counter)?;
        }
        Ok(crc32c)
    }

    /// False if there is no upload, or it has failed.
    fn end_upload(&mut self, counter: &Counter) -> bool {
        let Some(upload) = self.upload.take() else { return false };
        counter.meter.count_requests(self.parts.len() + AROUND_PARTS);
        upload.finish().is_ok()
    }

    fn put_whole(self, counter: &Counter) -> Result<()> {
        counter.meter.count_requests(1);
        let body = match <[Bytes; 1]>::try_from(self.parts) {
            Ok([whole]) => whole,
            Err(parts) => parts.concat().into(),
        };
        let call = Call::new(Purpose::CompactOut);
        let put = counter.bucket.put(&self.name, body, Condition::Always, call);
        put.map(drop).map_err(|error| match to_error(&error) {
            // It is not an input that is missing.
            error if error.is_not_found() => {
                Error::new(ErrorKind::Io, error.message()).in_file(Path::new(&self.name))
            }
            error => error,
        })
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
    outbox: Arc<Outbox>,
    counter: Arc<Counter>,
    name: String,
    parts: Vec<Bytes>,
    upload: Option<Box<dyn Upload>>,
    /// When the rest is as long as this, an upload begins.
    begins_at: usize,
    /// What is behind the parts.
    rest: Vec<u8>,
}

impl Draft {
    /// A table that will mostly have so many bytes.
    pub(crate) fn new(
        (outbox, counter): (&Arc<Outbox>, &Arc<Counter>),
        name: String,
        bytes: u64,
    ) -> Self {
        let (outbox, counter) = (Arc::clone(outbox), Arc::clone(counter));
        let begins_at = if bytes > PART_BYTES as u64 { BEGIN_BYTES } else { PART_BYTES };
        let (parts, upload, rest) = (Vec::new(), None, Vec::new());
        Draft { outbox, counter, name, parts, upload, begins_at, rest }
    }

    fn begin_upload(&mut self) {
        let call = Call::new(Purpose::CompactOut);
        self.upload = self.counter.bucket.upload(&self.name, call);
        self.begins_at = usize::MAX;
    }

    /// What there is is a part, and goes if parts do.
    fn cut_part(&mut self, next: Vec<u8>) {
        let part = Bytes::from(std::mem::replace(&mut self.rest, next));
        if let Some(upload) = &mut self.upload {
            upload.send(part.clone());
        }
        self.parts.push(part);
    }
}

impl WritableFile for Draft {
    fn append(&mut self, data: &[u8], _: Site) -> Result<()> {
        if self.rest.len() >= self.begins_at {
            self.begin_upload();
        }
        if self.rest.len() >= PART_BYTES {
            self.cut_part(Vec::with_capacity(PART_BYTES + LONGEST_USUAL));
        }
        self.rest.extend_from_slice(data);
        Ok(())
    }

    /// The table is complete. Its end goes as soon as the one before is told of, and it is told of once it is durable.
    fn sync(&mut self, _: Site) -> Result<()> {
        self.cut_part(Vec::new());
        let (parts, upload) = (std::mem::take(&mut self.parts), self.upload.take());
        self.outbox.fill(Letter { name: self.name.clone(), parts, upload });
        Ok(())
    }

    fn close(&mut self, _: Site) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use siltstone_cloud::{
        Bucket, BucketError, Failure, MemoryBucket, Object, Page, Part, Result as BucketResult,
        Stat, Tag,
    };

    use super::*;
    use crate::input::Meter;

    /// Objects that are sent come to memory, if they are to.
    #[derive(Default)]
    struct Sends {
        memory: Arc<MemoryBucket>,
        fails: bool,
        /// What was sent, by pieces.
        sent: Arc<Mutex<Vec<usize>>>,
        puts: AtomicU64,
    }

    struct Sending {
        name: String,
        body: Vec<u8>,
        fails: bool,
        memory: Arc<MemoryBucket>,
        sent: Arc<Mutex<Vec<usize>>>,
    }

    impl Upload for Sending {
        fn send(&mut self, part: Bytes) {
            self.sent.lock().unwrap().push(part.len());
            self.body.extend_from_slice(&part);
        }

        fn finish(self: Box<Self>) -> BucketResult<Tag> {
            if self.fails {
                return Err(BucketError::new(Failure::Unavailable, &self.name, "as wanted"));
            }
            let call = Call::new(Purpose::CompactOut);
            self.memory.put(&self.name, self.body.into(), Condition::Always, call)
        }
    }

    impl Bucket for Sends {
        fn get(&self, name: &str, part: Part, call: Call) -> BucketResult<Object> {
            self.memory.get(name, part, call)
        }

        fn head(&self, name: &str, call: Call) -> BucketResult<Stat> {
            self.memory.head(name, call)
        }

        fn put(&self, name: &str, body: Bytes, when: Condition, call: Call) -> BucketResult<Tag> {
            self.puts.fetch_add(1, Relaxed);
            self.memory.put(name, body, when, call)
        }

        fn upload(&self, name: &str, _: Call) -> Option<Box<dyn Upload>> {
            let (memory, sent) = (Arc::clone(&self.memory), Arc::clone(&self.sent));
            let (name, fails) = (name.to_owned(), self.fails);
            Some(Box::new(Sending { name, body: Vec::new(), fails, memory, sent }))
        }

        fn delete(&self, names: &[String], call: Call) -> BucketResult<()> {
            self.memory.delete(names, call)
        }

        fn list(&self, prefix: &str, after: &str, call: Call) -> BucketResult<Page> {
            self.memory.list(prefix, after, call)
        }
    }

    #[test]
    fn a_large_table_goes_while_it_is_made_and_whole_if_that_fails() {
        const PIECE: usize = 1 << 20;
        for (usual, pieces, fails, sent, puts) in [
            (2, 3, false, vec![], 1),
            (20, 3, false, vec![3 * PIECE], 0),
            (20, 1, false, vec![], 1),
            (2, 20, false, vec![PART_BYTES, PART_BYTES, 4 * PIECE], 0),
            (20, 20, false, vec![PART_BYTES, PART_BYTES, 4 * PIECE], 0),
            (16, 16, false, vec![PART_BYTES, PART_BYTES], 0),
            (20, 20, true, vec![PART_BYTES, PART_BYTES, 4 * PIECE], 1),
        ] {
            let bucket = Arc::new(Sends { fails, ..Sends::default() });
            let counter = Arc::new(Counter {
                bucket: Arc::clone(&bucket) as _,
                meter: Meter::default(),
                crew: None,
                ahead: AtomicU64::new(0),
                ahead_max: 0,
            });
            let outbox = Arc::new(Outbox::default());
            let usual = usual * PIECE as u64;
            let mut draft = Draft::new((&outbox, &counter), "t".to_owned(), usual);
            let body: Vec<u8> = (0..pieces * PIECE).map(|at| (at / 7) as u8).collect();
            body.chunks(PIECE).for_each(|piece| draft.append(piece, Site::TableAppend).unwrap());
            let call = Call::new(Purpose::Tool);
            assert!(bucket.head("t", call).is_err(), "not before it is complete");
            draft.sync(Site::TableSync).unwrap();
            assert!(bucket.head("t", call).is_err(), "nor before the one before is told of");
            assert_eq!(outbox.send(&counter).wait().unwrap(), crc32c::crc32c(&body));
            assert!(bucket.get("t", Part::Whole, call).unwrap().body == body);
            assert_eq!(
                (bucket.sent.lock().unwrap().clone(), bucket.puts.load(Relaxed)),
                (sent, puts)
            );
        }
    }
}
