//! What a job has made.

use crate::job::key::TaggedKey;
use crate::job::limits::SIDECARS_BYTES_MAX;
use crate::job::name::ObjectName;
use crate::job::spec::SeqRange;

/// A table that a job has made. It is durable and closed, and nobody will write it again.
#[derive(Clone, PartialEq, Eq)]
pub struct OutputTable {
    /// Where it lies.
    pub name: ObjectName,
    /// All its bytes.
    pub bytes: u64,
    /// CRC-32C of all its bytes.
    pub crc32c: u32,
    /// Its first entry.
    pub smallest: TaggedKey,
    /// Its last entry.
    pub largest: TaggedKey,
    /// Of its entries.
    pub seqnos: SeqRange,
    /// How many there are, deletions included.
    pub entries: u64,
    /// How many of them are deletions.
    pub deletions: u64,
    /// The index block as stored, so that opening the table costs no request; if it is small enough.
    pub index: Option<Vec<u8>>,
    /// The filter block, likewise.
    pub filter: Option<Vec<u8>>,
}

impl std::fmt::Debug for OutputTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes, {} entries)", self.name, self.bytes, self.entries)
    }
}

/// What running a job has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Bytes read from the store.
    pub bytes_read: u64,
    /// Bytes written to it.
    pub bytes_written: u64,
    /// Requests to it.
    pub requests: u64,
    /// Entries that were merged.
    pub entries_read: u64,
    /// Entries that nobody can see any more.
    pub entries_dropped: u64,
}

/// What a whole job has made. No outputs at all is a result like any other: all was dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobResult {
    /// In the order of their keys; those of earlier attempts, if this one went on from there, are the first.
    pub outputs: Vec<OutputTable>,
    /// What it cost.
    pub costs: Costs,
}

/// What an attempt has finished since it last told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How many outputs the job had before these, those of earlier attempts included.
    pub before: usize,
    /// The new ones, if any. A next attempt goes on behind the last key of the last one: no user key lies in two tables.
    pub outputs: Vec<OutputTable>,
    /// Of this attempt, so far.
    pub costs: Costs,
}

/// Takes indexes and filters off the last outputs, if all together are more than may travel. They can be read from
/// the table, at the cost of a request.
pub(crate) fn leave_sidecars(outputs: &mut [OutputTable]) {
    let mut bytes = 0;
    for output in outputs {
        let of_this =
            [&output.index, &output.filter].map(|block| block.as_ref().map_or(0, Vec::len));
        bytes += of_this.iter().sum::<usize>();
        if bytes > SIDECARS_BYTES_MAX {
            (output.index, output.filter) = (None, None);
        }
    }
}
