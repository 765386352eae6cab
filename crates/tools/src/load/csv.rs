//! Pairs from CSV. Called by `load::Input`.
//!
//! With a header, the columns are found by name: `key` and `value` (or `key_hex`, `value_b64`, ..)
//! and, as `dump` writes it, `encoding`: `utf8` or `base64` for the plainly named columns of that
//! row. Without one, the two columns are key and value.

use std::io::Read;

use csv::{ByteRecord, ReaderBuilder};

use super::{Pair, Sink, bad_input};
use crate::bytes::ByteFormat;
use crate::errors::Failure;

/// Where the parts of a pair stand in a row.
#[derive(Debug)]
struct Layout {
    key: (usize, ByteFormat),
    value: (usize, ByteFormat),
    encoding: Option<usize>,
}

pub(super) fn read_rows(reader: impl Read, name: &str, sink: Sink<'_>) -> Result<(), Failure> {
    let mut rows = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(reader);
    let mut row = ByteRecord::new();
    let mut layout = None;
    loop {
        let more =
            rows.read_byte_record(&mut row).map_err(|error| bad_input(name, "CSV", error))?;
        if !more {
            return Ok(());
        }
        let line = row.position().map_or(0, csv::Position::line);
        let wrong = |problem: String| bad_input(name, &format!("line {line}"), problem);
        let places = match &layout {
            Some(places) => places,
            None => {
                let header = Layout::of_header(&row);
                let is_header = header.is_some();
                let places = layout.insert(match header {
                    Some(places) => places,
                    None => Layout::of_data(&row).map_err(wrong)?,
                });
                if is_header {
                    continue;
                }
                places
            }
        };
        sink(places.pair(&row).map_err(wrong)?)?;
    }
}

impl Layout {
    /// The layout that a header names; none if the row names no key.
    fn of_header(row: &ByteRecord) -> Option<Layout> {
        let find = |wanted: &str| {
            row.iter().enumerate().find_map(|(at, field)| {
                let (name, format) = ByteFormat::split_field(std::str::from_utf8(field).ok()?);
                (name == wanted).then_some((at, format))
            })
        };
        Some(Layout {
            key: find("key")?,
            value: find("value")?,
            encoding: find("encoding").map(|(at, _)| at),
        })
    }

    fn of_data(row: &ByteRecord) -> Result<Layout, String> {
        if row.len() != 2 {
            return Err(format!(
                "{} columns and no header; expected columns named key and value",
                row.len()
            ));
        }
        let plain = ByteFormat::Utf8;
        Ok(Layout { key: (0, plain), value: (1, plain), encoding: None })
    }

    fn pair(&self, row: &ByteRecord) -> Result<Pair, String> {
        let base64 = match self.encoding.and_then(|at| row.get(at)) {
            None | Some(b"utf8" | b"") => false,
            Some(b"base64") => true,
            Some(other) => {
                return Err(format!("unknown encoding {:?}", String::from_utf8_lossy(other)));
            }
        };
        let part = |(at, format): (usize, ByteFormat)| {
            let field = row.get(at).ok_or_else(|| format!("no column {}", at + 1))?;
            let plain = format == ByteFormat::Utf8;
            if plain && base64 { ByteFormat::Base64 } else { format }.parse(field)
        };
        Ok((part(self.key)?, part(self.value)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Vec<Pair>, Failure> {
        let mut pairs = Vec::new();
        read_rows(text, "test.csv", &mut |pair| {
            pairs.push(pair);
            Ok(())
        })?;
        Ok(pairs)
    }

    fn pair(key: &[u8], value: &[u8]) -> Pair {
        (key.to_vec(), value.to_vec())
    }

    #[test]
    fn columns_are_found_by_name() {
        let text = b"seq,value,key_hex\n1,\"a,\n\"\"b\",ff\n";
        assert_eq!(read(text).unwrap(), [pair(b"\xff", b"a,\n\"b")]);
    }

    #[test]
    fn the_encoding_column_speaks_for_its_row() {
        let text = b"key,value,encoding\na,YQ==,utf8\nYQ==,/w==,base64\n";
        assert_eq!(read(text).unwrap(), [pair(b"a", b"YQ=="), pair(b"a", b"\xff")]);
    }

    #[test]
    fn two_columns_need_no_header() {
        assert_eq!(read(b"a,1\nb,\n").unwrap(), [pair(b"a", b"1"), pair(b"b", b"")]);
        assert_eq!(read(b"").unwrap(), []);
    }

    #[test]
    fn rows_that_fit_no_layout_are_refused_by_line() {
        for text in ["a,b,c\n", "alone\n", "key,value\na\n", "key_hex,value\nzz,1\n"] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
        let failure = read(b"key,value,encoding\na,b,rot13\n").unwrap_err();
        assert!(format!("{failure:?}").contains("line 2"));
    }
}
