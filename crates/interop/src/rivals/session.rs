//! What is done between an opening and a closing, by both engines in turn.

use siltstone_sim::differential::operation::{Act, Key, Look, Movement, SLOTS, Scanning, Update};
use siltstone_sim::differential::run::judge::{Checked, Mismatch};

use super::round::Round;
use crate::peer::{Change, Cursor, Database, Durability, Step, View};

/// The names of the engines, in the order of every pair here.
const NAMES: [&str; 2] = ["LevelDB", "siltstone"];

pub(super) struct Session<'r, 'db> {
    pub(super) round: &'r mut Round,
    dbs: [&'db dyn Database; 2],
    snapshots: [Option<Kept<'db>>; SLOTS],
    cursors: [Option<Cursors<'db>>; SLOTS],
}

/// A state that both databases and the model have kept.
struct Kept<'db> {
    views: [Box<dyn View<'db> + 'db>; 2],
    view: u64,
}

/// A cursor of each engine, and where the model says that they stand.
struct Cursors<'db> {
    pair: [Box<dyn Cursor + 'db>; 2],
    view: u64,
    at: Option<Box<[u8]>>,
}

impl<'r, 'db> Session<'r, 'db> {
    pub(super) fn new(round: &'r mut Round, dbs: [&'db dyn Database; 2]) -> Self {
        Session { round, dbs, snapshots: Default::default(), cursors: Default::default() }
    }

    /// Compares all that both show with the model. Returns how many entries that is.
    pub(super) fn look_at_all(&mut self) -> Result<u64, Mismatch> {
        self.scan(None, [Step::First, Step::Next])?;
        self.scan(None, [Step::Last, Step::Prev])?;
        Ok(self.round.reference.entries(self.round.reference.now()).count() as u64)
    }

    pub(super) fn end_readers(&mut self) {
        for slot in 0..SLOTS {
            self.release_snapshot(slot);
            self.drop_cursors(slot);
        }
    }

    pub(super) fn apply(&mut self, act: &Act) -> Checked {
        match act {
            Act::Write { updates, sync, .. } => self.write(&updates.0, *sync),
            Act::Get { key, at, .. } => self.get(&key.0, *at)?,
            Act::TakeSnapshot { slot } => {
                self.release_snapshot(*slot);
                self.take_snapshot(*slot);
            }
            Act::ReleaseSnapshot { slot } => self.release_snapshot(*slot),
            Act::OpenIterator { slot, at } => self.open_cursors(*slot, *at),
            Act::DropIterator { slot } => self.drop_cursors(*slot),
            Act::Move { slot, to } => self.walk(*slot, to)?,
            Act::WriteUnderIterator { slot, updates } => {
                self.write_under_cursors(*slot, &updates.0)?;
            }
            Act::Scan { at, how } => self.scan_somehow(*at, how)?,
            Act::Compact { from, to } => self.compact(from.as_ref(), to.as_ref()),
            Act::CompactAll => {
                self.end_readers();
                self.compact(None, None);
                self.look_at_all()?;
            }
            Act::Look(Look::Properties) => self.look_at_properties()?,
            _ => unreachable!("the list has only what both can do: {act:?}"),
        }
        Ok(())
    }

    fn write(&mut self, updates: &[Update], sync: bool) {
        let judge = &mut self.round.judge;
        let mut change = |(key, value): &Update| match value {
            Some(value) => Change::Put(key.clone(), judge.bytes(key, *value).to_vec()),
            None => Change::Delete(key.clone()),
        };
        let changes: Vec<Change> = updates.iter().map(&mut change).collect();
        let durability = if sync { Durability::Synced } else { Durability::Buffered };
        for db in self.dbs {
            match &changes[..] {
                [Change::Put(key, value)] if !sync => db.put(key, value),
                [Change::Delete(key)] if !sync => db.delete(key),
                _ => db.write(&changes, durability),
            }
        }
        self.round.reference.write(updates);
    }

    fn get(&mut self, key: &[u8], at: Option<usize>) -> Checked {
        let found = match at {
            None => self.dbs.map(|db| db.get(key)),
            Some(slot) => self.kept(slot).views.each_ref().map(|view| view.get(key)),
        };
        let view = self.view(at);
        let Round { reference, judge, .. } = &mut *self.round;
        for (name, found) in NAMES.into_iter().zip(found) {
            let judged = judge.got(key, found.as_deref(), reference.get(key, view));
            judged.map_err(|told| whose(name, told))?;
        }
        Ok(())
    }

    fn take_snapshot(&mut self, slot: usize) {
        let views = self.dbs.map(|db| db.snapshot());
        let view = self.round.reference.open_view();
        self.snapshots[slot] = Some(Kept { views, view });
    }

    fn release_snapshot(&mut self, slot: usize) {
        if let Some(kept) = self.snapshots[slot].take() {
            self.round.reference.close_view(kept.view);
        }
    }

    /// The snapshots of a slot, taken now if there are none.
    fn kept(&mut self, slot: usize) -> &Kept<'db> {
        if self.snapshots[slot].is_none() {
            self.take_snapshot(slot);
        }
        self.snapshots[slot].as_ref().expect("it was just taken")
    }

    fn view(&mut self, at: Option<usize>) -> u64 {
        match at {
            Some(slot) => self.kept(slot).view,
            None => self.round.reference.now(),
        }
    }

