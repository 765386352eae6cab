//! CURRENT: one line that names the live manifest. Recovery reads it; switching manifests writes
//! it, under a temporary name that is then renamed.
//!
//! **Layout.** `MANIFEST-NNNNNN` and a newline, nothing else.

use crate::base::error::{Error, Result};
use crate::base::escape::Escaped;
use crate::format::filename::{FileName, FileNumber};

/// The most bytes that CURRENT can have: the longest number has twenty digits.
pub(crate) const CURRENT_BYTES_MAX: u64 = "MANIFEST-18446744073709551615\n".len() as u64;

/// The manifest that the bytes of CURRENT name.
pub(crate) fn parse_current(bytes: &[u8]) -> Result<FileNumber> {
    let Some(name) = bytes.strip_suffix(b"\n") else {
        return Err(Error::corruption("CURRENT file does not end with newline"));
    };
    let parsed = std::str::from_utf8(name).ok().and_then(FileName::parse);
    match parsed {
        // The file is opened by the name that its number gives, so that must be the name written.
        Some(file @ FileName::Manifest(number)) if file.to_string().as_bytes() == name => {
            Ok(number)
        }
        _ => {
            let message = format!("CURRENT names '{}', which is no manifest", Escaped(name));
            Err(Error::corruption(message))
        }
    }
}

/// What CURRENT holds to name that manifest.
pub(crate) fn current_text(number: FileNumber) -> String {
    format!("{}\n", FileName::Manifest(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        assert_eq!(current_text(FileNumber(4)), "MANIFEST-000004\n");
        for number in [1, 999_999, 1_000_000, u64::MAX] {
            let text = current_text(FileNumber(number));
            assert!(text.len() as u64 <= CURRENT_BYTES_MAX);
            assert_eq!(parse_current(text.as_bytes()).unwrap(), FileNumber(number));
        }
    }

    #[test]
    fn texts_without_newline_are_cut_short() {
        for text in ["", "MANIFEST-000004", "MANIFEST-0000"] {
            let error = parse_current(text.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), "Corruption: CURRENT file does not end with newline");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for text in [
            &b"\n"[..],
            b"MANIFEST-4\n",
            b"MANIFEST-0000004\n",
            b"MANIFEST-000004\r\n",
            b"MANIFEST-000004\n\n",
            b"MANIFEST-000004\nMANIFEST-000005\n",
            b"./MANIFEST-000004\n",
            b"../other/MANIFEST-000004\n",
            b" MANIFEST-000004\n",
            b"000004.ldb\n",
            b"CURRENT\n",
            b"\xff\xfe\n",
        ] {
            let error = parse_current(text).unwrap_err();
            assert!(error.is_corruption());
            assert!(error.message().ends_with("which is no manifest"), "{error}");
        }
    }
}
