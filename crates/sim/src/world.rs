//! A database's world for one test: files in memory with faults on demand, background work by
//! hand, so that a run is the same every time.

use std::collections::BTreeMap;
use std::sync::Arc;

use siltstone::{
    Background, Db, DbIterator, Env, FileSystem, Options, ReadOptions, Result, Snapshot,
    WriteBatch, WriteOptions,
};

use crate::{FaultFs, Folder};

/// Where every world's database lies.
const DIR: &str = "/db";

pub struct World {
    pub env: Env,
    pub faults: Arc<FaultFs>,
    /// The database's folder, past the fault rules.
    pub folder: Folder,
}

impl Default for World {
    fn default() -> Self {
        World::new()
    }
}

impl World {
    pub fn new() -> Self {
        World::over(Env::memory())
    }

    /// A world on the files of `env`.
    pub fn over(env: Env) -> Self {
        let folder = Folder::new(Arc::clone(&env.file_system), DIR);
        let (env, faults) = FaultFs::over(env);
        World { env, faults, folder }
    }

    pub fn on(file_system: Arc<dyn FileSystem>) -> Self {
        World::over(Env { file_system, ..Env::memory() })
    }

    /// A world whose database folder holds these files.
    pub fn with_files(files: &[(String, Vec<u8>)]) -> Self {
        let world = World::new();
        world.folder.put_files(files);
        world
    }

    /// A world as this one would be found after the death of the process: all that was written is
    /// there. The database here may be open.
    pub fn after_crash(&self) -> Self {
        World::with_files(&self.folder.files())
    }

    /// Small buffers, no info log, nothing in the background.
    pub fn options(&self) -> Options {
        Options {
            create_if_missing: true,
            env: self.env.clone(),
            info_log: false,
            write_buffer_size: 64 << 10,
            background: Background::ByHand,
            unclamped: true,
            ..Default::default()
        }
    }

    pub fn open(&self) -> Db {
        self.try_open().unwrap()
    }

    pub fn try_open(&self) -> Result<Db> {
        Db::open(DIR, self.options())
    }

    pub fn open_with(&self, change: impl FnOnce(&mut Options)) -> Db {
        self.try_open_with(change).unwrap()
    }

    pub fn try_open_with(&self, change: impl FnOnce(&mut Options)) -> Result<Db> {
        let mut options = self.options();
        change(&mut options);
        Db::open(DIR, options)
    }

    pub fn open_read_only(&self) -> Result<Db> {
        Db::open_read_only(DIR, self.options())
    }
}

pub fn synced(db: &Db, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
    put(db, key, value, true)
}

pub fn unsynced(db: &Db, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
    put(db, key, value, false)
}

fn put(db: &Db, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, sync: bool) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    db.write(&batch, WriteOptions { sync })
}

pub fn put_all(db: &Db, pairs: &[(&str, &str)]) {
    for (key, value) in pairs {
        db.put(key, value).unwrap();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All of a database, read forwards and backwards and key by key, which must agree.
pub fn contents(db: &Db) -> BTreeMap<String, String> {
    contents_at(db, None)
}

pub fn contents_at(db: &Db, snapshot: Option<&Snapshot>) -> BTreeMap<String, String> {
    let options = ReadOptions { snapshot: snapshot.cloned(), ..Default::default() };
    let forward = scan(&mut db.iter_with(&options).unwrap()).unwrap();
    let mut backward = scan_back(&mut db.iter_with(&options).unwrap()).unwrap();
    backward.reverse();
    assert_eq!(forward, backward, "both directions show the same");
    for (key, value) in &forward {
        let got = db.get_with(key, &options).unwrap();
        assert_eq!(got.as_deref().map(text).as_ref(), Some(value), "get of {key}");
    }
    let count = forward.len();
    let map: BTreeMap<String, String> = forward.into_iter().collect();
    assert_eq!(map.len(), count, "no key comes twice");
    map
}

pub fn scan(iter: &mut DbIterator) -> Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    iter.seek_to_first()?;
    while iter.valid() {
        pairs.push((text(iter.key()), text(iter.value())));
        iter.next()?;
    }
    Ok(pairs)
}

pub fn scan_back(iter: &mut DbIterator) -> Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    iter.seek_to_last()?;
    while iter.valid() {
        pairs.push((text(iter.key()), text(iter.value())));
        iter.prev()?;
    }
    Ok(pairs)
}
