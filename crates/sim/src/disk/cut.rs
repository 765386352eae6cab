//! What a power cut leaves: one fate for every change that is not durable.

use std::path::Path;
use std::sync::Arc;

use super::{Disk, FileState, Names, Node, Pending};
use crate::Dice;

/// What becomes of one pending change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Lost,
    Kept,
    /// Bytes: the file has grown, and holds filler where the bytes would be.
    Filled(Filler),
    /// Bytes: so many are there, and filler after them; without filler the file ends there.
    Torn(usize, Option<Filler>),
    /// Bytes: sectors are there or are zeros, as the seed says.
    Sectors(u64),
    /// A move: the file has both names.
    BothNames,
}

/// What stands where bytes were to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filler {
    Zeros,
    /// A pattern as of a disk that was used before.
    Stale,
}

impl Filler {
    fn byte(self) -> u8 {
        match self {
            Filler::Zeros => 0,
            Filler::Stale => 0xa5,
        }
    }
}

/// The kinds of power cuts: what disks and file systems were seen to do, and all that lies between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutKind {
    /// Nothing that was not synced.
    NothingKept,
    /// All of it.
    AllKept,
    /// No power cut: the process dies, and what was pending still is.
    ProcessDeath,
    /// The changes up to one of them, in program order.
    Prefix,
    /// One change alone.
    OnlyOne,
    AllButOne,
    /// Each change by the toss of a coin, bytes by sectors.
    Random,
    /// All, and the last write to each file torn.
    TornTails,
    /// Files have their sizes and zeros inside: delayed allocation.
    SizesOnly,
    /// All names, no bytes.
    NamesOnly,
    /// All bytes, no names.
    BytesOnly,
    /// Names went, none came: removals overtake what they were to follow.
    RemovalsOnly,
    /// As all kept, but moved files have both names.
    BothNames,
    /// The last change is there, the others by the toss of a coin: it overtook them.
    Overtaken,
}

impl CutKind {
    pub fn name(self) -> &'static str {
        match self {
            CutKind::NothingKept => "nothing kept",
            CutKind::AllKept => "all kept",
            CutKind::ProcessDeath => "process death",
            CutKind::Prefix => "prefix",
            CutKind::OnlyOne => "only one",
            CutKind::AllButOne => "all but one",
            CutKind::Random => "random",
            CutKind::TornTails => "torn tails",
            CutKind::SizesOnly => "sizes only",
            CutKind::NamesOnly => "names only",
            CutKind::BytesOnly => "bytes only",
            CutKind::RemovalsOnly => "removals only",
            CutKind::BothNames => "both names",
            CutKind::Overtaken => "overtaken",
        }
    }

    /// True if all is there that processes saw.
    pub fn keeps_all(self) -> bool {
        matches!(self, CutKind::AllKept | CutKind::ProcessDeath)
    }

    /// Every kind; the first three belong to each crash point.
    pub const ALL: [CutKind; 14] = [
        CutKind::NothingKept,
        CutKind::AllKept,
        CutKind::ProcessDeath,
        CutKind::Prefix,
        CutKind::OnlyOne,
        CutKind::AllButOne,
        CutKind::Random,
        CutKind::TornTails,
        CutKind::SizesOnly,
        CutKind::NamesOnly,
        CutKind::BytesOnly,
        CutKind::RemovalsOnly,
        CutKind::BothNames,
        CutKind::Overtaken,
    ];
}

/// A power cut: the fates of a disk's pending changes, in their order.
#[derive(Clone, Debug)]
pub struct Cut {
    pub kind: CutKind,
    fates: Vec<Fate>,
}

const SECTOR: usize = 512;

impl Cut {
    /// A power cut of this kind on `disk`, its free choices by `dice`.
    pub fn of(kind: CutKind, disk: &Disk, dice: &mut Dice) -> Self {
        let pending = &disk.pending;
        let chosen = dice.roll(pending.len().max(1) as u64) as usize;
        let fate = |(index, change): (usize, &Pending)| match kind {
            CutKind::NothingKept => Fate::Lost,
            CutKind::AllKept | CutKind::ProcessDeath => Fate::Kept,
            CutKind::Prefix if index == chosen => partly(change, dice),
            CutKind::Prefix => kept_if(index < chosen),
            CutKind::OnlyOne => kept_if(index == chosen),
            CutKind::AllButOne => kept_if(index != chosen),
            CutKind::Random => coin(change, dice),
            CutKind::Overtaken if index + 1 == pending.len() => Fate::Kept,
            CutKind::Overtaken => coin(change, dice),
            CutKind::TornTails if is_last_write(pending, index) => torn(change, dice),
            CutKind::TornTails => Fate::Kept,
            CutKind::SizesOnly if is_write(change) => Fate::Filled(Filler::Zeros),
            CutKind::SizesOnly => Fate::Kept,
            CutKind::NamesOnly => kept_if(!is_of_bytes(change)),
            CutKind::BytesOnly => kept_if(is_of_bytes(change)),
            CutKind::RemovalsOnly => kept_if(matches!(change, Pending::Take { .. })),
            CutKind::BothNames if matches!(change, Pending::Move { .. }) => Fate::BothNames,
            CutKind::BothNames => Fate::Kept,
        };
        Cut { kind, fates: pending.iter().enumerate().map(fate).collect() }
    }
}

