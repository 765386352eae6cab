//! `gen`: files of made-up pairs, the same for the same seed, written as they are made.
//!
//! Invariant G1: fresh keys never repeat, whatever their number, and nothing is remembered: key
//! number `n` is a one-to-one scramble of `n`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};

use crate::errors::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::{Cell, Context};
use crate::sizes::{parse_count, parse_size, show_count, show_duration};

/// What values are made of: no letter needs quoting in any format.
const LETTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

/// Generate files of pairs for trying out and measuring
#[derive(Args, Debug)]
pub(crate) struct GenArgs {
    format: GenFormat,
    /// Files to write; the pairs are split evenly among them
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Pairs in all files together
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1k")]
    pairs: u64,
    /// Bytes of a key: hex digits
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "16")]
    key_bytes: u64,
    /// Bytes of a value; it compresses to about half, as db_bench's do
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "100")]
    value_bytes: u64,
    /// Share of the pairs after the first file whose key was in an earlier file, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0")]
    duplicates: f64,
    /// The same seed makes the same files
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
}

/// How generated files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GenFormat {
    /// One object {"key": "value", ..}
    Json,
    /// {"key": .., "value": ..} a line
    Jsonl,
    /// key,value with a header
    Csv,
}

pub(crate) fn run(args: &GenArgs, context: &Context) -> Outcome {
    interrupt::listen();
    let mut source = Source::new(args)?;
    let start = Instant::now();
    let files = args.files.len() as u64;
    for (at, file) in args.files.iter().enumerate() {
        // The first files take what does not divide evenly.
        let share = args.pairs / files + u64::from((at as u64) < args.pairs % files);
        source.begin_file();
        write_file(file, args.format, &mut source, share)
            .map_err(|error| Failure::file("write", file, &error))?;
        if interrupt::asked() {
            return Err(Failure::new(Exit::Interrupted, "E-INTERRUPTED", "stopped by a signal")
                .detail(format!("{} is not complete", file.display())));
        }
    }
    let repeated = args.pairs - source.fresh;
    context.done(
        vec![
            ("files", Cell::Count(files)),
            ("pairs", Cell::Count(args.pairs)),
            ("duplicates", Cell::Count(repeated)),
            ("seed", Cell::Count(args.seed)),
        ],
        format!(
            "wrote {} pairs, {} of them duplicates, in {}",
            show_count(args.pairs),
            show_count(repeated),
            show_duration(start.elapsed())
        ),
    )?;
    Ok(Exit::Ok)
}

fn write_file(
    path: &Path,
    format: GenFormat,
    source: &mut Source,
    pairs: u64,
) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(256 << 10, File::create(path)?);
    if format == GenFormat::Csv {
        writeln!(out, "key,value")?;
    }
    for number in 0..pairs {
        if interrupt::asked() {
            break;
        }
        let key = source.next_key();
        let value = source.value();
        match format {
            GenFormat::Json => {
                let lead = if number == 0 { "{\n" } else { ",\n" };
                write!(out, "{lead}\"{key}\": \"{value}\"")?;
            }
            GenFormat::Jsonl => writeln!(out, "{{\"key\":\"{key}\",\"value\":\"{value}\"}}")?,
            GenFormat::Csv => writeln!(out, "{key},{value}")?,
        }
    }
    if format == GenFormat::Json {
        write!(out, "{}", if pairs == 0 { "{}\n" } else { "\n}\n" })?;
    }
    out.flush()
}

/// Makes keys and values.
struct Source {
    key_digits: usize,
    value_bytes: usize,
    duplicates: f64,
    seed: u64,
    random: Random,
    /// Fresh keys made so far, and at the start of this file.
    fresh: u64,
    fresh_before_file: u64,
    /// Pairs made in this file, and the duplicates among them.
    in_file: u64,
    repeated_in_file: u64,
}

impl Source {
    fn new(args: &GenArgs) -> Result<Source, Failure> {
        let digits = usize::try_from(args.key_bytes).unwrap_or(usize::MAX);
        if !(1..=1 << 16).contains(&digits) {
            return Err(Failure::usage("--key-bytes is from 1 to 64KiB"));
        }
        if args.value_bytes > 1 << 30 {
            return Err(Failure::usage("--value-bytes is at most 1GiB"));
        }
        if !(0.0..=1.0).contains(&args.duplicates) {
            return Err(Failure::usage("--duplicates is a share from 0 to 1"));
        }
        if digits < 16 && args.pairs > 1 << (4 * digits) {
            return Err(Failure::usage(format!(
                "{digits} hex digits make only {} keys",
                show_count(1 << (4 * digits))
            )));
        }
        Ok(Source {
            key_digits: digits,
            value_bytes: args.value_bytes as usize,
            duplicates: args.duplicates,
            seed: args.seed,
            random: Random(args.seed),
            fresh: 0,
            fresh_before_file: 0,
            in_file: 0,
            repeated_in_file: 0,
        })
    }

