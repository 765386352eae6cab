//! Many edits as one that says the same: what a manifest that begins anew, or a record of a whole version, needs to
//! hold of its past. Knows no order of keys, and needs none: what counts is by which edit a table came.
//!
//! **Order within a slot.** An SST log goes by arrival: what an edit adds stands before all that was there, and what it
//! both removes and adds keeps its place. All slots are kept so; the others' order is not told by edits.

use std::collections::BTreeMap;

use super::{NewTable, VersionEdit};
use crate::base::error::{Error, Result};
use crate::base::key::InternalKey;
use crate::base::slot::{Level, Slot};

/// What edits add up to so far.
#[derive(Default)]
pub(crate) struct Fold {
    header: VersionEdit,
    pointers: BTreeMap<Level, InternalKey>,
    slots: BTreeMap<Slot, Vec<NewTable>>,
}

impl Fold {
    /// Goes on by one edit. One that names the comparator is whole, as manifests begin: nothing before it counts.
    pub(crate) fn add(&mut self, mut edit: VersionEdit) -> Result<()> {
        if edit.comparator.is_some() {
            *self = Fold::default();
            self.header.comparator = edit.comparator.take();
        }
        self.change_tables(&edit)?;
        self.pointers.extend(edit.compact_pointers);
        let header = &mut self.header;
        header.log_number = edit.log_number.or(header.log_number);
        header.prev_log_number = edit.prev_log_number.or(header.prev_log_number);
        header.next_file = edit.next_file.or(header.next_file);
        header.last_seqno = edit.last_seqno.or(header.last_seqno);
        Ok(())
    }

    /// Removals come first, as in the format; to remove what is not there is nothing, as LevelDB has it.
    fn change_tables(&mut self, edit: &VersionEdit) -> Result<()> {
        let mut arrived: BTreeMap<Slot, Vec<NewTable>> = BTreeMap::new();
        for (slot, table) in &edit.added {
            let there = self.slots.entry(*slot).or_default();
            let there = there.iter_mut().find(|there| there.number == table.number);
            match there {
                Some(there) if edit.removed.contains(&(*slot, table.number)) => {
                    there.clone_from(table);
                }
                Some(_) => {
                    let message = format!("adds table {} to {slot} once more", table.number);
                    return Err(Error::corruption(message));
                }
                None => arrived.entry(*slot).or_default().push(table.clone()),
            }
        }
        for removed in &edit.removed {
            let (slot, number) = removed;
            let comes_back = |table: &(Slot, NewTable)| (table.0, table.1.number) == *removed;
            if let Some(tables) = self.slots.get_mut(slot)
                && !edit.added.iter().any(comes_back)
            {
                tables.retain(|table| table.number != *number);
            }
        }
        for (slot, mut tables) in arrived {
            let there = self.slots.entry(slot).or_default();
            tables.append(there);
            *there = tables;
        }
        Ok(())
    }

