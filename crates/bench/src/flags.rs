//! The flags, `--name=value`: LevelDB's, with its names and defaults, and those it lacks. Parsed once;
//! everything else reads [`Flags`].

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::keys::PREFIX_BYTES_MAX;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
db_bench for siltstone: LevelDB's benchmarks, flags and report.
usage: db_bench [--name=value]...

LevelDB's flags
  --benchmarks=LIST        names with commas between; by default fillseq, fillsync, fillrandom,
                           overwrite, readrandom twice, readseq, readreverse, compact, readrandom,
                           readseq, readreverse, fill100K, crc32c, and snappy and zstd both ways
  --num=1000000            entries to write, and the range that keys are drawn from
  --reads=-1               reads to do; below 0, as many as --num
  --threads=1              threads doing the same at once
  --value_size=100         bytes of a value        --compression_ratio=0.5  to which they compress
  --key_prefix=0           bytes before the sixteen digits of a key
  --histogram=0            1: print a histogram of the microseconds each operation took
  --comparisons=0          1: count comparisons of keys, and print the count
  --use_existing_db=0      1: keep what is there; benchmarks that want a fresh database are skipped
  --reuse_logs=0           --compression=1         --write_buffer_size=4194304
  --max_file_size=2097152  --block_size=4096       --cache_size=-1 (the default of 8 MiB)
  --bloom_bits=-1 (none)   --open_files=1000       --db=FOLDER (below the temporary folder)

Flags beyond LevelDB's
  --engine=siltstone       leveldb: the installed libleveldb, through its C API; leveldb:LIBRARY:
                           any library with that API

Benchmarks: fillseq fillbatch fillrandom overwrite fillsync fill100K deleteseq deleterandom readseq
  readreverse readrandom readmissing readhot readrandomsmall seekrandom seekordered readwhilewriting
  open crc32c snappycomp snappyuncomp zstdcomp zstduncomp compact stats sstables heapprofile
";

/// LevelDB's default list. The second readrandom lets compactions come to rest.
const BENCHMARKS: &str = "fillseq,fillsync,fillrandom,overwrite,readrandom,readrandom,readseq,\
    readreverse,compact,readrandom,readseq,readreverse,fill100K,crc32c,snappycomp,snappyuncomp,\
    zstdcomp,zstduncomp,";

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

/// Why there are no flags to work with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Help,
    /// A flag that does not exist, or a value that it does not take.
    Invalid(OsString),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Help => f.write_str(HELP),
            // LevelDB's words.
            Refused::Invalid(flag) => writeln!(f, "Invalid flag '{}'", flag.display()),
        }
    }
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
        if name == "db" {
            self.db = PathBuf::from(value);
            return Some(());
        }
        let value = value.to_str()?;
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
            "engine" => self.engine = EngineName::parse(value)?,
            "open_files" => self.open_files = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }

    /// How many reads to do.
    pub(crate) fn reads(&self) -> i32 {
        if self.reads < 0 { self.num } else { self.reads }
    }

    pub(crate) fn threads(&self) -> usize {
        usize::try_from(self.threads).unwrap_or(0).max(1)
    }
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
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Flags, Refused> {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Flags::parse(&arguments)
    }

    #[test]
    fn defaults_are_those_of_leveldb() {
        let flags = parse("").unwrap();
        assert_eq!(flags.benchmarks.split(',').count(), 19, "18 and an empty one behind the comma");
        assert_eq!((flags.num, flags.reads(), flags.threads()), (1_000_000, 1_000_000, 1));
        assert_eq!(flags.write_buffer_size, 4 << 20);
        assert_eq!(flags.max_file_size, 2 << 20);
        assert_eq!((flags.block_size, flags.open_files), (4096, 1000));
        assert_eq!((flags.cache_size, flags.bloom_bits), (-1, -1));
        assert!(flags.compression && !flags.histogram && !flags.use_existing_db);
        assert!(flags.db.ends_with("dbbench"));
    }

    #[test]
    fn every_flag_is_taken() {
        let flags = parse(
            "--benchmarks=a,b --compression_ratio=0.25 --histogram=1 --comparisons=1 \
             --use_existing_db=1 --reuse_logs=1 --compression=0 --num=5 --reads=7 --threads=2 \
             --value_size=10 --write_buffer_size=1 --max_file_size=2 --block_size=3 \
             --key_prefix=4 --cache_size=5 --bloom_bits=6 --open_files=8 --db=/tmp/a=b",
        )
        .unwrap();
        assert_eq!(flags.benchmarks, "a,b");
        assert_eq!(flags.compression_ratio, 0.25);
        assert!(flags.histogram && flags.comparisons && flags.use_existing_db && flags.reuse_logs);
        assert!(!flags.compression);
        assert_eq!((flags.num, flags.reads(), flags.threads(), flags.value_size), (5, 7, 2, 10));
        assert_eq!((flags.write_buffer_size, flags.max_file_size, flags.block_size), (1, 2, 3));
        assert_eq!((flags.key_prefix, flags.cache_size, flags.bloom_bits), (4, 5, 6));
        assert_eq!((flags.open_files, flags.db), (8, PathBuf::from("/tmp/a=b")));
    }

    #[test]
    fn what_leveldb_refuses_is_refused_in_its_words() {
        for line in [
            "num=5",
            "--num",
            "--num=",
            "--num=5x",
            "--histogram=2",
            "--histogram=yes",
            "--unknown=1",
            "-n",
            "--key_prefix=1008",
            "--compression_ratio=half",
            "--engine=rocksdb",
            "--engine=leveldb:",
            "--threads=99999999999",
        ] {
            let refused = parse(line).err();
            assert_eq!(refused, Some(Refused::Invalid(line.into())), "{line}");
            assert_eq!(refused.unwrap().to_string(), format!("Invalid flag '{line}'\n"));
        }
        assert_eq!(parse("--num=5 --help").err(), Some(Refused::Help));
    }

    #[test]
    fn engines_are_named_with_or_without_their_library() {
        let engine = |value: &str| parse(&format!("--engine={value}")).unwrap().engine;
        assert_eq!(engine("siltstone"), EngineName::Siltstone);
        assert_eq!(engine("leveldb"), EngineName::LevelDb(None));
        let library = Some("./libx.so".to_owned());
        assert_eq!(engine("leveldb:./libx.so"), EngineName::LevelDb(library));
    }

    #[test]
    fn help_names_every_benchmark_of_the_default_list() {
        for name in BENCHMARKS.split(',') {
            assert!(HELP.contains(name), "{name}");
        }
    }
}
