//! siltstone: an embedded, ordered key-value engine that reads and writes LevelDB's files.
