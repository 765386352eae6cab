//! A random model of slots, jobs and snapshots, on the real rules: [`closure`], [`in_flight`],
//! [`retention`], [`cut`], [`job`] and the version builder. Tables are lists of entries; there are no
//! files. After each step that changes the version, A3 and A5 are checked over all entries, and
//! every key is read at every snapshot and compared with the history of writes.
//!
//! Each rule can be replaced by one that forgets something ([`mutants`]): then some history must
//! break, or the model does not test that rule.

mod checks;
mod mutants;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::key::{InternalKey, ParsedKey, SeqNo, ValueKind};
use crate::base::slot::{Area, Slot};
use crate::compaction::closure::{self, Closed};
use crate::compaction::cut::Cutter;
use crate::compaction::in_flight::InFlight;
use crate::compaction::job::{Job, JobLimits, Output};
use crate::compaction::parts::Part;
use crate::compaction::retention::{Retention, Verdict};
use crate::compaction::slice;
use crate::format::filename::FileNumber;
use crate::format::manifest::edit::{Live, Span};
use crate::format::table::builder::TableSummary;
use crate::format::table::properties::TableProperties;
use crate::version::builder::{self, Change};
use crate::version::table_meta::TableMeta;
use crate::version::testing::{Random, order, sized, sst_log, tree};
use crate::version::{Version, check};

/// Keys are the bytes below this.
const KEYS: u8 = 22;
const STEPS: usize = 160;
/// Bytes that each entry counts for.
const ENTRY_BYTES: u64 = 10;

/// What histories are made by; see the module doc.
#[derive(Clone, Copy)]
struct Rules {
    close: fn(&UserOrder, &Version, &[FileNumber], Slot) -> Option<Closed>,
    admits: fn(&InFlight, &UserOrder, &Closed, Slot) -> bool,
    slice: fn(&UserOrder, &Version, Slot, &Part) -> Option<Closed>,
    /// Whether a table of which a slice has gone counts without it from then on.
    narrows: bool,
    /// Last touch to a job before it runs.
    job: fn(&Version, &mut Job),
    cuts: Cuts,
    /// Which cuts A5 lets pass.
    tolerated: Cuts,
}

const RULES: Rules = Rules {
    close: closure::close,
    admits: InFlight::admits,
    slice: slice::close,
    narrows: true,
    job: |_, _| (),
    cuts: Cuts::BetweenKeys,
    tolerated: Cuts::BetweenKeys,
};

/// Where output tables may end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cuts {
    BetweenKeys,
    /// As LevelDB's did: between two versions of one key, too.
    Anywhere,
}

/// An entry: user key, sequence number, value or deletion.
type Entry = (u8, u64, Option<u32>);

enum Running {
    Move { id: u64, closed: Closed, to: Slot },
    Merge(Job),
}

struct Model {
    rules: Rules,
    random: Random,
    order: InternalOrder,
    version: Version,
    in_flight: InFlight,
    running: Vec<Running>,
    contents: BTreeMap<FileNumber, Vec<Entry>>,
    memtable: Vec<Entry>,
    history: Vec<Entry>,
    snapshots: Vec<u64>,
    last_number: u64,
    last_job: u64,
    done: Done,
}

/// Counts that tell whether the histories were worth anything.
#[derive(Clone, Copy, Default)]
struct Done {
    moves: usize,
    merges: usize,
    dropped: usize,
    turned_away: usize,
    slices: usize,
}

/// What a history broke.
type Checked = Result<(), String>;

impl Model {
    fn new(seed: u64, rules: Rules) -> Self {
        Model {
            rules,
            random: Random::new(seed),
            order: order(),
            version: Version::default(),
            in_flight: InFlight::default(),
            running: Vec::new(),
            contents: BTreeMap::new(),
            memtable: Vec::new(),
            history: Vec::new(),
            snapshots: Vec::new(),
            last_number: 0,
            last_job: 0,
            done: Done::default(),
        }
    }

