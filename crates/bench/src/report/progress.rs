//! A bar on a terminal's standard error while a benchmark runs; nothing anywhere else. Each thread
//! moves it a hundred times at most, so that it costs next to nothing.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

const STEPS: u64 = 100;

/// The bar of one benchmark, gone from the screen when dropped.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    step: u64,
}

impl Progress {
    /// A bar for `operations` that `threads` threads share evenly. For 0 operations there is none.
    pub(crate) fn new(name: &str, operations: u64, threads: usize) -> Self {
        let wanted = operations > 0 && std::io::stderr().is_terminal();
        let style = "{msg:<12} {bar:40} {pos}/{len} ({eta} left)";
        let bar = wanted.then(|| {
            let bar = ProgressBar::new(operations).with_message(name.to_owned());
            // The bar does without a style that it does not take.
            match ProgressStyle::with_template(style) {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Progress { bar, step: (operations / threads.max(1) as u64 / STEPS).max(1) }
    }

    /// What one thread moves the bar with.
    pub(crate) fn meter(&self) -> Meter {
        let next = if self.bar.is_some() { self.step } else { u64::MAX };
        Meter { bar: self.bar.clone(), step: self.step, next }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// One thread's hand on the bar.
pub(crate) struct Meter {
    bar: Option<ProgressBar>,
    step: u64,
    /// The count of operations at which the bar moves next.
    next: u64,
}

impl Meter {
    /// No bar at all.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Meter { bar: None, step: 1, next: u64::MAX }
    }

    #[inline]
    pub(crate) fn is_due(&self, done: u64) -> bool {
        done >= self.next
    }

    #[cold]
    pub(crate) fn advance(&mut self) {
        self.next += self.step;
        if let Some(bar) = &self.bar {
            bar.inc(self.step);
        }
    }
}
