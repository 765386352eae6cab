//! Making a database, and bringing one back: manifest, logs into tables (rule R7: what recovery
//! shows is in fresh, synced storage first), then a new manifest and a new log.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::event::{Listeners, RecoveryReport};
use crate::base::key::{SEQNO_MAX, SeqNo};
use crate::base::metrics::Counters;
use crate::base::slot::Slot;
use crate::base::sync::atomic::{AtomicBool, AtomicU64};
use crate::base::sync::{Mutex, Rank, Signal};
use crate::compaction::executor::LocalExecutor;
use crate::compaction::hot_map::HotMap;
use crate::compaction::in_flight::InFlight;
use crate::compaction::policy::{Compaction, CompactionPolicy};
use crate::db::background::away::Away;
use crate::db::background::bell::Bell;
use crate::db::background::quiet::Quiet;
use crate::db::background::readers::Readers;
use crate::db::background::seat::Seat;
use crate::db::core::Core;
use crate::db::loan::Loan;
use crate::db::open::files::{Files, check_logs, check_tables};
use crate::db::open::wal_replay::{ReplaySettings, WalReplay};
use crate::db::options::{Background, Options};
use crate::db::read::kept::KeptScans;
use crate::db::read::log_bills::LogBills;
use crate::db::read::snapshot::SnapshotList;
use crate::db::settings::Settings;
use crate::db::state::{Floor, Logged, State};
use crate::db::super_version::View;
use crate::db::write::backlog::Backlog;
use crate::db::write::committer::Committer;
use crate::db::write::pace::Pace;
use crate::db::write::queue::WriteQueue;
use crate::db::write::spare::Spare;
use crate::db::write::turns::Turns;
use crate::db::write::wal::Wal;
use crate::env::fs::FileLock;
use crate::env::site::Site;
use crate::format::filename::FileNumber;
use crate::format::table::heat::Ring;
use crate::memtable::{Inserter, MemTable, Pool};
use crate::store::TableStore;
use crate::store::attended_cache::AttendedCache;
use crate::store::local::LocalStore;
use crate::store::table_cache::TableCache;
use crate::version::Version;
use crate::version::builder::{self, Change};
use crate::version::graveyard::Graveyard;
use crate::version::manifest_log::ManifestLog;
use crate::version::recover::{self, Recovered};
use crate::version::table_meta::TableMeta;

/// What `open` has prepared when recovery begins.
pub(crate) type Prepared = (Settings, Listeners, Box<dyn FileLock>);

/// The number a fresh database starts counting at: LevelDB's first manifest has the number 2.
const FIRST_FILE: FileNumber = FileNumber(2);
/// Where logs go of which recovery dropped a part.
pub(crate) const LOST_FOLDER: &str = "lost";

pub(crate) fn create(
    dir: &Path,
    options: Options,
    (settings, listeners, lock): Prepared,
) -> Result<Core> {
    let graveyard = Arc::new(Graveyard::new());
    let (memtable, _) = MemTable::new(settings.order.user.clone(), 0, options.env.seed);
    let files = Files::list(&*options.env.file_system, dir)?;
    let files = files.with_tables_of(options.table_store.as_deref())?;
    files.check_no_remains(&*options.env.file_system, dir)?;
    let next_file = files.next_number(dir, FIRST_FILE)?;
    let mut core = assemble(dir, options, (settings, listeners, Some(lock)), graveyard, memtable);
    core.next_file = AtomicU64::new(next_file);
    let (_, inserter) = core.new_memtable();
    begin(&mut core, Version::default(), inserter, SeqNo(0)..SeqNo(0))?;
    bury_orphans(&core, &files);
    Ok(core)
}

pub(crate) fn recover(
    dir: &Path,
    options: Options,
    (settings, listeners, lock): Prepared,
) -> Result<Core> {
    let begin_time = options.env.clock.now();
    let graveyard = Arc::new(Graveyard::new());
    let fs = Arc::clone(&options.env.file_system);
    let recovered = recover::recover(&*fs, dir, &settings.order, &graveyard)?;
    let files = Files::list(&*fs, dir)?.with_tables_of(options.table_store.as_deref())?;
    check_logs(&*fs, dir, &recovered, &files.wals())?;
    let next_file = files.next_number(dir, recovered.next_file)?;
    let (memtable, _) = MemTable::new(settings.order.user.clone(), 0, options.env.seed);
    let mut core = assemble(dir, options, (settings, listeners, Some(lock)), graveyard, memtable);
    check_tables(core.store.list()?, dir, &recovered.version)?;
    core.next_file = AtomicU64::new(next_file);
    let wals: Vec<_> =
        files.wals().into_iter().filter(|number| recovered.needs_wal(*number)).collect();
    let (version, inserter, mut report) = replay_into_tables(&core, &recovered, &wals)?;
    begin(&mut core, version, inserter, recovered.last_seqno..report.last_seqno)?;
    set_aside(&core, &report);
    bury_orphans(&core, &files);
    report.elapsed = core.env.clock.now().saturating_sub(begin_time);
    core.recovery = report;
    Ok(core)
}

