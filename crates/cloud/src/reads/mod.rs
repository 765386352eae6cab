//! Reading tables from a bucket: few requests, each for much, and none for what is near. Stores of tables open tables
//! here; the engine reads them as if they were files.
//!
//! ```text
//!  engine --read_for(get, scan, merge)--> RemoteTable
//!            tail          footer, index, filter: one get when the table is opened
//!            windows       what scans and merges have read ahead
//!            ExtentCache   extents on a local disk
//!            bucket        one get for all that is missing; whoever wants the same waits for it
//! ```

pub(crate) mod cache;
pub(crate) mod counters;
mod fetching;
mod flight;
pub(crate) mod object;
mod opening;
pub(crate) mod remote_table;
mod run;
pub(crate) mod tables;
mod tail;
#[cfg(test)]
mod tests;
mod warming;
mod windows;
