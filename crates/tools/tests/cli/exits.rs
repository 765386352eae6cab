//! Exit codes, what the errors say, wild arguments, signals.

use std::io::Write;

use crate::harness::{Scratch, finish, spawn};

#[test]
fn absence_is_one() {
    let scratch = Scratch::with_database();
    for line in ["get db nothing", "get nowhere k", "scan nowhere", "nowhere/"] {
        let ran = scratch.run(line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.err);
        assert!(ran.out.is_empty(), "{line}");
        assert!(ran.err.contains("siltstone"), "{line} has no next step: {}", ran.err);
    }
    assert!(!scratch.path().join("nowhere").exists(), "a reader made a database");
}

#[test]
fn wrong_calls_are_two() {
    let scratch = Scratch::with_database();
    scratch.file("bad.json", "{\"a\": 1, \"b\": }");
    scratch.file("odd", "hello");
    for line in [
        "gett db k",
        "get db",
        "get db k --key hex",
        "get db k -o xml",
        "scan db --limit many",
        "scan db --limit -1",
        "load db",
        "load db missing.json",
        "load db db",
        "load db bad.json",
        "load db odd",
        "load db small.json --block-size big",
        "load db small.json --compression zip",
        "gen json x.json --pairs 1G --key-bytes 2",
        "gen json x.json --duplicates 2",
        "put db k --value hex xyz",
        "-r put db k v",
        "-r compact db",
        "",
    ] {
        let ran = scratch.run(line);
        assert_eq!(ran.code, 2, "{line}: {}", ran.err);
        assert!(!ran.err.is_empty(), "{line}");
    }
    // What came before the fault is in, and the message says so.
    assert_eq!(scratch.ok("get db a"), "1");
}

#[test]
fn a_held_lock_is_four_and_readers_do_not_care() {
    let scratch = Scratch::with_database();
    let mut command = scratch.command();
    command.arg("./db");
    let mut holder = spawn(command);
    // The answer shows that the shell has the database open.
    holder.stdin.as_mut().unwrap().write_all(b"get user/1\n").unwrap();
    let mut answer = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut answer).unwrap();
    for line in ["put db k v", "del db k", "load db small.json", "compact db", "./db"] {
        let ran = scratch.run(line);
        assert_eq!(ran.code, 4, "{line}: {}", ran.err);
        assert!(ran.err.contains("siltstone -r"), "{line}: {}", ran.err);
    }
    assert_eq!(scratch.ok("get db user/1"), "Ravi");
    assert_eq!(scratch.feed("-r ./db", b"get user/1\n").code, 0);
    assert_eq!(finish(holder, b".quit\n").code, 0);
    scratch.ok("put db k v");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_five() {
    let scratch = Scratch::new();
    let ran = scratch.run("gen json /dev/full --pairs 100k");
    assert_eq!(ran.code, 5, "{}", ran.err);
}

#[test]
fn errors_are_json_where_results_are() {
    let scratch = Scratch::with_database();
    let ran = scratch.run("get db nothing -o json");
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(error["error"]["exit"], 1);
    assert_eq!(error["error"]["tag"], "E-NOT-FOUND");
}

#[cfg(unix)]
#[test]
fn wild_arguments_do_not_panic() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    let bytes = OsStr::from_bytes(b"\xff\xfe k\n");
    let huge = "x".repeat(100_000);
    for key in [bytes, OsStr::new(""), OsStr::new("--"), OsStr::new(&huge), OsStr::new("0x")] {
        let run = |verb: &str, value: &[&OsStr]| {
            let mut command = scratch.command();
            command.arg(verb).arg("db").arg("--").arg(key).args(value);
            finish(spawn(command), b"")
        };
        let put = run("put", &[OsStr::new("v")]);
        assert_eq!(put.code, 0, "{key:?}: {}", put.err);
        assert_eq!(run("get", &[]).out, b"v", "{key:?}");
    }
    let mut command = scratch.command();
    command.arg(bytes);
    assert_ne!(finish(spawn(command), b"").code, 0);
}

#[cfg(unix)]
#[test]
fn a_reader_that_leaves_is_no_error() {
    let scratch = Scratch::new();
    scratch.ok("gen jsonl many.jsonl --pairs 20k");
    scratch.ok("load db many.jsonl");
    let mut command = scratch.command();
    command.args(["scan", "db"]);
    let mut child = spawn(command);
    drop(child.stdout.take());
    let ran = finish(child, b"");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

/// Ctrl-C in the middle of a load whose input has not ended: the database is closed, the user
/// learns what got in, and it is there.
#[cfg(unix)]
#[test]
fn an_interrupted_load_keeps_what_got_in() {
    let scratch = Scratch::new();
    let mut command = scratch.command();
    command.args(["load", "db", "-", "--format", "jsonl", "-o", "json"]);
    let mut child = spawn(command);
    let line = |number: u32| format!("[\"key{number:06}\", 1]\n");
    let text: String = (0..20_000).map(line).collect();
    // All of it is parsed when the last write returns, save what the pipe and a batch hold.
    child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    let kill = format!("kill -INT {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let ran = {
        let output = child.stdin.take();
        // Stdin stays open until the program has ended: it must not wait for it.
        let ran = child.wait_with_output().unwrap();
        drop(output);
        ran
    };
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(130), "{errors}");
    assert!(errors.contains("closed cleanly"), "{errors}");
    let summary: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(summary["interrupted"], true);
    assert_eq!(scratch.ok("count db"), format!("{}\n", summary["written"]));
}
