//! Brokers and workers as processes: they say where they are, end when they are asked to, and refuse what is not safe.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::harness::Scratch;

/// A process that has said its first word.
struct Running {
    child: Child,
    said: String,
    /// Open, for what else it says.
    _errors: BufReader<ChildStderr>,
}

impl Running {
    fn start(scratch: &Scratch, line: &str) -> Running {
        let mut command = scratch.command();
        command.args(line.split_whitespace()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        errors.read_line(&mut said).unwrap();
        Running { child, said: said.trim().to_owned(), _errors: errors }
    }

    /// As a service manager does.
    fn end(mut self) -> Option<i32> {
        let kill = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn brokers_and_workers_end_when_they_are_asked_to() {
    let scratch = Scratch::new();
    let broker = Running::start(&scratch, "broker --listen 127.0.0.1:0 --insecure-loopback");
    let address =
        broker.said.strip_prefix("listening on ").unwrap_or_else(|| panic!("{}", broker.said));
    let line = format!(
        "worker --broker http://{address} --insecure-loopback --bucket s3://tables --name w --slots 3"
    );
    let worker = Running::start(&scratch, &line);
    assert!(worker.said.starts_with("w with 3 slots"), "{}", worker.said);
    assert_eq!(worker.end(), Some(0));
    assert_eq!(broker.end(), Some(0));
}

#[test]
fn a_broker_tells_prometheus_what_it_counts() {
    let scratch = Scratch::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let line = format!("broker --listen 127.0.0.1:0 --insecure-loopback --metrics {free}");
    let broker = Running::start(&scratch, &line);
    let mut asked = TcpStream::connect(free).unwrap();
    asked.write_all(b"GET /metrics HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    asked.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("siltstone_broker_jobs{state=\"queued\"} 0"), "{answer}");
    assert_eq!(broker.end(), Some(0));
}

#[test]
fn what_is_not_safe_is_refused() {
    let scratch = Scratch::new();
    scratch.file("grants", "boss * name x\n");
    scratch.file("short", "abcd\n");
    let worker = "worker --bucket s3://tables --check";
    for (line, why) in [
        ("broker --check".to_owned(), "--grants"),
        ("broker --grants grants --check".to_owned(), "--tls-cert"),
        ("broker --grants grants --insecure-loopback --check".to_owned(), "line 1"),
        ("broker --listen 0.0.0.0:0 --insecure-loopback --check".to_owned(), "TLS"),
        (format!("{worker} --broker https://b:1"), "--tls-cert"),
        (format!("{worker} --broker http://b:1 --insecure-loopback --token-file short"), "token"),
        (format!("{worker} --broker http://b:1 --insecure-loopback --name ../w"), "worker"),
        (
            "worker --broker http://b:1 --insecure-loopback --bucket file:///x --check".to_owned(),
            "s3://",
        ),
    ] {
        let ran = scratch.run(&line);
        assert_eq!(ran.code, 2, "{line}: {}", ran.err);
        assert!(ran.err.contains(why), "{line}: {}", ran.err);
    }
}
