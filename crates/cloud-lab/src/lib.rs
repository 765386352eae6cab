//! What databases in a bucket do, and what that costs: each measurement is one call, returns its figures, and has beside
//! each what was wanted of it. Stores are in memory, and as slow as a [`Profile`] says, by seed, but for those that
//! [`Places`] names.

mod crew;
mod faults;
mod figure;
mod merges;
mod paper;
mod processors;
mod reads;
mod replicas;
mod stage;
mod stalls;
mod trouble;
mod usage;
mod writes;
mod zombies;

pub use faults::faults;
pub use figure::{Figure, Unit, Wanted, median, quantiles};
pub use merges::merges;
pub use paper::{Places, objects, setups};
pub use reads::{reads, scans};
pub use replicas::replicas;
pub use siltstone_s3::{Location, Profile};
pub use stage::{Dice, Machine, Mode, Opened, Plan, Stage, key};
pub use stalls::stalls;
pub use trouble::trouble;
pub use writes::writes;
pub use zombies::zombies;

/// Compiles the sample of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/cloud.md")]
struct Guide;
