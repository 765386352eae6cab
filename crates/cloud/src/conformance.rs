//! One suite of tests for everything that is a [`Bucket`]: what the seam promises, asked of it. Called by the tests of crates
//! that have one; it panics with what does not hold.
//!
//! It wants a bucket in which nobody else writes below `conformance/`, and leaves nothing there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::bucket::{Bucket, Call, Condition, Failure, Page, Part, Purpose, Result, Stat, Tag};

/// One promise: panics if it is not kept. It wants nothing to be there below `conformance/`.
pub type Case = fn(&dyn Bucket);

/// All that is asked, by name.
pub const CASES: [(&str, Case); 12] = [
    ("parts end with the object", parts_end_with_the_object),
    ("empty objects are objects", empty_objects_are_objects),
    ("what is missing is missing", what_is_missing_is_missing),
    ("many come in their order", many_come_in_their_order),
    ("conditions hold or refuse", conditions_hold_or_refuse),
    ("one of racing creators wins", one_of_racing_creators_wins),
    ("no update is lost", no_update_is_lost),
    ("lists come by pages and in order", lists_come_by_pages_and_in_order),
    ("prefixes are of bytes", prefixes_are_of_bytes),
    ("deletes take many and missing", deletes_take_many_and_missing),
    ("large objects come back whole", large_objects_come_back_whole),
    ("objects may be sent while they are made", objects_may_be_sent_while_they_are_made),
];

const RACERS: usize = 6;
const ROUNDS: usize = 8;

/// Asks all of it, in order.
pub fn check(bucket: &dyn Bucket) {
    for (name, case) in CASES {
        clear(bucket, "conformance/");
        eprintln!("bucket conformance: {name}");
        case(bucket);
    }
    clear(bucket, "conformance/");
}

/// Servers for tests are slow when the machine has other work.
fn call() -> Call {
    Call { purpose: Purpose::Tool, within: Duration::from_secs(120) }
}

fn put(bucket: &dyn Bucket, name: &str, body: &str, when: Condition) -> Result<Tag> {
    bucket.put(name, Bytes::copy_from_slice(body.as_bytes()), when, call())
}

/// All pages of a list.
fn list(bucket: &dyn Bucket, prefix: &str, after: &str) -> Vec<Stat> {
    let mut all: Vec<Stat> = Vec::new();
    loop {
        let after = all.last().map_or(after.to_owned(), |stat| stat.name.clone());
        let Page { stats, is_last } = bucket.list(prefix, &after, call()).expect("lists");
        if stats.is_empty() {
            return all;
        }
        all.extend(stats);
        if is_last {
            let last = all.last().map_or("", |stat| stat.name.as_str());
            let behind = bucket.list(prefix, last, call()).expect("lists");
            assert_eq!(behind.stats, [], "behind what was said to be the last page");
            return all;
        }
        assert!(all.len() < 100_000, "a list that does not end");
    }
}

fn names(stats: &[Stat]) -> Vec<&str> {
    stats.iter().map(|stat| stat.name.as_str()).collect()
}

fn clear(bucket: &dyn Bucket, prefix: &str) {
    let all: Vec<String> = list(bucket, prefix, "").into_iter().map(|stat| stat.name).collect();
    bucket.delete(&all, call()).expect("deletes");
}

fn failure<T>(outcome: Result<T>) -> Option<Failure> {
    outcome.err().map(|error| error.failure)
}

