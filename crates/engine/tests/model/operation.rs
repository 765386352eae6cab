//! Operations: what they are, and how a seed becomes a list of them.
//!
//! An operation stands for itself: it holds its keys and values, and names snapshots and iterators
//! by their slot. So any part of a list is a list that can be run, which is what shrinking needs.

use std::fmt;

use crate::option_sets::VARIANTS;
use crate::random::Random;

/// Places for snapshots, and as many for iterators.
pub(crate) const SLOTS: usize = 4;

/// A value: its bytes follow from its tag and length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) tag: u32,
    pub(crate) len: u32,
}

impl Value {
    /// Writes the bytes into `out`: half of the values compress well, the others badly.
    pub(crate) fn write_to(self, out: &mut Vec<u8>) {
        out.clear();
        let len = self.len as usize;
        let mut random = Random::new(u64::from(self.tag));
        if self.tag.is_multiple_of(2) {
            let word = random.next().to_le_bytes();
            out.extend(word.iter().cycle().take(len));
        } else {
            while out.len() < len {
                out.extend_from_slice(&random.next().to_le_bytes());
            }
            out.truncate(len);
        }
    }
}

/// A key, and its new value or its end.
pub(crate) type Update = (Vec<u8>, Option<Value>);

/// One thing that a user of the database may do.
#[derive(Clone)]
pub(crate) enum Operation {
    Put {
        key: Vec<u8>,
        value: Value,
        sync: bool,
    },
    Delete {
        key: Vec<u8>,
        sync: bool,
    },
    Batch {
        updates: Vec<Update>,
        sync: bool,
    },
    EmptyBatch {
        sync: bool,
    },
    Get {
        key: Vec<u8>,
    },
    GetAt {
        slot: usize,
        key: Vec<u8>,
    },
    TakeSnapshot {
        slot: usize,
    },
    ReleaseSnapshot {
        slot: usize,
    },
    OpenIterator {
        slot: usize,
        snapshot: Option<usize>,
    },
    DropIterator {
        slot: usize,
    },
    Seek {
        slot: usize,
        key: Vec<u8>,
    },
    SeekToFirst {
        slot: usize,
    },
    SeekToLast {
        slot: usize,
    },
    Next {
        slot: usize,
        steps: u32,
    },
    Prev {
        slot: usize,
        steps: u32,
    },
    /// Steps forth (1 bits) and back (0 bits).
    Wander {
        slot: usize,
        turns: u32,
        steps: u32,
    },
    ScanForward {
        snapshot: Option<usize>,
    },
    ScanBackward {
        snapshot: Option<usize>,
    },
    ScanFrom {
        key: Vec<u8>,
        steps: u32,
    },
    CompactRange {
        from: Option<Vec<u8>>,
        to: Option<Vec<u8>>,
    },
    /// Readers end, and everything is compacted.
    CompactAll,
    Flush,
    /// By hand; with lanes, it helps them.
    Step {
        steps: u32,
    },
    WaitForBackground,
    /// Close and open, with the options of a variant.
    Reopen {
        variant: u32,
    },
    /// The handle is dropped instead of closed.
    DropAndReopen,
    /// Iterators and snapshots go on reading a closed database.
    CloseUnderReaders,
    ReadOnlyBeside,
    Properties,
    ApproximateSizes {
        keys: [Vec<u8>; 3],
    },
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |key: &[u8]| ShortKey(key).to_string();
        match self {
            Operation::Put { key: k, value, sync } => {
                write!(f, "put {} {value:?}{}", key(k), synced(*sync))
            }
            Operation::Delete { key: k, sync } => write!(f, "delete {}{}", key(k), synced(*sync)),
            Operation::Batch { updates, sync } => fmt_batch(updates, *sync, f),
            Operation::EmptyBatch { sync } => write!(f, "empty batch{}", synced(*sync)),
            Operation::Get { key: k } => write!(f, "get {}", key(k)),
            Operation::GetAt { slot, key: k } => write!(f, "get {} at snapshot {slot}", key(k)),
            Operation::TakeSnapshot { slot } => write!(f, "take snapshot {slot}"),
            Operation::ReleaseSnapshot { slot } => write!(f, "release snapshot {slot}"),
            Operation::OpenIterator { slot, snapshot } => {
                write!(f, "open iterator {slot}{}", at(snapshot))
            }
            Operation::DropIterator { slot } => write!(f, "drop iterator {slot}"),
            Operation::Seek { slot, key: k } => write!(f, "iterator {slot}: seek {}", key(k)),
            Operation::SeekToFirst { slot } => write!(f, "iterator {slot}: seek to first"),
            Operation::SeekToLast { slot } => write!(f, "iterator {slot}: seek to last"),
            Operation::Next { slot, steps } => write!(f, "iterator {slot}: next x {steps}"),
            Operation::Prev { slot, steps } => write!(f, "iterator {slot}: prev x {steps}"),
            Operation::Wander { slot, turns, steps } => {
                let turn = |step| if turns >> step & 1 == 1 { '>' } else { '<' };
                write!(f, "iterator {slot}: {}", (0..*steps).map(turn).collect::<String>())
            }
            Operation::ScanForward { snapshot } => write!(f, "scan forward{}", at(snapshot)),
            Operation::ScanBackward { snapshot } => write!(f, "scan backward{}", at(snapshot)),
            Operation::ScanFrom { key: k, steps } => write!(f, "scan {steps} from {}", key(k)),
            Operation::CompactRange { from, to } => {
                let end = |end: &Option<Vec<u8>>| end.as_deref().map_or("..".to_owned(), key);
                write!(f, "compact {} to {}", end(from), end(to))
            }
            Operation::CompactAll => f.write_str("end readers, compact all"),
            Operation::Flush => f.write_str("flush"),
            Operation::Step { steps } => write!(f, "background step x {steps}"),
            Operation::WaitForBackground => f.write_str("wait for background"),
            Operation::Reopen { variant } => write!(f, "reopen as variant {variant}"),
            Operation::DropAndReopen => f.write_str("drop and reopen"),
            Operation::CloseUnderReaders => f.write_str("close under readers, reopen"),
            Operation::ReadOnlyBeside => f.write_str("open read-only beside"),
            Operation::Properties => f.write_str("properties"),
            Operation::ApproximateSizes { keys } => {
                write!(f, "sizes between {}", keys.each_ref().map(|k| key(k)).join(", "))
            }
        }
    }
}

