//! Which keys a verb walks over: prefix, bounds, direction and limit. One set of flags, shared by
//! `scan`, `count`, `dump` and the shell.

use std::ffi::OsString;

use clap::Args;
use siltstone::{Db, DbIterator, ReadOptions};

use crate::bytes::ByteFormat;
use crate::errors::{Exit, Failure};
use crate::interrupt;
use crate::sizes::parse_count;

/// The keys to walk over.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RangeArgs {
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// Only keys from here on
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Stop after this many pairs
    #[arg(long, value_name = "N", value_parser = parse_count)]
    limit: Option<u64>,
}

/// A half-open range of keys with a direction and a limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    from: Vec<u8>,
    /// Exclusive; `None` is the end.
    to: Option<Vec<u8>>,
    reverse: bool,
    limit: u64,
}

/// The bytes of a key or value given on the command line.
pub(crate) fn argument(text: &OsString, format: ByteFormat) -> Result<Vec<u8>, Failure> {
    format.parse(text.as_encoded_bytes()).map_err(|problem| {
        Failure::usage(format!("cannot read {:?}: {problem}", text.to_string_lossy()))
            .detail("see --key and --value for how bytes are written")
    })
}

impl RangeArgs {
    /// Sets a limit unless the user set one; true if it did.
    pub(crate) fn limit_to(&mut self, limit: u64) -> bool {
        let unset = self.limit.is_none();
        self.limit.get_or_insert(limit);
        unset
    }

    pub(crate) fn resolve(&self, format: ByteFormat) -> Result<Range, Failure> {
        let bytes =
            |text: &Option<OsString>| text.as_ref().map(|text| argument(text, format)).transpose();
        let prefix = bytes(&self.prefix)?.unwrap_or_default();
        let mut from = bytes(&self.from)?.unwrap_or_default();
        let mut to = bytes(&self.to)?;
        if prefix > from {
            from.clone_from(&prefix);
        }
        if let Some(end) = prefix_end(prefix) {
            to = Some(to.map_or(end.clone(), |to| to.min(end)));
        }
        Ok(Range { from, to, reverse: self.reverse, limit: self.limit.unwrap_or(u64::MAX) })
    }
}

/// The first key after all that begin with `prefix`; none if there is no such key.
fn prefix_end(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return Some(prefix);
        }
    }
    None
}

impl Range {
    /// Calls `visit` for each pair and returns how many there were. Ctrl-C ends the walk with a
    /// failure, where a handler is installed.
    pub(crate) fn walk(
        &self,
        db: &Db,
        read: &ReadOptions,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let mut iter = db.iter_with(read)?;
        self.start(&mut iter)?;
        let mut count = 0;
        while iter.valid() && count < self.limit && self.holds(iter.key()) {
            visit(iter.key(), iter.value())?;
            count += 1;
            if interrupt::asked() {
                return Err(Failure::new(
                    Exit::Interrupted,
                    "E-INTERRUPTED",
                    format!("stopped after {count} pairs"),
                ));
            }
            if self.reverse { iter.prev()? } else { iter.next()? }
        }
        Ok(count)
    }

    fn start(&self, iter: &mut DbIterator) -> Result<(), Failure> {
        if !self.reverse {
            return Ok(iter.seek(&self.from)?);
        }
        let Some(to) = &self.to else { return Ok(iter.seek_to_last()?) };
        iter.seek(to)?;
        // The end is exclusive: step back from the first key at or past it.
        if iter.valid() {
            iter.prev()?
        } else {
            iter.seek_to_last()?
        }
        Ok(())
    }

    fn holds(&self, key: &[u8]) -> bool {
        key >= self.from.as_slice() && self.to.as_ref().is_none_or(|to| key < to.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(prefix: &[u8], from: Option<&str>, to: Option<&str>) -> Range {
        let hex: String = prefix.iter().map(|byte| format!("{byte:02x}")).collect();
        let args = RangeArgs {
            prefix: (!prefix.is_empty()).then(|| format!("0x{hex}").into()),
            from: from.map(Into::into),
            to: to.map(Into::into),
            ..RangeArgs::default()
        };
        args.resolve(ByteFormat::Auto).unwrap()
    }

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(prefix_end(b"user/".to_vec()), Some(b"user0".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff".to_vec()), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff".to_vec()), None);
        assert_eq!(prefix_end(Vec::new()), None);
    }

    #[test]
    fn bounds_and_prefix_meet_in_the_middle() {
        let both = range(b"b", Some("a"), Some("bx"));
        assert!(both.holds(b"b") && both.holds(b"bw"));
        assert!(!both.holds(b"a") && !both.holds(b"bx") && !both.holds(b"c"));
        let wide = range(b"b", Some("bm"), Some("z"));
        assert!(wide.holds(b"bm") && !wide.holds(b"ba") && !wide.holds(b"c"));
        assert!(range(b"", None, None).holds(b""));
        assert!(range(b"\xff", None, None).holds(b"\xff\xff\xff"));
    }
}
