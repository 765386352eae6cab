//! A bucket of which the same is asked several times at once while a reader waits for a new version, and the first answer
//! counts. How long a request takes is a matter of luck: one in a hundred takes four times as long as most, and of four
//! the first hardly ever does (Dean and Barroso, The Tail at Scale, 2013).
//!
//! E1: only in haste, which is while a version is opened of which there was news; all else is asked once.
//! E2: what counts is what one request might have been answered: an object, a page, or that there is no such object. Failures
//! count if there is nothing else.
//!
//! **Concurrency.** Who asks waits for a channel; requests are made by a crew. Those that are late are let finish, and those
//! that were not begun when the answer came never are.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use siltstone::Threads;

use crate::bucket::{
    Bucket, Call, Condition, Failure, Object, Page, Part, Purpose, Result, Stat, Tag,
};
use crate::crew::Crew;

/// More copies of a request than this are not made.
const TIMES_MAX: usize = 8;
/// Requests that are asked for beside each other: a version's record, its archived log, and the ends of its tables.
const REQUESTS: usize = 8;

pub(super) struct Eager {
    bucket: Arc<dyn Bucket>,
    times: usize,
    crew: Crew,
    in_haste: AtomicBool,
}

impl Eager {
    /// Each request up to so many times; `None` for once.
    pub(super) fn new(
        bucket: &Arc<dyn Bucket>,
        times: usize,
        threads: &Arc<dyn Threads>,
    ) -> Option<Arc<Self>> {
        let times = times.min(TIMES_MAX);
        let (bucket, crew) = (Arc::clone(bucket), Crew::new(Arc::clone(threads), times * REQUESTS));
        let in_haste = AtomicBool::new(false);
        (times > 1).then(|| Arc::new(Eager { bucket, times, crew, in_haste }))
    }

    pub(super) fn set_haste(&self, in_haste: bool) {
        // What is asked meanwhile may be asked in either way.
        self.in_haste.store(in_haste, Relaxed);
    }

    /// What following asks for, not what readers do.
    fn is_urgent(&self, call: Call) -> bool {
        matches!(call.purpose, Purpose::Replica | Purpose::Wal) && self.in_haste.load(Relaxed)
    }

    fn first<T: Send + 'static>(
        &self,
        ask: impl Fn(&dyn Bucket) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        let (sender, answers) = mpsc::channel();
        let (ask, is_answered) = (Arc::new(ask), Arc::new(AtomicBool::new(false)));
        for _ in 0..self.times {
            let (bucket, ask) = (Arc::clone(&self.bucket), Arc::clone(&ask));
            let (is_answered, sender) = (Arc::clone(&is_answered), sender.clone());
            self.crew.desk().leave(Box::new(move || {
                if !is_answered.load(Relaxed) {
                    // Nobody waits for those that come later.
                    let _ = sender.send(ask(&*bucket));
                }
            }));
        }
        drop(sender);
        let mut failed = None;
        for answer in answers {
            match answer {
                Err(error) if error.failure != Failure::Missing => failed = Some(error),
                answer => {
                    is_answered.store(true, Relaxed);
                    return answer;
                }
            }
        }
        // Without an answer nobody has asked.
        failed.map_or_else(|| ask(&*self.bucket), Err)
    }
}

impl Bucket for Eager {
    fn get(&self, name: &str, part: Part, call: Call) -> Result<Object> {
        if !self.is_urgent(call) {
            return self.bucket.get(name, part, call);
        }
        let name = name.to_owned();
        self.first(move |bucket| bucket.get(&name, part, call))
    }

    fn get_each(&self, names: &[String], part: Part, call: Call) -> Vec<Result<Object>> {
        self.bucket.get_each(names, part, call)
    }

    fn head(&self, name: &str, call: Call) -> Result<Stat> {
        self.bucket.head(name, call)
    }

    fn put(&self, name: &str, body: Bytes, when: Condition, call: Call) -> Result<Tag> {
        self.bucket.put(name, body, when, call)
    }

    fn delete(&self, names: &[String], call: Call) -> Result<()> {
        self.bucket.delete(names, call)
    }

    fn list(&self, prefix: &str, after: &str, call: Call) -> Result<Page> {
        if !self.is_urgent(call) {
            return self.bucket.list(prefix, after, call);
        }
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        self.first(move |bucket| bucket.list(&prefix, &after, call))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Condvar, Mutex};

