//! Full disks (rule R6): nothing acknowledged is lost, reads go on, and when there is space again
//! writes resume without a reopen.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use siltstone::{Background, Clock, Env, ErrorKind, Event, EventListener, Site};

use crate::promises::{Promises, open};
use crate::support::clock::SimClock;
use crate::support::{Fault, PowerFs, World, contents, synced, unsynced};

/// Writes against `fault` at `site`, from the first call on, and then without it. What only happens
/// after another failure is led up to by `first`, which fails once.
fn fill_up(site: Site, first: Option<Site>, fault: Fault) {
    let when = format!("{fault:?} at {}", site.name());
    let world = World::new();
    let db = open(&world).unwrap();
    let mut promises = Promises::default();
    for _ in 0..10 {
        promises.write(&db).unwrap();
    }
    if let Some(first) = first {
        world.faults.fail_nth(first, 1, Fault::Full(5));
    }
    world.faults.fail_from(site, 1, fault);
    let mut told = 0;
    for round in 0..40 {
        let written = promises.write(&db);
        if let Err(error) = &written {
            let untold = fault == Fault::DoneUntold && error.kind() == ErrorKind::Io;
            assert!(untold || error.is_no_space(), "{when}: {error}");
        }
        let flushed = if round % 10 == 7 { db.flush() } else { Ok(()) };
        told += usize::from(written.is_err() || flushed.is_err());
        promises.check(&db, &when);
    }
    assert!(world.faults.fired() > 1, "{when}: it was reached again and again");
    assert!(told > 0, "{when}: somebody was told");
    let crashed = world.after_crash();
    promises.check_after_reopen(&open(&crashed).unwrap(), &format!("{when}: crash while full"));

    world.faults.heal();
    while db.run_background_step().unwrap() {}
    for _ in 0..20 {
        promises.write(&db).unwrap();
        promises.check(&db, &when);
    }
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    promises.check(&db, &when);
    promises.check_both_reopens(&world, db, &when);
}

#[test]
fn a_full_disk_under_the_log() {
    for fault in [Fault::NoSpace, Fault::Full(1), Fault::Full(100)] {
        fill_up(Site::WalAppend, None, fault);
    }
    for site in [Site::WalSync, Site::WalSyncOlder, Site::WalCreate, Site::WalDirSync] {
        fill_up(site, None, Fault::NoSpace);
    }
}

#[test]
fn a_full_disk_under_the_log_that_takes_over() {
    for site in [Site::WalCreate, Site::WalAppend, Site::WalSyncRelog, Site::WalRename] {
        for fault in [Fault::NoSpace, Fault::Full(50)] {
            fill_up(site, Some(Site::WalAppend), fault);
        }
    }
}

#[test]
fn a_full_disk_under_tables() {
    for site in [Site::TableCreate, Site::TableSync, Site::TableClose, Site::TableDirSync] {
        fill_up(site, None, Fault::NoSpace);
    }
    for fault in [Fault::NoSpace, Fault::Full(0), Fault::Full(1000)] {
        fill_up(Site::TableAppend, None, fault);
    }
}

#[test]
fn regress_manifest_enospc() {
    for fault in [Fault::NoSpace, Fault::Full(1), Fault::Full(30)] {
        fill_up(Site::ManifestAppend, None, fault);
        fill_up(Site::ManifestSnapshot, Some(Site::ManifestAppend), fault);
        fill_up(Site::CurrentAppend, Some(Site::ManifestAppend), fault);
    }
    fill_up(Site::ManifestSync, None, Fault::NoSpace);
    for site in [
        Site::ManifestCreate,
        Site::ManifestDirSync,
        Site::CurrentCreate,
        Site::CurrentSync,
        Site::CurrentClose,
        Site::CurrentRename,
        Site::CurrentDirSync,
    ] {
        fill_up(site, Some(Site::ManifestAppend), Fault::NoSpace);
        fill_up(site, Some(Site::ManifestAppend), Fault::DoneUntold);
    }
}

/// Everything at once, as on a real full disk: then only reads work.
#[test]
fn a_full_disk_everywhere() {
    let world = World::new();
    let db = open(&world).unwrap();
    synced(&db, "a", "1").unwrap();
    for site in Site::ALL {
        world.faults.fail_from(*site, 1, Fault::NoSpace);
    }
    for _ in 0..5 {
        assert!(synced(&db, "b", "2").unwrap_err().is_no_space());
        assert!(unsynced(&db, "c", "3").unwrap_err().is_no_space());
        assert!(db.flush().unwrap_err().is_no_space());
        assert!(db.compact_range(None, None).unwrap_err().is_no_space());
        assert_eq!(contents(&db).len(), 1);
    }
    world.faults.heal();
    synced(&db, "d", "4").unwrap();
    assert_eq!(contents(&db).into_keys().collect::<Vec<_>>(), ["a", "d"]);
}

