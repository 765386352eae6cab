//! The tables of a level in turn, as LevelDB has it: the one behind the last that was chosen, and from the first on again
//! behind the last.

use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::format::filename::FileNumber;
use crate::version::table_meta::TableMeta;

/// Whose turn it was in one level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// Of those who were chosen together.
    last: Option<Chosen>,
}

#[derive(Clone, Debug)]
struct Chosen {
    first: FileNumber,
    /// Smallest user keys of the first and of the last.
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Turns {
    /// The positions of a sorted slot's tables. Who was chosen and is still there comes first: its plan did not begin.
    pub(crate) fn of(
        &self,
        order: &UserOrder,
        tables: &[Arc<TableMeta>],
    ) -> impl Iterator<Item = usize> + use<> {
        let start = self.last.as_ref().map_or(0, |last| {
            let behind = |key: &[u8]| {
                tables.partition_point(|table| order.compare(table.smallest.user(), key).is_le())
            };
            let first = behind(&last.from).checked_sub(1);
            let is_there = first.filter(|at| tables[*at].number == last.first);
            is_there.unwrap_or_else(|| behind(&last.to))
        });
        (start..tables.len()).chain(0..start)
    }

    /// From one on to another it was these tables' turn.
    pub(crate) fn take(&mut self, first: &TableMeta, last: &TableMeta) {
        let key = |table: &TableMeta| table.smallest.user().to_vec();
        self.last = Some(Chosen { first: first.number, from: key(first), to: key(last) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::testing::{order, table};

    #[test]
    fn each_table_has_its_turn() {
        let order = order().user;
        let tables = [table(5, "b", "c"), table(2, "d", "e"), table(9, "f", "k")];
        let turns = |turns: &Turns, tables: &[Arc<TableMeta>]| {
            turns.of(&order, tables).map(|at| tables[at].number.0).collect::<Vec<_>>()
        };
        let mut last = Turns::default();
        assert_eq!(turns(&last, &tables), [5, 2, 9]);
        last.take(&tables[1], &tables[1]);
        assert_eq!(turns(&last, &tables), [2, 9, 5], "it is still there");
        assert_eq!(turns(&last, &[tables[0].clone(), tables[2].clone()]), [9, 5]);
        // Another table in its place has to wait.
        assert_eq!(turns(&last, &[tables[0].clone(), table(11, "d", "d")]), [5, 11]);
        last.take(&tables[0], &tables[1]);
        assert_eq!(turns(&last, &tables), [5, 2, 9], "none of them has gone");
        assert_eq!(turns(&last, &tables[2..]), [9]);
        last.take(&tables[2], &tables[2]);
        assert_eq!(turns(&last, &tables[..2]), [5, 2]);
        assert_eq!(turns(&last, &[]), [0; 0]);
    }
}
