//! What the verbs do: `gc`, `checkpoint`, `clone`, `fence`.

use std::time::Duration;

use siltstone_cloud::{Edit, ErrorKind};

use super::database::{emptied, home, make, read};
use super::{World, rows_of, with};

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn gc_is_a_plan_until_it_is_told_to_do_it() {
    let world = World::new();
    let log = make(&world.server);
    let before = world.server.names("/s/");
    assert!(before.len() > log.state().tables().len(), "the merge has dropped tables");
    assert_eq!(world.rows("gc DB").len(), 0, "everything is too young");
    world.server.pass(DAY);
    for line in ["gc DB", "gc DB --dry-run", "gc DB --min-age 1h"] {
        let ran = world.run(&format!("{line} -o jsonl"));
        assert!(ran.err.contains("nothing was done; --yes does it"), "{}", ran.err);
        let rows = rows_of(&ran);
        let planned = with(&rows, "reason", "a table of past versions only").len();
        assert_eq!(planned, before.len() - log.state().tables().len(), "{rows:?}");
        assert!(rows.iter().all(|row| row["removed"] == false));
        assert_eq!(world.server.names("/s/"), before, "{line}");
    }
    assert!(world.run("gc DB --min-age 2d").err.contains("would remove 0 objects"));
    let rows = world.rows("gc DB --yes");
    assert!(rows.iter().all(|row| row["removed"] == true));
    assert_eq!(world.server.names("/s/").len(), log.state().tables().len());
    assert_eq!(world.run("verify DB --deep").code, 0);
    assert_eq!(world.rows("gc DB --yes").len(), 0);
    assert_eq!(world.run("gc DB --yes --dry-run").code, 2);
    assert_eq!(world.run("gc DB --min-age soon").code, 2);
    let warned = world.run("gc DB --min-age 5m").err;
    assert!(warned.contains("warning: reads without a lease"), "{warned}");
}

#[test]
fn orphans_go_with_reconcile_only() {
    let world = World::new();
    let mut log = make(&world.server);
    let orphan = log.home().root().table(log.table_id(900));
    world.server.put(&orphan, b"never named");
    log.keep_open(901, Vec::new()).unwrap();
    log.commit(Edit::default()).unwrap();
    assert!(world.run("verify DB").err.contains("1 orphans"));
    world.server.pass(DAY);
    let has = |rows: &[serde_json::Value]| !with(rows, "object", &orphan).is_empty();
    assert!(!has(&world.rows("gc DB --yes")));
    assert!(world.server.objects().contains_key(&orphan));
    assert!(has(&world.rows("gc DB --reconcile --yes")));
    assert!(!world.server.objects().contains_key(&orphan));
}

#[test]
fn checkpoints_keep_what_they_name_until_they_are_removed() {
    let world = World::new();
    let mut log = make(&world.server);
    let kept = log.state().version().0;
    let created = &world.rows("checkpoint DB create before-cleaning --note by-hand")[0];
    assert_eq!(created["version"], kept);
    let taken = world.run("checkpoint DB create before-cleaning");
    assert_eq!(taken.code, 2, "{}", taken.err);
    log.commit(emptied(&log)).unwrap();
    world.server.pass(DAY);
    world.rows("gc DB --yes");
    let listed = world.rows("checkpoint DB list");
    assert_eq!((listed.len(), &listed[0]["note"]), (1, &"by-hand".into()));
    assert_eq!(listed, world.rows("checkpoint DB"));
    let ran = world.run("verify DB --deep -o jsonl");
    let read: u64 = rows_of(&ran).iter().filter_map(|row| row["entries"].as_u64()).sum();
    assert_eq!((ran.code, read), (0, 600), "pinned tables are read: {}", ran.err);

    assert_eq!(world.run("checkpoint DB remove nothing").code, 1);
    assert_eq!(world.run("checkpoint DB create a.b").code, 2);
    assert_eq!(world.run("checkpoint DB create clone").code, 2);
    assert_eq!(world.run(&format!("checkpoint DB create old --version {}", kept + 99)).code, 1);
    world.rows("checkpoint DB remove before-cleaning");
    assert_eq!(world.rows("checkpoint DB").len(), 0);
    world.server.pass(DAY);
    world.rows("gc DB --yes");
    assert_eq!(world.server.names("/s/").len(), 0);
}

