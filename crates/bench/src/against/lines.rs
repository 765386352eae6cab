//! Reads the report of a db_bench: ours, LevelDB's, or one that goes back to it.

/// A line of a report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) name: String,
    /// How many lines of this name stand above it: the same benchmark may run again and again.
    pub(super) occurrence: usize,
    pub(super) micros: f64,
    /// What stands in brackets behind the figures.
    pub(super) message: String,
}

/// The lines with figures; everything else is passed over.
pub(super) fn parse(report: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for text in report.lines() {
        // A program that shows progress may have left some before the line, behind a return.
        let text = text.rsplit('\r').next().unwrap_or(text);
        if let Some((name, micros, message)) = figures(text) {
            let occurrence = lines.iter().filter(|line| line.name == name).count();
            let (name, message) = (name.to_owned(), message.to_owned());
            lines.push(Line { name, occurrence, micros, message });
        }
    }
    lines
}

/// Name, microseconds and message of `name : micros micros/op; rate MB/s (message)`.
fn figures(text: &str) -> Option<(&str, f64, &str)> {
    let (name, rest) = text.split_once(" : ")?;
    let (micros, rest) = rest.split_once(" micros/op;")?;
    let message = rest.find('(').map_or("", |at| &rest[at..]);
    let micros = micros.trim().parse().ok().filter(|micros: &f64| micros.is_finite())?;
    let name = name.trim();
    // A second blank would be another sort of line.
    (!name.is_empty() && !name.contains(' ')).then_some((name, micros, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_among_everything_else() {
        let report = "\
Keys:       16 bytes each
------------------------------------------------
fillseq      :       1.765 micros/op;   62.7 MB/s
... finished 700000 ops\rfillsync     :     268.409 micros/op;    0.4 MB/s (10000 ops)
fillrandom   : skipped (--use_existing_db is true)
readrandom   :      16.677 micros/op; (864322 of 1000000 found)
readrandom   :       2.000 micros/op; (1 of 2 found)
Microseconds per op:
Count: 1  Average: 3.0000  StdDev: 0.00
[       2,       3 )       1 100.000% 100.000% ####################
readwhilewriting :  3.500 micros/op;
compact      : 5541503.327 micros/op;
snappycomp   :       2.0 micros/op; 1900.0 MB/s (output: 55.1%)
broken       :       nan micros/op;
";
        let found: Vec<_> = parse(report)
            .into_iter()
            .map(|line| (line.name, line.occurrence, line.micros, line.message))
            .collect();
        let line = |name: &str, occurrence, micros, message: &str| {
            (name.to_owned(), occurrence, micros, message.to_owned())
        };
        assert_eq!(
            found,
            [
                line("fillseq", 0, 1.765, ""),
                line("fillsync", 0, 268.409, "(10000 ops)"),
                line("readrandom", 0, 16.677, "(864322 of 1000000 found)"),
                line("readrandom", 1, 2.0, "(1 of 2 found)"),
                line("readwhilewriting", 0, 3.5, ""),
                line("compact", 0, 5_541_503.327, ""),
                line("snappycomp", 0, 2.0, "(output: 55.1%)"),
            ]
        );
    }
}
