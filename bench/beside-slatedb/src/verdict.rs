//! Who is ahead, row by row, and how that is told: as a table, or as JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use siltstone_cloud_lab::{Unit, median};

use crate::measure::{Better, Fact};
use crate::side::Contestant;

/// Within so much of one both are even.
const EVEN: f64 = 0.05;

/// A contestant's facts of several runs as one: the middle one of each.
pub(crate) fn middle(runs: &[Vec<Fact>]) -> Vec<Fact> {
    let Some(first) = runs.first() else { return Vec::new() };
    let middle = |(at, fact): (usize, &Fact)| {
        let values = runs.iter().filter_map(|run| run.get(at)).map(|fact| fact.value);
        Fact { value: median(values.collect()), ..fact.clone() }
    };
    first.iter().enumerate().map(middle).collect()
}

/// One of ours beside one of SlateDB's.
pub(crate) struct Pair {
    pub(crate) ours: Contestant,
    pub(crate) theirs: Contestant,
}

impl Pair {
    pub(crate) const ALL: [Pair; 4] = [
        Pair { ours: Contestant::Tiered, theirs: Contestant::Slate },
        Pair { ours: Contestant::Mirror, theirs: Contestant::Slate },
        Pair { ours: Contestant::Remote, theirs: Contestant::Slate },
        Pair { ours: Contestant::Remote, theirs: Contestant::SlateAtOnce },
    ];

    /// Both promise the same of what they acknowledge.
    pub(crate) fn is_alike(&self) -> bool {
        self.ours == Contestant::Remote
    }

    fn heading(&self) -> String {
        let (ours, theirs) = (self.ours.name(), self.theirs.name());
        if self.is_alike() {
            return format!("{ours} beside {theirs}: both promise the same of a durable put");
        }
        format!(
            "{ours} beside {theirs}: NOT the same promise, a lost machine takes durable puts of ours with it"
        )
    }
}

/// What both have.
pub(crate) struct Row {
    what: &'static str,
    unit: Unit,
    ours: f64,
    theirs: f64,
    better: Better,
}

impl Row {
    /// Rows of what was measured of both.
    pub(crate) fn of(ours: &[Fact], theirs: &[Fact]) -> Vec<Row> {
        let row = |fact: &Fact| {
            let other = theirs.iter().find(|other| other.what == fact.what)?;
            let Fact { what, unit, better, value } = *fact;
            Some(Row { what, unit, ours: value, theirs: other.value, better })
        };
        ours.iter().filter_map(row).collect()
    }

    /// Ours to theirs; none if theirs is nothing.
    fn ratio(&self) -> Option<f64> {
        (self.theirs > 0.0).then(|| self.ours / self.theirs)
    }

    fn ahead(&self) -> &'static str {
        let (low, high) = (self.ours.min(self.theirs), self.ours.max(self.theirs));
        if high <= low * (1.0 + EVEN) {
            return "even";
        }
        let ours_is_lower = self.ours < self.theirs;
        if ours_is_lower == (self.better == Better::Lower) { "siltstone" } else { "SlateDB" }
    }
}

/// Markdown, which is a table on a terminal too.
pub(crate) fn table(pair: &Pair, rows: &[Row]) -> String {
    let mut text = format!("## {}\n\n", pair.heading());
    let columns = ["", "unit", pair.ours.name(), pair.theirs.name(), "ratio", "ahead"];
    let mut lines = vec![columns.map(str::to_owned)];
    lines.push(["---", "---", "---:", "---:", "---:", "---"].map(str::to_owned));
    lines.extend(rows.iter().map(|row| {
        let ratio = row.ratio().map_or_else(String::new, number);
        let (ours, theirs) = (number(row.ours), number(row.theirs));
        let (what, unit) = (row.what.to_owned(), row.unit.name().to_owned());
        [what, unit, ours, theirs, ratio, row.ahead().to_owned()]
    }));
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    for line in &lines {
        for (cell, width) in line.iter().zip(widths) {
            // Writing to a string does not fail.
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
    }
    text
}

/// What each loses with its machine.
pub(crate) fn losses() -> String {
    let mut text = "## Lost with the machine\n\n".to_owned();
    for contestant in Contestant::ALL {
        let _ = writeln!(text, "- {}: {}.", contestant.name(), contestant.loses());
    }
    text
}

/// The same for programs.
pub(crate) fn as_json(pair: &Pair, rows: &[Row]) -> Value {
    let rows = rows.iter().map(|row| {
        json!({
            "what": row.what, "unit": row.unit.name(), "ours": row.ours, "theirs": row.theirs,
            "ratio": row.ratio(), "ahead": row.ahead(),
        })
    });
    json!({
        "ours": pair.ours.name(), "theirs": pair.theirs.name(), "alike": pair.is_alike(),
        "ours_loses": pair.ours.loses(), "theirs_loses": pair.theirs.loses(),
        "rows": rows.collect::<Vec<_>>(),
    })
}

/// Three digits or more.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.001 => 4,
        _ => 7,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(value: f64, better: Better) -> Fact {
        Fact { what: "a", value, unit: Unit::Count, better }
    }

    fn row(ours: f64, theirs: f64, better: Better) -> Row {
        Row::of(&[fact(ours, better)], &[fact(theirs, better)]).remove(0)
    }

    #[test]
    fn who_is_ahead_depends_on_what_is_better() {
        for (ours, theirs, better, ahead) in [
            (1.0, 2.0, Better::Lower, "siltstone"),
            (1.0, 2.0, Better::Higher, "SlateDB"),
            (2.0, 1.0, Better::Lower, "SlateDB"),
            (2.0, 1.0, Better::Higher, "siltstone"),
            (1.04, 1.0, Better::Lower, "even"),
            (0.0, 0.0, Better::Lower, "even"),
            (0.0, 3.0, Better::Lower, "siltstone"),
            (3.0, 0.0, Better::Lower, "SlateDB"),
        ] {
            assert_eq!(row(ours, theirs, better).ahead(), ahead, "{ours} {theirs} {better:?}");
        }
        assert_eq!(row(3.0, 0.0, Better::Lower).ratio(), None);
        assert_eq!(row(3.0, 2.0, Better::Lower).ratio(), Some(1.5));
    }

    #[test]
    fn what_one_lacks_is_no_row() {
        let other = Fact { what: "b", ..fact(1.0, Better::Lower) };
        assert!(Row::of(&[fact(1.0, Better::Lower)], &[other]).is_empty());
    }

    #[test]
    fn the_middle_run_counts() {
        let runs = [3.0, 1.0, 2.0].map(|value| vec![fact(value, Better::Lower)]);
        assert_eq!(middle(&runs), [fact(2.0, Better::Lower)]);
    }

    #[test]
    fn tables_name_both_and_the_promise() {
        let [tiered, _, remote, _] = &Pair::ALL;
        let rows = [row(1234.5, 0.25, Better::Lower)];
        assert!(table(tiered, &rows).contains("NOT the same promise"));
        let text = table(remote, &rows);
        assert!(text.contains("the same of a durable put"));
        assert!(text.lines().any(|line| line.contains("1234") && line.contains("0.2500")));
        assert_eq!(as_json(remote, &rows)["rows"][0]["ahead"], "SlateDB");
    }
}
