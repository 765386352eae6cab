//! Experiments that compare siltstone with itself: each is one call, and returns its figures.

mod disk;
pub mod l2sm;
pub mod leveldb;
