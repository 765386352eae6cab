//! LevelDB's rendering of bytes in texts: printable ASCII as it is, all else as `\xNN`.

use std::fmt::{self, Write};

/// Displays bytes as LevelDB's dumps and properties do.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            match byte {
                b' '..=b'~' => f.write_char(char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        Ok(())
    }
}
