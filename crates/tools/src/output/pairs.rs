//! A stream of keys and values on stdout, in any format, without holding more than a screenful.
//! Used by `get`, `scan`, `dump` and the shell.
//!
//! Layout of what `dump` writes and `load` reads:
//!
//! | format | a pair |
//! | ------ | ------ |
//! | jsonl  | `{"key":K,"value":V}`; a field that is not UTF-8 is named `key_b64` or `value_b64` |
//! | json   | an array of the same objects |
//! | csv    | columns `key,value,encoding`; `encoding` is `utf8`, or `base64` for both fields |
//! | raw    | key, tab, value, newline, with `\t`, `\n`, `\r`, `\\` and `\xNN` escapes |
//!
//! With `--key hex` or the like the field is `key_hex` in each pair.

use std::borrow::Cow;
use std::io::Write;

use serde_json::{Map, Value};

use super::Format;
use crate::bytes::{ByteFormat, escape};
use crate::errors::Failure;

/// Rows kept back to line up the columns of a table.
const TABLE_ROWS_HELD: usize = 64;
/// Wider keys do not push the values to the right.
const TABLE_KEY_CHARS_MAX: usize = 48;

/// Which parts of a pair are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    KeysOnly,
    KeysAndValues,
}

/// Writes pairs. Call [`finish`](Self::finish) at the end: JSON needs its closing bracket.
pub(crate) struct PairWriter<W: Write> {
    out: W,
    format: Format,
    key: ByteFormat,
    value: ByteFormat,
    columns: Columns,
    written: u64,
    /// Table rows that wait for a common width.
    held: Vec<(String, String)>,
    width: Option<usize>,
}

impl<W: Write> PairWriter<W> {
    pub(crate) fn new(
        out: W,
        format: Format,
        key: ByteFormat,
        value: ByteFormat,
        columns: Columns,
    ) -> Self {
        PairWriter { out, format, key, value, columns, written: 0, held: Vec::new(), width: None }
    }

    /// Writes one pair; `value` is ignored when only keys are asked for.
    pub(crate) fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.table_row(key, value)?,
            Format::Json => {
                let opening = if self.written == 0 { "[\n" } else { ",\n" };
                self.out.write_all(opening.as_bytes())?;
                self.object(key, value)?;
            }
            Format::Jsonl => {
                self.object(key, value)?;
                self.out.write_all(b"\n")?;
            }
            Format::Csv => {
                if self.written == 0 {
                    self.csv_header()?;
                }
                self.csv_pair(key, value)?;
            }
            Format::Raw => self.raw_row(key, value)?,
        }
        self.written += 1;
        Ok(())
    }

    /// Ends the stream and gives the output back, flushed.
    pub(crate) fn finish(mut self) -> Result<W, Failure> {
        match (self.format, self.written) {
            (Format::Json, 0) => self.out.write_all(b"[]\n")?,
            (Format::Json, _) => self.out.write_all(b"\n]\n")?,
            (Format::Csv, 0) => self.csv_header()?,
            (Format::Table, _) => self.release_held()?,
            _ => {}
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn with_values(&self) -> bool {
        self.columns == Columns::KeysAndValues
    }

    fn object(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut fields = Map::with_capacity(2);
        let (suffix, text) = self.key.field(key);
        fields.insert(format!("key{suffix}"), Value::String(text.into_owned()));
        if self.with_values() {
            let (suffix, text) = self.value.field(value);
            fields.insert(format!("value{suffix}"), Value::String(text.into_owned()));
        }
        Ok(serde_json::to_writer(&mut self.out, &Value::Object(fields))?)
    }

    /// The fields whose name carries no format need the `encoding` column.
    fn csv_has_encoding(&self) -> bool {
        self.key.suffix().is_empty() || (self.with_values() && self.value.suffix().is_empty())
    }

    fn csv_header(&mut self) -> Result<(), Failure> {
        let mut names = vec![format!("key{}", self.key.suffix())];
        if self.with_values() {
            names.push(format!("value{}", self.value.suffix()));
        }
        if self.csv_has_encoding() {
            names.push("encoding".into());
        }
        self.csv_record(&names)
    }

    fn csv_pair(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut fields = vec![(self.key, key)];
        if self.with_values() {
            fields.push((self.value, value));
        }
        let binary = fields.iter().any(|(format, bytes)| {
            format.suffix().is_empty() && std::str::from_utf8(bytes).is_err()
        });
        let mut row: Vec<String> = fields
            .into_iter()
            .map(|(format, bytes)| {
                let format =
                    if binary && format.suffix().is_empty() { ByteFormat::Base64 } else { format };
                format.field(bytes).1.into_owned()
            })
            .collect();
        if self.csv_has_encoding() {
            row.push(if binary { "base64" } else { "utf8" }.into());
        }
        self.csv_record(&row)
    }

    fn csv_record(&mut self, row: &[String]) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{}", csv_line(row))?)
    }

    fn raw_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.out.write_all(raw_text(self.key, key).as_bytes())?;
        if self.with_values() {
            self.out.write_all(b"\t")?;
            self.out.write_all(raw_text(self.value, value).as_bytes())?;
        }
        Ok(self.out.write_all(b"\n")?)
    }

    fn table_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let value = if self.with_values() { self.value.show(value) } else { String::new() };
        self.held.push((self.key.show(key), value));
        if self.width.is_some() || self.held.len() == TABLE_ROWS_HELD {
            self.release_held()?;
        }
        Ok(())
    }

    fn release_held(&mut self) -> Result<(), Failure> {
        let widest = self.held.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
        let width = *self.width.get_or_insert(widest.min(TABLE_KEY_CHARS_MAX));
        for (key, value) in self.held.drain(..) {
            if self.columns == Columns::KeysAndValues {
                writeln!(self.out, "{key:width$}  {value}")?;
            } else {
                writeln!(self.out, "{key}")?;
            }
        }
        Ok(())
    }
}

