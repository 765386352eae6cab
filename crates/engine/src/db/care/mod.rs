//! Care for whole databases: destroy, checkpoint, verify, repair, dump. Free functions and methods
//! of `Db` that users and the command call; none runs in the background.
//!
//! Whatever a function here makes, it makes in a folder of its own, under a lock, with CURRENT
//! last; whatever it removes, it removes with CURRENT first. So a crash at any point leaves either
//! a whole database or none.

pub(crate) mod checkpoint;
pub(crate) mod destroy;
pub(crate) mod dump;
pub(crate) mod fresh;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod verify;
