//! The shell: `siltstone ./db`. On a terminal it edits lines and keeps a history; from a pipe it
//! runs each line and stops for nothing. Words are read by `words`, verbs are those of `verbs`.

mod words;

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Parser};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use siltstone::WriteBatch;

use crate::bytes::ByteFormat;
use crate::errors::{Exit, Failure, Outcome};
use crate::handle::Handle;
use crate::interrupt;
use crate::open::{IfMissing, Tuning, exists, open_to_read, open_to_write};
use crate::output::{Context, Format, bold};
use crate::range::{RangeArgs, argument};
use crate::sizes::{show_count, show_duration, show_size};
use crate::verbs::{data, inside, scan};

const HELP: &str = "\
get KEY                     print a value
put KEY VALUE               store a value
del KEY ..                  delete keys
scan [--prefix K] [--from K] [--to K] [--reverse] [--limit N] [--keys-only]
count [--prefix K] [--from K] [--to K]
flush, compact              write memory as a table; compact everything
.levels .stats              what the database consists of
.timer on|off               tell how long each command took
.mode table|json|jsonl|csv|raw
.key F, .value F            auto, utf8, hex, base64 or escaped
.help .quit
Quote words with \"..\" for blanks, \\n, \\t and \\xNN. 0x.. is hex.";

const SCAN_LIMIT_ON_TERMINAL: u64 = 1000;

/// Open a shell on a database; also: siltstone DB
#[derive(Args, Debug)]
pub(crate) struct ShellArgs {
    /// The database
    db: PathBuf,
    /// Work beside a writer, change nothing
    #[arg(short, long)]
    read_only: bool,
    /// Make the database if it is not there
    #[arg(long, conflicts_with = "read_only")]
    create: bool,
    #[command(flatten)]
    tuning: Tuning,
}

/// One line of the shell.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true, disable_help_subcommand = true)]
enum Line {
    Get {
        key: OsString,
    },
    Put {
        key: OsString,
        #[arg(allow_negative_numbers = true)]
        value: OsString,
    },
    Del {
        #[arg(required = true)]
        keys: Vec<OsString>,
    },
    Scan(scan::ScanFlags),
    Count(RangeArgs),
    Flush,
    Compact,
    #[command(name = ".levels")]
    Levels,
    #[command(name = ".stats")]
    Stats,
    #[command(name = ".timer")]
    Timer {
        #[arg(value_parser = ["on", "off"])]
        state: String,
    },
    #[command(name = ".mode")]
    Mode {
        format: Format,
    },
    #[command(name = ".key")]
    Key {
        format: ByteFormat,
    },
    #[command(name = ".value")]
    Value {
        format: ByteFormat,
    },
    #[command(name = ".help", alias = "help")]
    Help,
    #[command(name = ".quit", aliases = ["quit", "exit", ".exit"])]
    Quit,
}

/// Whether the shell goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Go,
    Stop,
}

struct Shell {
    db: Handle,
    context: Context,
    timer: bool,
    interactive: bool,
}

pub(crate) fn run(args: &ShellArgs, read_only: bool, context: Context) -> Outcome {
    let read_only = read_only || args.read_only;
    let missing = if args.create { IfMissing::Create } else { IfMissing::Fail };
    if !read_only && missing == IfMissing::Fail && !exists(&args.db)? {
        // The reader's failure, plus the flag that only the shell has.
        return open_to_read(&args.db).map(|_| Exit::Ok).map_err(|failure| {
            failure.step("make one here", format!("siltstone {} --create", args.db.display()))
        });
    }
    let db = if read_only {
        open_to_read(&args.db)?
    } else {
        open_to_write(&args.db, &args.tuning, missing, &context)?
    };
    interrupt::listen();
    let interactive = io::stdin().is_terminal();
    let mut shell = Shell { db, context, timer: false, interactive };
    let outcome = if interactive { shell.converse(&args.db) } else { shell.run_lines() };
    shell.db.close()?;
    outcome
}

