//! Reading tables from a bucket that counts, fails and waits as it is told.

mod figures;
mod single;
mod store;

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use siltstone::{Access, RandomAccessFile};

use super::object::TableObject;
use super::tables::{RemoteOptions, RemoteTables};
use crate::bucket::{
    Bucket, BucketError, Call, Condition, Failure, Object, Page, Part, Purpose, Result, Stat, Tag,
};
use crate::memory::MemoryBucket;

/// What a get brings instead of what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twist {
    Fails(Failure),
    /// The answer ends too early.
    CutShort,
    /// A byte of the answer is another.
    Changed,
    Panics,
}

/// A bucket in memory that notes all gets of tables.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) memory: MemoryBucket,
    gets: Mutex<Vec<(Part, Purpose)>>,
    twist: Mutex<Option<(Twist, usize)>>,
    gate: Mutex<Gate>,
    moved: Condvar,
}

/// While it is shut gets wait.
#[derive(Default)]
struct Gate {
    is_shut: bool,
    waiting: usize,
}

impl Watched {
    /// What was asked for since the last call.
    pub(super) fn take(&self) -> Vec<(Part, Purpose)> {
        std::mem::take(&mut self.gets.lock().unwrap())
    }

    /// The next gets, so many.
    pub(super) fn twist(&self, twist: Twist, gets: usize) {
        *self.twist.lock().unwrap() = Some((twist, gets));
    }

    pub(super) fn untwist(&self) {
        *self.twist.lock().unwrap() = None;
    }

    fn shut(&self) {
        self.gate.lock().unwrap().is_shut = true;
    }

    fn wait_for_gets(&self, count: usize) {
        let mut gate = self.gate.lock().unwrap();
        while gate.waiting < count {
            gate = self.moved.wait(gate).unwrap();
        }
    }

    fn open_gate(&self) {
        self.gate.lock().unwrap().is_shut = false;
        self.moved.notify_all();
    }

    fn pass_gate(&self) {
        let mut gate = self.gate.lock().unwrap();
        gate.waiting += 1;
        self.moved.notify_all();
        while gate.is_shut {
            gate = self.moved.wait(gate).unwrap();
        }
        gate.waiting -= 1;
    }

    fn next_twist(&self) -> Option<Twist> {
        let mut twist = self.twist.lock().unwrap();
        let (kind, left) = twist.as_mut()?;
        let kind = *kind;
        *left -= 1;
        if *left == 0 {
            *twist = None;
        }
        Some(kind)
    }

    pub(super) fn put_table(&self, name: &str, body: Vec<u8>) -> TableObject {
        let (bytes, crc32c) = (body.len() as u64, crc32c::crc32c(&body));
        let call = Call::new(Purpose::Tool);
        self.memory.put(name, body.into(), Condition::Always, call).unwrap();
        TableObject { name: name.to_owned(), bytes, crc32c }
    }
}

impl Bucket for Watched {
    fn get(&self, name: &str, part: Part, call: Call) -> Result<Object> {
        assert!(call.within > Duration::ZERO);
        self.gets.lock().unwrap().push((part, call.purpose));
        self.pass_gate();
        let twist = self.next_twist();
        let mut object = self.memory.get(name, part, call)?;
        match twist {
            None => {}
            Some(Twist::Fails(failure)) => {
                return Err(BucketError::new(failure, name, "as the test wants it"));
            }
            Some(Twist::CutShort) => object.body.truncate(object.body.len() / 2),
            Some(Twist::Changed) => {
                let mut body = object.body.to_vec();
                let middle = body.len() / 2;
                body[middle] ^= 0x10;
                object.body = Bytes::from(body);
            }
            Some(Twist::Panics) => panic!("as the test wants it"),
        }
        Ok(object)
    }

    fn head(&self, name: &str, call: Call) -> Result<Stat> {
        self.memory.head(name, call)
    }

    fn put(&self, name: &str, body: Bytes, when: Condition, call: Call) -> Result<Tag> {
        self.memory.put(name, body, when, call)
    }

    fn delete(&self, names: &[String], call: Call) -> Result<()> {
        self.memory.delete(names, call)
    }

    fn list(&self, prefix: &str, after: &str, call: Call) -> Result<Page> {
        self.memory.list(prefix, after, call)
    }
}

/// Bytes no two runs of which are alike.
pub(super) fn body(len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8) as u64)
        .flat_map(|at| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    words.take(len).collect()
}

pub(super) fn tables(bucket: &Arc<Watched>, options: RemoteOptions) -> RemoteTables {
    RemoteTables::new(bucket.clone(), options).unwrap()
}

/// Reads and compares.
fn check(file: &dyn RandomAccessFile, body: &[u8], offset: usize, len: usize, access: Access) {
    let mut buf = vec![0; len];
    let read = file.read_for(&mut buf, offset as u64, access).unwrap();
    let expected = &body[offset.min(body.len())..body.len().min(offset + len)];
    assert_eq!(read, expected.len(), "{offset}+{len}");
    assert!(buf[..read] == *expected, "{offset}+{len} for {access:?}");
}