    fn begin_file(&mut self) {
        self.fresh_before_file = self.fresh;
        self.in_file = 0;
        self.repeated_in_file = 0;
    }

    fn next_key(&mut self) -> String {
        self.in_file += 1;
        // Spread evenly, so that the share is exact and not only likely.
        let due = (self.in_file as f64 * self.duplicates) as u64;
        if self.fresh_before_file > 0 && due > self.repeated_in_file {
            self.repeated_in_file += 1;
            let number = self.random.next() % self.fresh_before_file;
            return self.key(number);
        }
        self.fresh += 1;
        self.key(self.fresh - 1)
    }

    /// Key number `number`. The first 16 digits already tell all keys apart.
    fn key(&self, number: u64) -> String {
        let bits = 4 * self.key_digits.min(16) as u32;
        let head = scramble(number, self.seed, bits);
        let mut key = format!("{head:0width$x}", width = self.key_digits.min(16));
        let mut tail = Random(head);
        while key.len() < self.key_digits {
            let digits = format!("{:016x}", tail.next());
            let missing = self.key_digits - key.len();
            key.push_str(&digits[..missing.min(16)]);
        }
        key
    }

    /// Half of it random, then the same again.
    fn value(&mut self) -> String {
        let half = self.value_bytes.div_ceil(2);
        let mut value = String::with_capacity(half * 2);
        while value.len() < half {
            let mut bits = self.random.next();
            for _ in 0..10.min(half - value.len()) {
                value.push(char::from(LETTERS[(bits & 63) as usize]));
                bits >>= 6;
            }
        }
        value.extend_from_within(..);
        value.truncate(self.value_bytes);
        value
    }
}

/// A one-to-one map of the numbers below 2^bits: odd multipliers and shifted xors both are.
fn scramble(number: u64, seed: u64, bits: u32) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let shift = bits.div_ceil(2);
    let mut mixed = number.wrapping_add(Random(seed).next()) & mask;
    for factor in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb, 0x9e37_79b9_7f4a_7c15] {
        mixed = mixed.wrapping_mul(factor) & mask;
        mixed ^= mixed >> shift;
    }
    mixed
}

/// SplitMix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn args(pairs: u64, key_bytes: u64, duplicates: f64) -> GenArgs {
        GenArgs {
            format: GenFormat::Json,
            files: vec!["a".into(), "b".into()],
            pairs,
            key_bytes,
            value_bytes: 33,
            duplicates,
            seed: 7,
        }
    }

    #[test]
    fn fresh_keys_use_up_the_whole_space_without_repeating() {
        let source = Source::new(&args(256, 2, 0.0)).unwrap();
        let keys: HashSet<String> = (0..256).map(|number| source.key(number)).collect();
        assert_eq!(keys.len(), 256);
        assert!(keys.iter().all(|key| key.len() == 2));
        assert!(Source::new(&args(257, 2, 0.0)).is_err());
    }

    #[test]
    fn the_second_file_repeats_its_share_of_the_first() {
        let mut source = Source::new(&args(2000, 20, 0.1)).unwrap();
        source.begin_file();
        let first: HashSet<String> = (0..1000).map(|_| source.next_key()).collect();
        assert_eq!(first.len(), 1000);
        source.begin_file();
        let repeated = (0..1000).filter(|_| first.contains(&source.next_key())).count();
        assert_eq!(repeated, 100);
        assert_eq!(source.fresh, 1900);
    }

    #[test]
    fn values_have_their_length_and_need_no_quoting() {
        let mut source = Source::new(&args(1, 16, 0.0)).unwrap();
        let value = source.value();
        assert_eq!(value.len(), 33);
        assert!(value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    }

    #[test]
    fn wild_arguments_are_refused() {
        for (key_bytes, duplicates) in [(0, 0.0), (1 << 20, 0.0), (16, 1.5), (16, f64::NAN)] {
            assert!(Source::new(&args(1, key_bytes, duplicates)).is_err());
        }
    }
}
