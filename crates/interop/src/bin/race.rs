//! Measures siltstone against LevelDB on this machine: random puts into a fresh database, then as
//! many random gets, by turns, each run in a process of its own.
//!
//! ```text
//! cargo run --release -p siltstone-interop --bin race -- [ENTRIES [ROUNDS [FOLDER]]]
//! ```
//!
//! Keys have 16 bytes; values have 100, and compress to about half. Options are LevelDB's defaults:
//! a write buffer of 4 MiB, a cache of 8 MiB, Snappy, no filter, no sync. Every value read is
//! compared with what was written, so a fast wrong answer ends the race. As in LevelDB's own
//! benchmark, compactions that are behind when the puts end go on beside the gets.
//!
//! Two defaults differ, and the race leaves them so: siltstone verifies the checksum of each block it
//! reads, LevelDB does not; LevelDB maps tables into memory, and the peak counts the mapped pages
//! that it touched, siltstone reads them.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs, io};

use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::peer::{Engine, Settings};
use siltstone_interop::rng::Rng;
use siltstone_interop::scratch::Scratch;

const VALUE_BYTES: usize = 100;
/// How many values there are: together about 1 MiB, more than a block holds.
const POOL_VALUES: usize = 10_000;
const ENGINES: [&str; 2] = ["leveldb", "siltstone"];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, default: usize| match arguments.get(at) {
        None => default,
        Some(text) => text.parse().expect("ENTRIES and ROUNDS are numbers"),
    };
    if let [mark, engine, folder, entries, seed] = arguments.as_slice()
        && mark == "--run"
    {
        let parse = |text: &String| text.parse::<u64>().expect("the race passes numbers");
        println!("{}", run(engine, Path::new(folder), parse(entries) as usize, parse(seed)));
        return ExitCode::SUCCESS;
    }
    if LevelDb::load().is_none() {
        eprintln!("libleveldb not found");
        return ExitCode::FAILURE;
    }
    let place = arguments.get(2).map(PathBuf::from);
    race(number(0, 1_000_000), number(1, 5), place.as_deref());
    ExitCode::SUCCESS
}

/// The outcome of one run, printed by the child and parsed by the parent.
#[derive(Clone, Copy, Default)]
struct Outcome {
    puts_per_second: f64,
    gets_per_second: f64,
    peak_mib: f64,
    disk_mib: f64,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outcome { puts_per_second, gets_per_second, peak_mib, disk_mib } = self;
        write!(f, "{puts_per_second} {gets_per_second} {peak_mib} {disk_mib}")
    }
}

/// Runs all rounds and prints each and the medians.
fn race(entries: usize, rounds: usize, place: Option<&Path>) {
    println!("{entries} entries; puts/s and gets/s in thousands; ratio is siltstone to LevelDB");
    println!("round  engine        puts    gets  peak MiB  disk MiB    puts ratio  gets ratio");
    let mut ratios = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        let mut outcomes = [Outcome::default(); 2];
        // Who goes first changes, as does all that drifts while the race runs.
        for turn in 0..2 {
            let engine = (round + turn) % 2;
            outcomes[engine] = child(ENGINES[engine], entries, round as u64, place);
        }
        let [leveldb, siltstone] = outcomes;
        let puts = siltstone.puts_per_second / leveldb.puts_per_second;
        let gets = siltstone.gets_per_second / leveldb.gets_per_second;
        print_row(round, ENGINES[0], leveldb, "");
        print_row(round, ENGINES[1], siltstone, &format!("{puts:>14.2}{gets:>12.2}"));
        ratios[0].push(puts);
        ratios[1].push(gets);
    }
    let [puts, gets] = ratios.map(median);
    println!("median ratio: puts {puts:.2}, gets {gets:.2}");
}

fn print_row(round: usize, engine: &str, outcome: Outcome, ratios: &str) {
    let Outcome { puts_per_second, gets_per_second, peak_mib, disk_mib } = outcome;
    let (puts, gets) = (puts_per_second / 1000.0, gets_per_second / 1000.0);
    println!(
        "{round:>5}  {engine:<10}{puts:>8.0}{gets:>8.0}{peak_mib:>10.0}{disk_mib:>10.0}{ratios}"
    );
}

fn median(mut ratios: Vec<f64>) -> f64 {
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.len() / 2;
    match ratios.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => ratios[middle],
        _ => (ratios[middle - 1] + ratios[middle]) / 2.0,
    }
}

/// One run in a process of its own: its peak of memory is the engine's, and no run warms another's
/// allocator.
fn child(engine: &str, entries: usize, seed: u64, place: Option<&Path>) -> Outcome {
    let scratch = match place {
        Some(place) => Scratch::below(place, "race"),
        None => Scratch::new("race"),
    };
    let mut command = Command::new(env::current_exe().expect("a process knows its program"));
    command.args(["--run", engine]).arg(scratch.path());
    let output = command.arg(entries.to_string()).arg(seed.to_string()).output();
    let output = output.expect("the program runs once more");
    let text = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let &[puts_per_second, gets_per_second, peak_mib, disk_mib] = numbers.as_slice() else {
        panic!("{engine} failed: {told}");
    };
    Outcome { puts_per_second, gets_per_second, peak_mib, disk_mib }
}

/// The run itself.
fn run(engine: &str, folder: &Path, entries: usize, seed: u64) -> Outcome {
    let engine = match engine {
        "siltstone" => Engine::Siltstone,
        _ => Engine::LevelDb(LevelDb::load().expect("the parent has found it")),
    };
    let mut rng = Rng::new(seed);
    let pool = value_pool(&mut rng);
    let value = |number: usize| {
        let start = number % POOL_VALUES * VALUE_BYTES;
        &pool[start..start + VALUE_BYTES]
    };
    let mut order: Vec<u32> = (0..entries as u32).collect();
    let db = engine.open(folder, &Settings::default()).expect("a fresh folder opens");

    rng.shuffle(&mut order);
    let start = Instant::now();
    for &number in &order {
        db.put(&key(number), value(number as usize));
    }
    let puts_per_second = entries as f64 / start.elapsed().as_secs_f64();

    rng.shuffle(&mut order);
    let start = Instant::now();
    for &number in &order {
        let found = db.get(&key(number));
        assert_eq!(found.as_deref(), Some(value(number as usize)), "entry {number}");
    }
    let gets_per_second = entries as f64 / start.elapsed().as_secs_f64();

    db.close();
    let disk_mib = folder_mib(folder).expect("the folder can be listed");
    Outcome { puts_per_second, gets_per_second, peak_mib: peak_mib(), disk_mib }
}

/// The number as 16 digits, as LevelDB's benchmark has it.
fn key(mut number: u32) -> [u8; 16] {
    let mut key = [b'0'; 16];
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    key
}

/// All values in a row. Each is a random half, repeated.
fn value_pool(rng: &mut Rng) -> Vec<u8> {
    (0..POOL_VALUES).flat_map(|_| rng.bytes(VALUE_BYTES / 2).repeat(2)).collect()
}

/// The most memory that this process has had at once, as the kernel counts it.
fn peak_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0)
}

fn folder_mib(folder: &Path) -> io::Result<f64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes as f64 / f64::from(1 << 20))
}
