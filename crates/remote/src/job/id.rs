//! Numbers of jobs and of the attempts at them.

use std::fmt;
use std::str::FromStr;

/// Crockford's base 32: no I, L, O and U, so that nobody misreads them.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// 130 bits hold 128.
const DIGITS_LEN: usize = 26;

/// A job, for ever and everywhere: a ULID, so that names of later jobs sort behind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u128);

impl JobId {
    /// Of a time (milliseconds since 1970, of which 48 bits count) and chance (of which 80 bits count). Whoever makes
    /// ids takes both from its own seams.
    pub fn new(millis: u64, chance: u128) -> Self {
        JobId((u128::from(millis) << 80) | (chance & ((1 << 80) - 1)))
    }

    /// As a number.
    pub fn to_u128(self) -> u128 {
        self.0
    }

    /// From a number, which may be any.
    pub fn from_u128(number: u128) -> Self {
        JobId(number)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..DIGITS_LEN).rev().try_for_each(|digit| {
            let value = (self.0 >> (5 * digit)) & 31;
            write!(f, "{}", char::from(DIGITS[value as usize]))
        })
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no job's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoJobId;

impl fmt::Display for NoJobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a job's id has 26 digits of Crockford's base 32, the first at most 7")
    }
}

impl std::error::Error for NoJobId {}

impl FromStr for JobId {
    type Err = NoJobId;

    fn from_str(text: &str) -> Result<Self, NoJobId> {
        // The first digit has room for two bits more than there are.
        if text.len() != DIGITS_LEN || text.as_bytes()[0] > b'7' {
            return Err(NoJobId);
        }
        let digit = |byte: &u8| DIGITS.iter().position(|digit| digit == byte).ok_or(NoJobId);
        let digits = text.as_bytes().iter().map(digit);
        digits.into_iter().try_fold(0u128, |sum, digit| Ok((sum << 5) | digit? as u128)).map(JobId)
    }
}

/// One attempt at a job: which broker made it, by its *term*, and how many that broker had made before. A broker that
/// starts again has a higher term, so it gives no number twice although it has forgotten which it gave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    term: u32,
    count: u32,
}

impl Attempt {
    /// The attempt number `count` of a broker's term.
    pub fn new(term: u32, count: u32) -> Self {
        Attempt { term, count }
    }

    /// As one number, which grows from attempt to attempt.
    pub fn to_u64(self) -> u64 {
        u64::from(self.term) << 32 | u64::from(self.count)
    }

    /// From a number, which may be any.
    pub fn from_u64(number: u64) -> Self {
        // Both halves fit by what is cut off.
        Attempt { term: (number >> 32) as u32, count: number as u32 }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.term, self.count)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for number in [0, 1, 31, 32, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let id = JobId::from_u128(number);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        // The specification's own example of the time's part.
        let id = JobId::new(1_469_918_176_385, 0);
        assert_eq!(id.to_string(), "01ARYZ6S410000000000000000");
    }

    #[test]
    fn ids_that_are_none_are_refused() {
        for text in [
            "",
            "0",
            "80000000000000000000000000",
            "0123456789ABCDEFGHJKMNPQRSU",
            "0123456789abcdefghjkmnpqrs",
        ] {
            assert_eq!(text.parse::<JobId>(), Err(NoJobId), "{text}");
        }
        assert_eq!("\u{e9}123456789ABCDEFGHJKMNPQR".parse::<JobId>(), Err(NoJobId));
    }

    #[test]
    fn later_ids_and_attempts_sort_behind() {
        assert!(JobId::new(1, u128::MAX) < JobId::new(2, 0));
        assert!(JobId::new(1, 1).to_string() < JobId::new(2, 0).to_string());
        assert!(Attempt::new(1, u32::MAX) < Attempt::new(2, 1));
        let attempt = Attempt::new(7, 9);
        assert_eq!(Attempt::from_u64(attempt.to_u64()), attempt);
        assert_eq!(attempt.to_string(), "7-9");
    }
}