fn synced(sync: bool) -> &'static str {
    if sync { " (sync)" } else { "" }
}

fn at(snapshot: &Option<usize>) -> String {
    snapshot.map_or_else(String::new, |slot| format!(" at snapshot {slot}"))
}

fn fmt_batch(updates: &[Update], sync: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SHOWN: usize = 8;
    write!(f, "batch of {}{}:", updates.len(), synced(sync))?;
    for (key, value) in updates.iter().take(SHOWN) {
        match value {
            Some(value) => write!(f, " +{} {value:?}", ShortKey(key))?,
            None => write!(f, " -{}", ShortKey(key))?,
        }
    }
    if updates.len() > SHOWN { f.write_str(" ..") } else { Ok(()) }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}({} bytes)", self.tag, self.len)
    }
}

/// A key for people: escaped, and cut where it is long.
pub(crate) struct ShortKey<'a>(pub(crate) &'a [u8]);

impl fmt::Display for ShortKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        let shown = &self.0[..self.0.len().min(SHOWN)];
        write!(f, "'{}'", shown.escape_ascii())?;
        if self.0.len() > SHOWN { write!(f, "..({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

/// Makes operations from a seed.
pub(crate) struct Generator {
    random: Random,
    /// Keys are made from numbers below this.
    keys: u32,
    next_tag: u32,
}

type Make = fn(&mut Generator) -> Operation;

/// How often which operation comes, in parts of their sum.
const MIX: [(u32, Make); 30] = [
    (2600, Generator::put),
    (1200, Generator::delete),
    (400, Generator::batch),
    (8, Generator::large_batch),
    (12, Generator::large_value),
    (20, |make| Operation::EmptyBatch { sync: make.random.one_in(2) }),
    (2200, |make| Operation::Get { key: make.probe() }),
    (600, |make| Operation::GetAt { slot: make.slot(), key: make.probe() }),
    (60, |make| Operation::TakeSnapshot { slot: make.slot() }),
    (60, |make| Operation::ReleaseSnapshot { slot: make.slot() }),
    (80, |make| Operation::OpenIterator { slot: make.slot(), snapshot: make.some_slot() }),
    (20, |make| Operation::DropIterator { slot: make.slot() }),
    (500, |make| Operation::Seek { slot: make.slot(), key: make.probe() }),
    (60, |make| Operation::SeekToFirst { slot: make.slot() }),
    (60, |make| Operation::SeekToLast { slot: make.slot() }),
    (500, |make| Operation::Next { slot: make.slot(), steps: make.random.between(1, 12) }),
    (500, |make| Operation::Prev { slot: make.slot(), steps: make.random.between(1, 12) }),
    (400, Generator::wander),
    (10, |make| Operation::ScanForward { snapshot: make.some_slot() }),
    (10, |make| Operation::ScanBackward { snapshot: make.some_slot() }),
    (100, |make| Operation::ScanFrom { key: make.probe(), steps: make.random.between(1, 60) }),
    (8, Generator::compact_range),
    (4, |_| Operation::CompactAll),
    (25, |_| Operation::Flush),
    (250, |make| Operation::Step { steps: make.random.between(1, 4) }),
    (6, |_| Operation::WaitForBackground),
    (18, Generator::reopen),
    (4, |_| Operation::CloseUnderReaders),
    (4, |_| Operation::ReadOnlyBeside),
    (30, Generator::look_from_outside),
];

impl Generator {
    pub(crate) fn new(seed: u64, keys: u32) -> Self {
        Generator { random: Random::new(seed), keys, next_tag: 0 }
    }

    pub(crate) fn list(mut self, len: usize) -> Vec<Operation> {
        let sum = MIX.iter().map(|(weight, _)| weight).sum();
        let mut pick = || {
            let mut at = self.random.below(sum);
            let make = MIX.iter().find(|(weight, _)| {
                let here = at < *weight;
                at = at.saturating_sub(*weight);
                here
            });
            let (_, make) = make.expect("a number below the sum meets one of the weights");
            make(&mut self)
        };
        (0..len).map(|_| pick()).collect()
    }

    fn slot(&mut self) -> usize {
        self.random.below(SLOTS as u32) as usize
    }

    fn some_slot(&mut self) -> Option<usize> {
        self.random.one_in(3).then(|| self.slot())
    }

    fn sync(&mut self) -> bool {
        self.random.one_in(60)
    }

    /// A key that may have a value. Low numbers come more often.
    fn key(&mut self) -> Vec<u8> {
        let end = if self.random.one_in(4) { self.keys / 16 + 1 } else { self.keys };
        key(self.random.below(end), &mut self.random)
    }

    /// A key to look for: sometimes one beside those that may have values.
    fn probe(&mut self) -> Vec<u8> {
        let mut key = self.key();
        match self.random.below(10) {
            0 => key.push(0),
            1 => key.push(0xff),
            2 => drop(key.pop()),
            3 => {
                if let Some(last) = key.last_mut() {
                    *last = last.wrapping_sub(1);
                }
            }
            _ => {}
        }
        key
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

    fn put(&mut self) -> Operation {
        Operation::Put { key: self.key(), value: self.value(), sync: self.sync() }
    }

    /// Few keys have large values, or scans would read nothing else.
    fn large_value(&mut self) -> Operation {
        let number = self.random.below(3);
        let key = key(number, &mut self.random);
        let len = self.random.between(8 << 10, 150 << 10);
        Operation::Put { key, value: self.value_of(len), sync: self.sync() }
    }

    fn delete(&mut self) -> Operation {
        Operation::Delete { key: self.key(), sync: self.sync() }
    }

    fn batch(&mut self) -> Operation {
        let len = self.random.between(1, 16);
        Operation::Batch { updates: self.updates(len), sync: self.sync() }
    }

    /// One that spans several blocks of the log.
    fn large_batch(&mut self) -> Operation {
        let len = self.random.between(300, 1500);
        Operation::Batch { updates: self.updates(len), sync: self.sync() }
    }

    fn updates(&mut self, len: u32) -> Vec<Update> {
        let mut update = || {
            let deletes = self.random.one_in(3);
            (self.key(), if deletes { None } else { Some(self.value()) })
        };
        (0..len).map(|_| update()).collect()
    }

    fn wander(&mut self) -> Operation {
        let turns = self.random.next() as u32;
        Operation::Wander { slot: self.slot(), turns, steps: self.random.between(2, 24) }
    }

    fn compact_range(&mut self) -> Operation {
        let from = (!self.random.one_in(3)).then(|| self.probe());
        let to = (!self.random.one_in(3)).then(|| self.probe());
        Operation::CompactRange { from, to }
    }

    fn reopen(&mut self) -> Operation {
        match self.random.below(4) {
            0 => Operation::DropAndReopen,
            1 => Operation::Reopen { variant: self.random.below(VARIANTS) },
            _ => Operation::Reopen { variant: 0 },
        }
    }

    fn look_from_outside(&mut self) -> Operation {
        if self.random.one_in(2) {
            return Operation::Properties;
        }
        Operation::ApproximateSizes { keys: [self.probe(), self.probe(), self.probe()] }
    }
}

/// The key of a number: short and long, with shared beginnings, with bytes at both ends of their
/// range. In orders that fold letters, some numbers share a key.
fn key(number: u32, random: &mut Random) -> Vec<u8> {
    match number % 8 {
        _ if number == 0 => Vec::new(),
        0 => extreme_bytes(number / 8),
        1 => number.to_be_bytes().to_vec(),
        2 => [&[b'p'; 130][..], &number.to_be_bytes()].concat(),
        3 => {
            let mut spelled = format!("Folder/Sub/{number:x}").into_bytes();
            if random.one_in(2) {
                // Another key, save where case does not count.
                spelled[0] = b'f';
            }
            spelled
        }
        4 => format!("{}", number.wrapping_mul(2_654_435_761)).into_bytes(),
        _ => format!("user/{:05}/{}", number / 64, number % 64).into_bytes(),
    }
}

/// A number written with 0x00, 0x01 and 0xff as its only digits.
fn extreme_bytes(mut number: u32) -> Vec<u8> {
    let mut key = Vec::new();
    while number > 0 {
        key.push([0x00, 0x01, 0xff][(number % 3) as usize]);
        number /= 3;
    }
    key
}
