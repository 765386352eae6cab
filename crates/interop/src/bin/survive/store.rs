//! Both engines opened so that little data makes much happen: small buffers, small tables, short
//! levels, background work on real threads. Neither with `paranoid_checks`: unsynced bytes that a
//! power cut has spoilt in the middle of a log would keep either from opening, as documented.

use std::num::ParseIntError;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use clap::ValueEnum;
use siltstone::{Background, Compression, Db, Event, EventListener, Level0Limits};
use siltstone_interop::candid::{Candid, Result};
use siltstone_interop::leveldb::{self, LevelDb};
use siltstone_interop::rng::Rng;

use crate::pipe::{Message, Voice};

/// Which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Siltstone,
    Leveldb,
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Siltstone => "siltstone",
            Engine::Leveldb => "leveldb",
        }
    }

    /// Opens the database in the folder `path`, or makes it.
    pub(crate) fn open(self, path: &Path, tuning: Tuning) -> Result<Candid> {
        match self {
            Engine::Siltstone => open_ours(path, ours(tuning)),
            Engine::Leveldb => {
                let leveldb = LevelDb::load().ok_or("libleveldb not found")?;
                let db = leveldb.open(path, &theirs(tuning));
                db.map(Candid::LevelDb).map_err(|error| error.to_string())
            }
        }
    }

    /// As [`open`](Self::open), telling of compactions where the engine does.
    pub(crate) fn open_telling(
        self,
        path: &Path,
        tuning: Tuning,
        voice: &Arc<Voice>,
    ) -> Result<Candid> {
        match self {
            Engine::Siltstone => {
                let listener = Arc::new(Teller(Arc::clone(voice)));
                let options = siltstone::Options { listeners: vec![listener], ..ours(tuning) };
                open_ours(path, options)
            }
            Engine::Leveldb => self.open(path, tuning),
        }
    }
}

fn open_ours(path: &Path, options: siltstone::Options) -> Result<Candid> {
    let db = Db::open(path, options).map_err(|error| error.to_string())?;
    Ok(Candid::Siltstone(Box::new(db)))
}

/// Which options a database has, for life: they are drawn from this number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning(pub(crate) u64);

impl FromStr for Tuning {
    type Err = ParseIntError;

    fn from_str(text: &str) -> std::result::Result<Tuning, ParseIntError> {
        text.parse().map(Tuning)
    }
}

impl Tuning {
    fn buffer_bytes(self) -> usize {
        Rng::new(self.0).pick(&[16 << 10, 64 << 10, 256 << 10, 1 << 20])
    }
}

/// siltstone's options.
pub(crate) fn ours(tuning: Tuning) -> siltstone::Options {
    let buffer_bytes = tuning.buffer_bytes();
    // Not the numbers that the buffer was drawn from.
    let mut rng = Rng::new(!tuning.0);
    siltstone::Options {
        create_if_missing: true,
        write_buffer_size: buffer_bytes,
        max_immutable_memtables: 1 + rng.below(3),
        max_file_size: buffer_bytes / 2,
        block_size: 1 << 10,
        compression: rng.pick(&[Compression::None, Compression::Snappy, Compression::Zstd(1)]),
        reuse_logs: rng.one_in(3),
        level0: Level0Limits { compact: 2, slow_down: 6, stop: 8 },
        level1_bytes: 2 * buffer_bytes as u64,
        compaction_lanes: 1 + rng.below(3),
        unclamped: true,
        ..siltstone::Options::default()
    }
}

/// siltstone's options for one who wants to see a folder in which nothing goes on.
pub(crate) fn ours_at_rest(tuning: Tuning) -> siltstone::Options {
    siltstone::Options { background: Background::ByHand, ..ours(tuning) }
}

/// LevelDB moves sizes up to its own bounds: buffers to 64 KiB, tables to 1 MiB.
fn theirs(tuning: Tuning) -> leveldb::Options {
    leveldb::Options {
        create_if_missing: true,
        write_buffer_size: tuning.buffer_bytes(),
        max_file_size: 1 << 20,
        block_size: 1 << 10,
        ..leveldb::Options::default()
    }
}

struct Teller(Arc<Voice>);

impl EventListener for Teller {
    fn on_event(&self, event: &Event) {
        match event {
            Event::CompactionStarted { .. } => self.0.say(Message::Compaction { begins: true }),
            Event::CompactionFinished { .. } => self.0.say(Message::Compaction { begins: false }),
            _ => {}
        }
    }
}
