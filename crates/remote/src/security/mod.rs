//! Who may do what, and what must not be seen. The decisions are pure; TLS itself is the transport's.

pub(crate) mod authority;
pub(crate) mod secret;
