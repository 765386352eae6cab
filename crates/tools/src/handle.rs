//! An open database, wherever it lies: in a folder, or in a bucket (`s3://BUCKET/PATH`). Verbs use both alike.

use std::ops::Deref;
use std::path::Path;

use siltstone::Db;

use crate::errors::Failure;

/// An open database. Read-only or not, as it was asked for.
pub(crate) enum Handle {
    Here(Db),
    #[cfg(feature = "cloud")]
    There(bucket::Owned),
    #[cfg(feature = "cloud")]
    Read(bucket::Seen),
}

impl Deref for Handle {
    type Target = Db;

    fn deref(&self) -> &Db {
        match self {
            Handle::Here(db) => db,
            #[cfg(feature = "cloud")]
            Handle::There(owned) => owned,
            #[cfg(feature = "cloud")]
            Handle::Read(seen) => seen,
        }
    }
}

impl Handle {
    /// Closes it; what was written to a bucket is there then.
    pub(crate) fn close(self) -> siltstone::Result<()> {
        match self {
            Handle::Here(db) => db.close(),
            #[cfg(feature = "cloud")]
            Handle::There(owned) => owned.close(),
            #[cfg(feature = "cloud")]
            Handle::Read(_) => Ok(()),
        }
    }
}

/// True of `s3://BUCKET/PATH`.
pub(crate) fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.starts_with("s3://"))
}

/// For verbs that look at files: databases in a bucket have verbs of their own for that.
pub(crate) fn refuse_url(path: &Path, instead: &str) -> Result<(), Failure> {
    if !is_url(path) {
        return Ok(());
    }
    let shown = path.display();
    Err(Failure::usage(format!("{shown} is in a bucket, and this looks at files"))
        .step("instead", format!("siltstone cloud {instead} {shown}")))
}

#[cfg(not(feature = "cloud"))]
pub(crate) fn without_network() -> Failure {
    Failure::usage("this command was built without databases in buckets")
        .detail("build it with the feature `cloud`, which is on by default")
}

/// Databases in a bucket.
#[cfg(feature = "cloud")]
pub(crate) mod bucket {
    use std::ops::Deref;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{Arc, OnceLock};

    use siltstone::{Db, Env, ErrorKind, Options};
    use siltstone_cloud::{
        Announce, CacheOptions, CloudDb, CloudOptions, CloudTables, ExtentCache, Prepare,
        RemoteOptions, Replica, ReplicaOptions, Root, read_newest, sized_for_buckets,
    };

    use crate::errors::{Exit, Failure};
    use crate::open::explain;
    use crate::verbs::cloud::place::{Place, Tries};
    use crate::verbs::fleet::client::Client;
    use crate::verbs::fleet::host;

    /// Of extents that were read, with `--cache`.
    const CACHE_BYTES: u64 = 1 << 30;

    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    static BROKER: OnceLock<String> = OnceLock::new();
    static TAKES_OVER: AtomicBool = AtomicBool::new(false);

    /// What the command line says of all databases in buckets: where what they have here stays from one call to the next,
    /// who merges for them, and whether one is taken over from an owner who may still have it open.
    pub(crate) fn set(cache: Option<&Path>, merge_at: Option<&str>, takes_over: bool) {
        if let Some(broker) = merge_at {
            let _ = BROKER.set(broker.to_owned());
        }
        if let Some(folder) = cache {
            // The command line is read once.
            let _ = CACHE.set(folder.to_owned());
        }
        TAKES_OVER.store(takes_over, Relaxed);
    }

    /// Opened for writing: owned, until somebody else opens it so.
    pub(crate) struct Owned {
        db: CloudDb,
        /// Gone when the command ends, if there is no `--cache`: all is in the bucket then.
        _folder: Folder,
    }

    impl Owned {
        pub(super) fn close(self) -> siltstone::Result<()> {
            self.db.close()
        }
    }

    impl Deref for Owned {
        type Target = Db;

        fn deref(&self) -> &Db {
            &self.db
        }
    }

