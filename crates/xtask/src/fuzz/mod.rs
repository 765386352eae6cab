//! `cargo xtask fuzz`: builds the libFuzzer program and runs targets under it, with the stable
//! toolchain and a C++ compiler. `docs/fuzzing.md` tells how to use it.

mod build;
mod campaign;
mod corpus;

use std::path::PathBuf;

pub(crate) const USAGE: &str = "  \
  fuzz [TARGET...] [--seconds N | --runs N] [--jobs N] [--no-asan] [--seed N]
            run targets (all) under libFuzzer, N seconds each (60), N at a time (1)
  fuzz TARGET --replay FILE
            run one input
  fuzz [TARGET...] --merge
            keep what was found that covers more than the kept corpora
  fuzz --seeds
            write the seeds of all corpora anew";

/// What was asked for.
#[derive(Debug)]
struct Request {
    targets: Vec<String>,
    task: Task,
    limit: Limit,
    jobs: usize,
    seed: u64,
    asan: bool,
}

#[derive(Debug, PartialEq)]
enum Task {
    Run,
    Replay(PathBuf),
    Merge,
    Seeds,
}

/// When the run of a target ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    Seconds(u64),
    Runs(u64),
}

/// True if nothing was found.
pub(crate) fn run(arguments: &[String]) -> Result<bool, String> {
    let request = parse(arguments)?;
    let places = build::Places::find();
    if request.task == Task::Seeds {
        return corpus::write_seeds(&places);
    }
    let targets = build::targets(&places, &request.targets)?;
    let program = build::program(&places, request.asan)?;
    match &request.task {
        Task::Replay(file) => match &targets[..] {
            [target] => campaign::replay(&program, target, file),
            _ => Err("--replay goes with one target".to_owned()),
        },
        Task::Merge => corpus::merge(&places, &program, &targets),
        _ => campaign::run_all(&request, &places, &program, &targets),
    }
}

fn parse(arguments: &[String]) -> Result<Request, String> {
    let mut request = Request {
        targets: Vec::new(),
        task: Task::Run,
        limit: Limit::Seconds(60),
        jobs: 1,
        seed: 1,
        asan: true,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut number = || match rest.next().map(|text| text.parse::<u64>()) {
            Some(Ok(number)) => Ok(number),
            _ => Err(format!("{argument} needs a number")),
        };
        match argument.as_str() {
            "--seconds" => request.limit = Limit::Seconds(number()?),
            "--runs" => request.limit = Limit::Runs(number()?),
            "--jobs" => request.jobs = number()?.clamp(1, 64) as usize,
            "--seed" => request.seed = number()?,
            "--no-asan" => request.asan = false,
            "--merge" => request.task = Task::Merge,
            "--seeds" => request.task = Task::Seeds,
            "--replay" => {
                let file = rest.next().ok_or("--replay needs a file")?;
                request.task = Task::Replay(file.into());
            }
            name if !name.starts_with('-') => request.targets.push(name.to_owned()),
            other => return Err(format!("fuzz knows no {other}")),
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> Result<Request, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments() {
        let asked = request("table wal --runs 7 --jobs 2 --no-asan").unwrap();
        assert_eq!(asked.targets, ["table", "wal"]);
        assert_eq!((asked.limit, asked.jobs, asked.asan), (Limit::Runs(7), 2, false));
        let asked = request("folder --replay some/file").unwrap();
        assert_eq!(asked.task, Task::Replay("some/file".into()));
        for wrong in ["--seconds", "--runs many", "--replay", "--fast"] {
            assert!(request(wrong).is_err(), "{wrong}");
        }
    }
}