fn kept_if(kept: bool) -> Fate {
    if kept { Fate::Kept } else { Fate::Lost }
}

fn is_write(change: &Pending) -> bool {
    matches!(change, Pending::Write { .. })
}

fn is_of_bytes(change: &Pending) -> bool {
    matches!(change, Pending::Write { .. } | Pending::Truncate { .. })
}

/// True for a write that no other one to the same file follows.
fn is_last_write(pending: &[Pending], index: usize) -> bool {
    let Pending::Write { file, .. } = &pending[index] else { return false };
    !pending[index + 1..].iter().any(|later| later.is_of_file(*file))
}

fn torn(change: &Pending, dice: &mut Dice) -> Fate {
    let Pending::Write { data, .. } = change else { return Fate::Kept };
    let fillers = [None, Some(Filler::Zeros), Some(Filler::Stale)];
    Fate::Torn(dice.roll(data.len() as u64 + 1) as usize, fillers[dice.roll(3) as usize])
}

fn partly(change: &Pending, dice: &mut Dice) -> Fate {
    match change {
        Pending::Write { .. } => torn(change, dice),
        Pending::Move { .. } => [Fate::Lost, Fate::BothNames][dice.roll(2) as usize],
        _ => Fate::Lost,
    }
}

fn coin(change: &Pending, dice: &mut Dice) -> Fate {
    match (dice.roll(6), change) {
        (0..3, _) => Fate::Kept,
        (3, Pending::Write { .. }) => Fate::Sectors(dice.roll(u64::MAX)),
        (4, Pending::Write { .. }) => torn(change, dice),
        (3, Pending::Move { .. }) => Fate::BothNames,
        _ => Fate::Lost,
    }
}

impl Disk {
    /// What is found after the cut. After a power cut all of it is durable.
    pub fn after(&self, cut: &Cut) -> Disk {
        if cut.kind == CutKind::ProcessDeath {
            return self.clone();
        }
        let mut files = self.files.iter().map(|file| Arc::clone(&file.durable)).collect::<Vec<_>>();
        let mut names = self.durable.clone();
        for (change, fate) in self.pending.iter().zip(&cut.fates) {
            match change {
                Pending::Truncate { file, len } if *fate == Fate::Kept => {
                    Arc::make_mut(&mut files[*file]).truncate(*len);
                }
                Pending::Truncate { .. } => {}
                Pending::Write { file, offset, data } => {
                    write_partly(&mut files[*file], *offset, data, *fate);
                }
                _ => name_partly(&mut names, change, *fate),
            }
        }
        prune(&mut names);
        let file = |bytes: Arc<Vec<u8>>| FileState {
            log_end: bytes.len(),
            live: Arc::clone(&bytes),
            durable: bytes,
        };
        Disk {
            files: files.into_iter().map(file).collect(),
            live: names.clone(),
            durable: names,
            pending: Vec::new(),
        }
    }
}

fn name_partly(names: &mut Names, change: &Pending, fate: Fate) {
    if fate == Fate::Lost {
        return;
    }
    match change {
        Pending::Put { path, node } => drop(names.insert(path.clone(), *node)),
        Pending::Take { path } => drop(names.remove(path)),
        Pending::Move { from, to, node } => {
            // Whether the file was found under its old name: a lost creation does not matter here,
            // because a move that survives brings the file itself along.
            if fate != Fate::BothNames {
                names.remove(from);
            } else {
                names.insert(from.clone(), *node);
            }
            names.insert(to.clone(), *node);
        }
        Pending::Truncate { .. } | Pending::Write { .. } => {}
    }
}

fn write_partly(file: &mut Arc<Vec<u8>>, offset: usize, data: &[u8], fate: Fate) {
    let put = |file: &mut Arc<Vec<u8>>, bytes: &[u8]| {
        let file = Arc::make_mut(file);
        if file.len() < offset + bytes.len() {
            file.resize(offset + bytes.len(), 0);
        }
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    match fate {
        Fate::Lost | Fate::BothNames => {}
        Fate::Kept => put(file, data),
        Fate::Filled(filler) => put(file, &vec![filler.byte(); data.len()]),
        Fate::Torn(kept, None) => put(file, &data[..kept.min(data.len())]),
        Fate::Torn(kept, Some(filler)) => {
            let mut bytes = data.to_vec();
            bytes[kept.min(data.len())..].fill(filler.byte());
            put(file, &bytes);
        }
        Fate::Sectors(seed) => put(file, &sectors(offset, data, seed)),
    }
}

/// `data` with some of the disk sectors it falls into zeroed.
fn sectors(offset: usize, data: &[u8], seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed | 1);
    let mut bytes = data.to_vec();
    let mut start = 0;
    while start < bytes.len() {
        let end = (start + SECTOR - (offset + start) % SECTOR).min(bytes.len());
        if dice.roll(2) == 0 {
            bytes[start..end].fill(0);
        }
        start = end;
    }
    bytes
}

/// Takes out what lies in folders that are not there.
fn prune(names: &mut Names) {
    let orphan = |names: &Names, path: &Path| {
        path.parent().is_some_and(|parent| {
            parent.parent().is_some() && names.get(parent) != Some(&Node::Folder)
        })
    };
    // A folder sorts before what lies in it, so one pass sees parents that went.
    let paths: Vec<_> = names.keys().cloned().collect();
    for path in paths {
        if orphan(names, &path) {
            names.remove(&path);
        }
    }
}
