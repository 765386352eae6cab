//! A line of the shell into words: blanks part them, `"` and `'` hold them together. Called for
//! each line.
//!
//! Between double quotes `\n`, `\t`, `\\`, `\"` and `\xNN` stand for what they name; elsewhere a
//! backslash is a backslash.

use std::ffi::OsString;

use crate::bytes::unescape;

pub(super) fn split(line: &str) -> Result<Vec<OsString>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.chars().next() {
            Some('"') => double_quoted(&rest[1..])?,
            Some('\'') => {
                let (word, after) = rest[1..].split_once('\'').ok_or("a ' without its end")?;
                (word.into(), after)
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (rest[..end].into(), &rest[end..])
            }
        };
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return Err("a blank is missing after a quoted word".into());
        }
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

/// The word up to the closing quote, and what follows it.
fn double_quoted(text: &str) -> Result<(OsString, &str), String> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        if byte == b'"' && !escaped {
            return Ok((os_string(unescape(&text.as_bytes()[..at])?)?, &text[at + 1..]));
        }
        escaped = byte == b'\\' && !escaped;
    }
    Err("a \" without its end".into())
}

#[cfg(unix)]
fn os_string(bytes: Vec<u8>) -> Result<OsString, String> {
    use std::os::unix::ffi::OsStringExt;
    Ok(OsString::from_vec(bytes))
}

#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>) -> Result<OsString, String> {
    String::from_utf8(bytes)
        .map(OsString::from)
        .map_err(|_| "\\x makes no text here; write the word as 0x..".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        split(line).unwrap().iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn blanks_part_words_and_quotes_hold_them() {
        assert_eq!(texts("  put  k   v "), ["put", "k", "v"]);
        assert_eq!(texts(r#"put "a b" 'c "d' """#), ["put", "a b", "c \"d", ""]);
        assert_eq!(texts(r#"put "a\n\"\\" {"n":1}"#), ["put", "a\n\"\\", "{\"n\":1}"]);
        assert!(texts(" ").is_empty());
    }

    #[test]
    fn open_quotes_are_refused() {
        for line in ["get \"a", "get 'a", "get \"a\"b", "get \"\\q\"", "get \"a\\\""] {
            assert!(split(line).is_err(), "{line}");
        }
    }
}
