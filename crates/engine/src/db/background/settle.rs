//! Where a range stays once it is compacted.

use crate::base::error::Result;
use crate::base::slot::{Level, Slot};
use crate::compaction::Plan;
use crate::db::core::Core;
use crate::format::filename::FileNumber;
use crate::version::table_meta::TableMeta;
use crate::version::{KeyRange, Version};

impl Core {
    /// Moves what the range has, as it is, down to a level that may hold so much. It would go there anyway, but table by table, and
    /// only until the upper level is no larger than it should be: from then on scans would look into both. Tables that arrive meanwhile
    /// are left alone.
    pub(super) fn settle(&self, range: KeyRange<'_>) -> Result<()> {
        let later = self.next_file_number();
        let Some(level) = self.resting_level(&self.current_version(), range) else {
            return Ok(());
        };
        let to = Slot::tree(level);
        while self.run_plan(|version, _| self.next_move(version, range, (later, to)))? {}
        Ok(())
    }

    /// The deepest level that has any of the range, or the first below it that all of the range is not too much for.
    fn resting_level(&self, version: &Version, range: KeyRange<'_>) -> Option<Level> {
        let order = &self.settings.order.user;
        let sorted = || version.tables().filter(|(slot, _)| slot.is_sorted());
        let tables = || sorted().filter(|(_, table)| range.meets(order, table));
        let deepest = tables().map(|(slot, _)| slot.level).max()?;
        let bytes: u64 = tables().map(|(_, table)| table.live_bytes()).sum();
        let is_enough = |level: &Level| bytes <= self.settings.leveled.level_limit(*level);
        let deeper = || Level::all().filter(|level| *level >= deepest);
        deeper().find(is_enough).or(Some(Level::LAST))
    }

    /// The first tables of the range above `to`, older than `later`, with nothing below them: as many as follow each other and have
    /// nothing below their gaps, either.
    fn next_move(
        &self,
        version: &Version,
        range: KeyRange<'_>,
        (later, to): (FileNumber, Slot),
    ) -> Option<Plan> {
        let order = &self.settings.order.user;
        let mut above = version.slots().filter(|(slot, _)| slot.is_sorted() && *slot < to);
        above.find_map(|(slot, tables)| {
            let is_free = |first: &TableMeta, last: &TableMeta| {
                let hull = KeyRange::closed(first.smallest.user(), last.largest.user());
                last.number < later && version.next_meeting(order, slot, hull).is_none()
            };
            let tables = &tables[range.window(order, tables)];
            let start = tables.iter().position(|table| is_free(table, table))?;
            let first = &tables[start];
            let group = tables[start..].iter().take_while(|last| is_free(first, last));
            Some(Plan::Move { tables: group.map(|table| table.number).collect(), to })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::handle::Db;
    use crate::db::options::{Background, Options};
    use crate::env::Env;
    use crate::format::table::compress::Compression;

    const LEVEL1_BYTES: u64 = 32 << 10;
    const ALL: KeyRange<'static> = KeyRange { from: None, to: None };

    fn open(env: &Env, level1_bytes: u64) -> Db {
        let options = Options {
            create_if_missing: true,
            env: env.clone(),
            background: Background::ByHand,
            write_buffer_size: 64 << 10,
            max_file_size: 8 << 10,
            level1_bytes,
            level_growth: 4,
            compression: Compression::None,
            unclamped: true,
            ..Options::default()
        };
        Db::open("db", options).expect("it opens")
    }

    fn key(nth: u32) -> String {
        format!("{nth:06}")
    }

    /// Level and bytes.
    fn shape(db: &Db) -> Vec<(u8, u64)> {
        db.levels().iter().map(|level| (level.level.number(), level.bytes())).collect()
    }

    #[test]
    fn what_is_too_much_for_its_level_goes_to_one_that_holds_it() {
        for (entries, rests) in [(10, 1), (200, 1), (300, 2), (1_500, 3)] {
            let env = Env::memory();
            let db = open(&env, LEVEL1_BYTES);
            for nth in 0..entries {
                db.put(key(nth * 7_919 % entries), [nth as u8; 100]).unwrap();
            }
            db.compact_range(None, None).unwrap();
            let settled = shape(&db);
            let &[(level, bytes)] = &settled[..] else { panic!("{settled:?}") };
            assert_eq!(level, rests, "{bytes}");
            let merges = db.metrics().merges;
            db.wait_for_background().unwrap();
            assert_eq!((shape(&db), db.metrics().merges), (settled, merges), "it stays there");
            drop(db);
            let db = open(&env, LEVEL1_BYTES);
            assert_eq!(db.iter().unwrap().entries().unwrap().count(), entries as usize);
        }
    }

    /// As lanes may have begun to do it.
    #[test]
    fn tables_go_down_around_those_that_went_before() {
        let env = Env::memory();
        let db = open(&env, 1 << 20);
        (0..1_500).for_each(|nth| db.put(key(nth), [1; 100]).unwrap());
        db.compact_range(None, None).unwrap();
        assert_eq!(shape(&db).len(), 1);
        drop(db);
        let db = open(&env, LEVEL1_BYTES);
        let to = Slot::tree(Level::new(3).unwrap());
        for nth in [3, 7, 8] {
            let tables = db.core().current_version();
            let tables = vec![tables.slot(Slot::tree(Level::new(1).unwrap()))[nth].number];
            let down = Plan::Move { tables, to };
            assert!(db.core().run_plan(|_, _| Some(down.clone())).unwrap());
        }
        assert_eq!(shape(&db).len(), 2);
        // What meets something that lies below stays where it is.
        db.put(key(1_400), [2; 100]).unwrap();
        db.flush().unwrap();
        let merges = db.metrics().merges;
        db.core().settle(ALL).unwrap();
        let levels: Vec<u8> = shape(&db).iter().map(|(level, _)| *level).collect();
        assert_eq!((levels, db.metrics().merges), (vec![0, 3], merges));
        assert_eq!(db.get(key(1_400)).unwrap().unwrap(), [2; 100]);
        assert_eq!(db.iter().unwrap().entries().unwrap().count(), 1_500);
    }

    #[test]
    fn what_lies_beside_the_range_stays() {
        let env = Env::memory();
        let db = open(&env, 1 << 20);
        (0..1_500).for_each(|nth| db.put(key(nth), [1; 100]).unwrap());
        db.compact_range(None, None).unwrap();
        drop(db);
        let db = open(&env, LEVEL1_BYTES);
        let (from, to) = (key(500), key(999));
        let range = KeyRange { from: Some(from.as_bytes()), to: Some(to.as_bytes()) };
        db.core().settle(range).unwrap();
        let version = db.core().current_version();
        let order = &db.core().settings.order.user;
        let level = |nth| version.slot(Slot::tree(Level::new(nth).unwrap()));
        assert!(level(1).len() > 10 && level(1).iter().all(|table| !range.meets(order, table)));
        assert!(level(2).len() > 5 && level(2).iter().all(|table| range.meets(order, table)));
    }
}
