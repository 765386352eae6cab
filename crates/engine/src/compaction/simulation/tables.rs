//! Imaginary tables: what becomes of their entries in moves and merges.

use std::sync::Arc;

use super::{ENTRY_BYTES, Entry, MARKS, SAMPLED, Simulation, internal, number, settings};
use crate::base::key::SEQNO_MAX;
use crate::base::slot::{Area, Slot};
use crate::compaction::closure::Closed;
use crate::compaction::cut::Cutter;
use crate::compaction::hot_map::KeyHash;
use crate::compaction::job::{Job, JobLimits};
use crate::format::filename::FileNumber;
use crate::format::manifest::edit::{Live, Span};
use crate::version::builder::Change;
use crate::version::table_meta::{TableMeta, TableStats};

impl Simulation {
    pub(super) fn moved(&self, closed: &Closed, to: Slot) -> Change {
        let tables = || closed.tables.iter();
        Change {
            removed: tables().map(|(place, table)| (place.slot, table.number)).collect(),
            added: tables().map(|(_, table)| (to, Arc::clone(table))).collect(),
        }
    }

    pub(super) fn merged(&mut self, closed: &Closed, to: Slot) -> Result<Change, String> {
        let order = self.order.clone();
        let limits = JobLimits {
            table_bytes: self.options.table * ENTRY_BYTES,
            grandparent_bytes: settings(&self.options).grandparent_limit(),
        };
        let settings = (to, vec![SEQNO_MAX], limits);
        let job = Job::new(0, &order.user, &self.version, closed, settings);
        let entries = self.newest_of(&job)?;
        let mut cutter = Cutter::new(&job.cut, &order);
        let mut added = Vec::new();
        let mut open: Vec<Entry> = Vec::new();
        for entry in entries {
            let bytes = open.len() as u64 * ENTRY_BYTES;
            if cutter.cuts_before(internal(&entry).as_bytes(), bytes) && !open.is_empty() {
                added.push((to, std::mem::take(&mut open)));
            }
            open.push(entry);
        }
        if !open.is_empty() {
            added.push((to, open));
        }
        let merged: u64 = added.iter().map(|(_, entries)| entries.len() as u64).sum();
        self.counts.merges += 1;
        self.counts.merged += merged;
        self.counts.largest_merge = self.counts.largest_merge.max(merged);
        let mut added: Vec<(Slot, Arc<TableMeta>)> =
            added.into_iter().map(|(slot, entries)| (slot, self.store(entries))).collect();
        let logged = job.input_tables().filter(|(slot, _)| slot.area == Area::SstLog);
        added.extend(logged.filter_map(|(slot, table)| Some((slot, self.narrowed(&job, table)?))));
        let removed = job.input_tables().map(|(slot, table)| (slot, table.number)).collect();
        Ok(Change { removed, added })
    }

    /// What a merge of the job brings, by key; an error if the search order has an older version first.
    pub(super) fn newest_of(&self, job: &Job) -> Result<Vec<Entry>, String> {
        let order = &self.order.user;
        let mut all: Vec<(u32, u32, u32)> = Vec::new();
        for (rank, (_, table)) in (0..).zip(job.input_tables()) {
            for (key, seqno) in self.contents[&table.number].iter() {
                let user = key.to_be_bytes();
                let is_between = (number(&table.smallest)..=number(&table.largest)).contains(key);
                if is_between && table.counts(order, &user) && job.part.holds(order, &user) {
                    all.push((*key, rank, *seqno));
                }
            }
        }
        all.sort_unstable();
        let is_older = |pair: &&[(u32, u32, u32)]| pair[0].0 == pair[1].0 && pair[0].2 <= pair[1].2;
        if let Some(pair) = all.windows(2).find(is_older) {
            return Err(format!("key {}: {} is found before {}", pair[0].0, pair[0].2, pair[1].2));
        }
        all.dedup_by_key(|(key, _, _)| *key);
        Ok(all.into_iter().map(|(key, _, seqno)| (key, seqno)).collect())
    }

    /// What is left of a table of which a slice has gone.
    pub(super) fn narrowed(&self, job: &Job, table: &TableMeta) -> Option<Arc<TableMeta>> {
        let order = &self.order.user;
        let entries = &self.contents[&table.number];
        let mut parts = Vec::new();
        for (smallest, largest) in (0..).map_while(|nth| table.stretch(nth)) {
            let within = |entry: &&Entry| (number(smallest)..=number(largest)).contains(&entry.0);
            let is_left = |entry: &Entry| !job.part.holds(order, &entry.0.to_be_bytes());
            let within: Vec<&Entry> = entries.iter().filter(within).collect();
            for stretch in within.chunk_by(|a, b| is_left(a) == is_left(b)) {
                let (first, last) = (stretch.first()?, stretch.last()?);
                if is_left(first) {
                    parts.push(Span { smallest: internal(first), largest: internal(last) });
                }
            }
        }
        let bytes = parts.iter().map(|part| self.bytes_of(entries, part)).sum::<u64>();
        table.narrowed(Live { bytes: bytes.min(table.size - 1), parts }).map(Arc::new)
    }

    pub(super) fn bytes_of(&self, entries: &[Entry], part: &Span) -> u64 {
        let before = |key| entries.partition_point(|entry| entry.0 < number(key));
        let count = before(&part.largest) + 1 - before(&part.smallest);
        count as u64 * ENTRY_BYTES
    }

    pub(super) fn store(&mut self, entries: Vec<Entry>) -> Arc<TableMeta> {
        self.last_number += 1;
        let number = FileNumber(self.last_number);
        let bounds = (internal(&entries[0]), internal(&entries[entries.len() - 1]));
        let size = entries.len() as u64 * ENTRY_BYTES;
        let sampled = entries.iter().step_by(SAMPLED);
        let hotness = self.hot_map.as_ref().map_or(0, |map| {
            let weights =
                sampled.clone().map(|entry| map.weight(KeyHash::of(&entry.0.to_be_bytes())));
            weights.sum::<u64>() * 1000 / sampled.len() as u64
        });
        let meta = TableMeta::with_hotness((number, size, hotness), bounds, self.graveyard.clone());
        meta.learn_stats(Some(TableStats {
            entries: entries.len() as u64,
            ..TableStats::default()
        }));
        let marked = |nth: usize| {
            let at = entries.len() * nth / MARKS.min(entries.len());
            (entries[at - 1].0.to_be_bytes().to_vec(), at as u64 * ENTRY_BYTES)
        };
        meta.learn_marks(|| (1..=MARKS.min(entries.len())).map(marked).collect());
        self.contents.insert(number, Arc::new(entries));
        Arc::new(meta)
    }
}
