//! A bucket in memory, for tests and examples: it fails at nothing, and takes no time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::bucket::{
    Bucket, BucketError, Call, Condition, Failure, Object, Page, Part, Result, Stat, Tag,
};

/// As S3 has it.
const PAGE: usize = 1000;

/// Objects in memory, gone with the value.
#[derive(Debug, Default)]
pub struct MemoryBucket {
    objects: Mutex<BTreeMap<String, Stored>>,
    /// When objects count as written, in milliseconds: whoever made the bucket moves it on.
    now_ms: AtomicU64,
}

#[derive(Clone, Debug)]
struct Stored {
    body: Bytes,
    tag: Tag,
    written_ms: u64,
    /// Of puts to this name: tags are never used again, even after a delete.
    puts: u64,
    gone: bool,
}

impl MemoryBucket {
    /// An empty one.
    pub fn new() -> Self {
        MemoryBucket::default()
    }

    /// Objects written from now on are dated so.
    pub fn set_now_ms(&self, now_ms: u64) {
        // Nothing else is told by it.
        self.now_ms.store(now_ms, Ordering::Relaxed);
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Stored>> {
        // No call leaves the map half changed.
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket for MemoryBucket {
    fn get(&self, name: &str, part: Part, _: Call) -> Result<Object> {
        let objects = self.objects();
        let stored = there(&objects, name).ok_or_else(|| missing(name))?;
        let all = stored.body.len();
        let (from, to) = match part {
            Part::Whole => (0, all),
            Part::Range { offset, len } => {
                let from = clamp(offset, all);
                (from, clamp(offset.saturating_add(len), all))
            }
            Part::Tail(len) => (all - clamp(len, all), all),
        };
        let (body, tag) = (stored.body.slice(from..to), stored.tag.clone());
        Ok(Object { body, offset: from as u64, bytes: all as u64, tag })
    }

    fn head(&self, name: &str, _: Call) -> Result<Stat> {
        let objects = self.objects();
        there(&objects, name).map(|stored| stat(name, stored)).ok_or_else(|| missing(name))
    }

    fn put(&self, name: &str, body: Bytes, when: Condition, _: Call) -> Result<Tag> {
        let mut objects = self.objects();
        let there = there(&objects, name);
        let holds = match &when {
            Condition::Always => true,
            Condition::Absent => there.is_none(),
            Condition::Tagged(tag) => there.is_some_and(|stored| stored.tag == *tag),
        };
        if !holds {
            let message = format!("put: {when:?} does not hold");
            return Err(BucketError::new(Failure::Refused, name, message));
        }
        let puts = objects.get(name).map_or(0, |stored| stored.puts) + 1;
        let tag = Tag(format!("\"{puts}\""));
        let written_ms = self.now_ms.load(Ordering::Relaxed);
        let stored = Stored { body, tag: tag.clone(), written_ms, puts, gone: false };
        objects.insert(name.to_owned(), stored);
        Ok(tag)
    }

    fn delete(&self, names: &[String], _: Call) -> Result<()> {
        let mut objects = self.objects();
        for name in names {
            if let Some(stored) = objects.get_mut(name) {
                (stored.gone, stored.body) = (true, Bytes::new());
            }
        }
        Ok(())
    }

    fn list(&self, prefix: &str, after: &str, _: Call) -> Result<Page> {
        let objects = self.objects();
        let from = prefix.max(after).to_owned();
        let mut left = objects
            .range(from..)
            .take_while(|(name, _)| name.starts_with(prefix))
            .filter(|(name, stored)| name.as_str() > after && !stored.gone);
        let stats = left.by_ref().take(PAGE).map(|(name, stored)| stat(name, stored)).collect();
        Ok(Page { stats, is_last: left.next().is_none() })
    }
}

fn there<'a>(objects: &'a BTreeMap<String, Stored>, name: &str) -> Option<&'a Stored> {
    objects.get(name).filter(|stored| !stored.gone)
}

fn stat(name: &str, stored: &Stored) -> Stat {
    let (bytes, tag) = (stored.body.len() as u64, stored.tag.clone());
    Stat { name: name.to_owned(), bytes, tag, written_ms: stored.written_ms }
}

fn missing(name: &str) -> BucketError {
    BucketError::new(Failure::Missing, name, "no such object")
}

fn clamp(at: u64, len: usize) -> usize {
    usize::try_from(at).map_or(len, |at| at.min(len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::Purpose;

    const CALL: Call = Call { purpose: Purpose::Tool, within: std::time::Duration::ZERO };

    fn put(bucket: &MemoryBucket, name: &str, when: Condition) -> Result<Tag> {
        bucket.put(name, Bytes::from_static(b"0123456789"), when, CALL)
    }

    #[test]
    fn it_keeps_what_buckets_promise() {
        crate::conformance::check(&MemoryBucket::new());
    }

    #[test]
    fn parts_end_with_the_object() {
        let bucket = MemoryBucket::new();
        put(&bucket, "a", Condition::Always).unwrap();
        let get = |part| bucket.get("a", part, CALL).unwrap();
        for (part, offset, body) in [
            (Part::Whole, 0, &b"0123456789"[..]),
            (Part::Range { offset: 3, len: 2 }, 3, b"34"),
            (Part::Range { offset: 8, len: u64::MAX }, 8, b"89"),
            (Part::Range { offset: 30, len: 2 }, 10, b""),
            (Part::Tail(2), 8, b"89"),
            (Part::Tail(20), 0, b"0123456789"),
        ] {
            let got = get(part);
            assert_eq!((got.offset, &got.body[..], got.bytes), (offset, body, 10), "{part:?}");
        }
    }

    #[test]
    fn conditions_hold_or_refuse() {
        let bucket = MemoryBucket::new();
        let refused = |when| put(&bucket, "a", when).unwrap_err().failure == Failure::Refused;
        let first = put(&bucket, "a", Condition::Absent).unwrap();
        assert!(refused(Condition::Absent));
        let second = put(&bucket, "a", Condition::Tagged(first.clone())).unwrap();
        assert!(refused(Condition::Tagged(first.clone())));
        bucket.delete(&["a".to_owned(), "b".to_owned()], CALL).unwrap();
        assert!(refused(Condition::Tagged(second)));
        assert_ne!(put(&bucket, "a", Condition::Absent).unwrap(), first, "tags are not used again");
    }

    #[test]
    fn lists_come_by_pages() {
        let bucket = MemoryBucket::new();
        (0..2500).for_each(|at| drop(put(&bucket, &format!("p/{at:04}"), Condition::Always)));
        put(&bucket, "q", Condition::Always).unwrap();
        bucket.delete(&["p/0000".to_owned()], CALL).unwrap();
        let (mut names, mut after) = (Vec::new(), String::new());
        loop {
            let page = bucket.list("p/", &after, CALL).unwrap();
            after.clone_from(&page.last().unwrap().name);
            names.extend(page.stats.into_iter().map(|stat| stat.name));
            if page.is_last {
                break;
            }
        }
        assert_eq!(bucket.list("p/", &after, CALL).unwrap(), Page { stats: vec![], is_last: true });
        assert_eq!(names.len(), 2499);
        assert!(names.is_sorted() && names[0] == "p/0001");
    }
}
