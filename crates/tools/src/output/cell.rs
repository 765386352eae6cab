//! One field of a result: a value for machines and its text for eyes. Built by the verbs, written
//! by `output`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bytes::ByteFormat;
use crate::sizes::{show_count, show_duration, show_size};

/// A typed field. The unit stands in the field's name: `_bytes` for sizes, `_us` for times.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Text(String),
    Count(u64),
    Ratio(f64),
    Size(u64),
    Time(Duration),
    Flag(bool),
    Key(Vec<u8>, ByteFormat),
    Missing,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// The JSON value, and what it adds to the field's name.
    pub(crate) fn json(&self) -> (&'static str, Value) {
        let value = match self {
            Cell::Text(text) => json!(text),
            Cell::Count(count) | Cell::Size(count) => json!(count),
            Cell::Ratio(ratio) => json!(ratio),
            Cell::Time(time) => json!(micros(*time)),
            Cell::Flag(flag) => json!(flag),
            Cell::Missing => Value::Null,
            Cell::Key(bytes, format) => {
                let (suffix, text) = format.field(bytes);
                return (suffix, json!(text));
            }
        };
        ("", value)
    }

    /// The text for a person.
    pub(crate) fn human(&self) -> String {
        match self {
            Cell::Count(count) => show_count(*count),
            // What is small would show as nothing: a request costs less than a cent.
            Cell::Ratio(ratio) if *ratio > 0.0 && *ratio < 0.1 => format!("{ratio:.6}"),
            Cell::Ratio(ratio) => format!("{ratio:.2}"),
            Cell::Size(bytes) => show_size(*bytes),
            Cell::Time(time) => show_duration(*time),
            Cell::Flag(flag) => if *flag { "yes" } else { "no" }.into(),
            Cell::Missing => "-".into(),
            Cell::Text(_) | Cell::Key(..) => self.plain(),
        }
    }

    /// The exact text for CSV and raw rows.
    pub(crate) fn plain(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) | Cell::Size(count) => count.to_string(),
            Cell::Ratio(ratio) => ratio.to_string(),
            Cell::Time(time) => micros(*time).to_string(),
            Cell::Flag(flag) => flag.to_string(),
            Cell::Key(bytes, format) => format.show(bytes),
            Cell::Missing => String::new(),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Cell::Count(_) | Cell::Size(_) | Cell::Time(_))
    }
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}
