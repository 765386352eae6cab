//! Pairs from raw rows: key, tab, value, newline, escaped as `dump -o raw` writes them. Called by
//! `load::Input`.

use std::io::BufRead;

use super::{Sink, bad_input};
use crate::bytes::{ByteFormat, unescape};
use crate::errors::Failure;

pub(super) fn read_rows(
    mut reader: impl BufRead,
    name: &str,
    key: ByteFormat,
    value: ByteFormat,
    sink: Sink<'_>,
) -> Result<(), Failure> {
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let wrong = |problem: String| bad_input(name, &format!("line {number}"), problem);
        let count =
            reader.read_until(b'\n', &mut line).map_err(|error| wrong(error.to_string()))?;
        if count == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.is_empty() {
            continue;
        }
        let Some(tab) = text.iter().position(|&byte| byte == b'\t') else {
            return Err(wrong("no tab between key and value".into()));
        };
        let (left, right) = (&text[..tab], &text[tab + 1..]);
        sink((field(left, key).map_err(wrong)?, field(right, value).map_err(wrong)?))?;
    }
    Ok(())
}

fn field(text: &[u8], format: ByteFormat) -> Result<Vec<u8>, String> {
    match format {
        ByteFormat::Auto | ByteFormat::Utf8 => unescape(text),
        other => other.parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_split_at_the_tab_and_unescaped() {
        let mut pairs = Vec::new();
        let auto = ByteFormat::Auto;
        read_rows(&b"a\\tb\t1\\\\\r\n\nk\t\n\tv"[..], "x", auto, auto, &mut |pair| {
            pairs.push(pair);
            Ok(())
        })
        .unwrap();
        let expected: [(&[u8], &[u8]); 3] = [(b"a\tb", b"1\\"), (b"k", b""), (b"", b"v")];
        assert_eq!(pairs, expected.map(|(key, value)| (key.to_vec(), value.to_vec())));
        let failure = read_rows(&b"a\tb\nalone"[..], "x", auto, auto, &mut |_| Ok(()));
        assert!(format!("{:?}", failure.unwrap_err()).contains("line 2"));
    }
}
