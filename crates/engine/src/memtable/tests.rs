//! Tests of the memtable as its users see it.
