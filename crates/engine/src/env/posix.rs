//! The operating system's files.
