//! Opening without a trace: no lock, no file made or changed, beside a live writer if need be.
//!
//! The logs are replayed into memory. Tables are opened at once, so that a writer that removes them
//! cannot take them away; if it was faster than we were, we look again.

use std::path::Path;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::event::Listeners;
use crate::db::core::Core;
use crate::db::open::files::{Files, check_logs, check_tables};
use crate::db::open::may_open;
use crate::db::open::recovery::{assemble, replay_settings};
use crate::db::open::wal_replay::WalReplay;
use crate::db::options::Options;
use crate::db::settings::{self, Settings};
use crate::db::state::{Floor, Logged};
use crate::format::filename::FileNumber;
use crate::memtable::MemTable;
use crate::version::graveyard::Graveyard;
use crate::version::recover::{self, Recovered};

/// Looks at a database that changes under our eyes, before we give up.
const ATTEMPTS: usize = 20;

pub(crate) fn open(dir: &Path, options: Options) -> Result<Arc<Core>> {
    let options =
        Options { create_if_missing: false, error_if_exists: false, ..settings::clamp(options) };
    may_open(&*options.env.file_system, dir, &options)?;
    let mut last: Option<Error> = None;
    for _ in 0..ATTEMPTS {
        match try_open(dir, &options) {
            Ok(Some(core)) => return Ok(Arc::new(core)),
            Ok(None) => last = None,
            // The files of one look belong together, or some are gone by now: then the next look
            // fails at another place, if at all. Damage stays where it is.
            Err(error) if error.is_not_found() || error.is_corruption() => {
                if last.is_some_and(|last| last.to_string() == error.to_string()) {
                    return Err(error);
                }
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    let message = "the database changes faster than it can be read; try again";
    Err(Error::new(ErrorKind::Io, message).in_file(dir))
}

/// One look. `None` if the manifest moved on meanwhile.
fn try_open(dir: &Path, options: &Options) -> Result<Option<Core>> {
    let fs = Arc::clone(&options.env.file_system);
    let settings = Settings::resolve(options)?;
    let graveyard = Arc::new(Graveyard::new());
    let recovered = recover::recover(&*fs, dir, &settings.order, &graveyard)?;
    let files = Files::list(&*fs, dir)?;
    let listeners = Listeners::new(options.listeners.clone());
    let (memtable, _) = MemTable::new(settings.order.user.clone(), 0, options.env.seed);
    let prepared = (settings, listeners, None);
    let mut core = assemble(dir, options.clone(), prepared, graveyard, memtable);
    check_logs(&*fs, dir, &recovered, &files.wals())?;
    check_tables(core.store.list()?, dir, &recovered.version)?;
    for (_, table) in recovered.version.tables() {
        table.open(&core.tables)?;
    }
    replay_into_memory(&mut core, &recovered, &files)?;
    let again = recover::recover(&*fs, dir, &core.settings.order, &core.graveyard)?;
    let same = again.log_number == recovered.log_number
        && again.manifest == recovered.manifest
        && same_tables(&again, &recovered);
    publish(&core, recovered);
    Ok(same.then_some(core))
}

fn same_tables(a: &Recovered, b: &Recovered) -> bool {
    let numbers = |of: &Recovered| -> Vec<FileNumber> {
        of.version.tables().map(|(_, table)| table.number).collect()
    };
    numbers(a) == numbers(b)
}

fn replay_into_memory(core: &mut Core, recovered: &Recovered, files: &Files) -> Result<()> {
    let wals: Vec<_> =
        files.wals().into_iter().filter(|number| recovered.needs_wal(*number)).collect();
    let mut full: Vec<Arc<MemTable>> = Vec::new();
    let mut keep = |memtable: &Arc<MemTable>| {
        full.push(Arc::clone(memtable));
        Ok(())
    };
    let settings = replay_settings(core, recovered);
    let replay = WalReplay::new(settings, &*core.env.file_system, &core.dir, &mut keep);
    let (rest, report) = replay.run(&wals)?;
    let start = recovered.last_seqno.plus(1);
    let logged = |table| Logged { table, wal: recovered.log_number, start };
    let mut state = core.state.lock();
    state.immutables = full.into_iter().map(logged).collect();
    state.memtable = logged(Arc::clone(rest.table()));
    drop(state);
    core.view.show(report.last_seqno);
    core.recovery = report;
    Ok(())
}

fn publish(core: &Core, recovered: Recovered) {
    core.set_floor(Floor { wal: recovered.log_number, last_seqno: recovered.last_seqno });
    let mut state = core.state.lock();
    state.version = Arc::new(recovered.version);
    core.publish(&state);
}
