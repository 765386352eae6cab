//! How a seed becomes a list of operations.

use siltstone::Site;

use super::key::key;
use super::kind::Kind;
use super::operation::{
    Act, Closing, Failing, Getting, Handle, Key, Look, Movement, Operation, SLOTS, Scanning,
    Update, Updates,
};
use super::option_sets::VARIANTS;
use super::random::Random;
use super::value::Value;
use crate::Fault;

/// Makes operations from a seed.
pub struct Generator {
    random: Random,
    /// Keys are made from numbers below this.
    keys: u32,
    next_tag: u32,
}

type Make = fn(&mut Generator) -> Act;

/// How often which kind comes, in parts of their sum. Whatever costs a scan of everything is rare.
const MIX: [(Kind, u32, Make); Kind::ALL.len()] = [
    (Kind::Put, 2500, |make| make.write(1, Wanted::Values)),
    (Kind::PutSync, 40, |make| make.write(1, Wanted::Values).synced()),
    (Kind::PutByClone, 30, |make| make.write(1, Wanted::Values).by_clone()),
    (Kind::PutLarge, 12, Generator::large_value),
    (Kind::Delete, 1200, |make| make.write(1, Wanted::Ends)),
    (Kind::DeleteSync, 20, |make| make.write(1, Wanted::Ends).synced()),
    (Kind::Batch, 400, |make| make.batch(1, 16)),
    (Kind::BatchSync, 10, |make| make.batch(1, 16).synced()),
    (Kind::BatchEmpty, 20, |make| {
        let act = make.write(0, Wanted::Both);
        if make.random.one_in(2) { act.synced() } else { act }
    }),
    (Kind::BatchLarge, 8, |make| make.batch(300, 1500)),
    (Kind::BatchOfParts, 10, |make| {
        let len = make.random.between(2, 12);
        Act::WriteParts { updates: make.updates(len, Wanted::Both) }
    }),
    (Kind::BatchOfOneKey, 20, Generator::batch_of_one_key),
    (Kind::Get, 1600, |make| make.get(Getting::Plain)),
    (Kind::GetBeside, 400, Generator::get_beside),
    (Kind::GetAt, 600, Generator::get_at),
    (Kind::GetUncached, 100, |make| make.get(Getting::Uncached)),
    (Kind::GetUnchecked, 100, |make| make.get(Getting::Unchecked)),
    (Kind::GetInPlace, 100, |make| make.get(Getting::InPlace)),
    (Kind::GetByClone, 30, |make| make.get(Getting::Plain).by_clone()),
    (Kind::TakeSnapshot, 60, |make| Act::TakeSnapshot { slot: make.slot() }),
    (Kind::ReleaseSnapshot, 60, |make| Act::ReleaseSnapshot { slot: make.slot() }),
    (Kind::OpenIterator, 50, |make| Act::OpenIterator { slot: make.slot(), at: None }),
    (Kind::OpenIteratorAt, 30, |make| Act::OpenIterator {
        slot: make.slot(),
        at: Some(make.slot()),
    }),
    (Kind::DropIterator, 20, |make| Act::DropIterator { slot: make.slot() }),
    (Kind::Seek, 460, |make| {
        let key = make.probe();
        make.step(Movement::Seek(key))
    }),
    (Kind::SeekBeforeAll, 20, |make| make.step(Movement::Seek(Key(Vec::new())))),
    (Kind::SeekPastAll, 20, |make| make.step(Movement::Seek(Key(vec![0xff; 40])))),
    (Kind::SeekToFirst, 60, |make| make.step(Movement::First)),
    (Kind::SeekToLast, 60, |make| make.step(Movement::Last)),
    (Kind::Next, 500, |make| {
        let steps = make.random.between(1, 12);
        make.step(Movement::Next(steps))
    }),
    (Kind::Prev, 500, |make| {
        let steps = make.random.between(1, 12);
        make.step(Movement::Prev(steps))
    }),
    (Kind::Wander, 400, Generator::wander),
    (Kind::WriteUnderIterator, 40, |make| {
        let len = make.random.between(2, 12);
        Act::WriteUnderIterator { slot: make.slot(), updates: make.updates(len, Wanted::Both) }
    }),
    (Kind::ScanForward, 10, |make| make.scan(Scanning::Forward)),
    (Kind::ScanBackward, 10, |make| make.scan(Scanning::Backward)),
    (Kind::ScanEntries, 100, |make| {
        let (from, steps) = (make.probe(), make.random.between(1, 60));
        Act::Scan { at: None, how: Scanning::Entries { from, steps } }
    }),
    (Kind::ScanMirrored, 6, |make| make.scan(Scanning::Mirrored)),
    (Kind::ScanInParts, 6, |make| {
        let between = make.three_keys();
        make.scan(Scanning::Parts { between })
    }),
    (Kind::Flush, 25, |_| Act::Flush),
    (Kind::Step, 250, |make| Act::Step { steps: make.random.between(1, 4) }),
    (Kind::WaitForBackground, 6, |_| Act::WaitForBackground),
    (Kind::CompactRange, 8, Generator::compact_range),
    (Kind::CompactNothing, 4, Generator::compact_nothing),
    (Kind::CompactUnderReaders, 4, |_| Act::Compact { from: None, to: None }),
    (Kind::CompactAll, 4, |_| Act::CompactAll),
    (Kind::Reopen, 9, |_| Act::Reopen { closing: Closing::Close, variant: None }),
    (Kind::ReopenVaried, 5, |make| {
        let variant = Some(make.random.below(VARIANTS));
        Act::Reopen { closing: Closing::Close, variant }
    }),
    (Kind::ReopenDropped, 4, |_| Act::Reopen { closing: Closing::Drop, variant: None }),
    (Kind::ReopenUnderReaders, 4, |_| Act::Reopen {
        closing: Closing::UnderReaders,
        variant: None,
    }),
    (Kind::ReopenKilled, 4, |_| Act::Reopen { closing: Closing::Killed, variant: None }),
    (Kind::DestroyAndRecreate, 3, |_| Act::DestroyAndRecreate),
    (Kind::ReadOnlyBeside, 4, |_| Act::Look(Look::ReadOnlyBeside)),
    (Kind::Checkpoint, 4, |_| Act::Look(Look::Checkpoint)),
    (Kind::CheckpointReadOnly, 4, |_| Act::Look(Look::CheckpointReadOnly)),
    (Kind::Verify, 4, |_| Act::Look(Look::Verify)),
    (Kind::RepairCopy, 4, |_| Act::Look(Look::RepairCopy)),
    (Kind::DumpFiles, 4, |_| Act::Look(Look::DumpFiles)),
    (Kind::Properties, 15, |_| Act::Look(Look::Properties)),
    (Kind::ApproximateSizes, 15, |make| {
        Act::Look(Look::ApproximateSizes { keys: make.three_keys() })
    }),
    (Kind::Refusals, 4, |_| Act::Look(Look::Refusals)),
    (Kind::DiskFull, 6, |make| {
        let (updates, fault) = make.under_a_full_disk();
        Act::Fail(Failing::DiskFull { updates, fault })
    }),
    (Kind::DiskFullKilled, 4, |make| {
        let (updates, fault) = make.under_a_full_disk();
        Act::Fail(Failing::DiskFullKilled { updates, fault })
    }),
    (Kind::WriteFails, 4, Generator::failing_write),
    (Kind::FlushFails, 5, |make| {
        Act::Fail(make.failing_table(|site, fault| Failing::Flush { site, fault }))
    }),
    (Kind::FlushFailsKilled, 4, |make| {
        Act::Fail(match make.random.one_in(2) {
            true => make.failing_table(|site, fault| Failing::FlushKilled { site, fault }),
            false => Failing::FlushKilled { site: make.manifest_site(), fault: make.fault() },
        })
    }),
    (Kind::CompactionFails, 4, |make| {
        Act::Fail(make.failing_table(|site, fault| Failing::Compaction { site, fault }))
    }),
    (Kind::ManifestFull, 4, |make| Act::Fail(Failing::ManifestFull { site: make.manifest_site() })),
    (Kind::ManifestFails, 4, |make| {
        Act::Fail(Failing::Manifest { site: make.manifest_site(), fault: make.fault() })
    }),
    (Kind::ReadFails, 8, |make| Act::Fail(Failing::Read { key: make.probe() })),
];