    fn run(mut self) -> Result<Done, String> {
        for _ in 0..STEPS {
            let changed = match self.random.below(100) {
                0..45 => self.put(),
                45..58 => self.flush()?,
                58..80 => self.plan(),
                80..92 => self.finish_one()?,
                92..95 => {
                    self.snapshots.push(self.last_seqno());
                    false
                }
                _ => {
                    if !self.snapshots.is_empty() {
                        let at = self.random.below(self.snapshots.len());
                        self.snapshots.swap_remove(at);
                    }
                    false
                }
            };
            if changed {
                self.check()?;
            }
        }
        while self.finish_one()? {
            self.check()?;
        }
        assert!(self.in_flight.is_empty());
        Ok(self.done)
    }

    fn last_seqno(&self) -> u64 {
        self.history.len() as u64
    }

    fn new_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn put(&mut self) -> bool {
        let key = self.random.below(usize::from(KEYS)) as u8;
        let seqno = self.last_seqno() + 1;
        let value = (!self.random.percent(30)).then_some(seqno as u32);
        self.memtable.push((key, seqno, value));
        self.history.push((key, seqno, value));
        false
    }

    fn flush(&mut self) -> Result<bool, String> {
        if self.memtable.is_empty() {
            return Ok(false);
        }
        let mut entries = std::mem::take(&mut self.memtable);
        entries.sort_by_key(|(key, seqno, _)| (*key, std::cmp::Reverse(*seqno)));
        let built = self.store(entries);
        self.install(Vec::new(), &[built], Slot::L0, Vec::new())?;
        Ok(true)
    }

    /// Keeps entries as a table.
    fn store(&mut self, entries: Vec<Entry>) -> TableSummary {
        let number = FileNumber(self.new_number());
        let built = TableSummary {
            number,
            bytes: entries.len() as u64 * ENTRY_BYTES,
            smallest: internal(entries.first().unwrap()),
            largest: internal(entries.last().unwrap()),
            properties: TableProperties::default(),
        };
        self.contents.insert(number, entries);
        built
    }

    fn install(
        &mut self,
        gone: Vec<(Slot, FileNumber)>,
        new: &[TableSummary],
        to: Slot,
        remaining: Vec<(Slot, Arc<TableMeta>)>,
    ) -> Checked {
        let meta = |built: &TableSummary| {
            sized(built.number.0, built.bytes, (built.smallest.clone(), built.largest.clone()))
        };
        let added = new.iter().map(|built| (to, meta(built))).chain(remaining).collect();
        self.change(Change { removed: gone, added })
    }

    fn change(&mut self, change: Change) -> Checked {
        let next = builder::apply(&self.order, &self.version, change);
        self.version = next.map_err(|error| error.to_string())?;
        check::check(&self.order, &self.version).map_err(|error| error.to_string())
    }

    /// Proposes a plan such as a policy might, and begins it if the rules let it.
    fn plan(&mut self) -> bool {
        let targets = [tree(1), sst_log(1), tree(2), sst_log(2), tree(3)];
        let filled: Vec<Slot> = self
            .version
            .slots()
            .filter(|(_, tables)| !tables.is_empty())
            .map(|(slot, _)| slot)
            .collect();
        if filled.is_empty() {
            return false;
        }
        let from = *self.random.pick(&filled);
        if from.area == Area::SstLog && self.random.percent(50) {
            return self.plan_slice(from);
        }
        let reachable: Vec<Slot> = targets.into_iter().filter(|to| *to >= from).collect();
        let to = *self.random.pick(&reachable);
        let tables = self.version.slot(from);
        let seed: Vec<FileNumber> =
            (0..=self.random.below(3)).map(|_| self.random.pick(tables).number).collect();
        let user = &self.order.user;
        let Some(closed) = (self.rules.close)(user, &self.version, &seed, to) else { return false };
        self.begin(closed, to)
    }

