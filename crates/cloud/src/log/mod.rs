//! The version log: who owns a database, what its versions are, and how the next one comes about.
//!
//! ```text
//!  owner     {epoch 7}                         claimed with If-Match
//!  v/        ... 41  42  43T 44  45            created if absent, one owner per number
//!                            ^ the takeover of epoch 7: whoever was owner before collides with it
//!  gc/boundary     {42}                        what is before it may be collected
//! ```

pub(crate) mod boundary;
pub(crate) mod owner;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod state;
pub(crate) mod version_log;
