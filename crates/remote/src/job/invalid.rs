//! What is wrong with a message, a spec or a result, for who is to put it right.

use std::fmt;

/// Something from elsewhere that cannot be used: which part of it, and what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The part, as its type calls it.
    pub what: &'static str,
    /// What is wrong with it. Never what it holds: that may be long, or secret.
    pub why: String,
}

impl Invalid {
    /// A part, and what is wrong with it.
    pub fn new(what: &'static str, why: impl Into<String>) -> Self {
        Invalid { what, why: why.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for Invalid {}

/// At most so many.
pub(crate) fn at_most(what: &'static str, count: usize, max: usize) -> Result<(), Invalid> {
    if count > max {
        return Err(Invalid::new(what, format!("{count} of them, and {max} are the most")));
    }
    Ok(())
}

/// A text that fits into a message and harms no terminal.
pub(crate) fn tame(text: &str, bytes_max: usize) -> String {
    let mut tame: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    while tame.len() > bytes_max {
        tame.pop();
    }
    tame
}
