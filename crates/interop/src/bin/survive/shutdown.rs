//! The one unsafe call of this program: an order to a mounted file system to stop at once, as if the
//! power had gone. Called by [`disk`](crate::disk).
//!
//! **I1.** The request and its operand are the kernel's own: `XFS_IOC_GOINGDOWN` and
//! `EXT4_IOC_SHUTDOWN`, both `_IOR('X', 125, __u32)`. The kernel reads one `u32` through the
//! pointer and writes nothing. Other file systems do not know the number and say so.
#![expect(unsafe_code, reason = "an ioctl that no library wraps")]

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::ioctl::{Setter, ioctl, opcode};

const SHUTDOWN: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);

/// What still reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Flush {
    /// Everything written so far.
    All = 0,
    /// What the file system's journal knows of, and no data.
    Journal = 1,
    /// Nothing more.
    Nothing = 2,
}

impl Flush {
    pub(crate) const EACH: [Flush; 3] = [Flush::Nothing, Flush::Journal, Flush::All];
}

/// Ends the file system that the folder `mount` lies on; until it is mounted again, all calls fail.
pub(crate) fn shut_down(mount: &Path, flush: Flush) -> io::Result<()> {
    let folder = File::open(mount)?;
    // SAFETY: by I1 the opcode and the operand fit, and nothing is written.
    unsafe {
        let request = Setter::<SHUTDOWN, u32>::new(flush as u32);
        ioctl(&folder, request)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_the_kernels_number() {
        assert_eq!(SHUTDOWN, 0x8004_587d);
    }
}
