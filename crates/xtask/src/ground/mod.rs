//! All campaigns of the ground one after another, and one table of their figures: once with fixed seeds
//! (`cargo xtask ground`, which CI runs), or round after round with new ones (`cargo xtask soak`).

mod campaigns;
mod table;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use campaigns::{CAMPAIGNS, Campaign};
use table::Table;

/// So many lines of what a failed campaign said are said again at the end.
const LINES_REPEATED: usize = 60;

/// A campaign that failed, and the last lines it printed.
struct Failure {
    name: &'static str,
    said: VecDeque<String>,
}

/// Every campaign once, or those named. False if one failed.
pub(crate) fn run_once(only: &[&str]) -> bool {
    let mut table = Table::default();
    let chosen = CAMPAIGNS.iter().filter(|campaign| is_chosen(campaign, only));
    let failures: Vec<_> =
        chosen.filter_map(|campaign| run(campaign, campaign.ci, 0, &mut table).err()).collect();
    finish(&table, &failures)
}

/// Round after round until the time is over; a round that has begun is ended.
pub(crate) fn soak(time: Duration, only: &[&str]) -> bool {
    let started = Instant::now();
    let mut table = Table::default();
    let mut failures = Vec::new();
    for round in 1.. {
        for campaign in CAMPAIGNS.iter().filter(|campaign| is_chosen(campaign, only)) {
            failures.extend(run(campaign, campaign.soak, round, &mut table).err());
        }
        println!("{round} rounds after {} s", started.elapsed().as_secs());
        if started.elapsed() >= time {
            break;
        }
    }
    finish(&table, &failures)
}

fn is_chosen(campaign: &Campaign, only: &[&str]) -> bool {
    only.is_empty() || only.contains(&campaign.name)
}

fn finish(table: &Table, failures: &[Failure]) -> bool {
    println!("\n{table}");
    for Failure { name, said } in failures {
        println!("FAILED: {name}, which ended with:");
        for line in said {
            println!("  {line}");
        }
    }
    failures.is_empty()
}

/// Runs a campaign, passes on what it prints, and keeps its figures.
fn run(campaign: &Campaign, size: &str, round: u64, table: &mut Table) -> Result<(), Failure> {
    let seed = campaign.seeds_per_round * round + 1;
    let line = format!("{} {size}", campaign.command).replace("{seed}", &seed.to_string());
    println!("\n== {}: cargo {line}", campaign.name);
    let mut failure = Failure { name: campaign.name, said: VecDeque::from([line.clone()]) };
    let started = Instant::now();
    // Panics and what does not compile are told on standard error, and belong to what was said.
    let mut command = Command::new("sh");
    command.args(["-c", "exec cargo \"$@\" 2>&1", "sh"]).args(line.split_whitespace());
    let child = command.stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        eprintln!("{} could not be started", campaign.name);
        return Err(failure);
    };
    let output = child.stdout.take().map(BufReader::new);
    for line in output.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
        println!("{line}");
        table.take(&line);
        failure.hear(line);
    }
    let passed = child.wait().is_ok_and(|status| status.success());
    table.add_seconds(campaign.name, started.elapsed().as_secs());
    if passed { Ok(()) } else { Err(failure) }
}

impl Failure {
    /// Figures that are as they should be are in the table.
    fn hear(&mut self, line: String) {
        if line.starts_with("FIGURE") && !line.ends_with("MISSED") {
            return;
        }
        if self.said.len() == LINES_REPEATED {
            self.said.pop_front();
        }
        self.said.push_back(line);
    }
}
