//! A store of tables in a bucket, as simple as can be: a table is uploaded when its writer closes it.

use std::collections::BTreeMap;

use siltstone::{
    BlockCache, BloomFilter, Db, Env, FileNumber, Options, Site, TableStore, WritableFile,
};

use super::*;

/// Tables of one database.
pub(super) struct BucketStore {
    bucket: Arc<Watched>,
    remote: RemoteTables,
    objects: Mutex<BTreeMap<FileNumber, TableObject>>,
}

/// A table on its way.
struct Upload {
    bytes: Vec<u8>,
    number: FileNumber,
    store: Arc<BucketStore>,
}

impl WritableFile for Upload {
    fn append(&mut self, data: &[u8], _: Site) -> siltstone::Result<()> {
        self.bytes.extend_from_slice(data);
        Ok(())
    }
    fn sync(&mut self, _: Site) -> siltstone::Result<()> {
        Ok(())
    }
    fn close(&mut self, _: Site) -> siltstone::Result<()> {
        let name = format!("db/s/{}.ldb", self.number);
        let object = self.store.bucket.put_table(&name, std::mem::take(&mut self.bytes));
        self.store.objects.lock().unwrap().insert(self.number, object);
        Ok(())
    }
}

/// The store, by a handle that new tables can hold.
struct Handle(Arc<BucketStore>);

impl TableStore for Handle {
    fn create(&self, number: FileNumber) -> siltstone::Result<Box<dyn WritableFile>> {
        Ok(Box::new(Upload { bytes: Vec::new(), number, store: Arc::clone(&self.0) }))
    }
    fn open(&self, number: FileNumber) -> siltstone::Result<Arc<dyn RandomAccessFile>> {
        Ok(self.0.remote.open(&self.0.object(number), Purpose::Get)?)
    }
    fn remove(&self, number: FileNumber) -> siltstone::Result<()> {
        let object = self.0.objects.lock().unwrap().remove(&number).unwrap();
        self.0.bucket.delete(&[object.name], Call::new(Purpose::Collect)).unwrap();
        Ok(())
    }
    fn list(&self) -> siltstone::Result<Vec<FileNumber>> {
        Ok(self.0.objects.lock().unwrap().keys().copied().collect())
    }
    fn sync_names(&self) -> siltstone::Result<()> {
        Ok(())
    }
}

impl BucketStore {
    fn object(&self, number: FileNumber) -> TableObject {
        self.objects.lock().unwrap()[&number].clone()
    }
}

/// A database whose tables lie in a bucket, and what it was opened with.
pub(super) struct World {
    pub(super) bucket: Arc<Watched>,
    pub(super) env: Env,
    objects: BTreeMap<FileNumber, TableObject>,
}

impl World {
    pub(super) fn new() -> Self {
        let (bucket, env) = (Arc::new(Watched::default()), Env::memory());
        World { bucket, env, objects: BTreeMap::new() }
    }

    /// Without a block cache, so that every read of a block reaches the table. `options` gets what is left.
    pub(super) fn open(&self, remote: RemoteOptions, options: Options) -> Opened {
        let store = Arc::new(BucketStore {
            bucket: self.bucket.clone(),
            remote: tables(&self.bucket, remote),
            objects: Mutex::new(self.objects.clone()),
        });
        let options = Options {
            create_if_missing: true,
            env: self.env.clone(),
            table_store: Some(Arc::new(Handle(store.clone()))),
            info_log: false,
            block_cache: Some(Arc::new(BlockCache::new(0))),
            filter_policy: Some(Arc::new(BloomFilter::new(10))),
            resident_bytes: 0,
            unclamped: true,
            ..options
        };
        Opened { db: Db::open("db", options).unwrap(), store }
    }

    /// Closes it, and remembers its tables.
    pub(super) fn close(&mut self, opened: Opened) {
        opened.db.close().unwrap();
        self.objects = opened.store.objects.lock().unwrap().clone();
    }
}

pub(super) struct Opened {
    pub(super) db: Db,
    store: Arc<BucketStore>,
}

impl Opened {
    pub(super) fn remote(&self) -> &RemoteTables {
        &self.store.remote
    }
}
