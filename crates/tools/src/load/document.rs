//! One large JSON document, taken apart pair by pair: `{"k": v, ..}` or `[pair, ..]`. Called by
//! `load::Input`; what a value means is for `json` to say.
//!
//! This only finds where a value ends, by quotes and brackets; each value is then checked by a
//! real parser. So a file of any size costs one pass, and memory for one pair.

use std::io::BufRead;

use super::json::{pair_of, string_bytes, value_bytes};
use super::{Sink, bad_input};
use crate::errors::Failure;

/// Reads the document and hands on its pairs.
pub(super) fn read(reader: impl BufRead, name: &str, sink: Sink<'_>) -> Result<(), Failure> {
    let mut scanner = Scanner { reader, name, line: 1, text: Vec::new() };
    match scanner.peek()? {
        Some(b'{') => scanner.members(sink)?,
        Some(b'[') => scanner.items(sink)?,
        _ => return Err(scanner.wrong("expected an object of keys and values, or an array")),
    }
    match scanner.peek()? {
        None => Ok(()),
        Some(b'{' | b'[') => Err(scanner
            .wrong("a second document begins")
            .step("if each line is a pair", "--format jsonl")),
        Some(_) => Err(scanner.wrong("text after the end of the document")),
    }
}

/// Whether the byte that ends a piece of text belongs to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Within,
    Beyond,
}

struct Scanner<'a, R> {
    reader: R,
    name: &'a str,
    line: u64,
    /// The text of the latest value.
    text: Vec<u8>,
}

