//! The figures that campaigns print, summed over rounds.

use std::fmt;

/// A line for each figure, in the order in which they were first seen.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

struct Row {
    campaign: String,
    name: String,
    value: u64,
    goal: String,
    missed: bool,
}

impl Table {
    /// Takes a figure from a campaign's line; other lines are none of its business.
    pub(crate) fn take(&mut self, line: &str) {
        let parts: Vec<_> = line.split('\t').collect();
        if let ["FIGURE", campaign, name, value, goal, verdict] = parts.as_slice()
            && let Ok(value) = value.parse()
        {
            self.add(campaign, name, value, goal, *verdict == "MISSED");
        }
    }

    pub(crate) fn add_seconds(&mut self, campaign: &str, seconds: u64) {
        self.add(campaign, "seconds", seconds, "", false);
    }

    fn add(&mut self, campaign: &str, name: &str, value: u64, goal: &str, missed: bool) {
        let same = |row: &&mut Row| row.campaign == campaign && row.name == name;
        match self.rows.iter_mut().find(same) {
            Some(row) => {
                row.value += value;
                row.missed |= missed;
            }
            None => self.rows.push(Row {
                campaign: campaign.to_owned(),
                name: name.to_owned(),
                value,
                goal: goal.to_owned(),
                missed,
            }),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| campaign | figure | value | goal of a round | |")?;
        writeln!(f, "| --- | --- | ---: | --- | --- |")?;
        for Row { campaign, name, value, goal, missed } in &self.rows {
            let verdict = if *missed { "MISSED" } else { "" };
            writeln!(f, "| {campaign} | {name} | {value} | {goal} | {verdict} |")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_add_up_and_a_miss_stays() {
        let mut table = Table::default();
        table.take("FIGURE\tcrash\timages\t10\t>= 5\tok");
        table.take("an ordinary line");
        table.take("FIGURE\tcrash\timages\t3\t>= 5\tMISSED");
        table.take("FIGURE\tcrash\timages\t7\t>= 5\tok");
        assert!(table.to_string().ends_with("| crash | images | 20 | >= 5 | MISSED |\n"));
    }
}
