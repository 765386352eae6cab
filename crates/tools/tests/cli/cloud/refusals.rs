//! Calls that make no sense, servers that cannot be reached, keys that are wrong or seen by nobody.

use std::net::TcpListener;

use super::World;
use super::database::make;
use super::server::{KEY_ID, SECRET};

/// Every verb, on the database.
const VERBS: [&str; 11] = [
    "ls DB",
    "verify DB",
    "gc DB",
    "gc DB --yes",
    "jobs DB",
    "cost DB",
    "checkpoint DB",
    "checkpoint DB create a",
    "checkpoint DB remove a",
    "clone DB s3://shop/copy",
    "fence DB --yes",
];

#[test]
fn urls_that_make_no_sense_are_two_and_not_repeated() {
    let world = World::new();
    for url in [
        "orders",
        "http://shop/orders",
        "s3://",
        "s3://canary:canary@shop/orders",
        "s3://shop/orders?key=canary",
        "s3://shop/orders?endpoint=ftp://canary",
        "s3://shop/orders?endpoint=http://canary:canary@127.0.0.1:9",
        "s3://shop/or%20ders",
        "s3://shop/.hidden",
        "s3://shop:80/orders",
    ] {
        for verb in ["ls", "verify", "gc", "jobs", "cost", "checkpoint", "fence", "doctor"] {
            // The doctor's place is a prefix of names, which may have blanks and dots.
            if verb == "doctor" && (url.contains("%20") || url.contains("hidden")) {
                continue;
            }
            let ran = world.run(&format!("{verb} {url}"));
            assert_eq!(ran.code, 2, "{verb} {url}: {}", ran.err);
            assert!(!ran.err.contains("canary"), "{}", ran.err);
        }
    }
    for line in ["", "list DB", "ls", "ls DB --versions many", "clone DB", "doctor"] {
        assert_eq!(world.run(line).code, 2, "{line}");
    }
}

#[test]
fn plain_text_stays_within_the_machine() {
    let world = World::new();
    let ran = world.run("ls DB --endpoint http://192.0.2.1:9");
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("allow_http=true"), "{}", ran.err);
}

#[test]
fn without_keys_the_way_to_give_them_is_told() {
    let world = World::new();
    make(&world.server);
    for line in VERBS.iter().chain(&["doctor DB"]) {
        let ran = world.run_with(line, |command| {
            command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        });
        assert_eq!(ran.code, 5, "{line}: {}", ran.err);
        assert!(ran.err.contains("E-DENIED"), "{line}: {}", ran.err);
        assert!(ran.err.contains("AWS_SECRET_ACCESS_KEY"), "{line}: {}", ran.err);
    }
}

#[test]
fn wrong_keys_are_refused_by_the_server_and_seen_by_nobody() {
    let world = World::new();
    make(&world.server);
    for line in VERBS {
        let ran = world.run_with(line, |command| {
            command.env("AWS_ACCESS_KEY_ID", "CANARYOTHER");
        });
        assert_eq!(ran.code, 5, "{line}: {}", ran.err);
        assert!(ran.err.contains("E-DENIED") && !ran.err.contains("CANARYOTHER"), "{}", ran.err);
    }
}

#[test]
fn a_server_that_repeats_what_it_got_gives_no_key_away() {
    // World::run looks for keys in all that is written.
    let world = World::new();
    make(&world.server);
    world.server.parrot();
    let mut repeated = 0;
    for line in VERBS.iter().chain(&["doctor DB"]) {
        for format in ["table", "json"] {
            let ran = world.run_with(&format!("{line} -o {format}"), |command| {
                command.env("AWS_SESSION_TOKEN", "CANARY-TOKEN");
            });
            let seen = format!("{}{}", String::from_utf8_lossy(&ran.out), ran.err);
            assert_ne!(ran.code, 0, "{line}: {seen}");
            // A message without a body has nothing to repeat.
            repeated += u32::from(seen.contains("Parrot"));
            for secret in ["CANARY-TOKEN", KEY_ID, SECRET] {
                assert!(!seen.contains(secret), "{line}: {seen}");
            }
        }
    }
    assert!(repeated >= 4, "what the server says is shown: {repeated}");
}

#[test]
fn a_server_out_of_reach_is_five_and_says_what_to_do() {
    let world = World::new();
    // A port that nobody listens at: it was ours a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (line, step) in [("ls DB", "siltstone cloud doctor"), ("doctor DB", "--help")] {
        let ran = world.run(&format!("{line} --endpoint http://{free}"));
        assert_eq!(ran.code, 5, "{line}: {}", ran.err);
        assert!(ran.err.contains("E-UNREACHABLE") && ran.err.contains(step), "{}", ran.err);
    }
}

#[test]
fn where_there_is_no_database_none_is_made() {
    let world = World::new();
    for line in VERBS {
        let ran = world.run(line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.err);
        assert!(ran.err.contains("E-NO-DATABASE"), "{line}: {}", ran.err);
    }
    assert!(world.server.objects().is_empty(), "{:?}", world.server.names(""));
    let ran = world.run("ls s3://nothing/orders");
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("NoSuchBucket"), "{}", ran.err);
}

#[test]
fn errors_are_json_where_results_are() {
    let world = World::new();
    let ran = world.run("ls DB -o json");
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(
        (&error["error"]["tag"], &error["error"]["exit"]),
        (&"E-NO-DATABASE".into(), &1.into())
    );
    assert!(
        error["error"]["next"][0]["run"].as_str().unwrap().starts_with("siltstone cloud doctor")
    );
}
