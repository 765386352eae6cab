//! What goes to stdout and how: the five formats of `-o`, and the notes that go to stderr.
//! Every verb writes through a [`Context`].
//!
//! Invariants:
//! - O1: stdout carries data in the chosen format and nothing else; notes, progress and timings
//!   for eyes go to stderr.
//! - O2: no format loses a byte of a key or value (see `bytes`, B1).

mod cell;
mod pairs;
mod rows;

use std::io::{self, BufWriter, IsTerminal, Write};

use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::bytes::{ByteFormat, escape};
use crate::errors::Failure;

pub(crate) use cell::Cell;
pub(crate) use pairs::{Columns, PairWriter};
pub(crate) use rows::RowWriter;

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For eyes
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Jsonl,
    /// Comma-separated, with a header
    Csv,
    /// Tab-separated with \t, \n, \\ and \xNN escapes; for `get`, the value's own bytes
    Raw,
}

impl Format {
    pub(crate) fn is_json(self) -> bool {
        matches!(self, Format::Json | Format::Jsonl)
    }
}

/// A named result: fields in the order to show them.
pub(crate) type Record = Vec<(&'static str, Cell)>;

/// The output side of the command line, as the user set it.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) asked: Option<Format>,
    pub(crate) key: ByteFormat,
    pub(crate) value: ByteFormat,
    pub(crate) quiet: bool,
}

impl Context {
    /// The format to use, given what fits this verb when its output is piped.
    pub(crate) fn format(&self, piped: Format) -> Format {
        match self.asked {
            Some(format) => format,
            None if io::stdout().is_terminal() => Format::Table,
            None => piped,
        }
    }

    /// Tells the user something that is not data.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            // A closed stderr must not fail a verb that did its work.
            let _ = writeln!(io::stderr(), "{}", text.as_ref());
        }
    }

    /// Whether to draw progress: on a terminal, unless quiet.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Reports a verb that only acts: to eyes as a note, as data if a format was asked for.
    pub(crate) fn done(&self, record: Record, sentence: impl AsRef<str>) -> Result<(), Failure> {
        if self.asked.is_some() {
            return self.record(record);
        }
        self.note(sentence);
        Ok(())
    }

    /// Writes one result.
    pub(crate) fn record(&self, record: Record) -> Result<(), Failure> {
        let format = self.format(Format::Jsonl);
        let mut out = stdout();
        write_record(&mut out, format, &record)?;
        Ok(out.flush()?)
    }

    /// Writes results that share the fields `names`.
    pub(crate) fn rows(&self, names: &[&'static str], rows: Vec<Record>) -> Result<(), Failure> {
        let mut writer = RowWriter::new(stdout(), self.format(Format::Jsonl), names);
        rows.iter().try_for_each(|row| writer.write(row))?;
        writer.finish()?;
        Ok(())
    }

    /// Starts a stream of keys and values.
    pub(crate) fn pairs(&self, columns: Columns) -> PairWriter<impl Write> {
        PairWriter::new(stdout(), self.format(Format::Jsonl), self.key, self.value, columns)
    }
}

/// Buffered stdout.
pub(crate) fn stdout() -> BufWriter<io::StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Bold text on a terminal that wants it.
pub(crate) fn bold(text: &str, on_terminal: bool) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if on_terminal && !plain { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

/// A field's name for eyes, without the unit where the text itself has it.
fn label(name: &str) -> String {
    let name = if name == "size_bytes" { "size" } else { name };
    name.strip_suffix("_us").unwrap_or(name).replace('_', " ")
}

fn object(record: &Record) -> Value {
    let mut fields = Map::with_capacity(record.len());
    for (name, cell) in record {
        let (suffix, value) = cell.json();
        fields.insert(format!("{name}{suffix}"), value);
    }
    Value::Object(fields)
}

fn write_record(out: &mut impl Write, format: Format, record: &Record) -> io::Result<()> {
    match format {
        Format::Table => {
            let width = record.iter().map(|(name, _)| label(name).len()).max().unwrap_or(0);
            for (name, cell) in record {
                // A field of many lines stands under its name.
                let text = cell.human();
                let gap = if text.contains('\n') { "\n" } else { "  " };
                writeln!(out, "{:width$}{gap}{}", label(name), text.trim_end())?;
            }
            Ok(())
        }
        Format::Json => writeln!(out, "{:#}", object(record)),
        Format::Raw => record.iter().try_for_each(|(name, cell)| {
            writeln!(out, "{name}\t{}", escape(cell.plain().as_bytes()))
        }),
        Format::Jsonl => writeln!(out, "{}", object(record)),
        Format::Csv => {
            let names: Vec<&'static str> = record.iter().map(|(name, _)| *name).collect();
            let mut rows = RowWriter::new(out, format, &names);
            rows.write(record)?;
            rows.finish().map(drop)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Record> {
        vec![
            vec![
                ("level", Cell::Count(1)),
                ("size_bytes", Cell::Size(2048)),
                ("smallest", Cell::Key(b"a,\"b".to_vec(), ByteFormat::Auto)),
            ],
            vec![
                ("level", Cell::Count(2)),
                ("size_bytes", Cell::Size(7)),
                ("smallest", Cell::Key(vec![0xff], ByteFormat::Auto)),
            ],
        ]
    }

    fn written(format: Format) -> String {
        let names = ["level", "size_bytes", "smallest"];
        let mut rows = RowWriter::new(Vec::new(), format, &names);
        sample().iter().try_for_each(|row| rows.write(row)).unwrap();
        String::from_utf8(rows.finish().unwrap()).unwrap()
    }

    #[test]
    fn rows_in_each_format() {
        assert_eq!(
            written(Format::Jsonl),
            "{\"level\":1,\"size_bytes\":2048,\"smallest\":\"a,\\\"b\"}\n\
             {\"level\":2,\"size_bytes\":7,\"smallest_b64\":\"/w==\"}\n"
        );
        assert_eq!(
            written(Format::Csv),
            "level,size_bytes,smallest\n1,2048,\"a,\"\"b\"\n2,7,0xff\n"
        );
        assert_eq!(written(Format::Raw), "1\t2048\ta,\"b\n2\t7\t0xff\n");
        let table = written(Format::Table);
        assert!(table.contains("2.0 KiB") && table.contains("0xff"), "{table}");
        assert!(table.contains("size ") && !table.contains("_bytes"), "{table}");
        let json: Value = serde_json::from_str(&written(Format::Json)).unwrap();
        assert_eq!(json[1]["smallest_b64"], "/w==");
    }

    #[test]
    fn a_single_record_is_an_object_not_a_list() {
        let mut out = Vec::new();
        write_record(&mut out, Format::Json, &sample()[0]).unwrap();
        let json: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["size_bytes"], 2048);
    }
}
