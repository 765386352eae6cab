//! What comes into the cache before somebody asks for it: from the bucket, or from whoever has the bytes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use siltstone::{Access, Result};

use super::cache::Fill;
use super::remote_table::Core;
use crate::bucket::Purpose;

/// A get brings so much at a time.
const WARM_BYTES: u64 = 8 << 20;
/// What lies between two parts is got with them, if it is no more than this: a second request would take as long as some mebibytes.
const GAP_BYTES: u64 = 512 << 10;

/// Extents that one get brings, and those of them that are wanted.
#[derive(Debug, PartialEq, Eq)]
struct Haul {
    all: Range<u32>,
    wanted: Vec<Range<u32>>,
}

impl Core {
    /// Brings the first bytes into the cache, if there is one.
    pub(super) fn warm(self: &Arc<Self>, front_bytes: u64) -> Result<()> {
        let Some(cache) = &self.shared.cache else { return Ok(()) };
        let extents = self.shared.extents;
        let end = extents.span(&(0..front_bytes.min(self.object.bytes))).end;
        let mut next = 0;
        while next < end {
            let to = end.min(next + (WARM_BYTES / u64::from(extents.bytes())) as u32);
            next = match self.is_cached(next) {
                true => next + 1,
                false => match self.get_once(next, next..to, Access::Open)? {
                    Some((got, _)) => {
                        // Nobody waits for it, so the disk may take its time.
                        cache.settle();
                        got.end.max(next + 1)
                    }
                    None => next,
                },
            };
        }
        Ok(())
    }

    /// Brings parts into the cache, if there is one: of a table that nobody reads yet, for who does so is not waited for.
    pub(super) fn warm_parts(&self, parts: &[Range<u64>]) -> Result<()> {
        let Some(cache) = &self.shared.cache else { return Ok(()) };
        for haul in hauls(self.lacking(parts), self.shared.extents.bytes()) {
            let got = self.get(&haul.all, Purpose::Warm)?;
            let from = |extent| self.shared.extents.start(extent) as usize;
            for wanted in &haul.wanted {
                let (start, end) = (
                    from(wanted.start) - from(haul.all.start),
                    from(wanted.end) - from(haul.all.start),
                );
                self.keep(wanted, &got.slice(start..end.min(got.len())), Fill::Wanted);
            }
            cache.settle();
        }
        Ok(())
    }

    /// Puts parts into the cache, if there is one, that `read` has.
    pub(super) fn keep_parts(
        &self,
        parts: &[Range<u64>],
        read: impl Fn(&Range<u64>) -> Result<Bytes>,
    ) -> Result<()> {
        let Some(cache) = &self.shared.cache else { return Ok(()) };
        for extent in self.lacking(parts) {
            let range = self.shared.extents.bytes_of(&(extent..extent + 1), self.object.bytes);
            let bytes = read(&range)?;
            if bytes.len() as u64 == range.end - range.start {
                self.keep(&(extent..extent + 1), &bytes, Fill::Wanted);
            }
            // Before the disk cannot follow.
            if extent % 64 == 63 {
                cache.settle();
            }
        }
        cache.settle();
        Ok(())
    }

    /// Puts what is known of the table's end into the cache.
    pub(super) fn keep_end(&self, end: &Bytes) {
        let extents = self.shared.extents;
        let Some(start) = self.object.bytes.checked_sub(end.len() as u64) else { return };
        let first = extents.span(&(0..start)).end;
        let from = (extents.start(first) - start) as usize;
        if from < end.len() {
            let all = first..extents.span(&(0..self.object.bytes)).end;
            self.keep(&all, &end.slice(from..), Fill::Wanted);
        }
    }

    /// The extents of these parts that are not cached, in order.
    fn lacking(&self, parts: &[Range<u64>]) -> Vec<u32> {
        let within = |part: &Range<u64>| part.start..part.end.min(self.object.bytes);
        let spans = parts.iter().map(within).filter(|part| !part.is_empty());
        let mut extents: Vec<u32> =
            spans.flat_map(|part| self.shared.extents.span(&part)).collect();
        extents.dedup();
        extents.retain(|extent| !self.is_cached(*extent));
        extents
    }
}

/// Which gets bring extents, which are in order.
fn hauls(extents: Vec<u32>, extent_bytes: u32) -> Vec<Haul> {
    let bytes = |extents: u32| u64::from(extents) * u64::from(extent_bytes);
    let mut hauls: Vec<Haul> = Vec::new();
    for extent in extents {
        let one = extent..extent + 1;
        match hauls.last_mut() {
            Some(haul)
                if bytes(extent - haul.all.end) <= GAP_BYTES
                    && bytes(one.end - haul.all.start) <= WARM_BYTES =>
            {
                match haul.wanted.last_mut() {
                    Some(last) if last.end == extent => last.end = one.end,
                    _ => haul.wanted.push(one.clone()),
                }
                haul.all.end = one.end;
            }
            _ => hauls.push(Haul { all: one.clone(), wanted: vec![one] }),
        }
    }
    hauls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_close_together_comes_by_one_get() {
        let kib = |extents: &[u32]| hauls(extents.to_vec(), 64 << 10);
        assert_eq!(kib(&[]), []);
        let haul = |all, wanted: &[Range<u32>]| Haul { all, wanted: wanted.to_vec() };
        assert_eq!(kib(&[3, 4, 13]), [haul(3..14, &[3..5, 13..14])]);
        assert_eq!(kib(&[3, 12, 21]), [haul(3..22, &[3..4, 12..13, 21..22])]);
        let alone = |extent| haul(extent..extent + 1, std::slice::from_ref(&(extent..extent + 1)));
        assert_eq!(kib(&[3, 13]), [alone(3), alone(13)]);
        let all: Vec<u32> = (0..300).collect();
        let lens: Vec<u32> = kib(&all).iter().map(|haul| haul.all.end - haul.all.start).collect();
        assert_eq!(lens, [128, 128, 44]);
    }
}
