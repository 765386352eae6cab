//! A database in a set-up, and what it stands on.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use siltstone::{Env, Error, ErrorKind, LocalStore, Result, TableStore};
use siltstone_cloud::LocalCopies;

use super::super::Places;
use super::SetUp;
use crate::crew::{Client, Crew, Workers};
use crate::stage::{Extras, Machine, Mode, Opened, Plan, Sizes, Stage};

/// Of write buffers, while it is filled.
const FLUSHES: u64 = 32;
/// As many as the machine itself merges at once.
const WORKERS: Workers = Workers { count: 1, slots: 2 };
const WITHIN: Duration = Duration::from_secs(120);

/// In the order in which they end.
pub(super) struct Rig {
    pub(super) db: Opened,
    _client: Option<Client>,
    _crew: Option<Crew>,
    _tables: Option<Tables>,
    _machine: Machine,
    _stage: Stage,
}

impl Rig {
    pub(super) fn new(plan: &Plan, places: &Places, set_up: SetUp) -> Result<Self> {
        let stage = match set_up {
            SetUp::OnS3fs => mounted(plan, places)?,
            _ if set_up.mode() == Mode::Local => Stage::new(plan),
            _ => places.stage(plan),
        };
        let has_crew = set_up == SetUp::Worker;
        let crew = has_crew.then(|| Crew::start(&stage, WORKERS)).transpose()?;
        let client = crew.as_ref().map(|crew| crew.client(plan.seed)).transpose()?;
        let is_split = set_up == SetUp::TablesOnS3fs;
        let tables = is_split.then(|| Tables::on(&mounted(plan, places)?)).transpose()?;
        let extras = Extras {
            sizes: Some(Sizes::of(plan, FLUSHES)),
            prepare: client.as_ref().map(Client::prepare),
            table_store: tables.as_ref().map(Tables::store),
            ..Extras::default()
        };
        let machine = stage.machine("set-up")?;
        let db = machine.open_with(set_up.mode(), LocalCopies::All, extras)?;
        Ok(Rig {
            db,
            _client: client,
            _crew: crew,
            _tables: tables,
            _machine: machine,
            _stage: stage,
        })
    }

    /// Returns when there is nothing more to do.
    pub(super) fn settle(&self) -> Result<()> {
        self.db.flush()?;
        self.db.wait_for_background()?;
        match &self.db {
            Opened::There(db) => db.wait_for_bucket(WITHIN),
            Opened::Here(_) => Ok(()),
        }
    }

    pub(super) fn close(self) -> Result<()> {
        self.db.close()
    }
}

fn mounted(plan: &Plan, places: &Places) -> Result<Stage> {
    let message = "nobody has said where S3FS is";
    places.mounted(plan).ok_or_else(|| Error::new(ErrorKind::InvalidArgument, message))
}

/// A folder for the tables of a database that lies elsewhere. It goes with it.
struct Tables(Machine);

impl Tables {
    fn on(stage: &Stage) -> Result<Self> {
        let tables = Tables(stage.machine("tables")?);
        let folder = &tables.0.folder;
        fs::create_dir_all(folder).map_err(|error| {
            let message = format!("{}: {error}", folder.display());
            Error::new(ErrorKind::Io, message)
        })?;
        Ok(tables)
    }

    fn store(&self) -> Arc<dyn TableStore> {
        Arc::new(LocalStore::new(Env::posix().file_system, &self.0.folder))
    }
}
