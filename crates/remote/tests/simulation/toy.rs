//! Toy tables and the merge of them: a few entries each, in a map that stands for the bucket. The merge depends on the
//! spec and the inputs alone, as a real one does.

use std::collections::BTreeMap;
use std::sync::Arc;

use siltstone_remote::{
    Area, Compression, CutRule, DbId, InputTable, JobId, JobSpec, KeyPart, Layout, ObjectName,
    OutputTable, SeqRange, Slot, Span, TaggedKey,
};

use crate::dice::Dice;

/// Entries of an output.
const CHUNK: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) user: u64,
    pub(crate) seqno: u64,
    /// `None` is a deletion.
    pub(crate) value: Option<u64>,
}

pub(crate) type Table = Arc<Vec<Entry>>;

#[derive(Default)]
pub(crate) struct Store {
    objects: BTreeMap<String, Table>,
}

impl Store {
    /// False if there is an object of that name already: nothing may be written twice.
    pub(crate) fn put(&mut self, name: &ObjectName, table: Table) -> bool {
        self.objects.insert(name.to_string(), table).is_none()
    }

    pub(crate) fn get(&self, name: &ObjectName) -> Option<&Table> {
        self.objects.get(name.as_str())
    }
}

pub(crate) fn key(entry: &Entry) -> TaggedKey {
    let kind = u8::from(entry.value.is_some());
    TaggedKey::new(&entry.user.to_be_bytes(), entry.seqno, kind).unwrap()
}

fn bytes_of(table: &[Entry]) -> u64 {
    10 + 24 * table.len() as u64
}

/// FNV-1a over all that an entry is.
pub(crate) fn checksum(table: &[Entry]) -> u32 {
    let words = table.iter().flat_map(|e| [e.user, e.seqno, e.value.map_or(0, |v| v + 1)]);
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3);
    (words.fold(0xcbf2_9ce4_8422_2325, mix) >> 17) as u32
}

fn seqnos(table: &[Entry]) -> SeqRange {
    let all = || table.iter().map(|entry| entry.seqno);
    SeqRange { smallest: all().min().unwrap(), largest: all().max().unwrap() }
}

/// A job over two to four fresh tables. In one of twenty all entries are deletions, so nothing is left of them.
pub(crate) fn job(dice: &mut Dice, store: &mut Store, number: u64, db: &str) -> JobSpec {
    let only_deletions = dice.is_lucky(50);
    let tables = dice.between(2, 4);
    let inputs = (0..tables).map(|table| {
        let count = dice.between(3, 14);
        let mut entries: Vec<Entry> = (0..count)
            .map(|_| {
                let deletion = only_deletions || dice.is_lucky(150);
                let value = dice.roll(1 << 20);
                let seqno = 1_000 * (tables - table) + dice.roll(900);
                Entry { user: dice.roll(40), seqno, value: (!deletion).then_some(value) }
            })
            .collect();
        entries.sort_by_key(|entry| (entry.user, std::cmp::Reverse(entry.seqno)));
        entries.dedup_by_key(|entry| entry.user);
        input(store, number * 10 + table, db, entries)
    });
    let job = JobId::new(1_700_000_000_000 + number, u128::from(number));
    JobSpec {
        job,
        db: DbId::new(db).unwrap(),
        epoch: 1,
        features: Vec::new(),
        inputs: inputs.collect(),
        target: Slot { level: 1, area: Area::Tree },
        part: KeyPart::default(),
        snapshots: vec![10_000],
        below: Vec::new(),
        cut: CutRule { table_bytes: 200, grandparent_bytes: 1_000, borders: Vec::new() },
        layout: layout(),
        place: ObjectName::new(&format!("{db}/jobs/{job}")).unwrap(),
    }
}

pub(crate) fn layout() -> Layout {
    Layout {
        comparator: "leveldb.BytewiseComparator".into(),
        filter: None,
        compression: Compression::None,
        block_bytes: 4_096,
        restart_interval: 16,
        format: 0,
    }
}

fn input(store: &mut Store, number: u64, db: &str, entries: Vec<Entry>) -> InputTable {
    let name = ObjectName::new(&format!("{db}/s/{number:06}.ldb")).unwrap();
    let (first, last) = (entries.first().unwrap(), entries.last().unwrap());
    let made = InputTable {
        name: name.clone(),
        number,
        bytes: bytes_of(&entries),
        crc32c: Some(checksum(&entries)),
        slot: Slot { level: 0, area: Area::Tree },
        span: Span { smallest: key(first), largest: key(last) },
        seqnos: seqnos(&entries),
        entries: entries.len() as u64,
        live: Vec::new(),
    };
    assert!(store.put(&name, Arc::new(entries)));
    made
}

/// What the job makes, output by output: the newest entry of each user key, and no deletions, for nothing lies below.
pub(crate) fn merge(spec: &JobSpec, store: &Store) -> Vec<Vec<Entry>> {
    let mut newest: BTreeMap<u64, Entry> = BTreeMap::new();
    for input in &spec.inputs {
        for entry in store.get(&input.name).expect("inputs are never removed").iter() {
            match newest.get(&entry.user) {
                Some(known) if known.seqno >= entry.seqno => {}
                _ => drop(newest.insert(entry.user, entry.clone())),
            }
        }
    }
    let kept: Vec<Entry> = newest.into_values().filter(|entry| entry.value.is_some()).collect();
    kept.chunks(CHUNK).map(<[Entry]>::to_vec).collect()
}

pub(crate) fn output(name: ObjectName, table: &[Entry]) -> OutputTable {
    OutputTable {
        name,
        bytes: bytes_of(table),
        crc32c: checksum(table),
        smallest: key(table.first().unwrap()),
        largest: key(table.last().unwrap()),
        seqnos: seqnos(table),
        entries: table.len() as u64,
        deletions: 0,
        index: None,
        filter: None,
    }
}
