//! The kinds of operation: what the campaign counts, so that none is forgotten.

macro_rules! kinds {
    ($($variant:ident = $name:literal,)+) => {
        /// What an operation is, for counting and for people.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($variant,)+
        }

        impl Kind {
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)+];

            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$variant => $name,)+
                }
            }
        }
    };
}

kinds! {
    // Writes.
    Put = "put",
    PutSync = "put, synced",
    PutByClone = "put through a clone on another thread",
    PutLarge = "put of a value that spans blocks",
    Delete = "delete",
    DeleteSync = "delete, synced",
    Batch = "batch",
    BatchSync = "batch, synced",
    BatchEmpty = "empty batch",
    BatchLarge = "batch that spans blocks of the log",
    BatchOfParts = "batch joined from parts",
    BatchOfOneKey = "batch that changes one key many times",
    // Reads of a key.
    Get = "get",
    GetBeside = "get beside a key",
    GetAt = "get at a snapshot",
    GetUncached = "get without filling the cache",
    GetUnchecked = "get without checksums",
    GetInPlace = "get in place",
    GetByClone = "get through a clone on another thread",
    // Views.
    TakeSnapshot = "take a snapshot",
    ReleaseSnapshot = "release a snapshot",
    OpenIterator = "open an iterator",
    OpenIteratorAt = "open an iterator at a snapshot",
    DropIterator = "drop an iterator",
    // Movements.
    Seek = "seek",
    SeekBeforeAll = "seek before all keys",
    SeekPastAll = "seek past all keys",
    SeekToFirst = "seek to first",
    SeekToLast = "seek to last",
    Next = "next",
    Prev = "prev",
    Wander = "turn around and around",
    WriteUnderIterator = "write under an iterator",
    // Scans.
    ScanForward = "scan forward",
    ScanBackward = "scan backward",
    ScanEntries = "scan by the adaptor",
    ScanMirrored = "scan forward and mirrored",
    ScanInParts = "scan in parts",
    // Background work.
    Flush = "flush",
    Step = "background step",
    WaitForBackground = "wait for background",
    CompactRange = "compact a range",
    CompactNothing = "compact an empty range",
    CompactUnderReaders = "compact all under readers",
    CompactAll = "compact all without readers",
    // Closing and opening.
    Reopen = "close and open",
    ReopenVaried = "close and open with other options",
    ReopenDropped = "drop and open",
    ReopenUnderReaders = "close under readers and open",
    ReopenKilled = "open what a killed process leaves",
    DestroyAndRecreate = "destroy and recreate",
    // Looks from outside.
    ReadOnlyBeside = "open read-only beside",
    Checkpoint = "checkpoint",
    CheckpointReadOnly = "checkpoint of a read-only database",
    Verify = "verify",
    RepairCopy = "repair a copy",
    DumpFiles = "dump all files",
    Properties = "properties",
    ApproximateSizes = "approximate sizes",
    Refusals = "calls to be refused",
    // Failures.
    DiskFull = "disk full under a write",
    DiskFullKilled = "disk full under a write, then killed",
    WriteFails = "failing write, tried again after a reopen",
    FlushFails = "failing flush, tried again",
    FlushFailsKilled = "failing flush, then killed",
    CompactionFails = "failing compaction, tried again",
    ManifestFull = "disk full under the manifest",
    ManifestFails = "failing manifest, then reopen",
    ReadFails = "failing read, tried again",
}