impl<R: BufRead> Scanner<'_, R> {
    fn members(&mut self, sink: Sink<'_>) -> Result<(), Failure> {
        self.elements(b'}', |scanner| {
            if scanner.peek()? != Some(b'"') {
                return Err(scanner.wrong("expected a key in quotes"));
            }
            let key = scanner.value(string_bytes)?;
            scanner.expect(b':')?;
            let value = scanner.value(value_bytes)?;
            sink((key, value))
        })
    }

    fn items(&mut self, sink: Sink<'_>) -> Result<(), Failure> {
        self.elements(b']', |scanner| {
            let pair = scanner.value(pair_of)?;
            sink(pair)
        })
    }

    /// Reads an opening bracket, elements parted by commas, and `close`.
    fn elements(
        &mut self,
        close: u8,
        mut element: impl FnMut(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.skip(1);
        if self.peek()? == Some(close) {
            self.skip(1);
            return Ok(());
        }
        loop {
            element(self)?;
            match self.peek()? {
                Some(b',') => self.skip(1),
                Some(byte) if byte == close => {
                    self.skip(1);
                    return Ok(());
                }
                Some(_) => return Err(self.wrong("expected a comma or the end")),
                None => return Err(self.wrong("the file ends in the middle of the document")),
            }
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Failure> {
        if self.peek()? != Some(byte) {
            return Err(self.wrong(&format!("expected {:?}", char::from(byte))));
        }
        self.skip(1);
        Ok(())
    }

    /// Reads the next value and what `meaning` makes of its text.
    fn value<T>(&mut self, meaning: fn(&str) -> Result<T, String>) -> Result<T, Failure> {
        let Some(first) = self.peek()? else {
            return Err(self.wrong("the file ends where a value should stand"));
        };
        self.text.clear();
        match first {
            b'"' => self.copy_string()?,
            b'[' | b'{' => self.copy_nested()?,
            _ => self.copy(End::Beyond, |byte| {
                matches!(byte, b',' | b':' | b']' | b'}') || byte.is_ascii_whitespace()
            })?,
        }
        let text = std::str::from_utf8(&self.text).map_err(|_| self.wrong("not UTF-8"))?;
        meaning(text).map_err(|problem| self.wrong(&problem))
    }

    fn copy_string(&mut self) -> Result<(), Failure> {
        let mut quotes = 0;
        let mut escaped = false;
        self.copy(End::Within, move |byte| {
            quotes += u32::from(byte == b'"' && !escaped);
            escaped = byte == b'\\' && !escaped;
            quotes == 2
        })
    }

    fn copy_nested(&mut self) -> Result<(), Failure> {
        let mut depth = 0_u64;
        let (mut in_string, mut escaped) = (false, false);
        self.copy(End::Within, move |byte| {
            match byte {
                b'"' if !escaped => in_string = !in_string,
                b'[' | b'{' if !in_string => depth += 1,
                b']' | b'}' if !in_string => depth -= 1,
                _ => {}
            }
            escaped = in_string && byte == b'\\' && !escaped;
            depth == 0
        })
    }

    /// Copies into `text` up to the byte at which `ends` is true, or the end of the file.
    fn copy(&mut self, end: End, mut ends: impl FnMut(u8) -> bool) -> Result<(), Failure> {
        loop {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) => return Err(Failure::file("read", self.name.as_ref(), &error)),
            };
            let found = chunk.iter().position(|&byte| ends(byte));
            let count = match (found, end) {
                (Some(at), End::Within) => at + 1,
                (Some(at), End::Beyond) => at,
                (None, _) => chunk.len(),
            };
            let piece = &chunk[..count];
            self.line += piece.iter().filter(|&&byte| byte == b'\n').count() as u64;
            self.text.extend_from_slice(piece);
            let at_end = found.is_some() || chunk.is_empty();
            self.reader.consume(count);
            if at_end {
                return Ok(());
            }
        }
    }

    /// The next byte that is no blank, left where it is. None at the end of the file.
    fn peek(&mut self) -> Result<Option<u8>, Failure> {
        loop {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) => return Err(Failure::file("read", self.name.as_ref(), &error)),
            };
            let blanks = chunk.iter().take_while(|byte| byte.is_ascii_whitespace());
            let (count, lines) = blanks.fold((0, 0), |(count, lines), &byte| {
                (count + 1, lines + u64::from(byte == b'\n'))
            });
            let next = chunk.get(count).copied();
            let at_end = chunk.is_empty();
            self.line += lines;
            self.reader.consume(count);
            if next.is_some() || at_end {
                return Ok(next);
            }
        }
    }

    /// Passes over bytes that [`peek`](Self::peek) has seen.
    fn skip(&mut self, count: usize) {
        self.reader.consume(count);
    }

    fn wrong(&self, problem: &str) -> Failure {
        bad_input(self.name, &format!("line {}", self.line), problem)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;
    use crate::errors::Exit;

    /// Reads with a buffer of one byte too, so that every value meets a border.
    fn document(text: &str) -> Result<Vec<(String, String)>, Failure> {
        let read_with = |buffer_bytes: usize| {
            let mut pairs = Vec::new();
            let reader = BufReader::with_capacity(buffer_bytes, text.as_bytes());
            let outcome = read(reader, "test.json", &mut |(key, value)| {
                pairs.push((String::from_utf8(key).unwrap(), String::from_utf8(value).unwrap()));
                Ok(())
            });
            (outcome, pairs)
        };
        let (outcome, pairs) = read_with(4096);
        let (narrow_outcome, narrow_pairs) = read_with(1);
        assert_eq!(
            format!("{outcome:?} {pairs:?}"),
            format!("{narrow_outcome:?} {narrow_pairs:?}")
        );
        outcome.map(|()| pairs)
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|&(key, value)| (key.into(), value.into())).collect()
    }

    #[test]
    fn an_object_keeps_order_duplicates_and_the_digits_of_numbers() {
        let text = r#" {"b": "x", "a": 1.50, "b": {"n" : [1, 2 ], "s": " \" { "}, "e":1e400 } "#;
        let expected =
            [("b", "x"), ("a", "1.50"), ("b", r#"{"n":[1,2],"s":" \" { "}"#), ("e", "1e400")];
        assert_eq!(document(text).unwrap(), pairs(&expected));
        for empty in ["{}", "[]", " { } ", "[\n]\n"] {
            assert_eq!(document(empty).unwrap(), pairs(&[]), "{empty}");
        }
    }

    #[test]
    fn escapes_are_undone_in_keys_and_values() {
        let text = r#"{"a\"\\": "\u00fc\n\\", "\ud83d\ude00": "/\/", "raw": "}]{[,:"}"#;
        let expected = [("a\"\\", "\u{fc}\n\\"), ("\u{1f600}", "//"), ("raw", "}]{[,:")];
        assert_eq!(document(text).unwrap(), pairs(&expected));
    }

    #[test]
    fn arrays_hold_pairs_of_either_shape() {
        let text = r#"[{"key":"a","value":null}, ["b","\u00fc"],{"value":"v","key_hex":"6b"}]"#;
        let expected = [("a", "null"), ("b", "\u{fc}"), ("k", "v")];
        assert_eq!(document(text).unwrap(), pairs(&expected));
    }

    #[test]
    fn malformed_documents_are_refused_by_line() {
        for text in [
            "",
            "1",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":}",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "{a:1}",
            "{\"a\":1]",
            "{\"a\":tru}",
            "{\"a\":01}",
            "{\"a\":\"x}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":\"\t\"}",
            "{\"a\":[1}}",
            "{\"a\":{\"b\":}}",
            "[[1]]",
            "[{\"key\":1}]",
            "[1]",
            "{} {}",
            "{} x",
            "[]]",
            "{\"a\":1 2}",
        ] {
            let failure = document(text).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{text}");
        }
        let failure = format!("{:?}", document("{\n\"a\": 1,\n\"b\": x\n}").unwrap_err());
        assert!(failure.contains("line 3"), "{failure}");
    }

    #[test]
    fn depth_does_not_overflow_the_stack() {
        let open = "[".repeat(200_000);
        assert!(document(&format!("{{\"a\": {open}")).is_err());
        let nested = format!("{open}{}", "]".repeat(200_000));
        assert_eq!(document(&format!("{{\"a\": {nested}}}")).unwrap(), pairs(&[("a", &nested)]));
    }

    #[test]
    fn a_failing_sink_ends_the_reading() {
        let mut count = 0;
        let result = read(&b"{\"a\":1,\"b\":2}"[..], "x", &mut |_| {
            count += 1;
            Err(Failure::usage("enough"))
        });
        assert!(format!("{:?}", result.unwrap_err()).contains("enough"));
        assert_eq!(count, 1);
    }
}
