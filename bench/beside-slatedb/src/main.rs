//! siltstone in a bucket beside SlateDB: the same entries, in the same order, on the same store, which is as slow as the same
//! seed draws it. Prints who is ahead in what, and what each loses with its machine.
#![forbid(unsafe_code)]

mod load;
mod measure;
mod ours;
mod request;
mod side;
mod tally;
mod theirs;
mod verdict;

use std::process::ExitCode;

use serde_json::json;
use siltstone_cloud_lab::Plan;

use measure::{Fact, measure};
use request::{Request, USAGE};
use side::{Contestant, Result};
use verdict::{Pair, Row, as_json, losses, middle, table};

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let request = match Request::parse(std::env::args().skip(1)) {
        Ok(request) => request,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&request) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(request: &Request) -> Result<String> {
    let Request { plan, puts, json } = request;
    let mut runs: Vec<Vec<Vec<Fact>>> = vec![Vec::new(); Contestant::ALL.len()];
    for run in 0..plan.runs {
        // All in each round, so that what the machine does beside meets everybody.
        for (contestant, runs) in Contestant::ALL.into_iter().zip(&mut runs) {
            eprintln!("{}, run {} of {}", contestant.name(), run + 1, plan.runs);
            let plan = Plan { seed: plan.seed + run, ..plan.clone() };
            runs.push(measure(contestant, &plan, *puts)?);
        }
    }
    let facts: Vec<_> = runs.iter().map(|runs| middle(runs)).collect();
    let of = |who: Contestant| {
        let found = Contestant::ALL.iter().zip(&facts).find(|(one, _)| **one == who);
        found.map_or(&[][..], |(_, facts)| facts.as_slice())
    };
    let pairs = Pair::ALL.map(|pair| {
        let rows = Row::of(of(pair.ours), of(pair.theirs));
        (pair, rows)
    });
    if *json {
        let pairs: Vec<_> = pairs.iter().map(|(pair, rows)| as_json(pair, rows)).collect();
        let plan = json!({
            "profile": plan.profile.name, "records": plan.records, "value_bytes": plan.value_bytes,
            "puts": puts, "runs": plan.runs, "seed": plan.seed,
        });
        return Ok(json!({ "plan": plan, "pairs": pairs }).to_string());
    }
    let tables: Vec<_> = pairs.iter().map(|(pair, rows)| table(pair, rows)).collect();
    Ok(format!("{}\n{}", tables.join("\n"), losses()))
}
