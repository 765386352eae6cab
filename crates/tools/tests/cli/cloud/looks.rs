//! What the verbs show: `ls`, `jobs`, `cost`, `doctor`.

use std::time::Duration;

use siltstone_cloud::{JobId, ReaderLease, Token};

use super::database::{home, make};
use super::{World, rows_of, with};
use crate::verbs::check;

const VERBS: [&str; 9] = [
    "ls DB",
    "ls DB --tables",
    "verify DB",
    "verify DB --deep",
    "gc DB --reconcile",
    "jobs DB",
    "cost DB",
    "checkpoint DB",
    "fence DB",
];

#[test]
fn every_verb_in_every_format() {
    let world = World::new();
    make(&world.server);
    for line in VERBS {
        for format in ["table", "json", "jsonl", "csv", "raw"] {
            check(line, format, &world.run(&format!("{line} -o {format}")));
        }
        let quiet = world.run(&format!("{line} -q"));
        assert_eq!((quiet.code, quiet.err.as_str()), (0, ""), "{line}");
    }
}

#[test]
fn ls_shows_all_that_there_is() {
    let world = World::new();
    let log = make(&world.server);
    let state = log.state();
    let lease = Duration::from_secs(300);
    ReaderLease::new(log.home(), state.version(), lease, Token(0xabc)).unwrap();
    world.rows("checkpoint DB create daily --life 7d");
    let job = log.home().root().job(JobId { epoch: log.epoch(), number: 900 }, "spec");
    world.server.put(&job, b"spec");
    let rows = world.rows("ls DB --versions 3");
    let one = |what: &str| {
        let found = with(&rows, "what", what);
        assert_eq!(found.len(), 1, "{what}: {rows:?}");
        found[0].clone()
    };
    let (tables, bytes) = (state.tables().len() as u64, state.tables().values());
    let bytes: u64 = bytes.map(|table| table.bytes).sum();
    let database = one("database");
    assert_eq!((&database["version"], &database["epoch"]), (&state.version().0.into(), &1.into()));
    assert_eq!((&database["tables"], &database["size_bytes"]), (&tables.into(), &bytes.into()));
    assert_eq!(one("owner")["name"], "writer-1:7420");
    assert_eq!(one("pin")["name"], "daily");
    assert_eq!(one("pin")["version"], state.version().0);
    assert_eq!(one("reader")["name"], format!("{:032x}", 0xabc));
    assert_eq!(one("job")["note"], "open");
    let versions = with(&rows, "what", "version");
    assert_eq!(versions.len(), 3);
    assert_eq!(versions[0]["version"], state.version().0);
    let levels = with(&rows, "what", "level");
    let sum = |name: &str| levels.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("tables"), sum("size_bytes")), (tables, bytes));
    assert!(levels.len() >= 2, "{levels:?}");

    let listed = world.rows("ls DB --tables");
    assert_eq!(listed.len() as u64, tables);
    let objects = world.server.names("/s/");
    for row in &listed {
        let object = row["object"].as_str().unwrap();
        assert!(objects.iter().any(|name| name == object), "{object}");
        assert!(row["smallest"].as_str().unwrap().starts_with("key"), "{row}");
    }
}

#[test]
fn jobs_tells_what_workers_left() {
    let world = World::new();
    let log = make(&world.server);
    let ran = world.run("jobs DB");
    assert!(ran.code == 0 && ran.out.is_empty() && ran.err.contains("no jobs"), "{}", ran.err);
    for (epoch, number) in [(0, 7), (1, 900)] {
        let epoch = siltstone_cloud::Epoch(epoch);
        let spec = log.home().root().job(JobId { epoch, number }, "spec");
        world.server.put(&spec, b"twelve bytes");
    }
    let rows = world.rows("jobs DB");
    let seen = |at: usize| (rows[at]["job"].clone(), rows[at]["state"].clone());
    assert_eq!(seen(0), ("0-7".into(), "over".into()));
    assert_eq!(seen(1), ("1-900".into(), "open".into()));
    assert_eq!(rows[1]["size_bytes"], 12);
    assert!(rows[1]["age_us"].as_f64().unwrap() < 3_600e6, "{rows:?}");
}

#[test]
fn cost_adds_up_and_counts_its_own_requests() {
    let world = World::new();
    let log = make(&world.server);
    let stored: u64 = world.server.objects().values().map(|stored| stored.body.len() as u64).sum();
    let rows = world.rows("cost DB");
    let total = with(&rows, "what", "all that is stored")[0];
    assert_eq!(total["size_bytes"], stored);
    let dollars = total["dollars"].as_f64().unwrap();
    assert!((dollars - stored as f64 / 1e9 * 0.023).abs() < 1e-12, "{dollars}");
    let newest = with(&rows, "what", "tables of the newest version")[0];
    assert_eq!(newest["count"], log.state().tables().len());
    let asked = with(&rows, "what", "requests of this command")[0];
    assert!(asked["count"].as_u64().unwrap() > 5 && asked["dollars"].as_f64().unwrap() > 0.0);

    let prices = "{\"thousand_writes\": 1000, \"thousand_reads\": 1000, \"gigabyte_sent\": 0, \
                  \"gigabyte_received\": 0, \"gigabyte_month\": 1000000000}";
    world.scratch().file("prices.json", prices);
    let rows = world.rows("cost DB --prices prices.json");
    let total = with(&rows, "what", "all that is stored")[0];
    assert_eq!(total["dollars"].as_f64().unwrap(), stored as f64);
    let asked = with(&rows, "what", "requests of this command")[0];
    assert_eq!(asked["dollars"].as_f64(), asked["count"].as_f64(), "a dollar for each request");
    for prices in ["nothing.json", "cheap"] {
        assert_eq!(world.run(&format!("cost DB --prices {prices}")).code, 2);
    }
}

#[test]
fn the_doctor_tells_a_fit_server_from_one_that_loses_commits() {
    let world = World::new();
    let ran = world.run("doctor DB -o jsonl");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let rows = rows_of(&ran);
    assert!(rows.len() >= 14 && rows.iter().all(|row| row["verdict"] == "ok"), "{rows:?}");
    assert!(world.server.objects().is_empty(), "what the doctor writes it removes");

    world.server.ignore_conditions();
    let ran = world.run("doctor DB -o jsonl");
    assert_eq!(ran.code, 6, "{}", ran.err);
    assert!(ran.err.contains("E-UNFIT") && ran.err.contains("lose commits"), "{}", ran.err);
    let broken = rows_of(&ran).into_iter().filter(|row| row["verdict"] == "broken");
    let broken: Vec<_> = broken.collect();
    assert!(broken.len() >= 2 && broken.iter().all(|row| row["consequence"].is_string()));
}

#[test]
fn the_url_may_say_where_the_server_is_and_so_may_flags() {
    let world = World::new();
    make(&world.server);
    let endpoint = world.server.endpoint.clone();
    for line in [
        format!("ls s3://shop/orders?endpoint={endpoint}&region=eu-central-1"),
        format!("ls DB --endpoint {endpoint} --region eu-central-1"),
    ] {
        let ran = world.run_with(&line, |command| {
            command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
        });
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
    }
    assert_eq!(home(&world.server, "orders").root().as_str(), "orders/");
}