impl Shell {
    /// Reads lines from a terminal until the end of input.
    fn converse(&mut self, path: &Path) -> Outcome {
        self.greet(path);
        let mut editor = DefaultEditor::new().map_err(terminal_failure)?;
        let history = history_file();
        if let Some(file) = &history {
            // The first time there is none.
            drop(editor.load_history(file));
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        loop {
            match editor.readline(&format!("{name}> ")) {
                Ok(line) => {
                    // A history that cannot grow is no reason to stop.
                    drop(editor.add_history_entry(&line));
                    match self.line(&line) {
                        Ok(Next::Go) => {}
                        Ok(Next::Stop) => break,
                        Err(failure) => failure.print(false),
                    }
                    interrupt::forget();
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(terminal_failure(error)),
            }
        }
        if let Some(file) = &history {
            drop(editor.save_history(file));
        }
        Ok(Exit::Ok)
    }

    /// Runs the lines of a pipe. A line that fails is reported and the next one runs; the exit
    /// code is that of the first failure.
    fn run_lines(&mut self) -> Outcome {
        let mut exit = Exit::Ok;
        for line in io::stdin().lock().lines() {
            let line = line.map_err(|error| Failure::file("read", Path::new("stdin"), &error))?;
            match self.line(&line) {
                Ok(Next::Go) => {}
                Ok(Next::Stop) => break,
                Err(failure) if failure.is_broken_pipe() => return Err(failure),
                Err(failure) => {
                    failure.print(self.context.asked.is_some_and(Format::is_json));
                    if exit == Exit::Ok {
                        exit = failure.exit;
                    }
                }
            }
            if interrupt::asked() {
                return Ok(Exit::Interrupted);
            }
        }
        Ok(exit)
    }

    fn line(&mut self, line: &str) -> Result<Next, Failure> {
        let words = words::split(line).map_err(Failure::usage)?;
        if words.is_empty() {
            return Ok(Next::Go);
        }
        let parsed = Line::try_parse_from(words).map_err(|error| line_failure(&error))?;
        let start = Instant::now();
        let next = self.command(parsed)?;
        if self.timer {
            self.context.note(show_duration(start.elapsed()));
        }
        Ok(next)
    }

    fn command(&mut self, line: Line) -> Result<Next, Failure> {
        match line {
            Line::Get { key } => self.get(&key)?,
            Line::Put { key, value } => {
                let mut batch = WriteBatch::new();
                batch.put(
                    &argument(&key, self.context.key)?,
                    &argument(&value, self.context.value)?,
                );
                data::write_synced(&self.db, &batch)?;
            }
            Line::Del { keys } => {
                let mut batch = WriteBatch::new();
                for key in &keys {
                    batch.delete(&argument(key, self.context.key)?);
                }
                data::write_synced(&self.db, &batch)?;
            }
            Line::Scan(mut flags) => self.scan(&mut flags)?,
            Line::Count(range) => {
                scan::count_open(&self.db, &range, &self.context)?;
            }
            Line::Flush => self.db.flush()?,
            Line::Compact => self.db.compact_range(None, None)?,
            Line::Levels => inside::levels_open(&self.db, &self.context)?,
            Line::Stats => inside::stats_open(&self.db, &self.context)?,
            Line::Timer { state } => self.timer = state == "on",
            Line::Mode { format } => self.context.asked = Some(format),
            Line::Key { format } => self.context.key = format,
            Line::Value { format } => self.context.value = format,
            Line::Help => self.context.note(HELP),
            Line::Quit => return Ok(Next::Stop),
        }
        Ok(Next::Go)
    }

    fn get(&self, key: &OsString) -> Result<(), Failure> {
        let key = argument(key, self.context.key)?;
        let Some(value) = self.db.get(&key)? else {
            let shown = self.context.key.show(&key);
            return Err(Failure::new(Exit::Absent, "E-NOT-FOUND", format!("no key {shown}")));
        };
        // Values stand on lines of their own here, so a raw value gets an end and escapes.
        let mut context = self.context.clone();
        if context.format(Format::Table) == Format::Raw {
            context.value = ByteFormat::Escaped;
            context.asked = Some(Format::Table);
        } else {
            context.asked = Some(context.format(Format::Table));
        }
        data::write_value(&key, &value, None, &context)
    }

    fn scan(&self, flags: &mut scan::ScanFlags) -> Result<(), Failure> {
        let cut = self.interactive && flags.limit_to(SCAN_LIMIT_ON_TERMINAL);
        let count = scan::scan_open(&self.db, flags, &self.context)?;
        if cut && count == SCAN_LIMIT_ON_TERMINAL {
            self.context.note(format!("first {}; --limit N shows more", show_count(count)));
        }
        Ok(())
    }

    fn greet(&self, path: &Path) {
        let levels = self.db.levels();
        let tables = levels.iter().flat_map(|level| &level.tables);
        let (count, bytes) =
            tables.fold((0, 0), |(count, bytes), table| (count + 1, bytes + table.bytes));
        let name =
            bold(concat!("siltstone ", env!("CARGO_PKG_VERSION")), io::stderr().is_terminal());
        self.context.note(format!(
            "{name}  {}  ({} tables, {})   .help for commands",
            path.display(),
            show_count(count),
            show_size(bytes)
        ));
    }
}

fn line_failure(error: &clap::Error) -> Failure {
    // Clap's first paragraph says it; its usage lines speak of a command line.
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or(&text);
    let first = first.trim_start_matches("error: ").replace("subcommand", "command");
    Failure::usage(first).step("see the commands", ".help")
}

fn terminal_failure(error: ReadlineError) -> Failure {
    Failure::new(Exit::Io, "E-TERMINAL", format!("terminal: {error}"))
        .step("run lines from a file", "siltstone DB < FILE")
}

/// `$XDG_STATE_HOME/siltstone/history`, made if need be; none if there is no home.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(|| {
        std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local").join("state"))
    })?;
    let folder = state.join("siltstone");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parsed(line: &str) -> Result<Line, Failure> {
        let words = words::split(line).map_err(Failure::usage)?;
        Line::try_parse_from(words).map_err(|error| line_failure(&error))
    }

    #[test]
    fn every_command_has_its_grammar() {
        Line::command().debug_assert();
        for line in [
            "get k",
            "put k -1",
            "del a b",
            "scan --prefix user/ --limit 5 --keys-only",
            "count --from a",
            ".mode json",
            ".timer on",
            ".key hex",
            "help",
            "exit",
        ] {
            assert!(parsed(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_wrong_line_says_what_is_wrong() {
        for line in ["get", "gett k", ".timer maybe", ".mode xml", "scan --limit many"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        let failure = format!("{:?}", parsed("gett k").unwrap_err());
        assert!(failure.contains("gett") && !failure.contains("subcommand"), "{failure}");
    }
}
