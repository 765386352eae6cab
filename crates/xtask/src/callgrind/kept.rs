//! The kept figures: their file, and how counts are held against them.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// A path may grow by so many per cent without a word.
const GROWTH_PERCENT_MAX: u64 = 5;

/// The file: comments at its top, then a line per path: name, instructions per operation, and why
/// they are what they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    comments: Vec<String>,
    figures: Vec<Figure>,
}

#[derive(Debug, PartialEq, Eq)]
struct Figure {
    path: String,
    instructions: u64,
    reason: String,
}

impl Kept {
    pub(super) fn parse(text: &str) -> Result<Kept, String> {
        let mut kept = Kept { comments: Vec::new(), figures: Vec::new() };
        for line in text.lines() {
            if line.starts_with('#') {
                kept.comments.push(line.to_owned());
                continue;
            }
            let mut words = line.split_whitespace();
            let (path, number) = (words.next(), words.next().and_then(|word| word.parse().ok()));
            let reason = words.collect::<Vec<_>>().join(" ");
            match (path, number) {
                (Some(path), Some(instructions)) if !reason.is_empty() => {
                    kept.figures.push(Figure { path: path.to_owned(), instructions, reason });
                }
                _ => return Err(format!("no path, figure and reason: {line}")),
            }
        }
        Ok(kept)
    }

    /// The comparison as text, and whether every path is within its bounds.
    pub(super) fn compare(&self, counted: &BTreeMap<String, u64>) -> (String, bool) {
        let mut text = String::from("instructions per operation      kept      now   change\n");
        let mut sound = true;
        for (path, &now) in counted {
            let Some(figure) = self.figures.iter().find(|figure| figure.path == *path) else {
                let _ = writeln!(text, "{path:26} {:>9} {now:8}   no figure is kept", "");
                sound = false;
                continue;
            };
            let kept = figure.instructions;
            let change = (now as f64 / kept as f64 - 1.0) * 100.0;
            let verdict = if now * 100 > kept * (100 + GROWTH_PERCENT_MAX) {
                sound = false;
                " GROWN: faster, or a reason"
            } else if now * 100 < kept * (100 - GROWTH_PERCENT_MAX) {
                " fallen: accept it, so that it stays"
            } else {
                ""
            };
            let _ = writeln!(text, "{path:26} {kept:9} {now:8} {change:+7.1}%{verdict}");
        }
        for figure in self.figures.iter().filter(|figure| !counted.contains_key(&figure.path)) {
            let _ = writeln!(text, "{:26} is kept, but walked no more", figure.path);
            sound = false;
        }
        (text, sound)
    }

    pub(super) fn set(&mut self, path: &str, instructions: u64, reason: &str) {
        let new = Figure { path: path.to_owned(), instructions, reason: reason.to_owned() };
        match self.figures.iter_mut().find(|figure| figure.path == path) {
            Some(figure) => *figure = new,
            None => self.figures.push(new),
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.comments.iter().try_for_each(|comment| writeln!(f, "{comment}"))?;
        self.figures.iter().try_for_each(|Figure { path, instructions, reason }| {
            writeln!(f, "{path:16} {instructions:7}  {reason}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# Instructions.
put                 1000  first count
get                  200  the filter is probed before the index
";

    fn counted(figures: &[(&str, u64)]) -> BTreeMap<String, u64> {
        figures.iter().map(|&(path, figure)| (path.to_owned(), figure)).collect()
    }

    #[test]
    fn small_changes_pass_and_growth_does_not() {
        let kept = Kept::parse(FILE).unwrap();
        assert!(kept.compare(&counted(&[("put", 1050), ("get", 190)])).1);
        let (text, sound) = kept.compare(&counted(&[("put", 1051), ("get", 200)]));
        assert!(!sound && text.contains("GROWN"), "{text}");
        let (text, sound) = kept.compare(&counted(&[("put", 900), ("get", 200)]));
        assert!(sound && text.contains("fallen"), "{text}");
    }

    #[test]
    fn file_and_program_have_the_same_paths() {
        let kept = Kept::parse(FILE).unwrap();
        assert!(!kept.compare(&counted(&[("put", 1000)])).1, "get is walked no more");
        let three = counted(&[("put", 1000), ("get", 200), ("seek", 1)]);
        assert!(!kept.compare(&three).1, "seek has no figure");
    }

    #[test]
    fn a_figure_changes_with_its_reason_only() {
        let mut kept = Kept::parse(FILE).unwrap();
        assert_eq!(kept.to_string(), FILE);
        kept.set("put", 1200, "records carry a sum of their own");
        kept.set("seek", 7, "new");
        let text = kept.to_string();
        assert!(
            text.contains("put                 1200  records carry a sum of their own\n"),
            "{text}"
        );
        assert!(text.ends_with("seek                   7  new\n"), "{text}");
        for broken in ["put 1000", "put", "put many reasons", "1000 put why", ""] {
            let text = format!("{broken}\n");
            assert!(Kept::parse(&text).is_err(), "{broken:?}");
        }
    }
}