/// Replays the logs and writes what they hold as tables of level 0. With
/// [`reuse_logs`](Options::reuse_logs) the last memtable stays in memory.
fn replay_into_tables(
    core: &Core,
    recovered: &Recovered,
    wals: &[FileNumber],
) -> Result<(Version, Inserter, RecoveryReport)> {
    let mut added: Vec<(Slot, Arc<TableMeta>)> = Vec::new();
    let mut flush = |memtable: &Arc<MemTable>| {
        // Nobody has a snapshot yet.
        let table = core.build_level0(memtable, &[SEQNO_MAX])?;
        added.extend(table.map(|table| (Slot::L0, table)));
        Ok(())
    };
    let settings = replay_settings(core, recovered);
    let replay = WalReplay::new(settings, &*core.env.file_system, &core.dir, &mut flush);
    let (mut inserter, report) = replay.run(wals)?;
    if !core.options.reuse_logs {
        flush(inserter.table())?;
        (_, inserter) = core.new_memtable();
    }
    let change = Change { added, removed: Vec::new() };
    let version = builder::apply(&core.settings.order, &recovered.version, change)?;
    Ok((version, inserter, report))
}

pub(crate) fn replay_settings(core: &Core, recovered: &Recovered) -> ReplaySettings {
    ReplaySettings {
        order: core.settings.order.user.clone(),
        memtable_bytes: core.settings.write_buffer_bytes,
        paranoid: core.options.paranoid_checks,
        baseline: recovered.last_seqno,
        seed: core.next_seed(),
    }
}

/// Starts writing: a new log, which holds what the memtable does, and a new manifest that needs no
/// older one. `seqnos`: the old manifest's last one, and the last that recovery has found.
fn begin(
    core: &mut Core,
    version: Version,
    inserter: Inserter,
    seqnos: Range<SeqNo>,
) -> Result<()> {
    let manifest_number = core.new_file_number();
    let fs = Arc::clone(&core.env.file_system);
    let table = Arc::clone(inserter.table());
    let next_seqno = seqnos.end.plus(1);
    let start = table.first_seqno().unwrap_or(next_seqno);
    let wal_number = core.new_file_number();
    let reuses = !table.is_empty();
    let mut wal = if reuses {
        // It vouches for nothing yet. What came before it may be in the new tables alone, and only the
        // new manifest names those: beside the old one it must not hide that older logs have lost
        // what the tables hold.
        core.relog(&[Arc::clone(&table)], wal_number, None)?
    } else {
        Wal::create(&core.log_place(), wal_number)?
    };
    // A log that healing made may repeat what is in tables: the floor does not fall for that.
    let last_seqno = SeqNo(start.0.saturating_sub(1)).max(seqnos.start);
    core.set_floor(Floor { wal: wal.number(), last_seqno });
    let snapshot = core.snapshot_edit(&version, core.floor());
    let manifest = ManifestLog::create(&fs, &core.dir, manifest_number, &snapshot)?;
    core.tell_store(manifest.last_edit(), &snapshot, true);
    if reuses {
        // Rule R8: from now on damage to what it took over is told from a crash's tail.
        wal.append_mark(next_seqno)?;
        wal.sync(Site::WalSyncRelog)?;
    }
    core.counters.manifest_rotations.add(1);
    *core.manifest.lock() = Some(manifest);
    core.view.show(seqnos.end);
    {
        let mut state = core.state.lock();
        state.memtable = Logged { table, wal: wal.number(), start };
        state.version = Arc::new(version);
        state.wals = vec![wal.number()];
        core.publish(&state);
    }
    let committer =
        Committer { inserter, wal, older: Vec::new(), next_seqno, pace: Pace::default() };
    core.queue = Some(WriteQueue::new(Some(Box::new(committer))));
    Ok(())
}