fn parts_end_with_the_object(bucket: &dyn Bucket) {
    let name = "conformance/parts";
    let tag = put(bucket, name, "0123456789", Condition::Always).expect("puts");
    for (part, offset, body) in [
        (Part::Whole, 0, &b"0123456789"[..]),
        (Part::Range { offset: 0, len: 1 }, 0, b"0"),
        (Part::Range { offset: 3, len: 2 }, 3, b"34"),
        (Part::Range { offset: 9, len: 1 }, 9, b"9"),
        (Part::Range { offset: 8, len: 1000 }, 8, b"89"),
        (Part::Range { offset: 8, len: u64::MAX }, 8, b"89"),
        (Part::Range { offset: 10, len: 2 }, 10, b""),
        (Part::Range { offset: 30, len: 2 }, 10, b""),
        (Part::Range { offset: 4, len: 0 }, 4, b""),
        (Part::Tail(2), 8, b"89"),
        (Part::Tail(10), 0, b"0123456789"),
        (Part::Tail(20), 0, b"0123456789"),
        (Part::Tail(0), 10, b""),
    ] {
        let got = bucket.get(name, part, call()).expect("gets");
        assert_eq!((got.offset, &got.body[..], got.bytes), (offset, body, 10), "{part:?}");
        assert_eq!(got.tag, tag, "{part:?}");
    }
    let stat = bucket.head(name, call()).expect("heads");
    assert_eq!((stat.name.as_str(), stat.bytes, &stat.tag), (name, 10, &tag));
    let listed = list(bucket, name, "");
    assert_eq!((listed.len(), listed[0].bytes, &listed[0].tag), (1, 10, &tag));
    // Heads may tell whole seconds only.
    assert!(listed[0].written_ms.abs_diff(stat.written_ms) <= 1000, "{listed:?} {stat:?}");
}

fn empty_objects_are_objects(bucket: &dyn Bucket) {
    let name = "conformance/empty";
    put(bucket, name, "", Condition::Absent).expect("puts");
    for part in [Part::Whole, Part::Tail(5), Part::Range { offset: 0, len: 5 }] {
        let got = bucket.get(name, part, call()).expect("gets");
        assert_eq!((got.offset, got.body.len(), got.bytes), (0, 0, 0), "{part:?}");
    }
    assert_eq!(bucket.head(name, call()).expect("heads").bytes, 0);
    assert_eq!(failure(put(bucket, name, "", Condition::Absent)), Some(Failure::Refused));
}

fn what_is_missing_is_missing(bucket: &dyn Bucket) {
    let name = "conformance/missing";
    for part in [Part::Whole, Part::Tail(5), Part::Tail(0), Part::Range { offset: 7, len: 5 }] {
        let got = bucket.get(name, part, call());
        assert_eq!(failure(got), Some(Failure::Missing), "{part:?}");
    }
    assert_eq!(failure(bucket.head(name, call())), Some(Failure::Missing));
    assert_eq!(bucket.list(name, "", call()).expect("lists").stats, []);
}

fn many_come_in_their_order(bucket: &dyn Bucket) {
    let name = |nth: usize| format!("conformance/many/{nth}");
    for nth in (0..40).filter(|nth| nth % 7 != 3) {
        put(bucket, &name(nth), &format!("{nth} of them"), Condition::Always).expect("puts");
    }
    let names: Vec<String> = (0..40).rev().map(name).collect();
    let got = bucket.get_each(&names, Part::Tail(7), call());
    assert_eq!(got.len(), names.len());
    for (nth, got) in (0..40).rev().zip(got) {
        match got {
            Ok(object) => assert_eq!(object.body, "of them", "{nth}"),
            Err(error) => assert_eq!((error.failure, nth % 7), (Failure::Missing, 3), "{nth}"),
        }
    }
    assert!(bucket.get_each(&[], Part::Whole, call()).is_empty());
}

fn conditions_hold_or_refuse(bucket: &dyn Bucket) {
    let name = "conformance/condition";
    let refused = |body, when| failure(put(bucket, name, body, when)) == Some(Failure::Refused);
    let body = || bucket.get(name, Part::Whole, call()).expect("gets").body;
    let no_tag = Tag("\"0123456789abcdef0123456789abcdef\"".to_owned());
    assert!(refused("0", Condition::Tagged(no_tag)), "replaces what is not there");
    let first = put(bucket, name, "1", Condition::Absent).expect("creates");
    assert!(refused("2", Condition::Absent), "creates twice");
    let second = put(bucket, name, "3", Condition::Tagged(first.clone())).expect("replaces");
    assert_ne!(first, second);
    assert!(refused("4", Condition::Tagged(first)), "replaces what was replaced before");
    assert_eq!(body(), "3", "a refused put changes nothing");
    let third = put(bucket, name, "5", Condition::Always).expect("overwrites");
    assert!(refused("6", Condition::Tagged(second)), "replaces what was overwritten");
    assert_eq!(body(), "5");
    bucket.delete(&[name.to_owned()], call()).expect("deletes");
    assert!(refused("7", Condition::Tagged(third)), "replaces what was deleted");
    put(bucket, name, "8", Condition::Absent).expect("creates what was deleted");
}