    /// The one edit. Fails if no whole one was among them: they were changes of something unknown.
    pub(crate) fn finish(self) -> Result<VersionEdit> {
        if self.header.comparator.is_none() {
            return Err(Error::corruption("edits without a beginning: none names the comparator"));
        }
        let added = self
            .slots
            .into_iter()
            .flat_map(|(slot, tables)| tables.into_iter().map(move |table| (slot, table)));
        Ok(VersionEdit {
            compact_pointers: self.pointers.into_iter().collect(),
            added: added.collect(),
            ..self.header
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::{SeqNo, ValueKind};
    use crate::base::slot::Area;
    use crate::format::filename::FileNumber;

    fn tree(level: u8) -> Slot {
        Slot::tree(Level::new(level).unwrap())
    }

    fn sst_log(level: u8) -> Slot {
        Slot { area: Area::SstLog, ..tree(level) }
    }

    fn key(user: &str, seqno: u64) -> InternalKey {
        InternalKey::new(user.as_bytes(), SeqNo(seqno), ValueKind::Value)
    }

    fn table(number: u64) -> NewTable {
        NewTable {
            number: FileNumber(number),
            size: 10 * number,
            smallest: key("a", number),
            largest: key("b", number),
            live: None,
            hotness: 0,
        }
    }

    fn beginning(tables: &[(Slot, u64)]) -> VersionEdit {
        VersionEdit {
            comparator: Some("order".to_owned()),
            log_number: Some(FileNumber(3)),
            added: tables.iter().map(|(slot, number)| (*slot, table(*number))).collect(),
            ..VersionEdit::default()
        }
    }

    fn fold(edits: impl IntoIterator<Item = VersionEdit>) -> Result<VersionEdit> {
        let mut fold = Fold::default();
        edits.into_iter().try_for_each(|edit| fold.add(edit))?;
        fold.finish()
    }

    fn numbers(edit: &VersionEdit) -> Vec<(Slot, u64)> {
        edit.added.iter().map(|(slot, table)| (*slot, table.number.0)).collect()
    }

    #[test]
    fn tables_come_move_and_go() {
        let moved = VersionEdit {
            removed: vec![(tree(1), FileNumber(5)), (Slot::L0, FileNumber(7))],
            added: vec![(sst_log(1), table(5)), (tree(1), table(8))],
            log_number: Some(FileNumber(6)),
            next_file: Some(FileNumber(9)),
            last_seqno: Some(SeqNo(77)),
            compact_pointers: vec![(tree(2).level, key("k", 1))],
            ..VersionEdit::default()
        };
        let later = VersionEdit {
            compact_pointers: vec![(tree(2).level, key("m", 1))],
            ..VersionEdit::default()
        };
        let whole = fold([beginning(&[(tree(1), 5), (Slot::L0, 7)]), moved, later]).unwrap();
        assert_eq!(numbers(&whole), [(tree(1), 8), (sst_log(1), 5)]);
        assert_eq!(whole.comparator.as_deref(), Some("order"));
        assert_eq!(whole.log_number, Some(FileNumber(6)));
        assert_eq!(whole.next_file, Some(FileNumber(9)));
        assert_eq!(whole.last_seqno, Some(SeqNo(77)));
        assert_eq!(whole.compact_pointers, [(tree(2).level, key("m", 1))]);
        assert!(whole.removed.is_empty());
    }

    #[test]
    fn a_whole_edit_begins_anew() {
        let whole = fold([beginning(&[(tree(1), 5)]), beginning(&[(tree(2), 6)])]).unwrap();
        assert_eq!(numbers(&whole), [(tree(2), 6)]);
    }

    /// Newer versions of keys must not come to stand behind older ones.
    #[test]
    fn a_log_keeps_the_order_of_arrival() {
        let log = sst_log(1);
        let add = |numbers: &[u64]| VersionEdit {
            added: numbers.iter().map(|number| (log, table(*number))).collect(),
            ..VersionEdit::default()
        };
        let mut less = table(5);
        less.size = 1;
        let in_part = VersionEdit {
            removed: vec![(log, FileNumber(5)), (log, FileNumber(8))],
            added: vec![(log, less.clone()), (log, table(4))],
            ..VersionEdit::default()
        };
        let whole = fold([beginning(&[]), add(&[5, 9]), add(&[2, 8]), in_part]).unwrap();
        assert_eq!(numbers(&whole), [(log, 4), (log, 2), (log, 5), (log, 9)]);
        assert_eq!(whole.added[2].1, less);
    }

    #[test]
    fn edits_that_do_not_fit_are_damage() {
        let again = VersionEdit { added: vec![(tree(1), table(5))], ..Default::default() };
        for edits in [vec![], vec![again.clone()], vec![beginning(&[(tree(1), 5)]), again]] {
            assert!(fold(edits).unwrap_err().is_corruption());
        }
    }
}
