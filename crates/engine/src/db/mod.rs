//! Floor 6: the database. Opening, writing, reading, background work and care, each in a room of
//! its own around the shared [`core`].

pub(crate) mod background;
pub(crate) mod care;
pub(crate) mod core;
pub(crate) mod handle;
pub(crate) mod info_log;
pub(crate) mod loan;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod property;
pub(crate) mod read;
pub(crate) mod settings;
pub(crate) mod shape;
pub(crate) mod state;
pub(crate) mod super_version;
pub(crate) mod write;
