//! Runs targets under libFuzzer, some at a time, and prints what they reached as figures.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use super::build::{Places, Target};
use super::{Limit, Request};

/// No single allocation may be larger. Only AddressSanitizer lets libFuzzer see them.
const ALLOCATION_MIB_MAX: u32 = 256;
const MEMORY_MIB_MAX: u32 = 2048;
const SECONDS_PER_INPUT_MAX: u32 = 10;

/// True if no target crashed.
pub(super) fn run_all(
    request: &Request,
    places: &Places,
    program: &Path,
    targets: &[Target],
) -> Result<bool, String> {
    let asan = if request.asan { "with" } else { "without" };
    println!("fuzzing {} targets {asan} AddressSanitizer, seed {}", targets.len(), request.seed);
    let waiting: Mutex<VecDeque<&Target>> = Mutex::new(targets.iter().collect());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..request.jobs {
            scope.spawn(|| {
                while let Some(target) = next(&waiting) {
                    let outcome = run_one(request, places, program, target);
                    done.lock().expect("no worker panics").push(outcome);
                }
            });
        }
    });
    let outcomes = done.into_inner().expect("no worker panics");
    outcomes.into_iter().try_fold(true, |all_well, well| Ok(all_well & well?))
}

fn next<'a>(waiting: &Mutex<VecDeque<&'a Target>>) -> Option<&'a Target> {
    waiting.lock().expect("no worker panics").pop_front()
}

/// True if the target came through.
fn run_one(
    request: &Request,
    places: &Places,
    program: &Path,
    target: &Target,
) -> Result<bool, String> {
    let name = &target.name;
    let grown = places.grown(name);
    let crashes = places.out.join("crashes");
    let log = places.out.join("logs").join(format!("{name}.txt"));
    for folder in [&grown, &crashes, &places.out.join("logs")] {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    let output = File::create(&log).map_err(|error| error.to_string())?;
    let limit = match request.limit {
        Limit::Seconds(seconds) => format!("-max_total_time={seconds}"),
        Limit::Runs(runs) => format!("-runs={runs}"),
    };
    let mut command = libfuzzer(program, target);
    command
        .arg(&grown)
        .arg(places.kept(name))
        .args([limit, format!("-seed={}", request.seed)])
        .arg(format!("-malloc_limit_mb={ALLOCATION_MIB_MAX}"))
        .arg("-print_final_stats=1")
        .arg(format!("-artifact_prefix={}/{name}-", crashes.display()))
        .stderr(output);
    let begun = Instant::now();
    let status = command.status().map_err(|error| format!("{}: {error}", program.display()))?;
    let text = fs::read_to_string(&log).unwrap_or_default();
    let reached = Reached::read(&text);
    let goal = match request.limit {
        Limit::Seconds(_) => String::new(),
        Limit::Runs(runs) => format!(">= {runs}"),
    };
    print!("{}", figures(name, &reached, (&goal, status.success()), begun.elapsed().as_secs()));
    if !status.success() {
        tell_crash(target, &text, &log);
    }
    Ok(status.success())
}

/// The program with what every run of it is given.
pub(super) fn libfuzzer(program: &Path, target: &Target) -> Command {
    let mut command = Command::new(program);
    command
        .env("SILTSTONE_FUZZ_TARGET", &target.name)
        .arg(format!("-max_len={}", target.len_max))
        .arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"))
        .arg(format!("-timeout={SECONDS_PER_INPUT_MAX}"))
        // Weighing inputs by rare features costs more than running them.
        .arg("-entropic=0");
    command
}

fn tell_crash(target: &Target, text: &str, log: &Path) {
    println!("{} crashed; what it said is in {}", target.name, log.display());
    let written = "Test unit written to ";
    let file = text.lines().find_map(|line| line.split_once(written)).map(|(_, file)| file);
    match file {
        Some(file) => println!("replay: cargo xtask fuzz {} --replay {file}", target.name),
        None => println!("no input was written: the program itself failed"),
    }
}

/// What a run of libFuzzer says of itself.
#[derive(Debug, Default, PartialEq)]
struct Reached {
    executions: u64,
    coverage: u64,
    peak_mib: u64,
}

impl Reached {
    fn read(text: &str) -> Self {
        let mut reached = Reached::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("stat::number_of_executed_units:") => {
                    reached.executions = number(words.next())
                }
                Some("stat::peak_rss_mb:") => reached.peak_mib = number(words.next()),
                Some(count) if count.starts_with('#') => {
                    // Of a run that crashes, this is all there is.
                    reached.executions = reached.executions.max(number(Some(&count[1..])));
                    let coverage = words.skip_while(|word| *word != "cov:").nth(1);
                    reached.coverage = reached.coverage.max(number(coverage));
                }
                _ => {}
            }
        }
        reached
    }
}

fn number(word: Option<&str>) -> u64 {
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The lines that `crates/sim/src/report.rs` describes.
fn figures(name: &str, reached: &Reached, (goal, well): (&str, bool), seconds: u64) -> String {
    let line = |what: &str, value: u64, goal: &str, met: bool| {
        let verdict = if met { "ok" } else { "MISSED" };
        format!("FIGURE\tfuzz\t{name} {what}\t{value}\t{goal}\t{verdict}\n")
    };
    let Reached { executions, coverage, peak_mib } = *reached;
    let least = number(goal.strip_prefix(">= "));
    [
        line("executions", executions, goal, executions >= least),
        line("executions per second", executions / seconds.max(1), "", true),
        line("coverage", coverage, "", true),
        line("peak MiB", peak_mib, "", true),
        line("seconds", seconds, "", true),
        line("crashes", u64::from(!well), "<= 0", well),
    ]
    .concat()
}

/// Runs one input, with everything it says on the terminal. True if it comes through.
pub(super) fn replay(program: &Path, target: &Target, file: &Path) -> Result<bool, String> {
    let status = libfuzzer(program, target).arg(file).status();
    status.map(|status| status.success()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINISHED: &str = "INFO: Seed: 1\n#2\tINITED cov: 30 ft: 31 corp: 1/1b\n\
        #4096\tpulse  cov: 77 ft: 120 corp: 9/30b\nDone 5000 runs in 2 second(s)\n\
        stat::number_of_executed_units: 5000\nstat::peak_rss_mb:              41\n";

    #[test]
    fn figures_are_read_from_what_libfuzzer_says() {
        let reached = Reached::read(FINISHED);
        assert_eq!(reached, Reached { executions: 5000, coverage: 77, peak_mib: 41 });
        let text = figures("table", &reached, (">= 5001", true), 2);
        assert!(text.contains("FIGURE\tfuzz\ttable executions\t5000\t>= 5001\tMISSED\n"), "{text}");
        assert!(text.contains("FIGURE\tfuzz\ttable executions per second\t2500\t\tok\n"), "{text}");
        assert!(text.ends_with("FIGURE\tfuzz\ttable crashes\t0\t<= 0\tok\n"), "{text}");
    }

    #[test]
    fn a_crash_misses_its_goal() {
        let crashed = Reached::read("#128\tNEW    cov: 40 ft: 50\n==7== ERROR: libFuzzer\n");
        assert_eq!(crashed, Reached { executions: 128, coverage: 40, peak_mib: 0 });
        let text = figures("wal", &crashed, ("", false), 0);
        assert!(text.ends_with("FIGURE\tfuzz\twal crashes\t1\t<= 0\tMISSED\n"), "{text}");
    }
}