/// A core without logs, tables or a queue.
pub(crate) fn assemble(
    dir: &Path,
    options: Options,
    (settings, listeners, lock): (Settings, Listeners, Option<Box<dyn FileLock>>),
    graveyard: Arc<Graveyard>,
    memtable: Arc<MemTable>,
) -> Core {
    let store = table_store(dir, &options);
    let tables = table_cache(&options, &settings, &store, (&graveyard, lock.is_some()));
    let state = empty_state(memtable, options.compaction.policy(settings.leveled));
    Core {
        dir: dir.to_owned(),
        env: options.env.clone(),
        listeners,
        counters: Counters::default(),
        recovery: RecoveryReport::default(),
        view: View::new(state.super_version()),
        snapshots: SnapshotList::new(),
        kept_scans: KeptScans::default(),
        queue: None,
        turns: Turns::new(settings.write_buffer_bytes),
        spare: Spare::default(),
        manifest: Mutex::new(Rank::Manifest, None),
        state: Mutex::new(Rank::State, state),
        work: Bell::default(),
        changed: Signal::default(),
        level0_tables: AtomicU64::new(0),
        level0_use: AtomicU64::new(0),
        backlog: Backlog::default(),
        hot_map: (options.compaction == Compaction::L2sm)
            .then(|| Mutex::new(Rank::Leaf, HotMap::new())),
        log_bills: (options.compaction == Compaction::Sliced && settings.scan_compaction)
            .then(LogBills::default),
        tells_hotness: AtomicBool::new(options.compaction == Compaction::L2sm),
        merges: AtomicU64::new(0),
        seat: Seat::default(),
        readers: Readers::default(),
        quiet: Quiet::default(),
        failed: AtomicBool::new(false),
        cancelled: AtomicBool::new(false),
        next_file: AtomicU64::new(FIRST_FILE.0),
        floor_wal: AtomicU64::new(0),
        floor_seqno: AtomicU64::new(0),
        seed: AtomicU64::new(options.env.seed),
        memory: Pool::for_memtables_of(settings.write_buffer_bytes),
        loan: Loan::new(Arc::clone(&settings.block_cache)),
        graveyard,
        store,
        tables: Arc::new(tables),
        executor: Box::new(LocalExecutor::new()),
        entrance: Arc::default(),
        _lock: lock,
        options,
        settings,
    }
}

/// Of no files.
fn empty_state(memtable: Arc<MemTable>, policy: Box<dyn CompactionPolicy>) -> State {
    State {
        memtable: Logged { table: memtable, wal: FileNumber(0), start: SeqNo(1) },
        immutables: VecDeque::new(),
        wals: Vec::new(),
        version: Arc::default(),
        policy,
        in_flight: InFlight::default(),
        away: Away::default(),
        next_job: 0,
        flushing: false,
        retrying: None,
        ailing: false,
        failed: None,
        closing: false,
        level_stats: Default::default(),
    }
}

/// The user's, or the folder.
fn table_store(dir: &Path, options: &Options) -> Arc<dyn TableStore> {
    match &options.table_store {
        Some(store) => Arc::clone(store),
        None => Arc::new(LocalStore::new(Arc::clone(&options.env.file_system), dir)),
    }
}

/// The open tables. Where there is housekeeping, it is rung for to keep some of them in memory, and to make memory for their blocks.
fn table_cache(
    options: &Options,
    settings: &Settings,
    store: &Arc<dyn TableStore>,
    (graveyard, is_written): (&Arc<Graveyard>, bool),
) -> TableCache {
    let keeps_house = is_written && options.background != Background::ByHand;
    let ring = |ask: fn(&Graveyard)| -> Option<Ring> {
        let graveyard = Arc::clone(graveyard);
        keeps_house.then(|| Arc::new(move || ask(&graveyard)) as Ring)
    };
    let store = Arc::clone(store);
    let cache = Arc::clone(&settings.block_cache);
    let blocks = Arc::new(AttendedCache::new(cache, ring(Graveyard::ask_for_cache_memory)));
    let tables = TableCache::new(store, settings.read.clone(), blocks, settings.open_tables_max);
    match ring(Graveyard::ask_for_residents) {
        Some(ring) if options.resident_bytes > 0 => tables.with_ring(ring),
        _ => tables,
    }
}

/// Keeps logs of which a part was dropped: what no promise covers may still be worth salvaging.
/// Best effort, like every copy nobody asked for; the next open removes what stayed.
fn set_aside(core: &Core, report: &RecoveryReport) {
    let fs = &core.env.file_system;
    let lost = core.dir.join(LOST_FOLDER);
    for dropped in &report.dropped {
        let Some(name) = dropped.file.file_name() else { continue };
        let moved = fs
            .create_dir(&lost, Site::WalSetAside)
            .and_then(|()| fs.rename(&dropped.file, &lost.join(name), Site::WalSetAside));
        if let Err(error) = moved {
            core.tell_background_error(&error, false);
        }
    }
}

fn bury_orphans(core: &Core, files: &Files) {
    let manifest = core.manifest.lock().as_ref().map_or(FileNumber(0), ManifestLog::number);
    let version = Arc::clone(&core.state.lock().version);
    for name in files.orphans(&version, core.floor().wal, manifest) {
        core.graveyard.bury(name);
    }
}
