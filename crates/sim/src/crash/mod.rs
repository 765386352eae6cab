//! Asset 1: the crash enumerator, and asset 2: the syncs it must not do without.
//!
//! A workload runs once on a [`StrictFs`](crate::disk::StrictFs), which writes down each call. Then
//! every prefix of the calls is a crash point, and every point leaves one of many disks. Each is opened,
//! checked, written to; and of a share of these recoveries the crashes are looked at in turn.

pub mod campaign;
pub mod explore;
pub mod history;
pub mod mutant;
pub mod run;
pub mod script;
pub mod survey;