    /// Why it is not opened for writing, and what to do.
    fn refused(error: siltstone::Error, url: &Path, folder: &Folder) -> Failure {
        let (tag, what, command) = match error.kind() {
            ErrorKind::Locked => (
                "E-OWNED",
                "if its owner is gone",
                format!("siltstone --take-over .. {}", url.display()),
            ),
            ErrorKind::Fenced => (
                "E-FENCED",
                "go on without what it knows",
                format!("rm -r {}", folder.path.display()),
            ),
            _ => return explain(error, url),
        };
        Failure::new(Exit::Locked, tag, error.to_string())
            .step(what, command)
            .step("see who owns it", format!("siltstone cloud ls {}", url.display()))
    }

    /// Gives merges away, and has versions told to replicas.
    fn merge_at(broker: &str, root: &Root) -> Result<(Prepare, Option<Announce>), Failure> {
        let client = Arc::new(Client::new(broker)?);
        let announce = client.announce(root);
        let prepare = move |tables: &CloudTables, options: &mut Options| {
            client.serve(tables, options);
        };
        Ok((Arc::new(prepare), announce))
    }

    /// Opened for reading, as of now.
    pub(crate) struct Seen {
        db: Arc<Db>,
        _replica: Replica,
    }

    impl Deref for Seen {
        type Target = Db;

        fn deref(&self) -> &Db {
            &self.db
        }
    }

    struct Folder {
        path: PathBuf,
        is_kept: bool,
    }

    impl Folder {
        fn new() -> Self {
            match CACHE.get() {
                Some(path) => Folder { path: path.clone(), is_kept: true },
                None => {
                    let name = format!("siltstone-{:016x}", Env::posix().seed);
                    Folder { path: std::env::temp_dir().join(name), is_kept: false }
                }
            }
        }

        /// With a cache, if there is a place for it.
        fn reads(&self, env: &Env) -> Result<RemoteOptions, Failure> {
            let threads = Some(Arc::clone(&env.threads));
            let reads = RemoteOptions { threads, ..RemoteOptions::default() };
            if !self.is_kept {
                return Ok(reads);
            }
            let folder = self.path.join("extents");
            let cache = ExtentCache::open(env, &folder, CacheOptions::new(CACHE_BYTES));
            let cache = cache.map_err(|error| explain(error, &folder))?;
            Ok(RemoteOptions { cache: Some(cache), ..reads })
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            if !self.is_kept {
                // The system's folder for temporary files is cleared by others as well.
                let _ = std::fs::remove_dir_all(&self.path);
            }
        }
    }

    pub(crate) fn exists(url: &Path) -> Result<bool, Failure> {
        let opened = Place::of(url).open(Tries::Short)?;
        let newest = read_newest(&opened.home).map_err(|error| opened.explain(error))?;
        Ok(newest.is_some_and(|replay| !replay.payloads.is_empty()))
    }

    pub(crate) fn open_to_write(url: &Path, options: Options) -> Result<Owned, Failure> {
        let opened = Place::of(url).open(Tries::Long)?;
        let folder = Folder::new();
        // Who asked for no filter gets none.
        let filter_policy = options.filter_policy.clone();
        let options = Options { filter_policy, ..sized_for_buckets(options) };
        let cloud = CloudOptions::default().with_reads(folder.reads(&options.env)?);
        let mut cloud = cloud.with_unless_owned(!TAKES_OVER.load(Relaxed));
        if let Some(broker) = BROKER.get() {
            let (prepare, announce) = merge_at(broker, opened.home.root())?;
            (cloud.prepare, cloud.announce) = (Some(prepare), announce);
        }
        cloud.address = format!("process {} of {}", std::process::id(), host());
        let db = CloudDb::open(&opened.home, &folder.path, options, cloud);
        let db = db.map_err(|error| refused(error, url, &folder))?;
        Ok(Owned { db, _folder: folder })
    }

    pub(crate) fn open_to_read(url: &Path, options: Options) -> Result<Seen, Failure> {
        let opened = Place::of(url).open(Tries::Short)?;
        let folder = Folder::new();
        let reads = folder.reads(&options.env)?;
        let replica =
            Replica::open(&opened.home, options, ReplicaOptions::default().with_reads(reads));
        let replica = replica.map_err(|error| explain(error, url))?;
        Ok(Seen { db: replica.db(), _replica: replica })
    }
}
