//! The flags, `--name=value`: LevelDB's, with its names and defaults, and those it lacks. Parsed once;
//! everything else reads [`Flags`].

mod help;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use siltstone::Compaction;

use crate::keys::PREFIX_BYTES_MAX;
use crate::popularity::Law;
use crate::report::stats::Timing;
pub use help::HELP;

/// LevelDB's default list. The second readrandom lets compactions come to rest.
const BENCHMARKS: &str = "fillseq,fillsync,fillrandom,overwrite,readrandom,readrandom,readseq,\
    readreverse,compact,readrandom,readseq,readreverse,fill100K,crc32c,snappycomp,snappyuncomp,\
    zstdcomp,zstduncomp,";

/// An operation in more than ten days, or more in a second than a clock can tell, is a slip.
const RATES: RangeInclusive<f64> = 1e-6..=1e9;

/// What a run is asked to do. Numbers are signed and of 32 bits, as LevelDB's are.
#[derive(Clone, Debug)]
pub(crate) struct Flags {
    pub(crate) benchmarks: String,
    pub(crate) compression_ratio: f64,
    pub(crate) histogram: bool,
    pub(crate) comparisons: bool,
    pub(crate) use_existing_db: bool,
    pub(crate) reuse_logs: bool,
    pub(crate) compression: bool,
    pub(crate) num: i32,
    /// See [`reads`](Flags::reads()) and [`threads`](Flags::threads()).
    pub(crate) reads: i32,
    pub(crate) threads: i32,
    pub(crate) value_size: i32,
    pub(crate) write_buffer_size: i32,
    pub(crate) max_file_size: i32,
    pub(crate) block_size: i32,
    pub(crate) key_prefix: usize,
    pub(crate) cache_size: i32,
    pub(crate) bloom_bits: i32,
    pub(crate) open_files: i32,
    pub(crate) db: PathBuf,
    pub(crate) engine: EngineName,
    pub(crate) against: Option<Rival>,
    pub(crate) runs: Option<usize>,
    pub(crate) seed: u32,
    /// Operations a second, more than 0.
    pub(crate) rate: Option<f64>,
    pub(crate) percentiles: bool,
    pub(crate) causes: bool,
    pub(crate) json: Option<PathBuf>,
    pub(crate) law: Option<Law>,
    pub(crate) compaction: Compaction,
    pub(crate) level1_size: u64,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineName {
    Siltstone,
    /// A library with LevelDB's C API: the named one, or LevelDB as it is installed.
    LevelDb(Option<String>),
}

impl EngineName {
    fn parse(text: &str) -> Option<EngineName> {
        match text.split_once(':') {
            None if text == "siltstone" => Some(EngineName::Siltstone),
            None if text == "leveldb" => Some(EngineName::LevelDb(None)),
            Some(("leveldb", library)) if !library.is_empty() => {
                Some(EngineName::LevelDb(Some(library.to_owned())))
            }
            _ => None,
        }
    }
}

/// As the command line has it.
impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineName::Siltstone => f.write_str("siltstone"),
            EngineName::LevelDb(None) => f.write_str("leveldb"),
            EngineName::LevelDb(Some(library)) => write!(f, "leveldb:{library}"),
        }
    }
}

/// What siltstone is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// This program, with another engine.
    Engine(EngineName),
    /// Another db_bench.
    Program(PathBuf),
}

impl Rival {
    /// The name of an engine, or a path, which a slash tells from a name.
    fn parse(value: &OsStr) -> Option<Rival> {
        let engine = value.to_str().and_then(EngineName::parse).map(Rival::Engine);
        let is_path = value.as_bytes().contains(&b'/');
        engine.or_else(|| is_path.then(|| Rival::Program(PathBuf::from(value))))
    }
}

/// Why there are no flags to work with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Help,
    /// A flag that does not exist, or a value that it does not take.
    Invalid(OsString),
}

impl Default for Flags {
    fn default() -> Self {
        let options = siltstone::Options::default();
        let int = |number: usize| i32::try_from(number).expect("the defaults are small");
        Flags {
            benchmarks: BENCHMARKS.to_owned(),
            compression_ratio: 0.5,
            histogram: false,
            comparisons: false,
            use_existing_db: false,
            reuse_logs: false,
            compression: true,
            num: 1_000_000,
            reads: -1,
            threads: 1,
            value_size: 100,
            write_buffer_size: int(options.write_buffer_size),
            max_file_size: int(options.max_file_size),
            block_size: int(options.block_size),
            key_prefix: 0,
            cache_size: -1,
            bloom_bits: -1,
            open_files: int(options.max_open_files),
            db: default_folder(),
            engine: EngineName::Siltstone,
            against: None,
            runs: None,
            // Behind it, the first thread of LevelDB's benchmark begins.
            seed: 1000,
            rate: None,
            percentiles: false,
            causes: false,
            json: None,
            law: None,
            compaction: options.compaction,
            level1_size: options.level1_bytes,
        }
    }
}

