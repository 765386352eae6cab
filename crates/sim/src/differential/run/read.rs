//! Gets and scans.

use std::ops::Bound;

use siltstone::{DbIterator, ReadOptions};

use super::judge::{Checked, Mismatch, expect, place};
use super::{Run, elsewhere};
use crate::differential::operation::{Getting, Handle, Key, Scanning, ShortKey};

impl Run<'_> {
    /// The read options and the view of a slot's snapshot, taken now if there is none, or of now.
    pub(super) fn reading(&mut self, at: Option<usize>) -> (ReadOptions, u64) {
        let Some(slot) = at else { return (ReadOptions::default(), self.reference.now()) };
        if self.snapshots[slot].is_none() {
            self.snapshots[slot] = Some((self.db().snapshot(), self.reference.open_view()));
        }
        let (snapshot, view) = self.snapshots[slot].clone().expect("it was just taken");
        (ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() }, view)
    }

    pub(super) fn get(
        &mut self,
        key: &[u8],
        at: Option<usize>,
        how: Getting,
        through: Handle,
    ) -> Checked {
        let (mut options, view) = self.reading(at);
        options.fill_cache = how != Getting::Uncached;
        options.verify_checksums = how != Getting::Unchecked;
        let found = elsewhere(self.db(), through, |db| match how {
            Getting::InPlace => db.read(key, &options, <[u8]>::to_vec),
            Getting::Plain if at.is_none() => db.get(key),
            _ => db.get_with(key, &options),
        })?;
        self.judge.got(key, found.as_deref(), self.reference.get(key, view))
    }

    pub(super) fn scan(&mut self, at: Option<usize>, how: &Scanning) -> Checked {
        match how {
            Scanning::Forward => self.scan_forward(at),
            Scanning::Backward => self.scan_backward(at),
            Scanning::Entries { from, steps } => self.scan_entries(&from.0, *steps),
            Scanning::Mirrored => self.scan_mirrored(at),
            Scanning::Parts { between } => self.scan_parts(at, between),
        }
    }

    pub(super) fn scan_both_ways(&mut self) -> Checked {
        self.scan_forward(None)?;
        self.scan_backward(None)
    }

    pub(super) fn scan_forward(&mut self, at: Option<usize>) -> Checked {
        let (options, view) = self.reading(at);
        let mut iter = self.db().iter_with(&options)?;
        self.judge.scans(&mut iter, self.reference.entries(view))
    }

    fn scan_backward(&mut self, at: Option<usize>) -> Checked {
        let (options, view) = self.reading(at);
        let mut iter = self.db().iter_with(&ReadOptions { fill_cache: false, ..options })?;
        iter.seek_to_last()?;
        for expected in self.reference.entries(view).rev() {
            self.judge.stands(place(&iter), Some(expected))?;
            iter.prev()?;
        }
        self.judge.stands(place(&iter), None)
    }

    fn scan_entries(&mut self, from: &[u8], steps: u32) -> Checked {
        let mut iter = self.db().iter()?;
        iter.seek(from)?;
        let now = self.reference.now();
        if !iter.valid() {
            // The adaptor would begin at the first key.
            return self.judge.stands(place(&iter), self.reference.at_or_after(from, now));
        }
        let mut expected = self.reference.forward(Bound::Included(from), now);
        for found in iter.entries()?.take(steps as usize) {
            let (key, value) = found?;
            let expected = expected.next();
            let unexpected = || Mismatch(format!("entries: unexpected {}", ShortKey(&key)));
            self.judge
                .stands(Some((&key[..], &value[..])), Some(expected.ok_or_else(unexpected)?))?;
        }
        Ok(())
    }

    /// What one direction shows is the other's mirror image.
    fn scan_mirrored(&mut self, at: Option<usize>) -> Checked {
        let (options, _) = self.reading(at);
        let mut iter = self.db().iter_with(&options)?;
        let mut forward = Vec::new();
        iter.seek_to_first()?;
        while let Some((key, value)) = place(&iter) {
            forward.push((key.to_vec(), value.to_vec()));
            iter.next()?;
        }
        iter.seek_to_last()?;
        for (key, value) in forward.iter().rev() {
            self.judge.both(place(&iter), Some((&key[..], &value[..])))?;
            iter.prev()?;
        }
        self.judge.both(place(&iter), None)
    }

    /// Scans between keys, one after another, make up the whole.
    fn scan_parts(&mut self, at: Option<usize>, between: &[Key; 3]) -> Checked {
        let (mut options, _) = self.reading(at);
        options.snapshot.get_or_insert_with(|| self.db().snapshot());
        let mut borders: Vec<&[u8]> = between.iter().map(|key| &key.0[..]).collect();
        borders.sort_by(|a, b| self.reference.order().compare(a, b));
        let mut whole = self.db().iter_with(&options)?;
        whole.seek_to_first()?;
        let starts = [None].into_iter().chain(borders.iter().copied().map(Some));
        let ends = borders.iter().copied().map(Some).chain([None]);
        for (start, end) in starts.zip(ends) {
            let mut part = self.db().iter_with(&options)?;
            match start {
                Some(start) => part.seek(start)?,
                None => part.seek_to_first()?,
            }
            self.walk_part(&mut part, end, &mut whole)?;
        }
        expect(!whole.valid(), || "the parts are less than the whole".to_owned())
    }

    fn walk_part(
        &self,
        part: &mut DbIterator,
        end: Option<&[u8]>,
        whole: &mut DbIterator,
    ) -> Checked {
        let order = self.reference.order();
        while part.valid() && end.is_none_or(|end| order.compare(part.key(), end).is_lt()) {
            self.judge.both(place(part), place(whole))?;
            part.next()?;
            whole.next()?;
        }
        Ok(())
    }
}