    /// Proposes a slice between two borders of the next level's tables, at random.
    fn plan_slice(&mut self, from: Slot) -> bool {
        let to = slice::target(from).expect("below an SST log there is a level");
        let below = self.version.slot(to);
        let mut border = |least: usize| {
            let at = least + self.random.below(below.len() + 1 - least);
            let border =
                below.get(at).filter(|_| at > 0).map(|table| table.smallest.user().to_vec());
            (at, border)
        };
        let (at, from_key) = border(0);
        let (_, until) = border((at + 1).min(below.len()));
        let part = Part { from: from_key, until };
        let Some(closed) = (self.rules.slice)(&self.order.user, &self.version, from, &part) else {
            return false;
        };
        self.done.slices += 1;
        self.begin(closed, to)
    }

    fn begin(&mut self, closed: Closed, to: Slot) -> bool {
        let user = &self.order.user;
        if !(self.rules.admits)(&self.in_flight, user, &closed, to) {
            self.done.turned_away += 1;
            return false;
        }
        self.last_job += 1;
        self.in_flight.begin(user, self.last_job, &closed, to);
        let running = if self.random.percent(50) && closed.may_move(user, to) {
            Running::Move { id: self.last_job, closed, to }
        } else {
            Running::Merge(self.job(&closed, to))
        };
        self.running.push(running);
        false
    }

    fn job(&mut self, closed: &Closed, to: Slot) -> Job {
        let mut snapshots = self.snapshots.clone();
        snapshots.push(self.last_seqno());
        snapshots.sort_unstable();
        snapshots.dedup();
        let limits = JobLimits {
            table_bytes: (1 + self.random.below(8)) as u64 * ENTRY_BYTES,
            grandparent_bytes: self.random.below(20) as u64 * ENTRY_BYTES,
        };
        let settings = (to, snapshots.into_iter().map(SeqNo).collect(), limits);
        let mut job = Job::new(self.last_job, &self.order.user, &self.version, closed, settings);
        (self.rules.job)(&self.version, &mut job);
        job
    }

    fn finish_one(&mut self) -> Result<bool, String> {
        if self.running.is_empty() {
            return Ok(false);
        }
        let at = self.random.below(self.running.len());
        match self.running.swap_remove(at) {
            Running::Move { id, closed, to } => {
                let tables = || closed.tables.iter();
                self.change(Change {
                    removed: tables().map(|(place, table)| (place.slot, table.number)).collect(),
                    added: tables().map(|(_, table)| (to, Arc::clone(table))).collect(),
                })?;
                self.in_flight.end(id);
                self.done.moves += 1;
            }
            Running::Merge(job) => {
                let output = self.merge(&job);
                if self.rules.tolerated == Cuts::BetweenKeys && !job.accepts(&self.order, &output) {
                    return Err(format!("job {} refuses its output", job.id));
                }
                let gone = job.input_tables().map(|(slot, table)| (slot, table.number)).collect();
                let remaining = self.remaining(&job);
                self.install(gone, &output.tables, job.to, remaining)?;
                self.in_flight.end(job.id);
                self.done.merges += 1;
            }
        }
        Ok(true)
    }

    /// What of a slice's tables still counts.
    fn remaining(&self, job: &Job) -> Vec<(Slot, Arc<TableMeta>)> {
        let order = &self.order.user;
        let logged = job.input_tables().filter(|(slot, _)| slot.area == Area::SstLog);
        let narrowed = |(slot, table): (Slot, &Arc<TableMeta>)| {
            let entries = &self.contents[&table.number];
            let stays = |entry: &Entry| {
                table.counts(order, &[entry.0]) && !job.part.holds(order, &[entry.0])
            };
            let stretches = entries.chunk_by(|a, b| stays(a) == stays(b));
            let stretches = stretches.filter(|stretch| stays(&stretch[0]));
            let span = |stretch: &[Entry]| Span {
                smallest: internal(&stretch[0]),
                largest: internal(&stretch[stretch.len() - 1]),
            };
            let live = Live { bytes: 1, parts: stretches.map(span).collect() };
            let narrowed = Arc::new(table.narrowed(live)?);
            Some((slot, if self.rules.narrows { narrowed } else { Arc::clone(table) }))
        };
        match job.part == Part::all() {
            true => Vec::new(),
            false => logged.filter_map(narrowed).collect(),
        }
    }

