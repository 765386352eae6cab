//! `wal dump`, `manifest dump` and `sst dump`: single files in LevelDB's dump text, one row a line
//! for machines.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use siltstone::Env;

use crate::errors::{Exit, Failure, Outcome};
use crate::open::explain;
use crate::output::{Cell, Context, Format, RowWriter, stdout};

/// The kinds of files that can be dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Wal,
    Manifest,
    Table,
}

/// Files to dump
#[derive(Args, Debug)]
pub(crate) struct FileArgs {
    /// The files, by path
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WalVerb {
    /// Print the batches of write-ahead logs (*.log)
    Dump(FileArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ManifestVerb {
    /// Print the edits of manifests (MANIFEST-*)
    Dump(FileArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum SstVerb {
    /// Print the entries of tables (*.ldb, *.sst)
    Dump(FileArgs),
}

impl Kind {
    fn of(path: &Path) -> Option<Kind> {
        let name = path.file_name()?.to_str()?;
        if name.starts_with("MANIFEST-") {
            return Some(Kind::Manifest);
        }
        match Path::new(name).extension()?.to_str()? {
            "log" => Some(Kind::Wal),
            "ldb" | "sst" => Some(Kind::Table),
            _ => None,
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Kind::Wal => "wal",
            Kind::Manifest => "manifest",
            Kind::Table => "sst",
        }
    }
}

pub(crate) fn dump(kind: Kind, args: &FileArgs, context: &Context) -> Outcome {
    let format = match context.format(Format::Raw) {
        // The text is LevelDB's own; a table could only add blanks.
        Format::Table => Format::Raw,
        other => other,
    };
    let mut rows = RowWriter::new(stdout(), format, &["file", "line", "text"]);
    for file in &args.files {
        check_kind(kind, file)?;
        if format == Format::Raw {
            dump_text(file, rows.out())?;
        } else {
            let mut lines = Lines { file, rows: &mut rows, number: 0, pending: Vec::new() };
            siltstone::dump_file(file, &Env::default(), &mut lines)
                .map_err(|error| unwrap_pipe(error, file))?;
            lines.end()?;
        }
    }
    rows.finish()?;
    Ok(Exit::Ok)
}

fn check_kind(kind: Kind, file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    match Kind::of(file) {
        Some(other) if other == kind => Ok(()),
        Some(other) => Err(Failure::usage(format!("{shown} is no {} file", kind.noun()))
            .step("print it", format!("siltstone {} dump {shown}", other.noun()))),
        None => Err(Failure::usage(format!("{shown} has no name of a database file"))
            .detail("expected NNNNNN.log, MANIFEST-NNNNNN, NNNNNN.ldb or NNNNNN.sst")),
    }
}

/// Writes one file in LevelDB's dump text.
pub(crate) fn dump_text(file: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    siltstone::dump_file(file, &Env::default(), out).map_err(|error| unwrap_pipe(error, file))
}

/// A reader that went away is no failure of the file.
fn unwrap_pipe(error: siltstone::Error, file: &Path) -> Failure {
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<io::Error>()
            && cause.kind() == io::ErrorKind::BrokenPipe
        {
            return Failure::file("write", file, cause);
        }
        source = cause.source();
    }
    explain(error, file.parent().unwrap_or(file))
}

/// Turns the text into rows as it comes.
struct Lines<'a, W: Write> {
    file: &'a Path,
    rows: &'a mut RowWriter<W>,
    number: u64,
    pending: Vec<u8>,
}

impl<W: Write> Lines<'_, W> {
    fn row(&mut self, line: &[u8]) -> io::Result<()> {
        self.number += 1;
        let row = vec![
            ("file", Cell::text(self.file.display().to_string())),
            ("line", Cell::Count(self.number)),
            ("text", Cell::text(String::from_utf8_lossy(line))),
        ];
        self.rows.write(&row)
    }

    fn end(mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.pending);
        if rest.is_empty() { Ok(()) } else { self.row(&rest) }
    }
}

impl<W: Write> Write for Lines<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.pending.extend_from_slice(part);
            if let Some(line) = self.pending.strip_suffix(b"\n") {
                let line = line.to_vec();
                self.pending.clear();
                self.row(&line)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_kind_of_file() {
        assert_eq!(Kind::of("db/000005.log".as_ref()), Some(Kind::Wal));
        assert_eq!(Kind::of("MANIFEST-000002".as_ref()), Some(Kind::Manifest));
        assert_eq!(Kind::of("000007.sst".as_ref()), Some(Kind::Table));
        assert_eq!(Kind::of("db/LOG".as_ref()), None);
        let failure = check_kind(Kind::Wal, "000005.ldb".as_ref()).unwrap_err();
        assert!(format!("{failure:?}").contains("siltstone sst dump 000005.ldb"));
    }

    #[test]
    fn lines_may_come_in_pieces() {
        let mut rows = RowWriter::new(Vec::new(), Format::Csv, &["file", "line", "text"]);
        let mut lines =
            Lines { file: "f".as_ref(), rows: &mut rows, number: 0, pending: Vec::new() };
        for piece in ["a", "b\nc", "\n", "d"] {
            lines.write_all(piece.as_bytes()).unwrap();
        }
        lines.end().unwrap();
        let out = rows.finish().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "file,line,text\nf,1,ab\nf,2,c\nf,3,d\n");
    }
}
