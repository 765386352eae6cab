//! A disk that takes its time: files as they are, but what is written waits for a queue that moves so many bytes a second.
//!
//! Writes go to the system's cache, as elsewhere, and a sync waits until the disk has written all that came before it. Reads
//! cost nothing more: what an experiment reads is in the system's cache anyway.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use siltstone::{
    Clock, Env, FileLock, FileSystem, Metadata, RandomAccessFile, Result, Site, WritableFile,
};

/// The system holds up those who write when the disk is further behind than this.
const BEHIND_MAX: Duration = Duration::from_millis(500);

/// The system's files, on a disk of so many bytes a second.
pub(super) fn slow_disk(bytes_per_second: u64) -> Env {
    let env = Env::posix();
    let queue = Arc::new(Queue {
        clock: Arc::clone(&env.clock),
        bytes_per_second: bytes_per_second.max(1),
        done_at: Mutex::new(Duration::ZERO),
    });
    let inner = Arc::clone(&env.file_system);
    Env { file_system: Arc::new(SlowDisk { inner, queue }), ..env }
}

struct Queue {
    clock: Arc<dyn Clock>,
    bytes_per_second: u64,
    /// When all is written that was appended until now.
    done_at: Mutex<Duration>,
}

impl Queue {
    fn append(&self, bytes: usize) {
        let now = self.clock.now();
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let done_at = {
            let mut done_at = self.done_at.lock().unwrap_or_else(PoisonError::into_inner);
            *done_at = now.max(*done_at) + takes;
            *done_at
        };
        self.wait_until(done_at.saturating_sub(BEHIND_MAX));
    }

    fn sync(&self) {
        let done_at = *self.done_at.lock().unwrap_or_else(PoisonError::into_inner);
        self.wait_until(done_at);
    }

    fn wait_until(&self, then: Duration) {
        let left = then.saturating_sub(self.clock.now());
        if !left.is_zero() {
            self.clock.sleep(left);
        }
    }
}

struct SlowDisk {
    inner: Arc<dyn FileSystem>,
    queue: Arc<Queue>,
}

impl SlowDisk {
    fn writer(&self, inner: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        Box::new(SlowWriter { inner, queue: Arc::clone(&self.queue) })
    }
}

impl FileSystem for SlowDisk {
    fn create(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        self.inner.create(path, site).map(|file| self.writer(file))
    }

    fn create_log(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        self.inner.create_log(path, site).map(|file| self.writer(file))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.open(path)
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        self.inner.metadata(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.inner.create_dir(dir, site)
    }

    fn remove_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.inner.remove_dir(dir, site)
    }

    fn remove_file(&self, path: &Path, site: Site) -> Result<()> {
        self.inner.remove_file(path, site)
    }

    fn rename(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.inner.rename(from, to, site)
    }

    fn hard_link(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.inner.hard_link(from, to, site)
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.inner.sync_dir(dir, site)
    }

    fn lock(&self, path: &Path, site: Site) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path, site)
    }
}

struct SlowWriter {
    inner: Box<dyn WritableFile>,
    queue: Arc<Queue>,
}

impl WritableFile for SlowWriter {
    fn append(&mut self, data: &[u8], site: Site) -> Result<()> {
        self.queue.append(data.len());
        self.inner.append(data, site)
    }

    fn sync(&mut self, site: Site) -> Result<()> {
        self.queue.sync();
        self.inner.sync(site)
    }

    fn expect_appends(&mut self, bytes: u64) {
        self.inner.expect_appends(bytes);
    }

    fn get_ahead(&mut self, bytes: u64) -> bool {
        self.inner.get_ahead(bytes)
    }

    fn end_appends(&mut self) -> Option<Box<dyn Send>> {
        self.inner.end_appends()
    }

    fn expect_removal(&mut self) {
        self.inner.expect_removal();
    }

    fn close(&mut self, site: Site) -> Result<()> {
        self.inner.close(site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Hands(Mutex<Duration>);

    impl Clock for Hands {
        fn now(&self) -> Duration {
            *self.0.lock().unwrap()
        }
        fn wall_micros(&self) -> u64 {
            0
        }
        fn sleep(&self, time: Duration) {
            *self.0.lock().unwrap() += time;
        }
    }

    #[test]
    fn syncs_wait_for_the_disk_and_appends_when_it_is_far_behind() {
        let clock = Arc::new(Hands(Mutex::new(Duration::ZERO)));
        let queue = Queue {
            clock: clock.clone(),
            bytes_per_second: 1000,
            done_at: Mutex::new(Duration::ZERO),
        };
        queue.append(400);
        assert_eq!(clock.now(), Duration::ZERO);
        queue.append(300);
        assert_eq!(clock.now(), Duration::from_millis(200), "no more than half a second behind");
        queue.sync();
        assert_eq!(clock.now(), Duration::from_millis(700));
        queue.sync();
        assert_eq!(clock.now(), Duration::from_millis(700), "nothing is left");
    }
}
