//! Rows of two programs' figures side by side, and how they are printed.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::lines::Line;
use crate::report::spread::Spread;

/// One benchmark in all rounds.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    name: String,
    ours: Vec<f64>,
    theirs: Vec<f64>,
    /// Whether one program found what the other did not: then they did not do the same.
    found_differs: bool,
}

impl Row {
    /// Their time by ours, of each round: above 1, we are faster.
    fn ratios(&self) -> Option<Spread> {
        let pairs = self.ours.iter().zip(&self.theirs);
        Spread::of(pairs.map(|(ours, theirs)| theirs / ours))
    }
}

/// Brings the lines of all rounds together. A round is our lines and theirs; what only one of them has
/// is left out.
pub(super) fn rows(rounds: &[(Vec<Line>, Vec<Line>)]) -> Vec<Row> {
    let Some((first, _)) = rounds.first() else { return Vec::new() };
    let row = |wanted: &Line| {
        let same = |line: &&Line| line.name == wanted.name && line.occurrence == wanted.occurrence;
        let mut row = Row {
            name: wanted.name.clone(),
            ours: Vec::new(),
            theirs: Vec::new(),
            found_differs: false,
        };
        for (ours, theirs) in rounds {
            let (ours, theirs) = (ours.iter().find(same)?, theirs.iter().find(same)?);
            row.ours.push(ours.micros);
            row.theirs.push(theirs.micros);
            let is_count = ours.message.ends_with(" found)");
            row.found_differs |= is_count && ours.message != theirs.message;
        }
        Some(row)
    };
    first.iter().filter_map(row).collect()
}

/// The table, medians in microseconds per operation.
pub(super) fn text(rows: &[Row], ours: &str, theirs: &str) -> String {
    let width = ours.len().max(theirs.len()).max(11);
    let rounds = rows.first().map_or(0, |row| row.ours.len());
    let mut text = format!(
        "Medians of {rounds} rounds in micros/op; a ratio above 1: {ours} is faster\n\
         {:<16} {ours:>width$} {theirs:>width$}   ratio (lowest to highest)\n",
        ""
    );
    for row in rows {
        let median =
            |micros: &[f64]| Spread::of(micros.iter().copied()).map_or(0.0, |it| it.median);
        let (name, mine, other) = (&row.name, median(&row.ours), median(&row.theirs));
        let Some(ratio) = row.ratios() else { continue };
        let _ = write!(
            text,
            "{name:<16} {mine:width$.3} {other:width$.3} {:7.2} ({:.2} to {:.2})",
            ratio.median, ratio.low, ratio.high
        );
        text += if row.found_differs { " they found different keys\n" } else { "\n" };
    }
    text
}

/// The same for `--json`.
pub(super) fn document(rows: &[Row], ours: &str, theirs: &str) -> Value {
    let row = |row: &Row| {
        let ratio = row.ratios();
        json!({
            "name": row.name,
            "micros_per_op": { "ours": row.ours, "theirs": row.theirs },
            "ratio": ratio.map(|it| json!({ "median": it.median, "low": it.low, "high": it.high })),
            "found_differs": row.found_differs,
        })
    };
    let rows: Vec<Value> = rows.iter().map(row).collect();
    json!({ "ours": ours, "theirs": theirs, "rows": rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(figures: &[(&str, f64, &str)]) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for &(name, micros, message) in figures {
            let occurrence = lines.iter().filter(|line| line.name == name).count();
            let (name, message) = (name.to_owned(), message.to_owned());
            lines.push(Line { name, occurrence, micros, message });
        }
        lines
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // A slow round slows both: the ratio stays.
        let rounds = [
            (lines(&[("fillseq", 1.0, "")]), lines(&[("fillseq", 2.0, "")])),
            (lines(&[("fillseq", 10.0, "")]), lines(&[("fillseq", 30.0, "")])),
            (lines(&[("fillseq", 2.0, "")]), lines(&[("fillseq", 5.0, "")])),
        ];
        let rows = rows(&rounds);
        let expected = Spread { low: 2.0, median: 2.5, high: 3.0 };
        assert_eq!(rows[0].ratios(), Some(expected));
        assert_eq!(
            text(&rows, "siltstone", "leveldb"),
            "Medians of 3 rounds in micros/op; a ratio above 1: siltstone is faster\n\
             \u{20}                  siltstone     leveldb   ratio (lowest to highest)\n\
             fillseq                2.000       5.000    2.50 (2.00 to 3.00)\n"
        );
        let document = document(&rows, "a", "b");
        assert_eq!(document["rows"][0]["ratio"]["median"], 2.5);
        assert_eq!(document["rows"][0]["micros_per_op"]["theirs"][1], 30.0);
    }

    #[test]
    fn the_second_of_a_name_is_compared_with_the_second() {
        let ours = lines(&[("readrandom", 4.0, ""), ("crc32c", 1.0, ""), ("readrandom", 2.0, "")]);
        let theirs = lines(&[("readrandom", 8.0, ""), ("readrandom", 2.0, "")]);
        let rows = rows(&[(ours, theirs)]);
        let ratios: Vec<_> = rows.iter().map(|row| row.ratios().unwrap().median).collect();
        assert_eq!(ratios, [2.0, 1.0], "crc32c has no counterpart");
    }

    #[test]
    fn different_findings_are_told() {
        let round = |theirs: &str| {
            let ours = lines(&[("readrandom", 1.0, "(632 of 1000 found)")]);
            (ours, lines(&[("readrandom", 1.0, theirs)]))
        };
        assert!(!rows(&[round("(632 of 1000 found)")])[0].found_differs);
        let rows = rows(&[round("(632 of 1000 found)"), round("(631 of 1000 found)")]);
        assert!(text(&rows, "a", "b").ends_with(" they found different keys\n"));
    }
}
