//! A worker's way to the bucket, which stands still and ends with the worker: merges have threads of their own, which nobody
//! can pause or kill.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use siltstone_cloud::{
    Bucket, BucketError, Call, Condition, Failure, Object, Page, Part, Purpose, Result, Stat, Tag,
};

/// As the worker is.
#[derive(Clone, Copy, Debug)]
enum State {
    Alive,
    Paused { until: Instant },
    Dead,
}

/// Counts what goes through.
pub(super) struct Gate {
    inner: Arc<dyn Bucket>,
    /// So much longer each output takes.
    pace: Duration,
    state: Mutex<State>,
    outputs: AtomicU64,
}

impl Gate {
    pub(super) fn new(inner: Arc<dyn Bucket>, pace: Duration) -> Self {
        Gate { inner, pace, state: Mutex::new(State::Alive), outputs: AtomicU64::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing begins or ends here for so long.
    pub(super) fn pause(&self, time: Duration) {
        *self.state() = State::Paused { until: Instant::now() + time };
    }

    /// Nothing ever does.
    pub(super) fn kill(&self) {
        *self.state() = State::Dead;
    }

    /// Tables that are in the bucket by it.
    pub(super) fn outputs(&self) -> u64 {
        self.outputs.load(Ordering::Relaxed)
    }

    /// Waits while the worker stands still.
    fn pass(&self, name: &str) -> Result<()> {
        loop {
            let state = *self.state();
            match state {
                State::Paused { until } if Instant::now() < until => {
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                }
                State::Alive | State::Paused { .. } => return Ok(()),
                State::Dead => {
                    let message = "the worker was killed";
                    return Err(BucketError::new(Failure::Unavailable, name, message));
                }
            }
        }
    }

    /// What was asked for before may still be done after the worker's end; it does not hear of it.
    fn call<T>(&self, name: &str, call: impl FnOnce(&dyn Bucket) -> Result<T>) -> Result<T> {
        self.pass(name)?;
        let answer = call(self.inner.as_ref());
        self.pass(name)?;
        answer
    }
}

impl Bucket for Gate {
    fn get(&self, name: &str, part: Part, call: Call) -> Result<Object> {
        self.call(name, |bucket| bucket.get(name, part, call))
    }

    fn head(&self, name: &str, call: Call) -> Result<Stat> {
        self.call(name, |bucket| bucket.head(name, call))
    }

    fn put(&self, name: &str, body: Bytes, when: Condition, call: Call) -> Result<Tag> {
        let is_output = call.purpose == Purpose::CompactOut;
        if is_output {
            std::thread::sleep(self.pace);
        }
        self.call(name, |bucket| {
            let put = bucket.put(name, body, when, call);
            self.outputs.fetch_add(u64::from(is_output && put.is_ok()), Ordering::Relaxed);
            put
        })
    }

    fn delete(&self, names: &[String], call: Call) -> Result<()> {
        let first = names.first().map_or("", String::as_str);
        self.call(first, |bucket| bucket.delete(names, call))
    }

    fn list(&self, prefix: &str, after: &str, call: Call) -> Result<Page> {
        self.call(prefix, |bucket| bucket.list(prefix, after, call))
    }
}

#[cfg(test)]
mod tests {
    use siltstone_cloud::MemoryBucket;

    use super::*;

    #[test]
    fn a_gate_counts_outputs_waits_and_ends() {
        let gate = Gate::new(Arc::new(MemoryBucket::new()), Duration::ZERO);
        let put = |name: &str, purpose| {
            gate.put(name, Bytes::from_static(b"table"), Condition::Always, Call::new(purpose))
        };
        put("a", Purpose::CompactOut).unwrap();
        put("b", Purpose::Flush).unwrap();
        assert_eq!(gate.outputs(), 1);
        let (time, begin) = (Duration::from_millis(30), Instant::now());
        gate.pause(time);
        put("c", Purpose::CompactOut).unwrap();
        assert!(begin.elapsed() >= time && gate.outputs() == 2);
        gate.kill();
        assert_eq!(put("d", Purpose::CompactOut).unwrap_err().failure, Failure::Unavailable);
        assert_eq!(gate.outputs(), 2);
    }
}
