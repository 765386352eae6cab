//! Opening databases for the verbs: the engine's options as flags, and errors that name the way
//! out. Readers open read-only, so that they work beside a running program and change no file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use siltstone::{BloomFilter, Compaction, Compression, Db, FilterPolicy, Options};

use crate::errors::{Exit, Failure};
#[cfg(feature = "cloud")]
use crate::handle::bucket;
use crate::handle::{Handle, is_url, refuse_url};
use crate::output::Context;
use crate::sizes::{parse_size, show_size};

/// LevelDB's own default.
const ZSTD_LEVEL: i32 = 1;
/// Bloom filters of ten bits a key let one absent key in a hundred through.
const BLOOM_BITS: u32 = 10;
/// A filter's wrong answer is a request there.
const BLOOM_BITS_IN_BUCKETS: u32 = 14;

/// The codecs, as flag values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Codec {
    None,
    Snappy,
    Zstd,
}

/// How new tables are written. Existing ones are read whatever they are.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Tuning {
    /// Bits a key in Bloom filters; 0 writes none [default: 10; in a bucket 14, of a kind that LevelDB does not use]
    #[arg(long, value_name = "BITS", help_heading = "Engine options")]
    bloom_bits: Option<u32>,
    /// Codec of new blocks [default: snappy]
    #[arg(long, value_name = "CODEC", help_heading = "Engine options")]
    compression: Option<Codec>,
    /// Bytes collected in memory before a table is written [default: 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Engine options")]
    write_buffer_size: Option<u64>,
    /// Bytes of a block before compression [default: 4KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Engine options")]
    block_size: Option<u64>,
    /// Bytes of a table [default: 2MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Engine options")]
    max_file_size: Option<u64>,
    /// How tables are merged: with `sliced` and `l2sm`, LevelDB does not open the database until `siltstone downgrade`
    #[arg(long, value_name = "HOW", value_parser = parse_compaction, help_heading = "Engine options")]
    compaction: Option<Compaction>,
    /// Use the sizes as given, also outside LevelDB's limits
    #[arg(long, help_heading = "Engine options")]
    unclamped: bool,
}

/// Whether a missing database is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    Fail,
}

impl Tuning {
    fn filter(&self, is_in_bucket: bool) -> Option<Arc<dyn FilterPolicy>> {
        let usual = if is_in_bucket { BLOOM_BITS_IN_BUCKETS } else { BLOOM_BITS };
        match (self.bloom_bits.unwrap_or(usual) as usize, is_in_bucket) {
            (0, _) => None,
            (bits, true) => Some(Arc::new(BloomFilter::wide(bits))),
            (bits, false) => Some(Arc::new(BloomFilter::new(bits))),
        }
    }

    fn options(&self, is_in_bucket: bool, context: &Context) -> Result<Options, Failure> {
        let mut options =
            Options { filter_policy: self.filter(is_in_bucket), ..Options::default() };
        match self.compression {
            Some(Codec::None) => options.compression = Compression::None,
            Some(Codec::Snappy) => options.compression = Compression::Snappy,
            Some(Codec::Zstd) => options.compression = Compression::Zstd(ZSTD_LEVEL),
            None => {}
        }
        // The ranges are LevelDB's own; it adjusts in silence, we say so.
        let clamp = |name: &str, asked: Option<u64>, least: u64, most: u64, field: &mut usize| {
            let Some(asked) = asked else { return Ok(()) };
            let used = if self.unclamped { asked } else { asked.clamp(least, most) };
            if used != asked {
                context.note(format!(
                    "warning: {name} {} -> {} (LevelDB's limit; --unclamped lifts it)",
                    show_size(asked),
                    show_size(used)
                ));
            }
            *field = usize::try_from(used)
                .map_err(|_| Failure::usage(format!("{name} is too large")))?;
            Ok::<(), Failure>(())
        };
        options.unclamped = self.unclamped;
        options.compaction = self.compaction.unwrap_or_default();
        let (kib, mib, gib) = (1 << 10, 1 << 20, 1 << 30);
        clamp(
            "write_buffer_size",
            self.write_buffer_size,
            64 * kib,
            gib,
            &mut options.write_buffer_size,
        )?;
        clamp("block_size", self.block_size, kib, 4 * mib, &mut options.block_size)?;
        clamp("max_file_size", self.max_file_size, mib, gib, &mut options.max_file_size)?;
        Ok(options)
    }
}

