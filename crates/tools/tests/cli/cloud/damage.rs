//! What `verify` finds, and what the other verbs say of a database that is damaged.

use super::database::{make, make_with};
use super::{World, rows_of, with};
use serde_json::Value;

/// The one row that tells of damage.
fn damaged(world: &World, line: &str) -> Value {
    let ran = world.run(&format!("{line} -o jsonl"));
    assert_eq!(ran.code, 3, "{line}: {}", ran.err);
    assert!(ran.err.contains("E-CORRUPT"), "{}", ran.err);
    let rows = rows_of(&ran);
    let found = with(&rows, "verdict", "damaged");
    assert_eq!(found.len(), 1, "{rows:?}");
    found[0].clone()
}

fn table(world: &World) -> String {
    // What the newest version has, not one that it dropped.
    world.rows("ls DB --tables")[0]["object"].as_str().unwrap().to_owned()
}

#[test]
fn a_whole_database_is_whole() {
    let world = World::new();
    let log = make(&world.server);
    for (line, entries) in [("verify DB", 0), ("verify DB --sizes", 0), ("verify DB --deep", 600)] {
        let ran = world.run(&format!("{line} -o jsonl"));
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        assert!(ran.err.contains("is whole"), "{}", ran.err);
        let rows = rows_of(&ran);
        let tables = with(&rows, "kind", "table");
        let sound = tables.iter().filter(|row| row["verdict"] == "ok").count();
        assert_eq!(sound, log.state().tables().len());
        let read: u64 = rows.iter().filter_map(|row| row["entries"].as_u64()).sum();
        assert_eq!(read, entries, "{line}");
    }
}

#[test]
fn a_flipped_bit_of_a_table_is_found_by_its_checksum() {
    let world = World::new();
    make(&world.server);
    let name = table(&world);
    world.server.change(&name, |body| body[40] ^= 1);
    assert_eq!(world.run("verify DB --sizes").code, 0, "sizes alone do not show it");
    for line in ["verify DB", "verify DB --deep"] {
        assert_eq!(damaged(&world, line)["object"], name);
    }
}

#[test]
fn a_table_that_was_damaged_before_its_upload_is_found_by_reading_it() {
    let world = World::new();
    let mut first = true;
    make_with(&world.server, |_, body| {
        let mut body = body.to_vec();
        if std::mem::take(&mut first) {
            return body.into();
        }
        body[40] ^= 1;
        body.into()
    });
    assert_eq!(world.run("verify DB").code, 0, "its checksum is of the damaged bytes");
    let ran = world.run("verify DB --deep -o jsonl");
    assert_eq!(ran.code, 3);
    let rows = rows_of(&ran);
    let problems = with(&rows, "verdict", "damaged");
    assert!(!problems.is_empty());
    for row in problems {
        assert!(row["problem"].as_str().unwrap().contains("at byte "), "{row}");
    }
}

#[test]
fn a_table_that_is_short_or_missing_is_told_apart() {
    let world = World::new();
    make(&world.server);
    let name = table(&world);
    let whole = world.server.objects()[&name].body.clone();
    world.server.change(&name, |body| body.truncate(100));
    let problem = damaged(&world, "verify DB --sizes")["problem"].to_string();
    assert!(problem.contains("has 100 bytes, the version says "), "{problem}");
    world.server.remove(&name);
    let problem = damaged(&world, "verify DB")["problem"].to_string();
    assert!(problem.contains("is missing"), "{problem}");
    world.server.put(&name, &whole);
    assert_eq!(world.run("verify DB").code, 0);
}

#[test]
fn damaged_records_registers_and_pins_are_named_with_the_place() {
    let world = World::new();
    let log = make(&world.server);
    world.rows("checkpoint DB create daily");
    let newest = format!("orders/v/{:020}", log.state().version().0);
    let pin = world.server.names("/pins/")[0].clone();
    for name in [newest.as_str(), "orders/v/00000000000000000002", "orders/owner", pin.as_str()] {
        for at in [0, 9] {
            world.server.change(name, |body| body[at] ^= 0x10);
            let ran = world.run("verify DB -o jsonl");
            assert_eq!(ran.code, 3, "{name}: {}", ran.err);
            let rows = rows_of(&ran);
            let named = with(&rows, "verdict", "damaged");
            assert!(named.iter().any(|row| row["object"] == name), "{name}: {named:?}");
            world.server.change(name, |body| body[at] ^= 0x10);
        }
    }
    world.server.change(&newest, |body| body[9] ^= 1);
    for line in ["ls DB", "jobs DB", "cost DB", "gc DB", "checkpoint DB", "fence DB --yes"] {
        let ran = world.run(line);
        assert_eq!(ran.code, 3, "{line}: {}", ran.err);
        assert!(
            ran.err.contains(&newest) && ran.err.contains("siltstone cloud verify"),
            "{}",
            ran.err
        );
    }
    world.server.change(&newest, |body| body.truncate(20));
    assert_eq!(damaged_record(&world, &newest)["kind"], "version");
}

fn damaged_record(world: &World, name: &str) -> Value {
    let rows = rows_of(&world.run("verify DB -o jsonl"));
    rows.into_iter().find(|row| row["object"] == name).unwrap()
}

#[test]
fn a_hole_in_the_log_is_found() {
    let world = World::new();
    make(&world.server);
    world.server.remove("orders/v/00000000000000000003");
    let ran = world.run("verify DB -o jsonl");
    assert_eq!(ran.code, 3, "{}", ran.err);
    let rows = rows_of(&ran);
    let named = with(&rows, "object", "orders/v/00000000000000000003");
    assert_eq!(named[0]["verdict"], "damaged");
}

#[test]
fn what_is_not_of_the_database_is_no_damage_and_stays() {
    let world = World::new();
    make(&world.server);
    let foreign = ["orders/notes.txt", "orders/v/latest", "orders/s/00/e1-4.ldb.bak", "orders/a b"];
    foreign.iter().for_each(|name| world.server.put(name, b"mine"));
    let ran = world.run("verify DB -o jsonl");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("4 objects are not of this database"), "{}", ran.err);
    let rows = rows_of(&ran);
    let kept = with(&rows, "verdict", "foreign");
    assert_eq!(kept.len(), 4, "{kept:?}");
    world.server.pass(std::time::Duration::from_secs(7 * 86_400));
    world.rows("gc DB --reconcile --yes");
    foreign.iter().for_each(|name| assert!(world.server.objects().contains_key(*name), "{name}"));
}
