//! The write-ahead log in the bucket: pieces of it, one after the other, as the engine writes them here. What was
//! acknowledged and is in no table yet can be had from there when the machine is lost.
//!
//! I1: pieces have numbers without gaps, each created only if nobody has created it. Who takes over puts a fence at the
//! next number: whatever an owner before him still wants to put comes to lie at a number that is taken.
//! I2: pieces lie in the order in which the engine wrote, and hold whole records: any number of them from the first one
//! that is needed gives a prefix of what was written.
//! I3: nothing of an opening is put before a version is committed that needs no older log: pieces never lack what came
//! before them.
//! I4: a log that took over from a failed one counts once all of that is there; until then the failed one does.
//! I5: while it is open whether a piece was put, nothing else is put at its number.
//!
//! | who | does |
//! | --- | --- |
//! | [`piece`] | the objects |
//! | [`progress`] | what was written, and how much of it is there |
//! | [`ship`] | puts pieces, removes needless ones |
//! | [`files`] | what the engine calls |
//! | [`restore`] | logs out of pieces |

pub(crate) mod files;
pub(crate) mod piece;
pub(crate) mod progress;
pub(crate) mod restore;
pub(crate) mod ship;

#[cfg(test)]
mod tests;