fn one_of_racing_creators_wins(bucket: &dyn Bucket) {
    for round in 0..ROUNDS {
        let name = format!("conformance/race/{round}");
        let racer = |at: usize| put(bucket, &name, &format!("racer {at}"), Condition::Absent);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let racers: Vec<_> =
                (0..RACERS).map(|at| scope.spawn(move || (at, racer(at)))).collect();
            racers.into_iter().map(|racer| racer.join().expect("does not panic")).collect()
        });
        let won: Vec<_> = outcomes.iter().filter(|(_, put)| put.is_ok()).collect();
        assert_eq!(won.len(), 1, "round {round}: winners among {outcomes:?}");
        let got = bucket.get(&name, Part::Whole, call()).expect("gets");
        assert_eq!(got.body, format!("racer {}", won[0].0), "round {round}");
        assert_eq!(Some(&got.tag), won[0].1.as_ref().ok(), "round {round}");
    }
}

fn no_update_is_lost(bucket: &dyn Bucket) {
    let name = "conformance/counter";
    put(bucket, name, "0", Condition::Absent).expect("creates");
    let done = AtomicUsize::new(0);
    let add = |racer: usize| {
        // What is put must differ for each who puts: tags tell contents apart, no more.
        let got = bucket.get(name, Part::Whole, call()).expect("gets");
        let text = String::from_utf8_lossy(&got.body).into_owned();
        let count: usize = text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        let body = format!("{} of {racer}", count + 1);
        match put(bucket, name, &body, Condition::Tagged(got.tag)) {
            // Nobody else looks before the threads are joined.
            Ok(_) => drop(done.fetch_add(1, Ordering::Relaxed)),
            Err(error) => assert_eq!(error.failure, Failure::Refused, "{error}"),
        }
    };
    std::thread::scope(|scope| {
        (0..RACERS).for_each(|at| {
            scope.spawn(move || (0..ROUNDS * 2).for_each(|_| add(at)));
        });
    });
    let body = bucket.get(name, Part::Whole, call()).expect("gets").body;
    let text = String::from_utf8_lossy(&body).into_owned();
    let done = done.load(Ordering::Relaxed);
    assert!(done > 0 && text.starts_with(&format!("{done} ")), "{done} puts, and {text}");
}

fn lists_come_by_pages_and_in_order(bucket: &dyn Bucket) {
    const MANY: usize = 1100;
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        (0..4).for_each(|_| {
            scope.spawn(|| {
                loop {
                    let at = made.fetch_add(1, Ordering::Relaxed);
                    if at >= MANY {
                        break;
                    }
                    let name = format!("conformance/pages/{at:04}");
                    put(bucket, &name, "x", Condition::Always).expect("puts");
                }
            });
        });
    });
    put(bucket, "conformance/pages.", "before", Condition::Always).expect("puts");
    put(bucket, "conformance/pages0", "behind", Condition::Always).expect("puts");
    let all = list(bucket, "conformance/pages/", "");
    assert_eq!(all.len(), MANY);
    assert!(all.is_sorted_by(|a, b| a.name < b.name), "not in the order of names");
    let behind = list(bucket, "conformance/pages/", "conformance/pages/0999");
    assert_eq!((behind.len(), behind[0].name.as_str()), (100, "conformance/pages/1000"));
    let between = list(bucket, "conformance/pages/", "conformance/pages/1098x");
    assert_eq!(names(&between), ["conformance/pages/1099"]);
    assert_eq!(names(&list(bucket, "conformance/pages/", "conformance/pages/2")), [""; 0]);
}