/// What updates are to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Values,
    Ends,
    Both,
}

impl Act {
    fn synced(mut self) -> Self {
        if let Act::Write { sync, .. } = &mut self {
            *sync = true;
        }
        self
    }

    fn by_clone(mut self) -> Self {
        if let Act::Write { through, .. } | Act::Get { through, .. } = &mut self {
            *through = Handle::Clone;
        }
        self
    }
}

impl Generator {
    pub fn new(seed: u64, keys: u32) -> Self {
        Generator { random: Random::new(seed), keys, next_tag: 0 }
    }

    /// A list of operations of the kinds that `is_wanted` admits.
    pub fn list(mut self, len: usize, is_wanted: impl Fn(Kind) -> bool) -> Vec<Operation> {
        let mix: Vec<_> = MIX.iter().filter(|(kind, ..)| is_wanted(*kind)).collect();
        let sum = mix.iter().map(|(_, weight, _)| weight).sum();
        let mut pick = || {
            let mut at = self.random.below(sum);
            let picked = mix.iter().find(|(_, weight, _)| {
                let here = at < *weight;
                at = at.saturating_sub(*weight);
                here
            });
            let (kind, _, make) = picked.expect("a number below the sum meets one of the weights");
            Operation { kind: *kind, act: make(&mut self) }
        };
        (0..len).map(|_| pick()).collect()
    }