pub(crate) fn parse_compaction(text: &str) -> Result<Compaction, String> {
    Compaction::of_name(text).ok_or_else(|| {
        let names: Vec<&str> = Compaction::ALL.iter().map(|compaction| compaction.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

/// The options that reading verbs use: every filter is honoured, nothing is written.
pub(crate) fn reading_options() -> Options {
    Options {
        filter_policy: Some(Arc::new(BloomFilter::new(BLOOM_BITS as usize))),
        ..Options::default()
    }
}

/// Opens for reading: beside a live writer, without touching a file.
pub(crate) fn open_to_read(path: &Path) -> Result<Handle, Failure> {
    if is_url(path) {
        return open_bucket_to_read(path);
    }
    require_database(path)?;
    let db = Db::open_read_only(path, reading_options());
    db.map(Handle::Here).map_err(|error| explain(error, path))
}

#[cfg(feature = "cloud")]
fn open_bucket_to_read(url: &Path) -> Result<Handle, Failure> {
    bucket::open_to_read(url, reading_options()).map(Handle::Read)
}

#[cfg(not(feature = "cloud"))]
fn open_bucket_to_read(_: &Path) -> Result<Handle, Failure> {
    Err(crate::handle::without_network())
}

#[cfg(feature = "cloud")]
fn open_bucket_to_write(url: &Path, options: Options) -> Result<Handle, Failure> {
    bucket::open_to_write(url, options).map(Handle::There)
}

#[cfg(not(feature = "cloud"))]
fn open_bucket_to_write(_: &Path, _: Options) -> Result<Handle, Failure> {
    Err(crate::handle::without_network())
}

/// Opens for writing, taking the lock.
pub(crate) fn open_to_write(
    path: &Path,
    tuning: &Tuning,
    missing: IfMissing,
    context: &Context,
) -> Result<Handle, Failure> {
    let mut options = tuning.options(is_url(path), context)?;
    if is_url(path) {
        options.create_if_missing = missing == IfMissing::Create;
        return open_bucket_to_write(path, options);
    }
    let exists = is_database(path);
    if !exists && missing == IfMissing::Fail {
        return Err(no_database(path));
    }
    options.create_if_missing = !exists;
    if !exists && let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| Failure::file("create", parent, &error))?;
    }
    let db = Db::open(path, options).map_err(|error| explain(error, path))?;
    if !exists {
        context.note(format!("created {}", path.display()));
    }
    Ok(Handle::Here(db))
}

/// Whether there is a database, also in a bucket.
pub(crate) fn exists(path: &Path) -> Result<bool, Failure> {
    #[cfg(feature = "cloud")]
    if is_url(path) {
        return bucket::exists(path);
    }
    Ok(is_database(path))
}

/// Whether `path` holds a database: the file CURRENT, as LevelDB sees it.
pub(crate) fn is_database(path: &Path) -> bool {
    path.join("CURRENT").is_file()
}

/// Fails unless `path` holds a database.
pub(crate) fn require_database(path: &Path) -> Result<(), Failure> {
    refuse_url(path, "ls")?;
    if is_database(path) { Ok(()) } else { Err(no_database(path)) }
}

fn no_database(path: &Path) -> Failure {
    let shown = path.display();
    let what = if path.is_file() {
        "it is a file; a database is a folder"
    } else if path.is_dir() {
        "the folder has no file CURRENT"
    } else {
        "there is no such folder"
    };
    let failure = Failure::new(Exit::Absent, "E-NO-DATABASE", format!("no database at {shown}"))
        .detail(what)
        .step("make one", format!("siltstone put {shown} KEY VALUE"))
        .step("from a file", format!("siltstone load {shown} FILE.json"));
    if has_tables(path) {
        return failure
            .detail("but it holds tables")
            .step("save what they hold", format!("siltstone repair {shown}"));
    }
    failure
}

fn has_tables(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else { return false };
    entries.flatten().any(|entry| {
        PathBuf::from(entry.file_name())
            .extension()
            .is_some_and(|ending| ending == "ldb" || ending == "sst")
    })
}

/// An engine error from opening or using `path`, with its next steps.
pub(crate) fn explain(error: siltstone::Error, path: &Path) -> Failure {
    Failure::engine(&error, Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::ByteFormat;

    fn context() -> Context {
        Context { asked: None, key: ByteFormat::Auto, value: ByteFormat::Auto, quiet: true }
    }

    #[test]
    fn options_are_held_to_leveldbs_ranges() {
        let tuning = Tuning {
            bloom_bits: Some(0),
            compression: Some(Codec::None),
            write_buffer_size: Some(512),
            block_size: Some(512),
            max_file_size: None,
            compaction: None,
            unclamped: false,
        };
        let options = tuning.options(false, &context()).unwrap();
        assert_eq!(options.write_buffer_size, 64 << 10);
        assert_eq!(options.block_size, 1 << 10);
        assert_eq!(options.compression, Compression::None);
        assert!(options.filter_policy.is_none());
        assert!(Tuning::default().options(false, &context()).unwrap().filter_policy.is_some());
    }
}