impl Flags {
    pub(crate) fn parse(arguments: &[OsString]) -> Result<Flags, Refused> {
        let mut flags = Flags::default();
        for argument in arguments {
            if argument == "--help" {
                return Err(Refused::Help);
            }
            let taken = name_and_value(argument).and_then(|(name, value)| flags.set(name, value));
            if taken.is_none() {
                return Err(Refused::Invalid(argument.clone()));
            }
        }
        Ok(flags)
    }

    /// Sets one flag. `None` if it does not exist or does not take the value.
    fn set(&mut self, name: &str, value: &OsStr) -> Option<()> {
        match name {
            "db" => self.db = PathBuf::from(value),
            "json" => self.json = Some(PathBuf::from(value)),
            "against" => self.against = Some(Rival::parse(value)?),
            _ => {
                let value = value.to_str()?;
                return self.set_ours(name, value).or_else(|| self.set_leveldbs(name, value));
            }
        }
        Some(())
    }

    fn set_ours(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "engine" => self.engine = EngineName::parse(value)?,
            "runs" => self.runs = Some(value.parse().ok().filter(|runs| *runs > 0)?),
            "seed" => self.seed = value.parse().ok()?,
            "rate" => self.rate = Some(value.parse().ok().filter(|rate| RATES.contains(rate))?),
            "percentiles" => self.percentiles = switch(value)?,
            "causes" => self.causes = switch(value)?,
            "distribution" => self.law = Some(value.parse().ok()?),
            "compaction" => self.compaction = Compaction::of_name(value)?,
            "level1_size" => self.level1_size = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }

    fn set_leveldbs(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "benchmarks" => self.benchmarks = value.to_owned(),
            "compression_ratio" => self.compression_ratio = value.parse().ok()?,
            "histogram" => self.histogram = switch(value)?,
            "comparisons" => self.comparisons = switch(value)?,
            "use_existing_db" => self.use_existing_db = switch(value)?,
            "reuse_logs" => self.reuse_logs = switch(value)?,
            "compression" => self.compression = switch(value)?,
            "num" => self.num = value.parse().ok()?,
            "reads" => self.reads = value.parse().ok()?,
            "threads" => self.threads = value.parse().ok()?,
            "value_size" => self.value_size = value.parse().ok()?,
            "write_buffer_size" => self.write_buffer_size = value.parse().ok()?,
            "max_file_size" => self.max_file_size = value.parse().ok()?,
            "block_size" => self.block_size = value.parse().ok()?,
            "key_prefix" => {
                self.key_prefix = value.parse().ok().filter(|bytes| *bytes <= PREFIX_BYTES_MAX)?;
            }
            "cache_size" => self.cache_size = value.parse().ok()?,
            "bloom_bits" => self.bloom_bits = value.parse().ok()?,
            "open_files" => self.open_files = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }

    /// How many reads to do.
    pub(crate) fn reads(&self) -> i32 {
        if self.reads < 0 { self.num } else { self.reads }
    }

    /// What is to be done with the time of each operation.
    pub(crate) fn timing(&self) -> Timing {
        let percentiles = self.percentiles || self.rate.is_some();
        Timing { histogram: self.histogram, percentiles }
    }

    pub(crate) fn threads(&self) -> usize {
        usize::try_from(self.threads).unwrap_or(0).max(1)
    }
}

/// The arguments that LevelDB's program takes as well, but for `--db`.
pub(crate) fn leveldbs_own(arguments: &[OsString]) -> Vec<OsString> {
    let is_known = |argument: &&OsString| {
        let (name, value) = name_and_value(argument)?;
        Flags::default().set_leveldbs(name, value.to_str()?)
    };
    arguments.iter().filter(|argument| is_known(argument).is_some()).cloned().collect()
}

/// The arguments without those of these names.
pub(crate) fn without(arguments: &[OsString], names: &[&str]) -> Vec<OsString> {
    let is_named =
        |argument: &OsStr| name_and_value(argument).is_some_and(|(name, _)| names.contains(&name));
    arguments.iter().filter(|argument| !is_named(argument)).cloned().collect()
}

/// The two sides of `--name=value`.
fn name_and_value(argument: &OsStr) -> Option<(&str, &OsStr)> {
    let bytes = argument.as_bytes().strip_prefix(b"--")?;
    let equals = bytes.iter().position(|&byte| byte == b'=')?;
    let name = str::from_utf8(&bytes[..equals]).ok()?;
    Some((name, OsStr::from_bytes(&bytes[equals + 1..])))
}

fn switch(value: &str) -> Option<bool> {
    match value.parse() {
        Ok(0) => Some(false),
        Ok(1) => Some(true),
        _ => None,
    }
}

/// Where LevelDB's benchmark works if it is not told: so a script finds the database where it looks.
fn default_folder() -> PathBuf {
    let folder = std::env::var_os("TEST_TMPDIR").filter(|folder| !folder.is_empty());
    let folder = folder.map(PathBuf::from).unwrap_or_else(|| {
        let user = rustix::process::geteuid().as_raw();
        Path::new("/tmp").join(format!("leveldbtest-{user}"))
    });
    folder.join("dbbench")
}

#[cfg(test)]
mod tests;
