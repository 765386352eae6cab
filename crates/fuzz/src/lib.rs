//! Fuzz targets: what is done with hostile bytes, and the inputs worth keeping. `cargo xtask fuzz`
//! runs them under libFuzzer; `cargo test` runs the same bodies over the kept corpora and over
//! random changes of them. `docs/fuzzing.md` has the list and the commands.
//!
//! Bodies of decoders stand in the engine (`crates/engine/src/fuzz`), which alone can call them;
//! those on the public API stand here. In builds without `--cfg fuzzing` the engine's bodies are
//! run by the engine's own tests.

#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    reason = "for the project's own tests; what does not speak for itself is documented"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot set its stage is over")]

mod damage;
mod folder;
mod input;
mod model;
mod operations;
pub mod plain;
mod reading;
mod seal;
pub mod seeds;
mod wal;

use std::borrow::Cow;

/// What is done with one input.
pub type Body = fn(&[u8]);

/// One target.
pub struct Target {
    pub name: &'static str,
    /// Longest input worth trying.
    pub len_max: usize,
    prepare: Prepare,
    /// `None` if the body stands in the engine.
    body: Option<Body>,
}

/// How an input becomes what the body reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prepare {
    AsItIs,
    /// See [`seal::record_file`].
    Records,
    /// See [`seal::table_file`].
    Table,
}

pub const TARGETS: &[Target] = &[
    decoder("batch", 512, Prepare::AsItIs),
    decoder("block", 1024, Prepare::AsItIs),
    decoder("decompress", 1024, Prepare::AsItIs),
    decoder("edit", 512, Prepare::AsItIs),
    decoder("filter", 512, Prepare::AsItIs),
    decoder("footer", 128, Prepare::AsItIs),
    decoder("manifest", 1024, Prepare::Records),
    decoder("names", 64, Prepare::AsItIs),
    decoder("order", 128, Prepare::AsItIs),
    decoder("record", 1024, Prepare::Records),
    decoder("table", 2048, Prepare::Table),
    Target::here("wal", 512, wal::wal),
    Target::here("folder", 2048, folder::folder),
    Target::here("operations", 48, operations::operations),
    Target::here("damage", 64, damage::damage),
];

const fn decoder(name: &'static str, len_max: usize, prepare: Prepare) -> Target {
    Target { name, len_max, prepare, body: None }
}

impl Target {
    const fn here(name: &'static str, len_max: usize, body: Body) -> Self {
        Target { name, len_max, prepare: Prepare::AsItIs, body: Some(body) }
    }

    /// The target of that name.
    pub fn find(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Its body, if this build has it.
    pub fn body(&self) -> Option<Body> {
        #[cfg(fuzzing)]
        if self.body.is_none() {
            let body = siltstone::fuzz::BODIES.iter().find(|(name, _)| *name == self.name);
            return body.map(|(_, body)| *body);
        }
        self.body
    }

    /// Does to `input` with `body` what libFuzzer does.
    pub fn run(&self, body: Body, input: &[u8]) {
        body(&self.prepare(input));
    }

    fn prepare<'a>(&self, input: &'a [u8]) -> Cow<'a, [u8]> {
        match self.prepare {
            Prepare::AsItIs => Cow::Borrowed(input),
            Prepare::Records => Cow::Owned(seal::record_file(input)),
            Prepare::Table => Cow::Owned(seal::table_file(input)),
        }
    }

    /// The input that makes the body read `file`.
    fn input_of(&self, mut file: Vec<u8>) -> Vec<u8> {
        if self.prepare != Prepare::AsItIs {
            file.insert(0, 0);
        }
        file
    }
}
