//! The rules of [`FaultFs`], on which the tests of failures rely.

use super::*;
use crate::support::{Fault, Op};

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

#[test]
fn all_calls_have_one_running_number_and_any_may_fail() {
    let (world, faults) = world();
    world.put("000005.ldb", b"bytes");
    let before = faults.all_calls().len();
    assert_eq!(world.get("000005.ldb").unwrap(), b"bytes");
    world.fs.metadata(&world.at("000005.ldb")).unwrap();
    let ops: Vec<Op> = faults.all_calls()[before..].iter().map(|(op, _)| *op).collect();
    assert_eq!(ops, [Op::Open, Op::Read, Op::Metadata]);

    faults.fail_call(1, Fault::TooManyFiles);
    world.fs.metadata(&world.at("000005.ldb")).unwrap(); // It opens nothing, and is passed over.
    let refused_open = world.get("000005.ldb");
    assert!(refused_open.unwrap_err().to_string().contains("os error 24"));
    assert_eq!(world.get("000005.ldb").unwrap(), b"bytes");
    let fired = faults.all_fired();
    assert_eq!((fired.len(), fired[0].number, fired[0].op), (1, before as u64 + 5, Op::Open));

    faults.fail_calls_from(2, Fault::Denied);
    world.names();
    assert!(world.fs.list(&world.dir).is_err() && world.get("000005.ldb").is_err());
    assert_eq!(faults.aside(|| world.get("000005.ldb")).unwrap(), b"bytes");
}

#[test]
fn appends_may_stop_anywhere_and_reads_may_end_early() {
    let (world, faults) = world();
    let mut file = world.fs.create(&world.at("f"), Site::WalCreate).unwrap();
    for (fault, left) in
        [(Fault::TornHalf, "to"), (Fault::TornBefore(1), "tor"), (Fault::FullHalf, "to")]
    {
        faults.fail_call(1, fault);
        let error = refused(file.append(b"torn", Site::WalAppend), &world.at("f"));
        assert_eq!(error.is_no_space(), fault.is_full());
        assert!(world.get("f").unwrap().ends_with(left.as_bytes()), "{fault:?}");
    }
    faults.fail_call(1, Fault::ShortRead);
    assert_eq!(world.get("f").unwrap(), b"tot");
}

#[test]
fn after_a_lost_sync_all_syncs_of_the_file_are_lies() {
    let power = support::PowerFs::new(Env::memory().file_system);
    let faults = FaultFs::new(power.clone());
    let world = World::of(faults.clone());
    power.settle();
    let mut file = world.fs.create(&world.at("f"), Site::WalCreate).unwrap();
    world.fs.sync_dir(&world.dir, Site::WalDirSync).unwrap();
    file.append(b"bytes", Site::WalAppend).unwrap();
    faults.fail_call(1, Fault::LostSync);
    refused(file.sync(Site::WalSync), &world.at("f"));
    file.sync(Site::WalSync).unwrap();
    assert_eq!(power.after_power_cut(&world.dir), [("f".to_owned(), Vec::new())]);
}

#[test]
fn what_is_open_is_counted_and_the_killed_do_nothing() {
    let (world, faults) = world();
    let mut file = world.fs.create(&world.at("f"), Site::WalCreate).unwrap();
    let lock = world.fs.lock(&world.at("LOCK"), Site::LockCreate).unwrap();
    assert_eq!(faults.open_files(), 2);
    faults.kill();
    refused(file.append(b"late", Site::WalAppend), &world.at("f"));
    drop((file, lock));
    assert_eq!(faults.open_files(), 0);
    assert!(world.get("f").is_err());
}