/// Space that comes back is found without anybody's asking twice, also by `flush` itself.
#[test]
fn a_flush_after_the_disk_had_been_full_succeeds() {
    let world = World::new();
    let db = open(&world).unwrap();
    synced(&db, "a", "1").unwrap();
    world.faults.fail_from(Site::TableAppend, 1, Fault::NoSpace);
    assert!(db.flush().unwrap_err().is_no_space());
    assert!(db.wait_for_background().unwrap_err().is_no_space());
    world.faults.heal();
    db.flush().unwrap();
    db.wait_for_background().unwrap();
    assert_eq!(world.folder.tables().len(), 1);
}

struct Heard(Mutex<Sender<Event>>);

impl EventListener for Heard {
    fn on_event(&self, event: &Event) {
        let _ = self.0.lock().unwrap().send(event.clone());
    }
}

/// With lanes at work, as users run it.
#[test]
fn lanes_go_on_when_there_is_space_again() {
    let world = World::new();
    let (sender, events) = channel();
    let db = world.open_with(|options| {
        options.background = Background::Lanes;
        options.write_buffer_size = 2 << 10;
        options.listeners = vec![Arc::new(Heard(Mutex::new(sender)))];
    });
    let mut promises = Promises::default();
    world.faults.fail_from(Site::TableAppend, 1, Fault::NoSpace);
    while promises.write(&db).is_ok() {}
    promises.check(&db, "full");
    world.faults.heal();
    let healed = |event: Event| matches!(event, Event::Healed);
    while !healed(events.recv_timeout(Duration::from_secs(10)).unwrap()) {}
    for _ in 0..20 {
        promises.write(&db).unwrap();
    }
    db.flush().unwrap();
    promises.check(&db, "space again");
    promises.check_both_reopens(&world, db, "lanes");
}

/// A lane that failed rests before it tries again, by the clock of its environment: no real time passes
/// under a simulated one. It fails three times, since a ring in between spares it a rest.
#[test]
fn a_lane_that_failed_rests_by_the_clock() {
    let world = World::new();
    let clock = Arc::new(SimClock::default());
    let (sender, events) = channel();
    let db = world.open_with(|options| {
        options.env.clock = clock.clone();
        options.background = Background::Lanes;
        options.listeners = vec![Arc::new(Heard(Mutex::new(sender)))];
    });
    unsynced(&db, "key", "value").unwrap();
    (1..=3).for_each(|call| world.faults.fail_nth(Site::TableCreate, call, Fault::NoSpace));
    let _ = db.flush(); // Fails, or sees that all is well again.
    let healed = |event: Event| matches!(event, Event::Healed);
    while !healed(events.recv_timeout(Duration::from_secs(10)).unwrap()) {}
    assert!(clock.now() >= Duration::from_millis(100), "{:?}", clock.now());
    db.flush().unwrap();
}

/// A log whose writes are in a table is closed, synced or not: an open one keeps its space on disk
/// when it is removed, and in the end no file can be opened any more.
#[test]
fn logs_that_are_never_synced_do_not_stay_open() {
    let world = World::new();
    let db = open(&world).unwrap();
    for number in 0..100 {
        unsynced(&db, format!("{number:04}"), "v".repeat(1 << 10)).unwrap();
        db.run_background_step().unwrap();
    }
    let open_logs = world.faults.calls(Site::WalCreate) - world.faults.calls(Site::WalClose);
    assert!(world.faults.calls(Site::WalCreate) > 40);
    assert!(open_logs <= 5, "{open_logs} logs are open");
}

/// `close` had nothing to sync in a log that had failed, and so nothing to complain about: writes that
/// it should have made durable were gone after a power cut, and nobody had been told. Now it heals the
/// log, or says that it cannot.
#[test]
fn closing_after_the_disk_was_full_syncs_all_or_says_so() {
    for is_healed in [true, false] {
        let power = PowerFs::new(Env::memory().file_system);
        let world = World::on(power.clone());
        let db = world.open();
        unsynced(&db, "a", "1").unwrap();
        world.faults.fail_from(Site::WalAppend, 1, Fault::Full(9));
        unsynced(&db, "b", "2").unwrap_err();
        if is_healed {
            world.faults.heal();
        }
        let closed = db.close();
        let left = World::with_files(&power.after_power_cut(&world.folder.dir));
        assert_eq!(contents(&left.open()).len(), usize::from(is_healed));
        assert_eq!(closed.is_ok(), is_healed, "{closed:?}");
    }
}
