//! Pieces of the log out of the bucket, many at once: each is a request, and there may be hundreds.

use std::sync::mpsc;

use siltstone::Threads;

use crate::bucket::{Object, Purpose};
use crate::error::Outcome;
use crate::home::{Home, OBJECT_BYTES_MAX};
use crate::names::Name;

/// So many pieces are asked for together, and in memory at once beside the logs that they make.
pub(super) const AT_ONCE: usize = 32;

/// What is in the bucket under these numbers, in their order; `None` where there is nothing.
pub(super) fn fetch(
    home: &Home,
    threads: &dyn Threads,
    numbers: &[u64],
) -> Vec<Outcome<Option<Object>>> {
    let (tell, told) = mpsc::channel();
    let lanes: Vec<_> = (0..numbers.len())
        .filter_map(|nth| {
            let (home, number, tell) = (home.clone(), numbers[nth], tell.clone());
            let work = move || drop(tell.send((nth, read(&home, number))));
            threads.spawn("log-fetch", Box::new(work)).ok()
        })
        .collect();
    drop(tell);
    let mut found: Vec<_> = numbers.iter().map(|_| None).collect();
    told.iter().for_each(|(nth, outcome): (usize, _)| found[nth] = Some(outcome));
    lanes.into_iter().for_each(siltstone::Lane::join);
    // What no thread could be had for.
    let read_here =
        |(outcome, number): (Option<_>, &u64)| outcome.unwrap_or_else(|| read(home, *number));
    found.into_iter().zip(numbers).map(read_here).collect()
}

fn read(home: &Home, number: u64) -> Outcome<Option<Object>> {
    home.read(&home.object(&Name::Wal(number)), Purpose::Wal, OBJECT_BYTES_MAX)
}
