//! Looks from outside: a reader beside the writer, numbers, and calls that must be refused.

use siltstone::{Db, Env, ErrorKind, Options, ReadOptions, destroy, repair};

use super::Run;
use super::judge::{Checked, Mismatch, expect};
use crate::differential::operation::Key;
use crate::differential::order::Order;

impl Run<'_> {
    pub(super) fn look_read_only(&mut self) -> Checked {
        let beside = Db::open_read_only(&self.folder, self.options())?;
        let put = beside.put("not", "mine");
        expect(put.is_err(), || "a read-only database took a write".to_owned())?;
        let view = self.reference.now();
        self.judge.scans(&mut beside.iter()?, self.reference.entries(view))
    }

    pub(super) fn look_at_properties(&mut self) -> Checked {
        let db = self.db();
        let number = |name: &str| -> Option<u64> { db.property(name)?.parse().ok() };
        let counts = (0..7).map(|level| number(&format!("leveldb.num-files-at-level{level}")));
        let counted: Option<u64> = counts.sum();
        let levels = db.levels();
        let listed = levels.iter().map(|level| level.tables.len() as u64).sum();
        let still = self.set.is_deterministic();
        let rows = |text: String| text.lines().filter(|line| line.contains(" .. ")).count() as u64;
        let tables = db.property("leveldb.sstables").map(rows);
        let stats = db.property("leveldb.stats").unwrap_or_default();
        let wrong = [
            ("num-files-at-level<N>", counted.is_none() || (still && counted != Some(listed))),
            ("num-files-at-level7", db.property("leveldb.num-files-at-level7").is_some()),
            ("an unknown name", db.property("leveldb.nonsense").is_some()),
            ("stats", !stats.contains("Level")),
            ("sstables", tables.is_none() || (still && tables != Some(listed))),
            ("approximate-memory-usage", number("leveldb.approximate-memory-usage").is_none()),
            ("siltstone.metrics", db.property("siltstone.metrics").is_none()),
        ];
        match wrong.iter().find(|(_, wrong)| *wrong) {
            Some((name, _)) => Err(Mismatch(format!("property {name} of {counted:?} tables"))),
            None => Ok(()),
        }
    }

    /// Sizes add up, and no range holds more than all tables.
    pub(super) fn look_at_sizes(&mut self, keys: &[Key; 3]) -> Checked {
        let mut keys = keys.each_ref().map(|key| &key.0[..]);
        keys.sort_by(|a, b| self.reference.order().compare(a, b));
        let [a, b, c] = keys;
        let sizes = self.db().approximate_sizes(&[(a, b), (b, c), (a, c), (c, a), (b, b)])?;
        let total: u64 = self.db().levels().iter().map(|level| level.bytes()).sum();
        let [ab, bc, ac, _, none] = sizes[..] else {
            return Err(Mismatch("approximate_sizes: one answer for each range".to_owned()));
        };
        let right = ab + bc == ac && ac <= total && none == 0;
        expect(right || !self.set.is_deterministic(), || {
            format!("sizes {sizes:?} of {total} bytes")
        })
    }

    /// What must not be done to an open database is refused, each in its own way.
    pub(super) fn look_at_refusals(&mut self) -> Checked {
        let (folder, options) = (&self.folder, self.options());
        let create_if_missing = true;
        let other = Db::open(
            "other",
            Options { create_if_missing, env: Env::memory(), ..Options::default() },
        )?;
        let foreign = ReadOptions { snapshot: Some(other.snapshot()), ..ReadOptions::default() };
        let order = if self.set.order == Order::Reverse { Order::Bytewise } else { Order::Reverse };
        let misread =
            Options { comparator: order.comparator(), filter_policy: None, ..self.options() };
        let missing = Options { create_if_missing: false, ..self.options() };
        let refused = [
            (Db::open(folder, self.options()).map(drop), ErrorKind::Locked),
            (destroy(folder, &options), ErrorKind::Locked),
            (repair(folder, self.beside("repaired"), &options).map(drop), ErrorKind::Locked),
            (Db::open_read_only(folder, misread).map(drop), ErrorKind::Incompatible),
            (Db::open(self.beside("none"), missing).map(drop), ErrorKind::InvalidArgument),
            (self.db().checkpoint(folder), ErrorKind::InvalidArgument),
            (self.db().get_with("", &foreign).map(drop), ErrorKind::InvalidArgument),
            (self.db().iter_with(&foreign).map(drop), ErrorKind::InvalidArgument),
        ];
        for (number, (refused, kind)) in refused.into_iter().enumerate() {
            let found = refused.map_err(|error| error.kind());
            expect(found == Err(kind), || {
                format!("refusal {number}: {found:?}, expected {kind:?}")
            })?;
        }
        Ok(())
    }
}
