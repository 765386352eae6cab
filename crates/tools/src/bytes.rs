//! How keys and values look as text: one writing per [`ByteFormat`], each of them lossless.
//! Used for every key and value on the command line, in the shell and in printed rows.
//!
//! Invariants:
//! - B1: for each format, `parse(format(b)) == b` for all bytes, save `utf8`, which marks what it
//!   cannot show and is for eyes only.
//! - B2: a field name tells its format (`key`, `key_b64`, `key_hex`, `key_escaped`), so a file
//!   written by `dump` needs no flags to be loaded again.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::ValueEnum;

/// How bytes are written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ByteFormat {
    /// Text as it is; anything else as 0x.. hex (in JSON and CSV: base64)
    #[default]
    Auto,
    /// Always text; bytes that are none show as U+FFFD
    Utf8,
    /// Hex digits, two a byte
    Hex,
    /// Base64 with padding
    Base64,
    /// Text with \n, \t, \\ and \xNN for the rest
    Escaped,
}

impl ByteFormat {
    /// The ending of a field name whose text is in this format.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            ByteFormat::Auto | ByteFormat::Utf8 => "",
            ByteFormat::Hex => "_hex",
            ByteFormat::Base64 => "_b64",
            ByteFormat::Escaped => "_escaped",
        }
    }

    /// The format and the plain name that a field name stands for.
    pub(crate) fn split_field(field: &str) -> (&str, ByteFormat) {
        for format in [ByteFormat::Hex, ByteFormat::Base64, ByteFormat::Escaped] {
            if let Some(name) = field.strip_suffix(format.suffix()) {
                return (name, format);
            }
        }
        (field, ByteFormat::Utf8)
    }

    /// Writes `bytes` for a terminal line or a raw row.
    pub(crate) fn show(self, bytes: &[u8]) -> String {
        match self {
            ByteFormat::Auto => match plain_text(bytes) {
                Some(text) => text.to_owned(),
                None => format!("0x{}", hex(bytes)),
            },
            ByteFormat::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            ByteFormat::Hex => hex(bytes),
            ByteFormat::Base64 => BASE64.encode(bytes),
            ByteFormat::Escaped => escape(bytes),
        }
    }

    /// Writes `bytes` for a format that quotes for itself (JSON, CSV): the field suffix and the
    /// text. Clean UTF-8 stays as it is, control characters included.
    pub(crate) fn field(self, bytes: &[u8]) -> (&'static str, Cow<'_, str>) {
        match (self, std::str::from_utf8(bytes)) {
            (ByteFormat::Auto | ByteFormat::Utf8, Ok(text)) => ("", Cow::Borrowed(text)),
            (ByteFormat::Auto | ByteFormat::Utf8, Err(_)) => {
                (ByteFormat::Base64.suffix(), Cow::Owned(BASE64.encode(bytes)))
            }
            (format, _) => (format.suffix(), Cow::Owned(format.show(bytes))),
        }
    }

    /// Reads what [`show`](Self::show) writes. Under `auto`, text is itself unless it is `0x` and
    /// an even number of hex digits.
    pub(crate) fn parse(self, text: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            ByteFormat::Utf8 => Ok(text.to_vec()),
            ByteFormat::Auto => match text.strip_prefix(b"0x").map(unhex) {
                Some(Ok(bytes)) => Ok(bytes),
                _ => Ok(text.to_vec()),
            },
            ByteFormat::Hex => unhex(text.strip_prefix(b"0x").unwrap_or(text)),
            ByteFormat::Base64 => BASE64.decode(text).map_err(|error| format!("base64: {error}")),
            ByteFormat::Escaped => unescape(text),
        }
    }
}

/// `bytes` as text if it can stand on a line and cannot be taken for hex.
fn plain_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let plain = !text.starts_with("0x") && !text.chars().any(char::is_control);
    plain.then_some(text)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
    }
    text
}

fn unhex(text: &[u8]) -> Result<Vec<u8>, String> {
    let (pairs, odd) = text.as_chunks::<2>();
    if !odd.is_empty() {
        return Err("hex: an odd number of digits".into());
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    pairs
        .iter()
        .map(|&[high, low]| Some((digit(high)? * 16 + digit(low)?) as u8))
        .collect::<Option<Vec<u8>>>()
        .ok_or_else(|| "hex: expected only digits 0-9 and a-f".into())
}

/// Text on one line without tabs: control characters, the backslash and bytes that are not UTF-8
/// are escaped.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                // U+0080 to U+009F are control characters of two bytes in UTF-8.
                other if other.is_control() => {
                    for byte in other.encode_utf8(&mut [0; 4]).bytes() {
                        write!(text, "\\x{byte:02x}").expect("writing to a String cannot fail");
                    }
                }
                other => text.push(other),
            }
        }
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("writing to a String cannot fail");
        }
    }
    text
}

/// Undoes [`escape`].
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        let Some((&code, after)) = rest.split_first() else {
            return Err("escaped: a backslash at the end".into());
        };
        rest = after;
        match code {
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'\\' | b'"' | b'\'' | b' ' => bytes.push(code),
            b'x' => {
                let (digits, after) = rest.split_at_checked(2).unwrap_or((rest, b""));
                match unhex(digits).as_deref() {
                    Ok(&[byte]) => bytes.push(byte),
                    _ => return Err("escaped: \\x needs two hex digits".into()),
                }
                rest = after;
            }
            other => return Err(format!("escaped: unknown escape \\{}", char::from(other))),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ByteFormat; 4] =
        [ByteFormat::Auto, ByteFormat::Hex, ByteFormat::Base64, ByteFormat::Escaped];

    fn samples() -> Vec<Vec<u8>> {
        let mut samples: Vec<Vec<u8>> =
            ["", "user/42", "0x41", "0xzz", "a\tb\\n\n", "\u{85}", "J\u{fc}rgen"]
                .iter()
                .map(|text| text.as_bytes().to_vec())
                .collect();
        samples.push((0..=255).collect());
        samples.push(vec![0xff, b'\\', b'x']);
        samples
    }

    #[test]
    fn every_format_gives_back_every_byte() {
        for format in ALL {
            for bytes in samples() {
                let shown = format.show(&bytes);
                assert_eq!(format.parse(shown.as_bytes()).unwrap(), bytes, "{format:?} {shown}");
                assert!(!shown.contains(['\n', '\t']), "{format:?} {shown:?}");
            }
        }
    }

    #[test]
    fn a_field_name_tells_how_to_read_its_text() {
        for format in ALL {
            for bytes in samples() {
                let (suffix, text) = format.field(&bytes);
                let field = format!("key{suffix}");
                let (name, reader) = ByteFormat::split_field(&field);
                assert_eq!(name, "key");
                assert_eq!(reader.parse(text.as_bytes()).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn auto_shows_text_as_it_is_and_hides_nothing() {
        assert_eq!(ByteFormat::Auto.show(b"user/42"), "user/42");
        assert_eq!(ByteFormat::Auto.show(b"\0\xff"), "0x00ff");
        assert_eq!(ByteFormat::Auto.show(b"0x41"), "0x30783431");
        assert_eq!(ByteFormat::Auto.parse(b"0x41").unwrap(), b"A");
        assert_eq!(ByteFormat::Auto.parse(b"0x4").unwrap(), b"0x4");
    }

    #[test]
    fn damaged_text_is_refused() {
        for text in ["4", "4g", "0x4"] {
            assert!(ByteFormat::Hex.parse(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["\\", "\\x", "\\x4", "\\xgg", "\\q"] {
            assert!(ByteFormat::Escaped.parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(ByteFormat::Base64.parse(b"!!").is_err());
    }
}
