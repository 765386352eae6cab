//! Experiments that compare siltstone with itself: each is one call, and returns its figures.

pub mod l2sm;
