//! Callbacks must not panic. One that does costs the database its writes, never its data, and nobody waits forever.

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};

use siltstone::{Background, Comparator, Db, ErrorKind, FilterPolicy};

use crate::support::{World, contents};

/// Bytewise; once armed it panics on threads of which `on` says so.
struct Brittle {
    armed: AtomicBool,
    on: fn() -> bool,
}

impl Comparator for Brittle {
    fn name(&self) -> &str {
        "test.Brittle"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        assert!(!self.armed.load(Relaxed) || !(self.on)(), "on purpose");
        a.cmp(b)
    }
}

fn brittle(on: fn() -> bool) -> Arc<Brittle> {
    Arc::new(Brittle { armed: AtomicBool::new(false), on })
}

fn open(world: &World, order: &Arc<Brittle>) -> Db {
    world.open_with(|options| {
        options.comparator = Some(Arc::clone(order) as Arc<dyn Comparator>);
        options.background = Background::Lanes;
        options.write_buffer_size = 16 << 10;
    })
}

fn on_a_writer() -> bool {
    std::thread::current().name() == Some("writer")
}

fn on_a_lane() -> bool {
    std::thread::current().name().is_some_and(|name| name.starts_with("siltstone-"))
}

#[test]
fn a_panic_of_a_writer_ends_writing_and_no_other_writer_hangs() {
    let world = World::new();
    let order = brittle(on_a_writer);
    let db = open(&world, &order);
    db.put("kept", "1").unwrap();
    order.armed.store(true, Relaxed);
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        let write = |number: usize| {
            start.wait();
            catch_unwind(AssertUnwindSafe(|| db.put(format!("key {number}"), "2")))
        };
        let spawn = |number: usize| {
            let writer = std::thread::Builder::new().name("writer".to_owned());
            writer.spawn_scoped(scope, move || write(number)).unwrap()
        };
        let writers: Vec<_> = [0, 1, 2, 3].map(spawn).into();
        let outcomes = writers.into_iter().map(|writer| writer.join().unwrap());
        // The first leader panics; whom it took along, and who comes later, is told why.
        let told = outcomes.filter_map(|outcome| outcome.ok()).collect::<Vec<_>>();
        assert!(told.len() < 4, "nobody panicked");
        for result in told {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::ReadOnly);
        }
    });
    order.armed.store(false, Relaxed);
    let refused = db.put("later", "3").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    assert!(refused.to_string().contains("panic"), "{refused}");
    assert_eq!(db.get("kept").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(db.close().is_err());
    let db = open(&world, &order);
    assert_eq!(db.get("kept").unwrap().as_deref(), Some(&b"1"[..]));
    db.put("later", "3").unwrap();
}

#[test]
fn a_panic_of_a_lane_ends_writing_and_loses_nothing() {
    let world = World::new();
    let order = brittle(on_a_lane);
    let db = open(&world, &order);
    order.armed.store(true, Relaxed);
    let mut kept = Vec::new();
    let refused = loop {
        let (key, value) = (format!("{:06}", 7919 * kept.len() % 10_007), "v".repeat(100));
        match db.put(&key, &value) {
            Ok(()) => kept.push((key, value)),
            Err(error) => break error,
        }
        assert!(kept.len() < 10_000, "no lane compared");
    };
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    order.armed.store(false, Relaxed);
    assert!(db.wait_for_background().is_err());
    assert!(db.close().is_err());
    kept.sort();
    assert!(contents(&open(&world, &order)).into_iter().eq(kept));
}

/// Makes filters of nothing that match all; panics on lanes.
struct BrittlePolicy;

impl FilterPolicy for BrittlePolicy {
    fn name(&self) -> &str {
        "test.BrittlePolicy"
    }

    fn create_filter(&self, _: &[&[u8]], _: &mut Vec<u8>) {
        assert!(!on_a_lane(), "on purpose");
    }

    fn may_match(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
}

/// A lane makes a filter for a table that reads search in vain, when nothing else is to do.
#[test]
fn a_panic_beside_flushes_and_compactions_ends_writing_too() {
    let world = World::new();
    let db = world.open();
    (0..2000).for_each(|number| db.put(format!("{number:06}"), "value").unwrap());
    db.compact_range(None, None).unwrap();
    drop(db);
    let db = world.open_with(|options| {
        options.background = Background::Lanes;
        options.filter_policy = Some(Arc::new(BrittlePolicy));
    });
    let ended = (0..100_000).any(|number| {
        assert_eq!(db.get(format!("{:06}x", number % 1990)).unwrap(), None);
        db.put("key", "value").is_err()
    });
    assert!(ended, "no lane made a filter");
    assert!(db.put("key", "value").unwrap_err().to_string().contains("panic"));
    assert!(db.close().is_err());
}