    fn slot(&mut self) -> usize {
        self.random.below(SLOTS as u32) as usize
    }

    /// A key that may have a value. Low numbers come more often.
    fn key(&mut self) -> Vec<u8> {
        let end = if self.random.one_in(4) { self.keys / 16 + 1 } else { self.keys };
        key(self.random.below(end), &mut self.random)
    }

    /// A key to look for: sometimes one beside those that may have values.
    fn probe(&mut self) -> Key {
        if self.random.one_in(3) { self.beside() } else { Key(self.key()) }
    }

    fn beside(&mut self) -> Key {
        let mut key = self.key();
        match (self.random.below(4), key.last_mut()) {
            (0, _) | (_, None) => key.push(0),
            (1, _) => key.push(0xff),
            (2, _) => drop(key.pop()),
            (_, Some(last)) => *last = last.wrapping_sub(1),
        }
        Key(key)
    }

    fn three_keys(&mut self) -> [Key; 3] {
        [self.probe(), self.probe(), self.probe()]
    }

    fn value(&mut self) -> Value {
        let len = match self.random.below(100) {
            0..5 => 0,
            5..45 => self.random.between(1, 20),
            45..92 => self.random.between(20, 120),
            _ => self.random.between(300, 3000),
        };
        self.value_of(len)
    }

    fn value_of(&mut self, len: u32) -> Value {
        self.next_tag += 1;
        Value { tag: self.next_tag, len }
    }

    fn updates(&mut self, len: u32, wanted: Wanted) -> Updates {
        let mut update = || -> Update {
            let ends = match wanted {
                Wanted::Values => false,
                Wanted::Ends => true,
                Wanted::Both => self.random.one_in(3),
            };
            (self.key(), if ends { None } else { Some(self.value()) })
        };
        Updates((0..len).map(|_| update()).collect())
    }

    fn write(&mut self, len: u32, wanted: Wanted) -> Act {
        Act::Write { updates: self.updates(len, wanted), sync: false, through: Handle::Own }
    }

    fn batch(&mut self, from: u32, end: u32) -> Act {
        let len = self.random.between(from, end);
        self.write(len, Wanted::Both)
    }

    fn batch_of_one_key(&mut self) -> Act {
        let len = self.random.between(2, 40);
        let (key, Updates(mut updates)) = (self.key(), self.updates(len, Wanted::Both));
        updates.iter_mut().for_each(|update| update.0.clone_from(&key));
        Act::Write { updates: Updates(updates), sync: false, through: Handle::Own }
    }

