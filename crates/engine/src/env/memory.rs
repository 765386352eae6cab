//! Files in memory.
