//! LevelDB's C API on siltstone: the same 68 functions, and a few of our own. The headers beside this
//! source are their documentation: `include/leveldb/c.h` and `include/siltstone/c.h`.
//!
//! There is no logic here. A function takes C's arguments apart, calls the engine's function of the
//! same meaning, and hands its answer back. None of them can be called from Rust, which has better.
//!
//! **Invariants**, kept by the C caller, who has them from the headers:
//!
//! - C1. A pointer to an object comes from this library's function that makes such objects, and was
//!   not handed to the one that ends them. Where the header allows null, the type here is an `Option`.
//! - C2. An object that is changed (options, a batch, an iterator) is used by one thread at a time.
//! - C3. Bytes lie where their pointer says, as many as their length says, during the call.
//! - C4. A text ends in a zero byte.
//! - C5. An error slot is null, or points to null or to a text that `malloc` gave.
//! - C6. Callbacks, and the state they get, may be used from any thread until the destructor is called.
//!
//! and by this crate:
//!
//! - P1. No panic passes the border: it becomes an error, or else a neutral answer.
//! - P2. What C frees with `free` or `leveldb_free` comes from `malloc`.
//! - P3. What C's objects use (a comparator, a filter, a cache, an environment) is shared with whom
//!   uses it, and ends with the last of them.

#![deny(unsafe_code)]
#![expect(non_camel_case_types, reason = "the types of leveldb/c.h keep their names")]

mod batch;
mod border;
mod comparator;
mod db;
mod env;
mod extra;
mod file_system;
mod filter;
mod iterator;
mod options;
mod utility;
