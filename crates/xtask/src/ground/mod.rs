//! All campaigns of the ground one after another, and one table of their figures: once with fixed seeds
//! (`cargo xtask ground`, which CI runs), or round after round with new ones (`cargo xtask soak`).

mod campaigns;
mod table;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use campaigns::{CAMPAIGNS, Campaign};
use table::Table;

/// Every campaign once, or those named. False if one failed.
pub(crate) fn run_once(only: &[&str]) -> bool {
    let mut table = Table::default();
    let chosen = CAMPAIGNS.iter().filter(|campaign| is_chosen(campaign, only));
    let failed: Vec<_> =
        chosen.filter(|campaign| !run(campaign, campaign.ci, 0, &mut table)).collect();
    finish(&table, &failed)
}

/// Round after round until the time is over; a round that has begun is ended.
pub(crate) fn soak(time: Duration, only: &[&str]) -> bool {
    let started = Instant::now();
    let mut table = Table::default();
    let mut failed = Vec::new();
    for round in 1.. {
        for campaign in CAMPAIGNS.iter().filter(|campaign| is_chosen(campaign, only)) {
            if !run(campaign, campaign.soak, round, &mut table) {
                failed.push(campaign);
            }
        }
        println!("{round} rounds after {} s", started.elapsed().as_secs());
        if started.elapsed() >= time {
            break;
        }
    }
    finish(&table, &failed)
}

fn is_chosen(campaign: &Campaign, only: &[&str]) -> bool {
    only.is_empty() || only.contains(&campaign.name)
}

fn finish(table: &Table, failed: &[&Campaign]) -> bool {
    println!("\n{table}");
    for campaign in failed {
        println!("FAILED: {} (what it printed above says how to repeat it)", campaign.name);
    }
    failed.is_empty()
}

/// Runs a campaign, passes on what it prints, and keeps its figures.
fn run(campaign: &Campaign, size: &str, round: u64, table: &mut Table) -> bool {
    let seed = campaign.seeds_per_round * round + 1;
    let line = format!("{} {size}", campaign.command).replace("{seed}", &seed.to_string());
    println!("\n== {}: cargo {line}", campaign.name);
    let started = Instant::now();
    let child = Command::new("cargo").args(line.split_whitespace()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        eprintln!("{} could not be started", campaign.name);
        return false;
    };
    let output = child.stdout.take().map(BufReader::new);
    for line in output.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
        println!("{line}");
        table.take(&line);
    }
    let passed = child.wait().is_ok_and(|status| status.success());
    table.add_seconds(campaign.name, started.elapsed().as_secs());
    passed
}
