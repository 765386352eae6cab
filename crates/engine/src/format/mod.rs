//! Floor 2: LevelDB's bytes. Records, batches, manifests, tables, file names; no I/O policy.

pub(crate) mod batch;
pub(crate) mod dump;
pub(crate) mod filename;
pub(crate) mod manifest;
pub(crate) mod record;
pub(crate) mod table;
