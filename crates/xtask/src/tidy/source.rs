//! One Rust file, split into what is code, what is comment and what is test. Every check that
//! reads Rust starts here.
//!
//! **Invariants.**
//! - I1. All views have the length of the text, and its line breaks; what does not belong to a
//!   view is blank. So an offset in one view is an offset in each.
//! - I2. Views are ASCII: other bytes become blanks. So any offset may be sliced at.

use std::ops::Range;

pub(crate) struct Source {
    /// Code: no comments, no contents of strings and character literals.
    pub(crate) code: String,
    /// Comments only, doc comments included.
    pub(crate) comments: String,
    /// `code` without what is compiled for tests only.
    pub(crate) shipped: String,
    /// The whole file is for tests.
    pub(crate) is_test: bool,
    /// Lines of the file.
    pub(crate) lines: usize,
    /// Lines outside test items.
    pub(crate) shipped_lines: usize,
}

impl Source {
    pub(crate) fn scan(text: &str, is_test: bool) -> Self {
        let mut scanner = Scanner::new(text);
        scanner.run();
        let code = ascii(scanner.code);
        let comments = ascii(scanner.comments);
        let mut shipped = code.clone().into_bytes();
        let tests = test_items(&code);
        for item in &tests {
            blank(&mut shipped[item.clone()]);
        }
        let lines = text.lines().count();
        let test_lines: usize = tests.iter().map(|item| lines_of(text, item)).sum();
        Source {
            is_test: is_test || code.contains("#![cfg(test)]"),
            shipped: ascii(shipped),
            code,
            comments,
            lines,
            shipped_lines: lines - test_lines.min(lines),
        }
    }

    /// The line, from 1, on which `offset` lies.
    pub(crate) fn line(&self, offset: usize) -> usize {
        1 + self.code.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count()
    }

    /// Names of modules declared `mod name;` for tests only.
    pub(crate) fn test_modules(&self) -> Vec<&str> {
        let declared = test_items(&self.code).into_iter().filter_map(|item| {
            let item = self.code[item].trim_end().strip_suffix(';')?;
            let (before, name) = item.rsplit_once(' ')?;
            before.trim_end().ends_with("mod").then_some(name)
        });
        declared.collect()
    }
}

/// Offsets in `code` at which `word` stands as a whole word.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = code[..at].bytes().next_back();
        let after = code[at + word.len()..].bytes().next();
        !before.is_some_and(is_name_byte) && !after.is_some_and(is_name_byte)
    })
}

/// The name at the start of `code`, possibly empty.
pub(crate) fn leading_name(code: &str) -> &str {
    let end = code.bytes().position(|byte| !is_name_byte(byte)).unwrap_or(code.len());
    &code[..end]
}

/// The offset just past the bracket that closes the one at `open`, or the end of `code`.
pub(crate) fn past_closing(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn ascii(mut bytes: Vec<u8>) -> String {
    for byte in &mut bytes {
        if !byte.is_ascii() {
            *byte = b' ';
        }
    }
    String::from_utf8(bytes).expect("bytes were made ASCII above")
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

/// Lines touched by `item`; items stand on lines of their own, as rustfmt puts them.
fn lines_of(text: &str, item: &Range<usize>) -> usize {
    1 + text.as_bytes()[item.clone()].iter().filter(|&&byte| byte == b'\n').count()
}

/// The items, attributes included, that are compiled for tests only. Nested ones are left out.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut items: Vec<Range<usize>> = Vec::new();
    let mut from = 0;
    while let Some(start) = next_test_attribute(code, from) {
        let end = item_end(code, start);
        items.push(start..end);
        from = end;
    }
    items
}

fn next_test_attribute(code: &str, from: usize) -> Option<usize> {
    let forms = ["#[cfg(test)]", "#[cfg(all(test,", "#[test]"];
    forms.iter().filter_map(|form| code[from..].find(form).map(|at| from + at)).min()
}

/// Where the item that begins with the attribute at `start` ends: past its body, its semicolon, or
/// (a field, a variant) its comma.
fn item_end(code: &str, start: usize) -> usize {
    let bytes = code.as_bytes();
    let mut at = start;
    let mut angle = 0usize;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => return past_closing(code, at),
            b'(' | b'[' => {
                at = past_closing(code, at);
                continue;
            }
            b'<' => angle += 1,
            // Not the head of an arrow.
            b'>' if at > 0 && !matches!(bytes[at - 1], b'-' | b'=') => {
                angle = angle.saturating_sub(1);
            }
            b';' => return at + 1,
            b',' if angle == 0 => return at + 1,
            b'}' | b')' | b']' => return at,
            _ => {}
        }
        at += 1;
    }
    code.len()
}