#[test]
fn a_clone_shares_tables_and_its_parent_keeps_them() {
    let world = World::new();
    let mut log = make(&world.server);
    let tables = log.state().tables().len();
    let before = world.server.names("/s/").len();
    world.rows("clone DB s3://shop/copies/monday");
    assert_eq!(world.server.names("/s/").len(), before, "nothing is copied");
    let rows = world.rows("ls s3://shop/copies/monday");
    assert_eq!(with(&rows, "what", "parent")[0]["name"], "orders/");
    assert_eq!(with(&rows, "what", "database")[0]["tables"], tables);
    assert!(with(&rows, "what", "owner").is_empty(), "nobody has opened it yet");
    let cost = world.rows("cost s3://shop/copies/monday");
    assert_eq!(with(&cost, "what", "tables of parents, paid for there")[0]["count"], tables);

    log.commit(emptied(&log)).unwrap();
    world.server.pass(DAY);
    world.rows("gc DB --yes");
    let ran = world.run("verify s3://shop/copies/monday --deep -o jsonl");
    let read: u64 = rows_of(&ran).iter().filter_map(|row| row["entries"].as_u64()).sum();
    assert_eq!((ran.code, read), (0, 600), "{}", ran.err);

    let again = world.run("clone DB s3://shop/copies/monday");
    assert_eq!((again.code, again.err.contains("E-EXISTS")), (2, true), "{}", again.err);
    for line in [
        "clone DB DB",
        "clone DB s3://other/copy",
        "clone DB s3://shop/copy?endpoint=http://127.0.0.1:1",
        "clone DB copies/tuesday",
    ] {
        assert_eq!(world.run(line).code, 2, "{line}");
    }
    assert_eq!(world.run("clone DB s3://shop/new --checkpoint nothing").code, 1);
    assert_eq!(world.run("clone s3://shop/nowhere s3://shop/new").code, 1);
    assert!(world.server.names("new/").is_empty());
}

#[test]
fn a_clones_pin_is_not_taken_from_under_it() {
    let world = World::new();
    make(&world.server);
    world.rows("checkpoint DB create base");
    world.rows("clone DB s3://shop/copy --checkpoint base");
    let pins = world.rows("checkpoint DB");
    let pin = with(&pins, "name", "clone")[0];
    let token = pin["token"].as_str().unwrap();
    assert_eq!(world.run("checkpoint DB remove clone").code, 2, "a token must say which");
    let refused = world.run(&format!("checkpoint DB remove clone --token {token}"));
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("copy/ is a clone that reads its tables"), "{}", refused.err);
    let names = world.server.names("copy/");
    names.iter().for_each(|name| world.server.remove(name));
    world.rows(&format!("checkpoint DB remove clone --token {token}"));
    assert_eq!(world.rows("checkpoint DB").len(), 1);
}

#[test]
fn a_fenced_writer_never_commits_again() {
    let world = World::new();
    let mut log = make(&world.server);
    let plan = &world.rows("fence DB")[0];
    assert_eq!((&plan["fenced"], &plan["ended_epoch"]), (&false.into(), &1.into()));
    assert_eq!(plan["owner"], "writer-1:7420");
    log.commit(Edit::default()).unwrap();
    let before = read(&home(&world.server, "orders"), "orders/owner");

    let ran = world.run("fence DB --yes");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("epoch 1 of s3://shop/orders has ended (writer-1:7420)"),
        "{}",
        ran.err
    );
    assert_ne!(read(&home(&world.server, "orders"), "orders/owner"), before);
    let fenced = log.commit(Edit::default()).unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::Fenced, "{fenced}");
    let done = &world.rows("fence DB --yes")[0];
    assert_eq!((&done["ended_epoch"], &done["epoch"]), (&2.into(), &3.into()));
    assert_eq!(world.run("verify DB --deep").code, 0);
}
