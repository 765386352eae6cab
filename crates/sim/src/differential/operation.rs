//! Operations: one thing each that a user of the database may do.
//!
//! An operation stands for itself: it holds its keys and values, and names snapshots and iterators
//! by their slot; a slot that is needed and empty is filled on the spot. So any part of a list is a
//! list that can be run, which is what shrinking needs.

use std::fmt;

use siltstone::Site;

use super::kind::Kind;
use super::value::Value;
use crate::Fault;

/// Places for snapshots, and as many for iterators.
pub const SLOTS: usize = 4;

/// A key, and its new value or its end.
pub type Update = (Vec<u8>, Option<Value>);

/// A thing to do, and what to call it.
#[derive(Clone)]
pub struct Operation {
    pub kind: Kind,
    pub act: Act,
}

#[derive(Clone, Debug)]
pub enum Act {
    Write {
        updates: Updates,
        sync: bool,
        through: Handle,
    },
    /// As a batch that is joined from one batch for each update.
    WriteParts {
        updates: Updates,
    },
    Get {
        key: Key,
        at: Option<usize>,
        how: Getting,
        through: Handle,
    },
    TakeSnapshot {
        slot: usize,
    },
    ReleaseSnapshot {
        slot: usize,
    },
    OpenIterator {
        slot: usize,
        at: Option<usize>,
    },
    DropIterator {
        slot: usize,
    },
    Move {
        slot: usize,
        to: Movement,
    },
    /// A step after each write. The iterator does not show them.
    WriteUnderIterator {
        slot: usize,
        updates: Updates,
    },
    Scan {
        at: Option<usize>,
        how: Scanning,
    },
    Flush,
    /// By hand; with lanes, it helps them.
    Step {
        steps: u32,
    },
    WaitForBackground,
    Compact {
        from: Option<Key>,
        to: Option<Key>,
    },
    /// Readers end, and everything is compacted.
    CompactAll,
    /// With the options of a variant, or again with those that it has.
    Reopen {
        closing: Closing,
        variant: Option<u32>,
    },
    DestroyAndRecreate,
    Look(Look),
    Fail(Failing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handle {
    Own,
    /// A clone, on another thread.
    Clone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Getting {
    Plain,
    Uncached,
    Unchecked,
    InPlace,
}

#[derive(Clone, Debug)]
pub enum Movement {
    Seek(Key),
    First,
    Last,
    Next(u32),
    Prev(u32),
    /// Steps forth (1 bits) and back (0 bits).
    Wander {
        turns: u32,
        steps: u32,
    },
}

#[derive(Clone, Debug)]
pub enum Scanning {
    Forward,
    Backward,
    /// By the adaptor that yields owned pairs.
    Entries {
        from: Key,
        steps: u32,
    },
    /// Forward must be backward reversed.
    Mirrored,
    /// Parts between these keys must make up the whole.
    Parts {
        between: [Key; 3],
    },
}

/// How a database is closed before it is reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    Close,
    Drop,
    /// Iterators and snapshots go on reading a closed database.
    UnderReaders,
    /// A copy of its files as they are is opened in its stead.
    Killed,
}

/// What changes nothing.
#[derive(Clone, Debug)]
pub enum Look {
    ReadOnlyBeside,
    Checkpoint,
    CheckpointReadOnly,
    Verify,
    RepairCopy,
    DumpFiles,
    Properties,
    ApproximateSizes { keys: [Key; 3] },
    Refusals,
}

/// What fails for a while.
#[derive(Clone, Debug)]
pub enum Failing {
    /// Writes fail until there is space, and then succeed without a reopen.
    DiskFull {
        updates: Updates,
        fault: Fault,
    },
    /// The process dies before there is space. The failed write shows whole or not at all.
    DiskFullKilled {
        updates: Updates,
        fault: Fault,
    },
    /// After the failure there are no more writes until a reopen, which shows all of the failed one
    /// or nothing.
    Write {
        updates: Updates,
        site: Site,
        fault: Fault,
    },
    /// Tables that cannot be written are written anew.
    Flush {
        site: Site,
        fault: Fault,
    },
    /// The process dies before anything is tried again.
    FlushKilled {
        site: Site,
        fault: Fault,
    },
    Compaction {
        site: Site,
        fault: Fault,
    },
    /// A manifest for which there is no space is replaced by another.
    ManifestFull {
        site: Site,
    },
    /// Any other failure of it ends writing.
    Manifest {
        site: Site,
        fault: Fault,
    },
    /// What cannot be read is told, not left out.
    Read {
        key: Key,
    },
}

/// A key, printed escaped and cut where it is long.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub Vec<u8>);

/// Updates, of which the first few are printed.
#[derive(Clone)]
pub struct Updates(pub Vec<Update>);

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.kind.name(), self.act)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", ShortKey(&self.0))
    }
}

impl fmt::Debug for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (key, value) in self.0.iter().take(SHOWN) {
            match value {
                Some(value) => write!(f, "+{} {value:?} ", ShortKey(key))?,
                None => write!(f, "-{} ", ShortKey(key))?,
            }
        }
        write!(f, "({} in all)", self.0.len())
    }
}

/// A key for people: escaped, and cut where it is long.
pub struct ShortKey<'a>(pub &'a [u8]);

impl fmt::Display for ShortKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        let shown = &self.0[..self.0.len().min(SHOWN)];
        write!(f, "'{}'", shown.escape_ascii())?;
        if self.0.len() > SHOWN { write!(f, "..({} bytes)", self.0.len()) } else { Ok(()) }
    }
}
