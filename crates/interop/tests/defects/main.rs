//! Eight defects of LevelDB, each run on the LevelDB that is installed and on siltstone. The test
//! asserts both sides, and prints the table that stands in `docs/defects.md`:
//!
//! ```text
//! cargo test -p siltstone-interop --test defects -- --nocapture
//! ```
//!
//! A library in which a defect is mended fails the test: then the table must change.
#![expect(clippy::unwrap_used, reason = "cases are functions that the tests call")]

mod logs;
mod opening;
mod repair;
mod tables;

use siltstone_interop::leveldb::LevelDb;

/// A line of the table.
struct Row {
    scenario: &'static str,
    leveldb: String,
    siltstone: String,
}

#[test]
fn what_leveldb_does_and_what_siltstone_does() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let rows = [
        logs::torn_append(leveldb),
        repair::of_a_healthy_database(leveldb),
        repair::of_an_open_database(leveldb),
        logs::flipped_byte(leveldb),
        opening::by_another_name(leveldb),
        opening::of_nothing(leveldb),
        tables::with_zstd(leveldb),
        tables::with_equal_keys(),
    ];
    println!("\n| # | what happens | what {leveldb:?} does | what siltstone does |");
    println!("|--:|---|---|---|");
    for (index, Row { scenario, leveldb, siltstone }) in rows.iter().enumerate() {
        println!("| {} | {scenario} | {leveldb} | {siltstone} |", index + 1);
    }
}
