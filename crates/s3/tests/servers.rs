//! Stories that need a real server: `SILTSTONE_S3_ENDPOINT`, or `scripts/s3-server run`, says where. SKIPPED without one.

mod server;

use bytes::Bytes;
use siltstone_cloud::{Bucket, Call, Condition, Failure, Part, Purpose};
use siltstone_s3::{Location, Options, S3Bucket, Verb, doctor};

fn call() -> Call {
    Call::new(Purpose::Tool)
}

#[test]
fn the_server_of_the_tests_is_fit() {
    let Some(url) = server::url("doctor") else { return };
    let report = doctor::probe(&S3Bucket::open(&url, Options::default()).unwrap());
    println!("{report}");
    if server::races() {
        // Whether it is caught at it is chance.
        assert_ne!(report.verdict(), doctor::Verdict::Nothing, "{report}");
        return;
    }
    assert!(report.may_commit(), "{report}");
    assert!(report.checks.iter().all(|check| check.outcome == doctor::Outcome::Held), "{report}");
}

#[test]
fn processes_that_race_to_commit_versions_share_them_out() {
    // Each of four writers has a client, and so connections, of its own. All commit to the next free number; each number
    // must have one owner, who knows it.
    let Some(url) = server::url("versions") else { return };
    if server::races() {
        eprintln!("SKIPPED: this server may lose races");
        return;
    }
    const WRITERS: u64 = 4;
    const COMMITS: u64 = 15;
    let owned: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|me| {
                scope.spawn({
                    let url = url.clone();
                    move || commit(&S3Bucket::open(&url, Options::default()).unwrap(), me, COMMITS)
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let mut all: Vec<u64> = owned.iter().flatten().copied().collect();
    all.sort_unstable();
    assert_eq!(all, (0..WRITERS * COMMITS).collect::<Vec<_>>(), "{owned:?}");
    let bucket = S3Bucket::open(&url, Options::default()).unwrap();
    for (me, numbers) in owned.iter().enumerate() {
        for number in numbers {
            let body = bucket.get(&version(*number), Part::Whole, call()).unwrap().body;
            assert_eq!(body, format!("writer {me}"), "version {number}");
        }
    }
    let names: Vec<String> = all.into_iter().map(version).collect();
    bucket.delete(&names, call()).unwrap();
}

fn version(number: u64) -> String {
    format!("v/{number:020}")
}

/// The numbers that `me` has come to own.
fn commit(bucket: &S3Bucket, me: u64, commits: u64) -> Vec<u64> {
    let (mut owned, mut next) = (Vec::new(), 0);
    while (owned.len() as u64) < commits {
        let body = Bytes::from(format!("writer {me}"));
        match bucket.put(&version(next), body, Condition::Absent, call()) {
            Ok(_) => owned.push(next),
            Err(error) => assert_eq!(error.failure, Failure::Refused, "{error}"),
        }
        next += 1;
    }
    owned
}

#[test]
fn a_large_table_goes_in_parts_and_is_read_by_ranges() {
    let Some(url) = server::url("table") else { return };
    let options = Options { part_bytes: 16 << 20, ..Options::default() };
    let bucket = S3Bucket::open(&url, options).unwrap();
    let table: Bytes =
        (0..(40u32 << 20) / 4).flat_map(u32::to_le_bytes).collect::<Vec<u8>>().into();
    bucket.put("s/table", table.clone(), Condition::Always, call()).unwrap();
    let tail = bucket.get("s/table", Part::Tail(65_536), call()).unwrap();
    assert!(tail.body == table.slice(table.len() - 65_536..) && tail.bytes == table.len() as u64);
    for block in [0u64, 4_096, (16 << 20) - 100, (32 << 20) - 1, (40 << 20) - 4_096] {
        let got = bucket.get("s/table", Part::Range { offset: block, len: 4_096 }, call()).unwrap();
        let from = block as usize;
        assert!(got.body == table.slice(from..(from + 4_096).min(table.len())), "at {block}");
    }
    let seen = bucket.meter();
    let used = seen.of(Purpose::Tool);
    assert_eq!((used.verb(Verb::Put).requests, used.verb(Verb::Post).requests), (3, 2), "{used:?}");
    bucket.delete(&["s/table".to_owned()], call()).unwrap();
}

#[test]
fn a_bucket_that_is_not_there_is_no_missing_object() {
    let Some(url) = server::url("x") else { return };
    let url = url.replace("s3://siltstone/", "s3://siltstone-is-not-there/");
    let bucket = S3Bucket::open(&url, Options::default()).unwrap();
    let get = bucket.get("a", Part::Whole, call()).unwrap_err();
    assert_eq!(get.failure, Failure::Wrong, "{get}");
    let list = bucket.list("", "", call()).unwrap_err();
    assert_eq!(list.failure, Failure::Wrong, "{list}");
    let put = bucket.put("a", Bytes::new(), Condition::Absent, call()).unwrap_err();
    assert_eq!(put.failure, Failure::Wrong, "{put}");
}

#[test]
fn wrong_keys_are_denied() {
    let Some(url) = server::url("keys") else { return };
    if std::env::var("SILTSTONE_S3_SERVER").is_ok_and(|server| server == "moto") {
        eprintln!("SKIPPED: moto checks no keys");
        return;
    }
    let location = Location::parse_with(&url, |name| {
        let value = std::env::var(name).ok();
        if name == "AWS_SECRET_ACCESS_KEY" { Some("wrong".to_owned()) } else { value }
    });
    let bucket = S3Bucket::at(&location.unwrap(), Options::default()).unwrap();
    for failure in [
        bucket.get("a", Part::Whole, call()).unwrap_err().failure,
        bucket.put("a", Bytes::new(), Condition::Always, call()).unwrap_err().failure,
        bucket.delete(&["a".to_owned()], call()).unwrap_err().failure,
        bucket.list("", "", call()).unwrap_err().failure,
    ] {
        assert_eq!(failure, Failure::Denied);
    }
}