    /// Few keys have large values, or scans would read nothing else.
    fn large_value(&mut self) -> Act {
        let number = self.random.below(3);
        let key = key(number, &mut self.random);
        let len = self.random.between(8 << 10, 150 << 10);
        let updates = Updates(vec![(key, Some(self.value_of(len)))]);
        Act::Write { updates, sync: false, through: Handle::Own }
    }

    fn get(&mut self, how: Getting) -> Act {
        Act::Get { key: Key(self.key()), at: None, how, through: Handle::Own }
    }

    fn get_beside(&mut self) -> Act {
        Act::Get { key: self.beside(), at: None, how: Getting::Plain, through: Handle::Own }
    }

    fn get_at(&mut self) -> Act {
        let (key, at) = (self.probe(), Some(self.slot()));
        Act::Get { key, at, how: Getting::Plain, through: Handle::Own }
    }

    fn step(&mut self, to: Movement) -> Act {
        Act::Move { slot: self.slot(), to }
    }

    fn wander(&mut self) -> Act {
        let (turns, steps) = (self.random.next() as u32, self.random.between(2, 24));
        self.step(Movement::Wander { turns, steps })
    }

    fn scan(&mut self, how: Scanning) -> Act {
        Act::Scan { at: self.random.one_in(3).then(|| self.slot()), how }
    }

    fn compact_range(&mut self) -> Act {
        let from = (!self.random.one_in(3)).then(|| self.probe());
        let to = (!self.random.one_in(3)).then(|| self.probe());
        Act::Compact { from, to }
    }

    /// One that ends before it begins, in one order or the other, or holds a single key.
    fn compact_nothing(&mut self) -> Act {
        let (low, high) = (self.probe(), Key(vec![0xff; 41]));
        let (from, to) = match self.random.below(3) {
            0 => (low.clone(), low),
            1 => (high, low),
            _ => (Key(Vec::new()), Key(Vec::new())),
        };
        Act::Compact { from: Some(from), to: Some(to) }
    }

    /// A failure that is no lack of space.
    fn fault(&mut self) -> Fault {
        self.random.pick(&[Fault::Io, Fault::Torn(1), Fault::Torn(40), Fault::DoneUntold])
    }

    fn full(&mut self) -> Fault {
        self.random.pick(&[Fault::NoSpace, Fault::Full(3), Fault::Full(60)])
    }

    fn failing_table(&mut self, failing: fn(Site, Fault) -> Failing) -> Failing {
        let site = self.random.pick(&[
            Site::TableCreate,
            Site::TableAppend,
            Site::TableSync,
            Site::TableClose,
            Site::TableDirSync,
        ]);
        let fault = if self.random.one_in(3) { self.full() } else { self.fault() };
        failing(site, fault)
    }

    fn manifest_site(&mut self) -> Site {
        self.random.pick(&[Site::ManifestAppend, Site::ManifestSync])
    }

    fn under_a_full_disk(&mut self) -> (Updates, Fault) {
        let len = self.random.between(1, 6);
        (self.updates(len, Wanted::Both), self.full())
    }

    fn failing_write(&mut self) -> Act {
        let len = self.random.between(1, 6);
        let updates = self.updates(len, Wanted::Both);
        let site = self.random.pick(&[Site::WalAppend, Site::WalSync]);
        Act::Fail(Failing::Write { updates, site, fault: self.fault() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_stands_in_the_mix_once() {
        let kinds = MIX.map(|(kind, ..)| kind);
        assert_eq!(kinds[..], *Kind::ALL);
    }

    #[test]
    fn a_seed_is_a_list() {
        let list = |seed| format!("{:?}", Generator::new(seed, 100).list(500, |_| true));
        assert_eq!(list(3), list(3));
        assert_ne!(list(3), list(4));
    }

    #[test]
    fn unwanted_kinds_do_not_come() {
        let list = Generator::new(1, 100).list(500, |kind| kind == Kind::Flush);
        assert!(list.iter().all(|operation| operation.kind == Kind::Flush));
    }
}
