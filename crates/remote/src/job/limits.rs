//! How much of anything one message may hold. Far above what jobs need, and low enough that a hostile peer gets no
//! memory to speak of.

/// Bytes of a key, tag included.
pub(crate) const KEY_BYTES_MAX: usize = 1 << 20;
/// Tables that a job merges.
pub(crate) const INPUTS_MAX: usize = 4_096;
/// Parts of a table that count.
pub(crate) const PARTS_MAX: usize = 1_024;
/// Snapshots that a job heeds.
pub(crate) const SNAPSHOTS_MAX: usize = 65_536;
/// Key ranges of tables below, and ends of tables in the next level.
pub(crate) const RANGES_MAX: usize = 65_536;
/// Tables that a job makes.
pub(crate) const OUTPUTS_MAX: usize = 16_384;
/// Bytes of an index or a filter that travels with a result.
pub(crate) const SIDECAR_BYTES_MAX: usize = 1 << 20;
/// Bytes of credentials that travel with a job.
pub(crate) const SECRET_BYTES_MAX: usize = 64 << 10;
/// Bytes of a text for people.
pub(crate) const MESSAGE_TEXT_MAX: usize = 1_024;
/// Bytes of a name of a comparator, a filter or a feature.
pub(crate) const LABEL_BYTES_MAX: usize = 256;
/// Names in a list of what a worker knows, or a job needs.
pub(crate) const LABELS_MAX: usize = 64;
/// Jobs that one worker runs at once.
pub(crate) const SLOTS_MAX: u32 = 1_024;
/// Jobs that one list names.
pub(crate) const HELD_MAX: usize = 4 * SLOTS_MAX as usize;
/// Bytes of indexes and filters that travel with one job: those of later tables stay behind, so that a result fits into
/// a message.
pub(crate) const SIDECARS_BYTES_MAX: usize = 4 << 20;
/// Bytes of keys and names of all outputs of a job, for the same reason.
pub(crate) const OUTPUT_NAMES_BYTES_MAX: usize = 8 << 20;
