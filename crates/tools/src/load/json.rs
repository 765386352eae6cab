//! What JSON text means as bytes, and files with a pair a line. Called by `load::Input`, and by
//! `document` for each value.
//!
//! A value that is not a string is stored as its own JSON text without the blanks, so a number
//! keeps every digit it was written with.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::BufRead;

use serde_json::value::RawValue;

use super::{Pair, Sink, bad_input};
use crate::bytes::ByteFormat;
use crate::errors::Failure;

/// Reads one pair a line; empty lines are skipped.
pub(super) fn read_lines(
    mut reader: impl BufRead,
    name: &str,
    sink: Sink<'_>,
) -> Result<(), Failure> {
    let mut line = String::new();
    for number in 1_u64.. {
        line.clear();
        let place = || format!("line {number}");
        match reader.read_line(&mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return Err(bad_input(name, &place(), error)),
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            sink(pair_of(text).map_err(|problem| bad_input(name, &place(), problem))?)?;
        }
    }
    Ok(())
}

/// Reads `{"key": k, "value": v}` (see `bytes`, B2, for other field names) or `["k", v]`.
pub(super) fn pair_of(text: &str) -> Result<Pair, String> {
    if text.starts_with('[') {
        let items: Vec<&RawValue> = parse(text)?;
        let [key, value] = items.as_slice() else {
            return Err(format!("a pair has two items, not {}", items.len()));
        };
        if key.get().starts_with(['[', '{']) {
            return Err("the key of a pair is a string".into());
        }
        return Ok((bytes_of(key, ByteFormat::Utf8)?, bytes_of(value, ByteFormat::Utf8)?));
    }
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = parse(text)?;
    let (mut key, mut value) = (None, None);
    for (field, raw) in &fields {
        let (name, format) = ByteFormat::split_field(field);
        let part = match name {
            "key" => &mut key,
            "value" => &mut value,
            _ => return Err(format!("unknown field {field:?}; expected key and value")),
        };
        if part.replace(bytes_of(raw, format)?).is_some() {
            return Err(format!("two fields for the {name}"));
        }
    }
    match (key, value) {
        (Some(key), Some(value)) => Ok((key, value)),
        (None, _) => Err("the field \"key\" is missing".into()),
        (_, None) => Err("the field \"value\" is missing".into()),
    }
}

fn parse<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The bytes of a field, whose name told how they are written.
fn bytes_of(raw: &RawValue, format: ByteFormat) -> Result<Vec<u8>, String> {
    let text = raw.get();
    if format == ByteFormat::Utf8 {
        return if text.starts_with('"') { string_bytes(text) } else { Ok(compact(text)) };
    }
    if !text.starts_with('"') {
        return Err(format!("a field named ..{} holds a string", format.suffix()));
    }
    format.parse(&string_bytes(text)?)
}

/// The bytes that the text of any JSON value stands for.
pub(super) fn value_bytes(text: &str) -> Result<Vec<u8>, String> {
    if text.starts_with('"') {
        return string_bytes(text);
    }
    parse::<&RawValue>(text)?;
    Ok(compact(text))
}

/// The bytes of a JSON string, given with its quotes.
pub(super) fn string_bytes(text: &str) -> Result<Vec<u8>, String> {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    match inner {
        // Nearly all strings hold nothing to undo, and are their own bytes.
        Some(inner) if !inner.bytes().any(|byte| matches!(byte, b'"' | b'\\' | ..b' ')) => {
            Ok(inner.as_bytes().to_vec())
        }
        _ => parse::<String>(text).map(String::into_bytes),
    }
}

/// JSON text without the blanks between its parts.
fn compact(text: &str) -> Vec<u8> {
    let mut compacted = Vec::with_capacity(text.len());
    let (mut in_string, mut after_backslash) = (false, false);
    for &byte in text.as_bytes() {
        if in_string {
            in_string = after_backslash || byte != b'"';
            after_backslash = !after_backslash && byte == b'\\';
        } else if byte.is_ascii_whitespace() {
            continue;
        } else {
            in_string = byte == b'"';
        }
        compacted.push(byte);
    }
    compacted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<Vec<Pair>, Failure> {
        let mut pairs = Vec::new();
        read_lines(text.as_bytes(), "test.jsonl", &mut |pair| {
            pairs.push(pair);
            Ok(())
        })?;
        Ok(pairs)
    }

    #[test]
    fn lines_are_read_one_by_one() {
        let text = "{\"key\":\"a\",\"value_b64\":\"/w==\"}\r\n\n[\"b\", {\"x\": [ ]} ]";
        let expected = [(b"a".to_vec(), vec![0xff]), (b"b".to_vec(), b"{\"x\":[]}".to_vec())];
        assert_eq!(lines(text).unwrap(), expected);
    }

    #[test]
    fn lines_that_are_no_pair_are_refused_by_number() {
        for line in [
            "[1]",
            "[[1],2]",
            "[\"a\",1,2]",
            "{\"key\":1}",
            "{\"value\":1}",
            "{\"key\":1,\"key_hex\":\"00\",\"value\":1}",
            "{\"key\":1,\"value\":1,\"more\":1}",
            "{\"key_hex\":7,\"value\":1}",
            "{\"key_hex\":\"7\",\"value\":1}",
            "{\"key\":\"a\",\"value\":",
            "hello",
        ] {
            let failure = lines(&format!("[\"a\",1]\n{line}")).unwrap_err();
            assert!(format!("{failure:?}").contains("line 2"), "{line}: {failure:?}");
        }
    }
}
