//! A database's life on a real server: `SILTSTONE_S3_ENDPOINT`, or `scripts/s3-server run`, says where. SKIPPED without one.

use siltstone_cloud::{Edit, ErrorKind};

use super::database::{KEYS, emptied, home_at, make_at};
use super::{rows_of, with};
use crate::harness::{Ran, Scratch, finish, spawn};

#[test]
fn a_database_is_looked_at_looked_after_and_taken_over() {
    let Ok(endpoint) = std::env::var("SILTSTONE_S3_ENDPOINT") else {
        eprintln!("SKIPPED: SILTSTONE_S3_ENDPOINT is not set; scripts/s3-server starts a server");
        return;
    };
    let bucket = std::env::var("SILTSTONE_S3_BUCKET").unwrap_or_else(|_| "siltstone".to_owned());
    // A run finds nothing of another one, even if that one failed.
    let place = format!("s3://{bucket}/cli-{}", std::process::id());
    let url = format!("{place}/orders?endpoint={endpoint}");
    let scratch = Scratch::new();
    let run = |line: &str| -> Ran {
        let mut command = scratch.command();
        let line = line.replace("DB", &format!("{place}/orders"));
        command.arg("cloud").args(line.split_whitespace()).args(["-o", "jsonl"]);
        command.env("AWS_ENDPOINT_URL", &endpoint);
        finish(spawn(command), b"")
    };
    let rows = |line: &str| {
        let ran = run(line);
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        rows_of(&ran)
    };
    assert_eq!(run("ls DB").code, 1, "nobody has made it yet");
    let home = home_at(&url, |name| std::env::var(name).ok());
    let mut log = make_at(&home, |_, body| body);
    let tables = log.state().tables().len();
    assert_eq!(rows("ls DB --tables").len(), tables);
    assert_eq!(with(&rows("ls DB"), "what", "owner")[0]["name"], "writer-1:7420");
    let verified = rows("verify DB --deep");
    let read: u64 = verified.iter().filter_map(|row| row["entries"].as_u64()).sum();
    assert_eq!(read, KEYS);
    assert!(rows("doctor DB").iter().all(|row| row["verdict"] != "unknown"));
    rows("checkpoint DB create daily");
    rows(&format!("clone DB {place}/copy --checkpoint daily"));
    assert_eq!(rows("checkpoint DB").len(), 2);
    log.commit(emptied(&log)).unwrap();
    assert!(!rows("gc DB --min-age 0 --reconcile --yes").is_empty(), "the merge has dropped some");
    assert_eq!(run(&format!("verify {place}/copy --deep")).code, 0);
    assert_eq!(rows("fence DB --yes")[0]["ended_epoch"], 1);
    assert_eq!(log.commit(Edit::default()).unwrap_err().kind(), ErrorKind::Fenced);
}
