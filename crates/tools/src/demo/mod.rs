//! `siltstone demo`: a tour on a throw-away database, told as it goes. Each act is a function;
//! `crash` is the one with a second process, `picture` draws the levels.

mod crash;
mod picture;

use std::collections::HashSet;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use siltstone::{BloomFilter, Db, Options, ReadOptions, WriteBatch, WriteOptions};

use crate::errors::{Exit, Failure, Outcome};
use crate::load::pipe::pipe;
use crate::load::writer::{Duplicates, Writer};
use crate::load::{Input, Pair};
use crate::output::{Cell, Context, Format, Record, bold};
use crate::sizes::{show_count, show_duration, show_rate};
use crate::verbs::load::progress;

pub(crate) use crash::{WriterArgs, write_until_killed};

/// The names of Unicode's characters, in two files that share a tenth of their keys.
const NAMES: [(&str, &[u8]); 2] = [
    ("names-a.json", include_bytes!("../../../../testdata/unicode/names-a.json")),
    ("names-b.json", include_bytes!("../../../../testdata/unicode/names-b.json")),
];

/// Small, so that a database of a few megabytes has levels to show.
const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// Take the tour: load, read, scan, delete, crash, recover
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Keep the database in this folder [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Fewer writes before the crash
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(args: &DemoArgs, context: &Context) -> Outcome {
    let start = Instant::now();
    let home = Home::make(args.keep.as_deref())?;
    let mut tour = Tour { context, act: 0, facts: Vec::new() };
    tour.say(format!(
        "siltstone is an embedded key-value engine that speaks LevelDB's files.\n\
         This tour builds a database in {} and tries to break it.",
        home.path.display()
    ))?;
    let db = Db::open(&home.path, options())?;
    tour.load(&db)?;
    tour.read(&db)?;
    tour.scan(&db)?;
    tour.delete(&db)?;
    db.close()?;
    tour.crash(&home.path, args.quick)?;
    tour.picture(&home.path)?;
    tour.end(&home, start.elapsed())?;
    Ok(Exit::Ok)
}

fn options() -> Options {
    Options {
        create_if_missing: true,
        write_buffer_size: WRITE_BUFFER_BYTES,
        max_file_size: 1 << 20,
        filter_policy: Some(Arc::new(BloomFilter::new(10))),
        ..Options::default()
    }
}

/// The folder of the demo's database, removed at the end unless it is to be kept.
struct Home {
    path: PathBuf,
    keep: bool,
}

impl Home {
    fn make(keep: Option<&Path>) -> Result<Home, Failure> {
        let path = match keep {
            Some(path) => path.to_owned(),
            None => std::env::temp_dir().join(format!("siltstone-demo-{}", std::process::id())),
        };
        if path.exists() {
            return Err(Failure::usage(format!("{} is there already", path.display()))
                .detail("the demo makes a new database and overwrites nothing"));
        }
        fs::create_dir_all(&path).map_err(|error| Failure::file("create", &path, &error))?;
        Ok(Home { path, keep: keep.is_some() })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !self.keep {
            // The folder is temporary; the system will clear what we could not.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// The telling: acts are numbered, and what they find is kept for `-o json`.
struct Tour<'a> {
    context: &'a Context,
    act: u32,
    facts: Record,
}

impl Tour<'_> {
    /// Whether stdout belongs to the facts, so that the story goes to stderr.
    fn for_machines(&self) -> bool {
        self.context.asked.is_some_and(|format| format != Format::Table)
    }

    fn say(&self, text: impl AsRef<str>) -> Result<(), Failure> {
        if self.for_machines() {
            self.context.note(text);
        } else {
            writeln!(io::stdout(), "{}", text.as_ref())?;
        }
        Ok(())
    }

    fn begin(&mut self, title: &str) -> Result<(), Failure> {
        self.act += 1;
        let on_terminal = io::stdout().is_terminal() && !self.for_machines();
        self.say(format!("\n{}", bold(&format!("{}. {title}", self.act), on_terminal)))
    }

    fn load(&mut self, db: &Db) -> Result<(), Failure> {
        self.begin("Load two JSON files")?;
        let start = Instant::now();
        let mut writer = Writer::new(db, Duplicates::Count);
        let mut parse = Duration::ZERO;
        for (name, text) in NAMES {
            let bar = progress(name.as_ref(), Some(text.len() as u64), self.context);
            let input = Input::embedded(name, text);
            let done = input.done();
            let (key, value) = (self.context.key, self.context.value);
            let part = pipe(
                move |sink| input.read(key, value, sink),
                |batch: &[Pair]| {
                    writer.write(batch)?;
                    bar.set_position(done.load(std::sync::atomic::Ordering::Relaxed));
                    bar.set_message(show_rate(writer.written, start.elapsed()));
                    Ok(())
                },
            )?;
            bar.finish_and_clear();
            parse += part.parse;
        }
        let took = start.elapsed();
        self.facts.push(("loaded", Cell::Count(writer.written)));
        self.facts.push(("duplicates", Cell::Count(writer.duplicates)));
        self.facts.push(("load_us", Cell::Time(took)));
        self.say(format!(
            "   {} names of Unicode characters in {} ({}): parse {}, write {}.\n   \
             {} keys were in both files: the later value won.",
            show_count(writer.written),
            show_duration(took),
            show_rate(writer.written, took),
            show_duration(parse),
            show_duration(writer.time),
            show_count(writer.duplicates),
        ))
    }

    fn read(&mut self, db: &Db) -> Result<(), Failure> {
        self.begin("Read single keys")?;
        for (key, what) in [
            ("U+0041", "first read"),
            ("U+0041", "the same again"),
            ("U+00E9", "another key"),
            ("U+ABSENT", "a key that is not there; Bloom filters spare the look"),
        ] {
            let start = Instant::now();
            let value = db.get(key.as_bytes())?;
            let took = start.elapsed();
            let shown = value.map_or("(nothing)".into(), |value| self.context.value.show(&value));
            self.say(format!("   get {key:9} {shown:38} {:>9}   {what}", show_duration(took)))?;
        }
        Ok(())
    }

    fn scan(&mut self, db: &Db) -> Result<(), Failure> {
        self.begin("Scan a prefix: keys are kept in order")?;
        let prefix = b"U+260";
        let start = Instant::now();
        let mut iter = db.iter()?;
        let mut count = 0;
        iter.seek(prefix)?;
        while iter.valid() && iter.key().starts_with(prefix) {
            if count < 5 {
                let (key, value) = (iter.key().to_vec(), iter.value().to_vec());
                self.say(format!(
                    "   {:9} {}",
                    self.context.key.show(&key),
                    self.context.value.show(&value)
                ))?;
            }
            count += 1;
            iter.next()?;
        }
        self.facts.push(("scanned", Cell::Count(count)));
        self.say(format!(
            "   .. {count} keys begin with U+260, in {}",
            show_duration(start.elapsed())
        ))
    }

    fn delete(&mut self, db: &Db) -> Result<(), Failure> {
        self.begin("Delete, with a snapshot taken before")?;
        let snapshot = db.snapshot();
        let mut batch = WriteBatch::new();
        for code in 0x41..=0x5a {
            batch.delete(format!("U+{code:04X}").as_bytes());
        }
        db.write(&batch, WriteOptions::default())?;
        let read = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
        let (None, Some(old)) = (db.get(b"U+0042")?, db.get_with(b"U+0042", &read)?) else {
            return Err(broken("the snapshot or the delete is wrong"));
        };
        let old = self.context.value.show(&old);
        self.facts.push(("deleted", Cell::Count(26)));
        self.say(format!(
            "   deleted the 26 capital letters in one atomic batch\n   \
             get U+0042 now              (nothing)\n   \
             get U+0042 in the snapshot  {old}"
        ))
    }

    fn crash(&mut self, path: &Path, quick: bool) -> Result<(), Failure> {
        self.begin("Kill a writer, and recover")?;
        let crash = crash::kill_a_writer(path, if quick { 50 } else { 1000 })?;
        self.say(format!(
            "   a second process wrote orders, each synced to disk before it was acknowledged;\n   \
             after {} acknowledgements it was killed in mid-flight (SIGKILL, no goodbye)",
            show_count(crash.acknowledged.len() as u64)
        ))?;
        let start = Instant::now();
        let db = Db::open(path, options())?;
        let took = start.elapsed();
        let replayed = db.recovery_report().batches;
        let found = crash::orders(&db)?;
        let lost: Vec<&u64> = crash.acknowledged.difference(&found).collect();
        let extra = found.difference(&crash.acknowledged).collect::<HashSet<_>>().len();
        db.close()?;
        if !lost.is_empty() {
            return Err(broken(format!("{} acknowledged writes are gone", lost.len())));
        }
        self.facts.push(("acknowledged", Cell::Count(crash.acknowledged.len() as u64)));
        self.facts.push(("recovered", Cell::Count(found.len() as u64)));
        self.facts.push(("recovery_us", Cell::Time(took)));
        self.say(format!(
            "   reopened in {}, replaying {} batches from the write-ahead log:\n   \
             every acknowledged write is there, byte for byte{}",
            show_duration(took),
            show_count(replayed),
            if extra > 0 {
                format!("\n   ({extra} more had reached the log when the process died)")
            } else {
                String::new()
            }
        ))
    }

    fn picture(&mut self, path: &Path) -> Result<(), Failure> {
        self.begin("The tables, level by level")?;
        let db = Db::open(path, options())?;
        db.flush()?;
        for line in picture::lines(&db.levels(), self.context.key) {
            self.say(format!("   {line}"))?;
        }
        self.say("   new tables enter at level 0; compaction merges them downwards, ten times wider a level")?;
        let tables = db.levels().iter().map(|level| level.tables.len() as u64).sum();
        self.facts.push(("tables", Cell::Count(tables)));
        db.close()?;
        Ok(())
    }

    fn end(mut self, home: &Home, took: Duration) -> Result<(), Failure> {
        self.facts.push(("total_us", Cell::Time(took)));
        let database = if home.keep { home.path.display().to_string() } else { "./db".into() };
        let first = if home.keep {
            format!("siltstone {database}                  a shell on this database")
        } else {
            "siltstone demo --keep ./db    the same, and keep the database".into()
        };
        self.say(format!(
            "\nDone in {}. Next:\n   {first}\n   \
             siltstone scan {database} --prefix U+1F60\n   \
             siltstone gen json a.json b.json --pairs 3M --duplicates 0.1\n   \
             siltstone load ./big a.json b.json\n   \
             siltstone help",
            show_duration(took)
        ))?;
        if self.for_machines() {
            self.context.record(self.facts)?;
        }
        Ok(())
    }
}

/// The tour found the engine wrong.
fn broken(what: impl Into<String>) -> Failure {
    Failure::new(Exit::Corruption, "E-DEMO", what).detail("this is a bug in siltstone: report it")
}
