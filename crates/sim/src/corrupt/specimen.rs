//! The databases that are damaged: small, each of another kind, and with it all that is known of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use siltstone::{
    Background, BlockCache, BloomFilter, Compression, Db, Env, Options, Verdict, verify,
};

use super::history::{Author, History};
use super::wal_map::{Record, log_records};
use crate::Folder;

/// Where every specimen lies.
pub(super) const DIR: &str = "/db";

pub(super) type Files = Vec<(String, Vec<u8>)>;

/// How a specimen is made and opened.
pub(super) struct Recipe {
    pub(super) name: &'static str,
    set: fn(&mut Options),
    write: fn(&mut Author<'_>),
    /// Opened once more before it is looked at, so that logs have become tables.
    reopened: bool,
}

pub(super) struct Specimen {
    pub(super) name: &'static str,
    set: fn(&mut Options),
    /// Those that the database needs.
    pub(super) files: Files,
    pub(super) history: History,
    /// What lies where in the logs.
    pub(super) wals: BTreeMap<String, Vec<Record>>,
    /// Another database made in the same way, with other values.
    pub(super) twin: Option<Box<Specimen>>,
}

impl Specimen {
    pub(super) fn options(&self, env: &Env) -> Options {
        let mut options = plain(env);
        (self.set)(&mut options);
        options
    }

    pub(super) fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(known, _)| known == name).map(|(_, bytes)| &bytes[..])
    }

    /// The names of files of one kind.
    pub(super) fn named(&self, kind: Kind) -> impl Iterator<Item = &str> {
        let names = self.files.iter().map(|(name, _)| &name[..]);
        names.filter(move |name| Kind::of(name) == kind)
    }
}

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Wal,
    Table,
    Manifest,
    Current,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::Wal, Kind::Table, Kind::Manifest, Kind::Current];

    pub(super) fn of(name: &str) -> Self {
        match name {
            "CURRENT" => Kind::Current,
            _ if name.starts_with("MANIFEST-") => Kind::Manifest,
            _ if name.ends_with(".log") => Kind::Wal,
            _ => Kind::Table,
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Kind::Wal => "WAL",
            Kind::Table => "table",
            Kind::Manifest => "MANIFEST",
            Kind::Current => "CURRENT",
        }
    }
}

/// Settings under which nothing happens by itself, and a few dozen bytes fill a block.
fn plain(env: &Env) -> Options {
    Options {
        create_if_missing: true,
        env: env.clone(),
        info_log: false,
        block_cache: Some(Arc::new(BlockCache::new(0))),
        block_size: 128,
        block_restart_interval: 4,
        compression: Compression::None,
        background: Background::ByHand,
        max_immutable_memtables: 16,
        unclamped: true,
        ..Default::default()
    }
}

/// A block takes a sector, so that whole blocks change places with the sectors.
const SECTOR_BLOCK_VALUE_BYTES: u64 = 512 - (4 + 3 + 8) - 8 - 5;
/// A record takes a sector: headers of record and batch, kind, lengths, key.
const SECTOR_RECORD_VALUE_BYTES: u64 = 512 - 7 - 12 - 1 - 1 - 3 - 2;

pub(super) const RECIPES: [Recipe; 17] = [
    log("wal-unsynced", |author| author.write(14, 0)),
    log("wal-synced", |author| author.write(12, 100)),
    log("wal-mixed", |author| author.write(20, 30)),
    log("wal-sectors", |author| author.write_row(6, SECTOR_RECORD_VALUE_BYTES, false)),
    log("wal-blocks", |author| author.write_row(4, 11_000, true)),
    Recipe {
        name: "wal-copied",
        set: |options| options.reuse_logs = true,
        write: |author| author.write(10, 30),
        reopened: true,
    },
    Recipe {
        name: "wals-mixed",
        set: |options| options.write_buffer_size = 700,
        write: |author| author.write(20, 30),
        reopened: false,
    },
    Recipe {
        name: "wals-unsynced",
        set: |options| options.write_buffer_size = 700,
        write: |author| author.write(16, 0),
        reopened: false,
    },
    tables("table-one-block", |options| options.block_size = 4096, one_table),
    tables("table-blocks", |_| {}, one_table),
    tables("table-filter", filter, one_table),
    tables("table-snappy", |options| compressed(options, Compression::Snappy), one_table),
    tables("table-zstd", |options| compressed(options, Compression::Zstd(1)), one_table),
    tables(
        "table-sectors",
        |_| {},
        |author| {
            author.write_row(5, SECTOR_BLOCK_VALUE_BYTES, false);
            author.db.flush().unwrap();
        },
    ),
    tables(
        "tables-alike",
        |_| {},
        |author| {
            for _ in 0..3 {
                author.write_row(6, 8, false);
                author.db.flush().unwrap();
            }
            author.write(3, 50);
        },
    ),
    tables("levels", filter, |author| {
        for _ in 0..3 {
            author.write(8, 20);
            author.db.compact_range(None, None).unwrap();
            author.write(4, 20);
            author.db.flush().unwrap();
        }
        author.write(4, 50);
        sweep(author.db);
    }),
    tables(
        "manifest-long",
        |_| {},
        |author| {
            for _ in 0..14 {
                author.write(1, 50);
                author.db.flush().unwrap();
                sweep(author.db);
            }
            author.write(3, 50);
        },
    ),
];