fn prefixes_are_of_bytes(bucket: &dyn Bucket) {
    // None is both an object and the folder of another: servers that keep objects as files have no room for that.
    let mut all = ["a-b", "a/1", "a/10", "a/2", "a/3/x", "a0", "ab", "b", "sp ace", "ti~lde=1"]
        .map(|name| format!("conformance/prefix/{name}"));
    for name in &all {
        put(bucket, name, name, Condition::Absent).expect("puts");
    }
    all.sort();
    let found = |prefix: &str, after: &str| {
        let whole = |text: &str| format!("conformance/prefix/{text}");
        let after = if after.is_empty() { String::new() } else { whole(after) };
        let stats = list(bucket, &whole(prefix), &after);
        stats.into_iter().map(|stat| stat.name).collect::<Vec<_>>()
    };
    for (prefix, after) in [
        ("", ""),
        ("a", ""),
        ("a/1", ""),
        ("a/", ""),
        ("a", "a/1"),
        ("a/", "a"),
        ("b", "a"),
        ("c", ""),
    ] {
        let (prefixed, behind) =
            (format!("conformance/prefix/{prefix}"), format!("conformance/prefix/{after}"));
        let wanted = all.iter().filter(|name| name.starts_with(&prefixed));
        let wanted: Vec<_> =
            wanted.filter(|name| after.is_empty() || **name > behind).cloned().collect();
        assert_eq!(found(prefix, after), wanted, "prefix {prefix:?} after {after:?}");
    }
    for name in &all {
        assert_eq!(bucket.get(name, Part::Whole, call()).expect("gets").body, name.as_str());
    }
}

fn deletes_take_many_and_missing(bucket: &dyn Bucket) {
    let kept = "conformance/delete/kept";
    let gone: Vec<String> = (0..30).map(|at| format!("conformance/delete/{at:02}")).collect();
    for name in gone.iter().map(String::as_str).chain([kept]) {
        put(bucket, name, "x", Condition::Always).expect("puts");
    }
    // More than one request takes, and most of them not there.
    let mut all = gone.clone();
    all.extend((0..1000).map(|at| format!("conformance/delete/never/{at}")));
    bucket.delete(&all, call()).expect("deletes");
    bucket.delete(&all[..1], call()).expect("deletes again");
    bucket.delete(&[], call()).expect("deletes nothing");
    assert_eq!(failure(bucket.head(&gone[7], call())), Some(Failure::Missing));
    assert_eq!(names(&list(bucket, "conformance/delete/", "")), [kept]);
}

/// Of buckets that can.
fn objects_may_be_sent_while_they_are_made(bucket: &dyn Bucket) {
    const PART: usize = 5 << 20;
    let name = "conformance/sent";
    let part = |nth: u8, len: usize| Bytes::from(vec![nth; len]);
    let Some(mut upload) = bucket.upload(name, call()) else { return };
    upload.send(part(1, PART));
    assert_eq!(failure(bucket.head(name, call())), Some(Failure::Missing), "before its end");
    drop(upload);
    // Whoever gives it up is not told when.
    let mut upload = bucket.upload(name, call()).expect("as before");
    for (nth, len) in [(2, PART), (3, PART + 1), (4, 7)] {
        upload.send(part(nth, len));
    }
    let tag = upload.finish().expect("finishes");
    let got = bucket.get(name, Part::Whole, call()).expect("gets");
    let whole = [part(2, PART), part(3, PART + 1), part(4, 7)].concat();
    assert!(got.body == whole && got.tag == tag, "{} bytes, {:?}", got.body.len(), got.tag);
}

fn large_objects_come_back_whole(bucket: &dyn Bucket) {
    const BYTES: usize = (11 << 20) + 12_345;
    let body: Vec<u8> =
        (0..BYTES as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let body = Bytes::from(body);
    let name = "conformance/large";
    let tag = bucket.put(name, body.clone(), Condition::Always, call()).expect("puts");
    let got = bucket.get(name, Part::Whole, call()).expect("gets");
    assert!(got.body == body && got.tag == tag, "{} bytes under {:?}", got.body.len(), got.tag);
    for border in [5 << 20, 10 << 20, BYTES - 10] {
        let part = Part::Range { offset: border as u64 - 7, len: 14 };
        let got = bucket.get(name, part, call()).expect("gets");
        assert_eq!(got.body, body.slice(border - 7..(border + 7).min(BYTES)), "at {border}");
    }
    assert_eq!(bucket.head(name, call()).expect("heads").tag, tag);
    let outcome = bucket.put(name, body, Condition::Absent, call());
    // A server may refuse before it has read all, and end the connection in the middle of the body: then nobody knows.
    let kept = matches!(failure(outcome), Some(Failure::Refused | Failure::Unsure));
    assert!(kept, "large ones keep conditions, too");
    assert_eq!(bucket.head(name, call()).expect("heads").tag, tag, "nothing was changed");
}