    use siltstone::Env;

    use super::*;
    use crate::bucket::BucketError;
    use crate::memory::MemoryBucket;

    const NAME: &str = "object";
    const CALL: Call =
        Call { purpose: Purpose::Replica, within: std::time::Duration::from_secs(9) };

    /// What becomes of a get.
    #[derive(Clone, Copy)]
    enum Luck {
        Good,
        Fails,
        /// Until the test lets it go on.
        Hangs,
    }

    /// A bucket with one object, whose next gets have such luck, and good luck afterwards.
    #[derive(Default)]
    struct Lucky {
        memory: MemoryBucket,
        next: Mutex<VecDeque<Luck>>,
        asked: AtomicUsize,
        is_over: Mutex<bool>,
        over: Condvar,
    }

    impl Lucky {
        fn with(next: &[Luck]) -> Arc<Self> {
            let bucket =
                Lucky { next: Mutex::new(next.iter().copied().collect()), ..Self::default() };
            bucket.memory.put(NAME, Bytes::from("body"), Condition::Always, CALL).unwrap();
            Arc::new(bucket)
        }

        fn let_go(&self) {
            *self.is_over.lock().unwrap() = true;
            self.over.notify_all();
        }

        fn meet_luck(&self, name: &str) -> Result<()> {
            self.asked.fetch_add(1, Relaxed);
            let luck = self.next.lock().unwrap().pop_front().unwrap_or(Luck::Good);
            match luck {
                Luck::Good => {}
                Luck::Fails => return Err(BucketError::new(Failure::Unavailable, name, "no luck")),
                Luck::Hangs => {
                    let is_over = self.is_over.lock().unwrap();
                    drop(self.over.wait_while(is_over, |is_over| !*is_over).unwrap());
                }
            }
            Ok(())
        }
    }

    impl Bucket for Lucky {
        fn get(&self, name: &str, part: Part, call: Call) -> Result<Object> {
            self.meet_luck(name)?;
            self.memory.get(name, part, call)
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
            self.meet_luck(prefix)?;
            self.memory.list(prefix, after, call)
        }
    }

    fn eager(bucket: &Arc<Lucky>) -> Arc<Eager> {
        let bucket: Arc<dyn Bucket> = bucket.clone();
        let eager = Eager::new(&bucket, 3, &Env::memory().threads).unwrap();
        eager.set_haste(true);
        eager
    }

    #[test]
    fn the_first_answer_counts_and_late_ones_hold_nobody_up() {
        let bucket = Lucky::with(&[Luck::Hangs, Luck::Fails, Luck::Good]);
        let eager = eager(&bucket);
        assert_eq!(eager.get(NAME, Part::Whole, CALL).unwrap().body, "body");
        *bucket.next.lock().unwrap() = [Luck::Hangs, Luck::Hangs, Luck::Good].into();
        assert_eq!(eager.list("", "", CALL).unwrap().len(), 1);
        *bucket.next.lock().unwrap() = [Luck::Hangs, Luck::Hangs, Luck::Good].into();
        let missing = eager.get("no object", Part::Whole, CALL).unwrap_err();
        assert_eq!(missing.failure, Failure::Missing, "an answer, too");
        bucket.let_go();
    }

    #[test]
    fn failures_count_if_there_is_nothing_else() {
        let bucket = Lucky::with(&[Luck::Fails; 3]);
        let failed = eager(&bucket).get(NAME, Part::Whole, CALL).unwrap_err();
        assert_eq!((failed.failure, bucket.asked.load(Relaxed)), (Failure::Unavailable, 3));
    }

    #[test]
    fn without_haste_and_for_others_it_is_asked_once() {
        let bucket = Lucky::with(&[]);
        let eager = eager(&bucket);
        eager.get(NAME, Part::Whole, Call::new(Purpose::Get)).unwrap();
        assert_eq!(bucket.asked.load(Relaxed), 1);
        eager.set_haste(false);
        eager.get(NAME, Part::Whole, CALL).unwrap();
        eager.list("", "", CALL).unwrap();
        assert_eq!(bucket.asked.load(Relaxed), 3);
        let once: Arc<dyn Bucket> = bucket.clone();
        assert!(Eager::new(&once, 1, &Env::memory().threads).is_none());
        assert!(Eager::new(&once, 0, &Env::memory().threads).is_none());
    }
}