const fn log(name: &'static str, write: fn(&mut Author<'_>)) -> Recipe {
    Recipe { name, set: |_| {}, write, reopened: false }
}

const fn tables(name: &'static str, set: fn(&mut Options), write: fn(&mut Author<'_>)) -> Recipe {
    Recipe { name, set, write, reopened: false }
}

fn filter(options: &mut Options) {
    options.filter_policy = Some(Arc::new(BloomFilter::new(10)));
}

fn compressed(options: &mut Options, compression: Compression) {
    options.compression = compression;
    options.block_size = 256;
}

fn one_table(author: &mut Author<'_>) {
    author.write(16, 20);
    author.db.flush().unwrap();
    sweep(author.db);
    author.write(2, 50);
}

fn sweep(db: &Db) {
    while db.run_background_step().unwrap() {}
}

impl Recipe {
    /// The database and its twin, as files.
    pub(super) fn make(&self, seed: u64) -> Specimen {
        let mut specimen = self.make_one(seed, seed.wrapping_mul(3));
        specimen.twin = Some(Box::new(self.make_one(seed, seed.wrapping_mul(3) + 2)));
        specimen
    }

    fn make_one(&self, shape_seed: u64, content_seed: u64) -> Specimen {
        let env = Env::memory();
        let mut options = plain(&env);
        (self.set)(&mut options);
        let db = Db::open(DIR, options.clone()).unwrap();
        let mut author = Author::new(&db, shape_seed, content_seed);
        (self.write)(&mut author);
        let history = author.history;
        drop(db);
        if self.reopened {
            sweep(&Db::open(DIR, options).unwrap());
        }
        let folder = Folder::new(Arc::clone(&env.file_system), DIR);
        Specimen::known((self.name, self.set), folder.files(), history)
    }
}

impl Specimen {
    fn known(
        (name, set): (&'static str, fn(&mut Options)),
        mut files: Files,
        history: History,
    ) -> Self {
        let orphans = orphans(&files, set);
        files.retain(|(name, _)| !orphans.contains(name));
        let logs = files.iter().filter(|(name, _)| Kind::of(name) == Kind::Wal);
        let wals = logs.map(|(name, bytes)| (name.clone(), log_records(bytes, &history))).collect();
        Specimen { name, set, files, history, wals, twin: None }
    }

    /// What LevelDB itself wrote (`testdata/leveldb-1.23/make.cc`): no properties in the table.
    pub(super) fn by_leveldb() -> Self {
        let mut history = History::new();
        let put = |key: &str, value: &[u8]| (key.as_bytes().to_vec(), Some(value.to_vec()));
        let delete = |key: &str| (key.as_bytes().to_vec(), None);
        history.push(vec![put("apple", b"red")]);
        history.push(vec![put("banana", b"yellow")]);
        history.push(vec![delete("apple")]);
        history.push(vec![put("banana", b"brown")]);
        history.push(vec![put("cherry", b"\x00\xff'\\")]);
        history.push(vec![put("date", b""), put("", b"empty key"), delete("banana")]);
        history.push(vec![put("elder", b"last")]);
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/leveldb-1.23/small");
        let files = Folder::new(Env::default().file_system, dir).files();
        Specimen::known(("leveldb", |_| {}), files, history)
    }
}

/// Files that the next open would sweep.
fn orphans(files: &Files, set: fn(&mut Options)) -> Vec<String> {
    let env = Env::memory();
    Folder::new(Arc::clone(&env.file_system), DIR).put_files(files);
    let mut options = plain(&env);
    set(&mut options);
    let report = verify(DIR, &options).unwrap();
    assert!(report.is_ok(), "an undamaged specimen has no problems: {report}");
    let orphans = report.files.iter().filter(|file| matches!(file.verdict, Verdict::Orphan));
    let names = orphans.filter_map(|file| file.path.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}