    /// What the merge loop does, on lists.
    fn merge(&mut self, job: &Job) -> Output {
        let order = self.order.user.clone();
        let merged = |(_, table): (Slot, &Arc<TableMeta>)| {
            let counts = |entry: &Entry| {
                table.counts(&order, &[entry.0]) && job.part.holds(&order, &[entry.0])
            };
            self.contents[&table.number].iter().copied().filter(counts).collect::<Vec<_>>()
        };
        let mut entries: Vec<Entry> = job.input_tables().flat_map(merged).collect();
        entries.sort_by_key(|(key, seqno, _)| (*key, std::cmp::Reverse(*seqno)));
        let order = self.order.clone();
        let mut retention = Retention::new(&order.user, &job.snapshots, &job.below);
        let mut cutter = Cutter::new(&job.cut, &order);
        let mut output = Output::default();
        let mut open: Vec<Entry> = Vec::new();
        for entry in entries {
            let verdict = retention.judge(&parsed(&entry, &[entry.0]));
            if verdict == Verdict::Drop {
                self.done.dropped += 1;
                continue;
            }
            let may_cut = verdict == Verdict::KeepFirst || self.rules.cuts == Cuts::Anywhere;
            let bytes = open.len() as u64 * ENTRY_BYTES;
            if may_cut && cutter.cuts_before(internal(&entry).as_bytes(), bytes) && !open.is_empty()
            {
                output.tables.push(self.store(std::mem::take(&mut open)));
            }
            open.push(entry);
        }
        if !open.is_empty() {
            output.tables.push(self.store(open));
        }
        output
    }
}

fn kind(entry: &Entry) -> ValueKind {
    if entry.2.is_some() { ValueKind::Value } else { ValueKind::Deletion }
}

fn internal(entry: &Entry) -> InternalKey {
    InternalKey::new(&[entry.0], SeqNo(entry.1), kind(entry))
}

fn parsed<'k>(entry: &Entry, user: &'k [u8]) -> ParsedKey<'k> {
    ParsedKey { user, seqno: SeqNo(entry.1), kind: kind(entry) }
}

/// Runs histories until one breaks; how often it did what.
fn run_all(seeds: std::ops::Range<u64>, rules: Rules) -> Result<Done, String> {
    let mut total = Done::default();
    for seed in seeds {
        let done =
            Model::new(seed, rules).run().map_err(|broken| format!("seed {seed}: {broken}"))?;
        total.moves += done.moves;
        total.merges += done.merges;
        total.dropped += done.dropped;
        total.turned_away += done.turned_away;
        total.slices += done.slices;
    }
    Ok(total)
}

#[test]
fn the_rules_keep_every_history() {
    let done = run_all(0..2_000, RULES).unwrap();
    assert!(done.moves > 2_000 && done.merges > 5_000, "{} {}", done.moves, done.merges);
    assert!(done.dropped > 10_000 && done.turned_away > 2_000);
    assert!(done.slices > 2_000, "{}", done.slices);
}

/// Tables that share border keys, as LevelDB wrote them, everywhere.
#[test]
fn the_rules_keep_every_history_with_keys_split_over_tables() {
    let rules = Rules { cuts: Cuts::Anywhere, tolerated: Cuts::Anywhere, ..RULES };
    run_all(0..1_000, rules).unwrap();
}
