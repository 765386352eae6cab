//! Reading pairs from files: JSON, JSON Lines, CSV and raw rows, each streamed, so that memory
//! does not grow with the file. Called by the verb `load` on its parser thread.
//!
//! Invariants:
//! - L1: a reader holds one pair and one buffer; a pair may be as large as memory allows.
//! - L2: what `dump` writes is read back byte for byte, in each format.

mod csv;
mod document;
mod json;
pub(crate) mod pipe;
mod raw;
pub(crate) mod writer;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;

use crate::bytes::ByteFormat;
use crate::errors::{Exit, Failure};

const BUFFER_BYTES: usize = 256 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// Takes pairs one by one; an error ends the reading.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Pair) -> Result<(), Failure>;

/// How an input file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// An object {"key": value, ..} or an array of pairs
    Json,
    /// A pair a line: {"key": .., "value": ..} or ["key", value]
    Jsonl,
    /// Columns key and value, with or without a header
    Csv,
    /// key, tab, value, with \t, \n, \\ and \xNN escapes
    Raw,
}

/// An opened input: a file, or stdin for `-`.
pub(crate) struct Input {
    reader: Box<dyn BufRead + Send>,
    name: String,
    format: InputFormat,
    /// Bytes in all, where known.
    pub(crate) size: Option<u64>,
    done: Arc<AtomicU64>,
}

impl Input {
    /// Opens `path`, in the format asked for or by ending or first line.
    pub(crate) fn open(path: &Path, asked: Option<InputFormat>) -> Result<Input, Failure> {
        let (inner, size): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(path).map_err(|error| Failure::file("open", path, &error))?;
            let metadata = file.metadata().map_err(|error| Failure::file("read", path, &error))?;
            if metadata.is_dir() {
                return Err(Failure::usage(format!("{} is a folder", path.display()))
                    .detail("load reads JSON, JSON Lines, CSV or raw files"));
            }
            (Box::new(file), metadata.is_file().then_some(metadata.len()))
        };
        let done = Arc::new(AtomicU64::new(0));
        let counting = Counting { inner, done: done.clone() };
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, counting);
        let head = reader.fill_buf().map_err(|error| Failure::file("read", path, &error))?;
        let mark = if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        reader.consume(mark);
        let format = match asked.or_else(|| by_ending(path)).or_else(|| by_content(reader.buffer()))
        {
            Some(format) => format,
            None => return Err(unknown_format(path)),
        };
        let name = path.display().to_string();
        Ok(Input { reader: Box::new(reader), name, format, size, done })
    }

    /// A JSON document that is part of the program.
    pub(crate) fn embedded(name: &str, text: &'static [u8]) -> Input {
        let done = Arc::new(AtomicU64::new(0));
        let counting = Counting { inner: Box::new(text), done: done.clone() };
        Input {
            reader: Box::new(BufReader::with_capacity(BUFFER_BYTES, counting)),
            name: name.to_owned(),
            format: InputFormat::Json,
            size: Some(text.len() as u64),
            done,
        }
    }

    /// The bytes read so far, also while the input is read: for progress.
    pub(crate) fn done(&self) -> Arc<AtomicU64> {
        self.done.clone()
    }

    /// Hands each pair to `sink`, in file order. `key` and `value` tell how raw rows are written.
    pub(crate) fn read(
        self,
        key: ByteFormat,
        value: ByteFormat,
        sink: Sink<'_>,
    ) -> Result<(), Failure> {
        let Input { reader, name, format, .. } = self;
        match format {
            InputFormat::Json => document::read(reader, &name, sink),
            InputFormat::Jsonl => json::read_lines(reader, &name, sink),
            InputFormat::Csv => csv::read_rows(reader, &name, sink),
            InputFormat::Raw => raw::read_rows(reader, &name, key, value, sink),
        }
    }
}

fn by_ending(path: &Path) -> Option<InputFormat> {
    match path.extension()?.to_ascii_lowercase().to_str()? {
        "json" => Some(InputFormat::Json),
        "jsonl" | "ndjson" => Some(InputFormat::Jsonl),
        "csv" => Some(InputFormat::Csv),
        "tsv" | "raw" => Some(InputFormat::Raw),
        _ => None,
    }
}

/// Guesses from the first line. A first line that is one whole pair means a pair a line.
fn by_content(head: &[u8]) -> Option<InputFormat> {
    let head = head.trim_ascii_start();
    let line = head.split(|&byte| byte == b'\n').next()?;
    match head.first()? {
        b'{' | b'[' => match std::str::from_utf8(line).map(json::pair_of) {
            Ok(Ok(_)) => Some(InputFormat::Jsonl),
            _ => Some(InputFormat::Json),
        },
        _ if line.contains(&b'\t') => Some(InputFormat::Raw),
        _ if line.contains(&b',') => Some(InputFormat::Csv),
        _ => None,
    }
}

fn unknown_format(path: &Path) -> Failure {
    let shown = path.display();
    Failure::new(Exit::Usage, "E-INPUT", format!("cannot tell how {shown} is written"))
        .step("say it", "--format json|jsonl|csv|raw")
}

/// The failure for input that is not what its format says.
fn bad_input(name: &str, place: &str, problem: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, "E-INPUT", format!("{name}: {place}: {problem}"))
}

/// Counts what passes, for the progress bar. Relaxed: the number publishes nothing else.
struct Counting {
    inner: Box<dyn Read + Send>,
    done: Arc<AtomicU64>,
}

impl Read for Counting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_the_format() {
        for (head, format) in [
            ("{\"a\": 1}", InputFormat::Json),
            ("{\n\"a\": 1}", InputFormat::Json),
            ("{\"key\": \"a\", \"value\": 1}\n{}", InputFormat::Jsonl),
            ("{\"key_b64\": \"/w==\", \"value\": 1}\n", InputFormat::Jsonl),
            ("[\"a\", \"b\"]\n[\"c\", \"d\"]", InputFormat::Jsonl),
            ("[[\"a\", \"b\"], [\"c\", \"d\"]]", InputFormat::Json),
            ("[\n{\"key\": 1}", InputFormat::Json),
            ("a\tb\n", InputFormat::Raw),
            ("key,value\n", InputFormat::Csv),
        ] {
            assert_eq!(by_content(head.as_bytes()), Some(format), "{head}");
        }
        assert_eq!(by_content(b""), None);
        assert_eq!(by_content(b"hello\n"), None);
    }
}
