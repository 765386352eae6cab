//! `siltstone cloud ...` against a server in this process: what each verb shows and does, damage, wrong calls, and that no
//! key is ever seen.

mod care;
mod damage;
pub(crate) mod database;
mod lab;
mod looks;
mod real;
mod refusals;
pub(crate) mod server;

use std::process::Command;

use serde_json::Value;

use crate::harness::{Ran, Scratch, finish, spawn};
use database::PATH;
use server::{BUCKET, KEY_ID, SECRET, Server};

/// Lets a command reach the server, and nothing else.
pub(crate) fn reach<'a>(command: &'a mut Command, server: &Server) -> &'a mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command
        .env("AWS_ENDPOINT_URL", &server.endpoint)
        .env("AWS_ACCESS_KEY_ID", KEY_ID)
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("AWS_EC2_METADATA_DISABLED", "true")
}

/// A folder to run in, a server, and where the database of the tests is.
pub(crate) struct World {
    scratch: Scratch,
    pub(crate) server: Server,
}

impl World {
    pub(crate) fn new() -> World {
        World { scratch: Scratch::new(), server: Server::new() }
    }

    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Runs a verb of `cloud`; `DB` in the line stands for the database's URL.
    pub(crate) fn run(&self, line: &str) -> Ran {
        self.run_with(line, |_| ())
    }

    /// The same, with another environment.
    pub(crate) fn run_with(&self, line: &str, change: impl FnOnce(&mut Command)) -> Ran {
        let mut command = self.scratch.command();
        let line = line.replace("DB", &format!("s3://{BUCKET}/{PATH}"));
        command.arg("cloud").args(line.split_whitespace());
        change(reach(&mut command, &self.server));
        let ran = finish(spawn(command), b"");
        let seen = format!("{}{}", String::from_utf8_lossy(&ran.out), ran.err);
        for secret in [KEY_ID, SECRET] {
            assert!(!seen.contains(secret), "{line}: {seen}");
        }
        ran
    }

    /// Runs, and expects success; rows as JSON.
    pub(crate) fn rows(&self, line: &str) -> Vec<Value> {
        let ran = self.run(&format!("{line} -o jsonl"));
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        rows_of(&ran)
    }
}

pub(crate) fn rows_of(ran: &Ran) -> Vec<Value> {
    ran.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Rows whose field `name` is `value`.
pub(crate) fn with<'a>(rows: &'a [Value], name: &str, value: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row[name] == value).collect()
}
