//! What a campaign found, in figures with their goals: one table for people, one line per figure for
//! the program that sums up several campaigns.

use std::fmt::Write as _;

/// The figures of one campaign.
pub struct Report {
    campaign: String,
    figures: Vec<Figure>,
}

struct Figure {
    name: String,
    value: u64,
    goal: Goal,
}

/// What a figure must be for the campaign to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Only told.
    None,
    /// So much or more.
    AtLeast(u64),
    /// So much or less: zero of what must never happen.
    AtMost(u64),
}

impl Goal {
    fn met_by(self, value: u64) -> bool {
        match self {
            Goal::None => true,
            Goal::AtLeast(least) => value >= least,
            Goal::AtMost(most) => value <= most,
        }
    }

    fn text(self) -> String {
        match self {
            Goal::None => String::new(),
            Goal::AtLeast(least) => format!(">= {least}"),
            Goal::AtMost(most) => format!("<= {most}"),
        }
    }
}

impl Report {
    /// An empty report of `campaign`, one word such as `crash`.
    pub fn new(campaign: &str) -> Self {
        Report { campaign: campaign.to_owned(), figures: Vec::new() }
    }

    /// Adds a figure. `name` has no tabs.
    pub fn figure(&mut self, name: &str, value: u64, goal: Goal) -> &mut Self {
        self.figures.push(Figure { name: name.to_owned(), value, goal });
        self
    }

    /// The value of a figure; 0 if there is none of that name.
    pub fn value(&self, name: &str) -> u64 {
        self.figures.iter().find(|figure| figure.name == name).map_or(0, |figure| figure.value)
    }

    /// True if every goal was met.
    pub fn passed(&self) -> bool {
        self.figures.iter().all(|figure| figure.goal.met_by(figure.value))
    }

    /// One line for each figure: `FIGURE`, campaign, name, value, goal, `ok` or `MISSED`, between tabs.
    pub fn lines(&self) -> String {
        let mut text = String::new();
        for Figure { name, value, goal } in &self.figures {
            let verdict = if goal.met_by(*value) { "ok" } else { "MISSED" };
            let goal = goal.text();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "FIGURE\t{}\t{name}\t{value}\t{goal}\t{verdict}", self.campaign);
        }
        text
    }

    /// Prints the figures and turns the verdict into an exit code.
    pub fn print(&self) -> std::process::ExitCode {
        print!("{}", self.lines());
        if self.passed() {
            std::process::ExitCode::SUCCESS
        } else {
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_goal_fails_the_report() {
        let mut report = Report::new("crash");
        report.figure("points", 12, Goal::AtLeast(10)).figure("seconds", 3, Goal::None);
        assert!(report.passed());
        report.figure("lost", 1, Goal::AtMost(0));
        assert!(!report.passed());
        assert!(report.lines().ends_with("FIGURE\tcrash\tlost\t1\t<= 0\tMISSED\n"));
    }
}