/// Raw rows are escaped unless the user chose another writing; neither holds a tab or newline.
fn raw_text(format: ByteFormat, bytes: &[u8]) -> String {
    match format {
        ByteFormat::Auto | ByteFormat::Utf8 => escape(bytes),
        other => other.show(bytes),
    }
}

/// Fields as a CSV line, without its end.
pub(super) fn csv_line(fields: &[impl AsRef<str>]) -> String {
    let quoted: Vec<Cow<'_, str>> = fields.iter().map(|field| csv_quoted(field.as_ref())).collect();
    quoted.join(",")
}

/// A CSV field, quoted where a reader could take it for something else.
fn csv_quoted(field: &str) -> Cow<'_, str> {
    if field.is_empty() || field.contains(['"', ',', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", field.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, key: ByteFormat, columns: Columns) -> String {
        let mut writer = PairWriter::new(Vec::new(), format, key, ByteFormat::Auto, columns);
        writer.write(b"a", b"1,\n").unwrap();
        writer.write(b"bb", b"\xff\t").unwrap();
        String::from_utf8(writer.finish().unwrap()).unwrap()
    }

    #[test]
    fn pairs_in_each_format() {
        use Columns::{KeysAndValues, KeysOnly};
        let auto = ByteFormat::Auto;
        assert_eq!(
            written(Format::Jsonl, auto, KeysAndValues),
            "{\"key\":\"a\",\"value\":\"1,\\n\"}\n{\"key\":\"bb\",\"value_b64\":\"/wk=\"}\n"
        );
        assert_eq!(
            written(Format::Csv, auto, KeysAndValues),
            "key,value,encoding\na,\"1,\n\",utf8\nYmI=,/wk=,base64\n"
        );
        assert_eq!(written(Format::Csv, ByteFormat::Hex, KeysOnly), "key_hex\n61\n6262\n");
        assert_eq!(written(Format::Raw, auto, KeysAndValues), "a\t1,\\n\nbb\t\\xff\\t\n");
        assert_eq!(written(Format::Table, auto, KeysAndValues), "a   0x312c0a\nbb  0xff09\n");
        assert_eq!(written(Format::Raw, auto, KeysOnly), "a\nbb\n");
        let json: Value =
            serde_json::from_str(&written(Format::Json, auto, KeysAndValues)).unwrap();
        assert_eq!(json[0]["value"], "1,\n");
    }

    #[test]
    fn an_empty_stream_is_still_a_document() {
        for (format, expected) in
            [(Format::Json, "[]\n"), (Format::Jsonl, ""), (Format::Csv, "key,value,encoding\n")]
        {
            let auto = ByteFormat::Auto;
            let writer = PairWriter::new(Vec::new(), format, auto, auto, Columns::KeysAndValues);
            assert_eq!(String::from_utf8(writer.finish().unwrap()).unwrap(), expected);
        }
    }
}