/// Walks over a text once and sorts its bytes into views.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    code: Vec<u8>,
    comments: Vec<u8>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        let mut empty = text.as_bytes().to_vec();
        blank(&mut empty);
        Scanner { text: text.as_bytes(), at: 0, code: empty.clone(), comments: empty }
    }

    fn run(&mut self) {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            if rest.starts_with(b"//") {
                self.line_comment();
            } else if rest.starts_with(b"/*") {
                self.block_comment();
            } else if let Some(hashes) = self.raw_string() {
                self.skip_raw_string(hashes);
            } else if rest[0] == b'"' {
                self.skip_quoted(b'"');
            } else if rest[0] == b'\'' && is_char_literal(rest) {
                self.skip_quoted(b'\'');
            } else {
                self.code[self.at] = rest[0];
                self.at += 1;
            }
        }
    }

    fn line_comment(&mut self) {
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        self.comment(len);
    }

    fn block_comment(&mut self) {
        let rest = &self.text[self.at..];
        let mut depth = 0usize;
        let mut len = 0;
        while len < rest.len() {
            if rest[len..].starts_with(b"/*") {
                depth += 1;
                len += 2;
            } else if rest[len..].starts_with(b"*/") {
                depth -= 1;
                len += 2;
            } else {
                len += 1;
            }
            if depth == 0 {
                break;
            }
        }
        self.comment(len);
    }

    fn comment(&mut self, len: usize) {
        let range = self.at..self.at + len;
        self.comments[range.clone()].copy_from_slice(&self.text[range]);
        self.at += len;
    }

    /// If a raw string begins here: the number of its hashes.
    fn raw_string(&self) -> Option<usize> {
        if self.at > 0 && is_name_byte(self.text[self.at - 1]) {
            return None;
        }
        let rest = &self.text[self.at..];
        let rest = rest.strip_prefix(b"b").or(rest.strip_prefix(b"c")).unwrap_or(rest);
        let rest = rest.strip_prefix(b"r")?;
        let hashes = rest.iter().take_while(|&&byte| byte == b'#').count();
        (rest.get(hashes) == Some(&b'"')).then_some(hashes)
    }

    fn skip_raw_string(&mut self, hashes: usize) {
        let open = self.text[self.at..].iter().position(|&byte| byte == b'"');
        let body = self.at + open.expect("a raw string was found here") + 1;
        let mut close = vec![b'"'];
        close.resize(1 + hashes, b'#');
        let found = self.text[body..].windows(close.len()).position(|part| part == close);
        self.at = found.map_or(self.text.len(), |at| body + at + close.len());
    }

    /// Past a literal in `quote`s. The quotes stay in the code, so that neighbours do not join.
    fn skip_quoted(&mut self, quote: u8) {
        self.code[self.at] = quote;
        self.at += 1;
        while self.at < self.text.len() && self.text[self.at] != quote {
            self.at += if self.text[self.at] == b'\\' { 2 } else { 1 };
        }
        if self.at < self.text.len() {
            self.code[self.at] = quote;
        }
        self.at = (self.at + 1).min(self.text.len());
    }
}

/// Tells a character from a lifetime; `rest` begins with the quote.
fn is_char_literal(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        // One character of one to four bytes, then the closing quote.
        Some(first) if !first.is_ascii() => true,
        Some(_) => rest.get(2) == Some(&b'\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::scan(text, false).code
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        let text = "let a = \"x // y\\\" {\"; // b {\n/* c /* d */ e */ let f = r#\"g\" }\"#;";
        let source = Source::scan(text, false);
        let kept: Vec<&str> = source.code.split_whitespace().collect();
        assert_eq!(kept, ["let", "a", "=", "\"", "\";", "let", "f", "=", ";"]);
        assert!(source.comments.contains("// b {"));
        assert!(source.comments.contains("/* c /* d */ e */"));
        assert_eq!(source.code.len(), text.len());
        assert_eq!(source.comments.len(), text.len());
    }

    #[test]
    fn characters_are_told_from_lifetimes() {
        let kept = code("fn f<'a>(x: &'a str) { g('{', '\\'', b'\"', '\\u{7f}'); }");
        assert_eq!(kept.matches('{').count(), 1);
        assert_eq!(kept.matches('}').count(), 1);
        assert!(kept.contains("&'a str"));
    }

    #[test]
    fn raw_names_and_byte_strings() {
        let kept = code("let r#type = br##\"a \"# b\"##; let s = b\"unsafe\"; done");
        assert!(kept.contains("r#type"));
        assert!(kept.contains("done"));
        assert!(!kept.contains("unsafe"));
    }

    #[test]
    fn an_open_literal_at_the_end_does_not_overrun() {
        for text in ["\"abc", "'\\", "r#\"abc", "/* abc", "\"abc\\"] {
            assert_eq!(code(text).len(), text.len());
        }
    }

    #[test]
    fn test_items_are_not_shipped() {
        let text = "use a;\n#[cfg(test)]\nuse b::{c};\nstruct S {\n    #[cfg(test)]\n    x: u8,\n    \
                    y: u8,\n}\n#[cfg(test)]\nfn g<A, B>() -> u8 {\n    1\n}\nfn h() {}\n\
                    #[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        let source = Source::scan(text, false);
        assert!(source.shipped.contains("y: u8"));
        assert!(source.shipped.contains("fn h"));
        for gone in ["x: u8", "b::", "fn g", "fn t"] {
            assert!(!source.shipped.contains(gone), "{gone} is for tests");
        }
        assert_eq!(source.lines, 17);
        assert_eq!(source.shipped_lines, 17 - 2 - 2 - 4 - 4);
    }

    #[test]
    fn a_file_can_say_that_it_is_a_test() {
        assert!(Source::scan("//! Doc.\n#![cfg(test)]\n", false).is_test);
        assert!(!Source::scan("//! #![cfg(test)]\n", false).is_test);
    }

    #[test]
    fn whole_words_only() {
        let code = "unsafe_code unsafe { } not_unsafe";
        assert_eq!(words(code, "unsafe").collect::<Vec<_>>(), [12]);
    }
}
