//! The rules of [`FaultFs`], on which the tests of failures rely.

use super::*;
use crate::support::Fault;

fn world() -> (World, Arc<FaultFs>) {
    let (env, faults) = FaultFs::over(Env::memory());
    (World::of(env.file_system), faults)
}

#[test]
fn the_nth_call_fails_once() {
    let (world, faults) = world();
    let mut file = world.fs.create(&world.at("f"), Site::WalCreate).unwrap();
    file.sync(Site::WalSync).unwrap();
    faults.fail_nth(Site::WalSync, 2, Fault::Io);
    file.sync(Site::WalSync).unwrap();
    file.sync(Site::TableSync).unwrap();
    assert_eq!(refused(file.sync(Site::WalSync), &world.at("f")).kind(), ErrorKind::Io);
    file.sync(Site::WalSync).unwrap();
    assert_eq!((faults.calls(Site::WalSync), faults.fired()), (4, 1));
    let reached = [Site::DbDirCreate, Site::WalCreate, Site::WalSync, Site::TableSync];
    assert_eq!(faults.sites_reached(), reached);
}

#[test]
fn failing_goes_on_until_healed() {
    let (world, faults) = world();
    faults.fail_from(Site::WalCreate, 1, Fault::NoSpace);
    for _ in 0..3 {
        let created = world.fs.create(&world.at("f"), Site::WalCreate);
        assert!(refused(created, &world.at("f")).is_no_space());
    }
    faults.heal();
    world.fs.create(&world.at("f"), Site::WalCreate).unwrap();
}

#[test]
fn torn_appends_leave_their_beginning() {
    let (world, faults) = world();
    let mut file = world.fs.create(&world.at("f"), Site::WalCreate).unwrap();
    file.append(b"whole ", Site::WalAppend).unwrap();
    for (fault, after) in [
        (Fault::Io, &b"whole "[..]),
        (Fault::NoSpace, b"whole "),
        (Fault::Torn(2), b"whole to"),
        (Fault::Torn(9), b"whole totorn"),
        (Fault::DoneUntold, b"whole totorntorn"),
    ] {
        faults.fail_nth(Site::WalAppend, 1, fault);
        refused(file.append(b"torn", Site::WalAppend), &world.at("f"));
        assert_eq!(world.get("f").unwrap(), after, "{fault:?}");
    }
}

#[test]
fn an_untold_call_is_done() {
    let (world, faults) = world();
    world.put("from", b"bytes");
    faults.fail_nth(Site::CurrentRename, 1, Fault::DoneUntold);
    let renamed = world.fs.rename(&world.at("from"), &world.at("to"), Site::CurrentRename);
    refused(renamed, &world.at("from"));
    assert_eq!(world.names(), ["to"]);
}

#[test]
fn reads_fail_by_name() {
    let (world, faults) = world();
    world.put("000005.ldb", b"bytes");
    world.put("000006.ldb", b"bytes");
    faults.fail_reads("000005");
    assert_eq!(refused(world.get("000005.ldb"), &world.at("000005.ldb")).offset(), Some(0));
    assert_eq!(world.get("000006.ldb").unwrap(), b"bytes");
    faults.heal();
    assert_eq!(world.get("000005.ldb").unwrap(), b"bytes");
}
