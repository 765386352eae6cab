//! Bytes that must not be seen: no `Debug`, `Display` or error shows them.

use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq;

use crate::job::invalid::{Invalid, at_most};
use crate::job::limits::SECRET_BYTES_MAX;

/// A token, or credentials.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// Takes bytes into custody.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if there are more than a message may carry.
    pub fn new(bytes: &[u8]) -> Result<Self, Invalid> {
        at_most("bytes of a secret", bytes.len(), SECRET_BYTES_MAX)?;
        Ok(Secret(bytes.into()))
    }

    /// The bytes, for who is to use them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Compares in a time that tells nothing but whether the lengths agree.
    pub fn is(&self, other: &[u8]) -> bool {
        self.0.ct_eq(other).into()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let secret = Secret::new(b"canary").unwrap();
        assert_eq!(format!("{secret:?}"), "***");
        assert!(secret.is(b"canary") && !secret.is(b"canarz") && !secret.is(b"canar"));
        assert!(Secret::new(&vec![0; SECRET_BYTES_MAX + 1]).is_err());
    }
}
