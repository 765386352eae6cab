//! A database in the bucket of a [`Server`]: real tables and version edits, as an owner would have committed them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use siltstone::{
    Background, Db, EditedVersion, Env, FileNumber, FileSystem, Installed, Options,
    RandomAccessFile, Result, Site, TableStore, WritableFile,
};
use siltstone_cloud::{
    Call, Edit, Home, Opening, Part, Purpose, Root, Table, Token, VersionLog, read_newest, upload,
};
use siltstone_s3::{Location, S3Bucket};

use super::server::{BUCKET, KEY_ID, SECRET, Server};

/// Where tests have their database.
pub(crate) const PATH: &str = "orders";
/// Keys that it holds.
pub(crate) const KEYS: u64 = 600;

/// A change as the store was told of it.
struct Change {
    edit: Vec<u8>,
    added: Vec<(u64, Bytes)>,
    removed: Vec<u64>,
}

/// Tables in memory; keeps what is installed.
struct Keeper {
    files: Arc<dyn FileSystem>,
    changes: Mutex<Vec<Change>>,
}

impl Keeper {
    fn path(number: FileNumber) -> PathBuf {
        Path::new("tables").join(number.0.to_string())
    }

    fn whole(&self, number: FileNumber) -> Bytes {
        let file = self.open(number).unwrap();
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes.into()
    }
}

impl TableStore for Keeper {
    fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>> {
        self.files.create(&Keeper::path(number), Site::TableCreate)
    }

    fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
        self.files.open(&Keeper::path(number))
    }

    fn remove(&self, number: FileNumber) -> Result<()> {
        self.files.remove_file(&Keeper::path(number), Site::TableRemove)
    }

    fn list(&self) -> Result<Vec<FileNumber>> {
        let names = self.files.list(Path::new("tables"))?;
        Ok(names.iter().map(|name| FileNumber(name.parse().unwrap())).collect())
    }

    fn sync_names(&self) -> Result<()> {
        Ok(())
    }

    fn installed(&self, change: &Installed<'_>) {
        let added = change.added.iter().map(|number| (number.0, self.whole(*number)));
        self.changes.lock().unwrap().push(Change {
            edit: change.edit.to_vec(),
            added: added.collect(),
            removed: change.removed.iter().map(|number| number.0).collect(),
        });
    }
}

/// What a small database installs: flushes, and a merge that drops tables.
fn changes() -> Vec<Change> {
    let env = Env::memory();
    let files = Arc::clone(&env.file_system);
    files.create_dir(Path::new("tables"), Site::DbDirCreate).unwrap();
    let store = Arc::new(Keeper { files, changes: Mutex::default() });
    let options = Options {
        create_if_missing: true,
        env,
        table_store: Some(store.clone()),
        info_log: false,
        background: Background::ByHand,
        ..Options::default()
    };
    let db = Db::open("db", options).unwrap();
    for round in 0..3 {
        for key in 0..KEYS / 2 {
            db.put(format!("key{key:06}"), format!("value {round}")).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    for key in KEYS / 2..KEYS {
        db.put(format!("key{key:06}"), "late").unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    std::mem::take(&mut *store.changes.lock().unwrap())
}

/// The place of a database in the server's bucket.
pub(crate) fn home(server: &Server, path: &str) -> Home {
    let url = format!("s3://{BUCKET}/{path}?endpoint={}", server.endpoint);
    home_at(&url, |name| match name {
        "AWS_ACCESS_KEY_ID" => Some(KEY_ID.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(SECRET.to_owned()),
        _ => None,
    })
}

/// The place of a database that a URL names, with keys of an environment.
pub(crate) fn home_at(url: &str, variable: impl Fn(&str) -> Option<String>) -> Home {
    let (location, path) = Location::parse_with(url, variable).unwrap().split();
    let bucket = Arc::new(S3Bucket::at(&location, Default::default()).unwrap());
    Home::new(bucket, Root::new(&path).unwrap(), Env::default().clock)
}

/// Makes the database, and leaves it in its owner's hands.
pub(crate) fn make(server: &Server) -> VersionLog {
    make_with(server, |_, body| body)
}

/// The same, with tables that somebody else has had in his hands before they were uploaded.
pub(crate) fn make_with(server: &Server, touch: impl FnMut(u64, Bytes) -> Bytes) -> VersionLog {
    make_at(&home(server, PATH), touch)
}

/// The same, anywhere.
pub(crate) fn make_at(home: &Home, mut touch: impl FnMut(u64, Bytes) -> Bytes) -> VersionLog {
    let opening = Opening { address: "writer-1:7420".to_owned(), ..Opening::new(Token(1)) };
    let (mut log, _) = VersionLog::open(home, &opening).unwrap();
    let mut uploaded: BTreeMap<u64, Table> = BTreeMap::new();
    for Change { edit, added, removed } in changes() {
        for (number, body) in &added {
            uploaded.entry(*number).or_insert_with(|| {
                let body = touch(*number, body.clone());
                upload(log.home(), log.table_id(*number), &body, Purpose::Flush).unwrap()
            });
        }
        let added = added.iter().map(|(number, _)| (*number, uploaded[number])).collect();
        log.commit(Edit { payloads: vec![edit.into()], added, removed }).unwrap();
    }
    assert!(!log.state().tables().is_empty());
    log
}

/// Drops all tables, in the engine's words as well.
pub(crate) fn emptied(log: &VersionLog) -> Edit {
    let newest = read_newest(log.home()).unwrap().unwrap();
    let edits = newest.payloads.iter().map(|payload| payload.as_ref());
    let levels = EditedVersion::replay(edits, &Options::default()).unwrap().levels();
    let tables = levels.iter().flat_map(|level| {
        // Tag 6: removed table.
        level.tables.iter().map(|table| [6, level.level.number(), table.number.0 as u8])
    });
    let payload: Vec<u8> = tables.flatten().collect();
    let removed = log.state().tables().keys().copied().collect();
    Edit { payloads: vec![payload.into()], removed, ..Edit::default() }
}

/// Reads an object through the bucket, as anybody may.
pub(crate) fn read(home: &Home, name: &str) -> Bytes {
    home.bucket().get(name, Part::Whole, Call::new(Purpose::Tool)).unwrap().body
}
