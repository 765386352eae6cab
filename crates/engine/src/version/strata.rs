//! Which tables of an SST log lie over a key: the key space in *strips*, each with the tables that reach into it.

use std::sync::Arc;

use crate::base::comparator::UserOrder;
use crate::base::fences::Fences;
use crate::version::table_meta::TableMeta;

/// A stretch of a table's keys, by the table's place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) table: u32,
    pub(crate) stretch: u32,
}

/// Strips begin where stretches do. What ends within a strip is in it, too.
#[derive(Default)]
pub(crate) struct Strata {
    starts: Vec<Vec<u8>>,
    /// Of the starts, where the order is bytewise.
    fences: Option<Fences>,
    /// Where the layers of each strip begin, and at last their end.
    firsts: Vec<u32>,
    /// Strip by strip, in each the newest table first.
    layers: Vec<Layer>,
}

impl Strata {
    pub(crate) fn of(order: &UserOrder, tables: &[Arc<TableMeta>]) -> Self {
        let mut starts: Vec<Vec<u8>> =
            stretches(tables).map(|(_, from, _)| from.to_vec()).collect();
        starts.sort_by(|a, b| order.compare(a, b));
        starts.dedup_by(|a, b| order.compare(a, b).is_eq());
        let mut strips: Vec<Vec<Layer>> = vec![Vec::new(); starts.len()];
        // Tables come newest first, so strips have them in that order.
        for (layer, from, to) in stretches(tables) {
            let first = starts.partition_point(|start| order.compare(start, from).is_lt());
            let end = starts.partition_point(|start| order.compare(start, to).is_le());
            strips[first..end].iter_mut().for_each(|strip| strip.push(layer));
        }
        let mut firsts = vec![0];
        firsts.extend(strips.iter().scan(0, |end, strip| {
            *end += strip.len() as u32;
            Some(*end)
        }));
        let fences = matches!(order, UserOrder::Bytewise)
            .then(|| Fences::new(starts.iter().map(Vec::as_slice)));
        Strata { starts, fences, firsts, layers: strips.concat() }
    }

    /// The layers over a key, newest first; some may end before it.
    #[inline]
    pub(crate) fn over(&self, order: &UserOrder, user: &[u8]) -> &[Layer] {
        let around = match &self.fences {
            Some(fences) => fences.around(user),
            None => 0..self.starts.len(),
        };
        let begins = |start: &Vec<u8>| order.compare(start, user).is_le();
        let begun = around.start + self.starts[around].partition_point(begins);
        let Some(strip) = begun.checked_sub(1) else { return &[] };
        &self.layers[self.firsts[strip] as usize..self.firsts[begun] as usize]
    }
}

fn stretches(tables: &[Arc<TableMeta>]) -> impl Iterator<Item = (Layer, &[u8], &[u8])> {
    (0..).zip(tables).flat_map(|(table, meta)| {
        (0..).map_while(move |stretch| {
            let (smallest, largest) = meta.stretch(stretch as usize)?;
            Some((Layer { table, stretch }, smallest.user(), largest.user()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::manifest::edit::{Live, Span};
    use crate::version::testing::{key, order, table};

    fn over(strata: &Strata, user: &str) -> Vec<(u32, u32)> {
        let layers = strata.over(&order().user, user.as_bytes());
        layers.iter().map(|layer| (layer.table, layer.stretch)).collect()
    }

    #[test]
    fn tables_that_reach_into_a_strip_are_over_its_keys() {
        let span = |from: &str, to: &str| Span { smallest: key(from, 9), largest: key(to, 9) };
        let live = Live { bytes: 5, parts: vec![span("c", "d"), span("k", "m")] };
        let tables = [
            table(9, "a", "f"),
            Arc::new(table(3, "a", "z").narrowed(live).unwrap()),
            table(5, "d", "k"),
            table(7, "d", "d"),
        ];
        let strata = Strata::of(&order().user, &tables);
        assert_eq!(over(&strata, "A"), []);
        assert_eq!(over(&strata, "a"), [(0, 0)]);
        assert_eq!(over(&strata, "c"), [(0, 0), (1, 0)]);
        assert_eq!(over(&strata, "d"), [(0, 0), (1, 0), (2, 0), (3, 0)]);
        assert_eq!(over(&strata, "k"), [(1, 1), (2, 0)]);
        assert_eq!(over(&strata, "zz"), [(1, 1), (2, 0)], "both end before");
        assert_eq!(over(&Strata::of(&order().user, &[]), "a"), []);
    }
}