    fn cursors_at(&mut self, at: Option<usize>) -> Cursors<'db> {
        let pair = match at {
            Some(slot) => self.kept(slot).views.each_ref().map(|view| view.cursor()),
            None => self.dbs.map(|db| db.now().cursor()),
        };
        Cursors { pair, view: self.view(at), at: None }
    }

    fn open_cursors(&mut self, slot: usize, at: Option<usize>) {
        self.drop_cursors(slot);
        let cursors = self.cursors_at(at);
        self.round.reference.share_view(cursors.view);
        self.cursors[slot] = Some(cursors);
    }

    fn drop_cursors(&mut self, slot: usize) {
        if let Some(cursors) = self.cursors[slot].take() {
            self.round.reference.close_view(cursors.view);
        }
    }

    fn walk(&mut self, slot: usize, to: &Movement) -> Checked {
        if self.cursors[slot].is_none() {
            self.open_cursors(slot, None);
        }
        let cursors = self.cursors[slot].as_mut().expect("they were just opened");
        let (steps, forth) = match to {
            Movement::Seek(key) => return cursors.step(&Step::Seek(key.0.clone()), self.round),
            Movement::First => return cursors.step(&Step::First, self.round),
            Movement::Last => return cursors.step(&Step::Last, self.round),
            Movement::Next(steps) => (*steps, u32::MAX),
            Movement::Prev(steps) => (*steps, 0),
            Movement::Wander { turns, steps } => (*steps, *turns),
        };
        for step in 0..steps {
            if cursors.at.is_none() {
                break;
            }
            let step = if forth >> step & 1 == 1 { Step::Next } else { Step::Prev };
            cursors.step(&step, self.round)?;
        }
        Ok(())
    }

    fn write_under_cursors(&mut self, slot: usize, updates: &[Update]) -> Checked {
        for update in updates {
            let stand = self.cursors[slot].as_ref().is_some_and(|cursors| cursors.at.is_some());
            self.walk(slot, if stand { &Movement::Next(1) } else { &Movement::First })?;
            self.write(std::slice::from_ref(update), false);
        }
        Ok(())
    }

    fn scan_somehow(&mut self, at: Option<usize>, how: &Scanning) -> Checked {
        match how {
            Scanning::Forward => self.scan(at, [Step::First, Step::Next]),
            Scanning::Backward => self.scan(at, [Step::Last, Step::Prev]),
            Scanning::Mirrored => {
                self.scan(at, [Step::First, Step::Next])?;
                self.scan(at, [Step::Last, Step::Prev])
            }
            Scanning::Entries { from, steps } => self.scan_from(at, from, *steps as usize),
            Scanning::Parts { between } => {
                between.iter().try_for_each(|from| self.scan_from(at, from, usize::MAX))
            }
        }
    }

    fn scan(&mut self, at: Option<usize>, [start, onwards]: [Step; 2]) -> Checked {
        let mut cursors = self.cursors_at(at);
        cursors.step(&start, self.round)?;
        while cursors.at.is_some() {
            cursors.step(&onwards, self.round)?;
        }
        Ok(())
    }

    fn scan_from(&mut self, at: Option<usize>, from: &Key, steps: usize) -> Checked {
        let mut cursors = self.cursors_at(at);
        cursors.step(&Step::Seek(from.0.clone()), self.round)?;
        for _ in 0..steps {
            if cursors.at.is_none() {
                break;
            }
            cursors.step(&Step::Next, self.round)?;
        }
        Ok(())
    }

    fn compact(&mut self, from: Option<&Key>, to: Option<&Key>) {
        let end = |key: Option<&'_ Key>| key.map(|key| key.0.clone());
        let (from, to) = (end(from), end(to));
        self.dbs.iter().for_each(|db| db.compact(from.as_deref(), to.as_deref()));
    }

    /// The same names are known to both.
    fn look_at_properties(&self) -> Checked {
        for name in ["num-files-at-level0", "num-files-at-level7", "stats", "sstables", "nonsense"]
        {
            let known = self.dbs.map(|db| db.property(&format!("leveldb.{name}")).is_some());
            if known[0] != known[1] {
                return Err(Mismatch(format!("property {name}: known {known:?}")));
            }
        }
        Ok(())
    }
}

impl Cursors<'_> {
    /// Moves both, and the model. For the last two steps they must stand on an entry.
    fn step(&mut self, step: &Step, round: &mut Round) -> Checked {
        let Round { reference, judge, .. } = round;
        let here = self.at.take().unwrap_or_default();
        let expected = match step {
            Step::First => reference.entries(self.view).next(),
            Step::Last => reference.entries(self.view).next_back(),
            Step::Seek(key) => reference.at_or_after(key, self.view),
            Step::Next => reference.after(&here, self.view),
            Step::Prev => reference.before(&here, self.view),
        };
        for (name, cursor) in NAMES.into_iter().zip(&mut self.pair) {
            cursor.step(step);
            let judged = judge.stands(cursor.entry(), expected);
            judged.map_err(|told| whose(name, told))?;
        }
        self.at = expected.map(|entry| entry.key.clone());
        Ok(())
    }
}

fn whose(name: &str, Mismatch(told): Mismatch) -> Mismatch {
    Mismatch(format!("{name}: {told}"))
}
