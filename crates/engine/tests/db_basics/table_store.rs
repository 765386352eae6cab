//! Tables that lie elsewhere than in the database's folder.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use siltstone::{
    Background, Compaction, Db, Env, ErrorKind, FileNumber, FileSystem, Installed, Level0Limits,
    Options, RandomAccessFile, Result, Site, TableStore, WritableFile,
};

use crate::work_off;

const KEYS: u32 = 4_000;

/// Tables in a folder of another file system, and which of them count by what it was told.
struct Elsewhere {
    files: Arc<dyn FileSystem>,
    told: Mutex<Vec<Vec<u8>>>,
    live: Mutex<Option<BTreeSet<FileNumber>>>,
    /// Which bytes it says are near of every table.
    near: Vec<Range<u64>>,
    brought: Mutex<Vec<(FileNumber, Vec<Range<u64>>)>>,
}

impl Elsewhere {
    fn new() -> Arc<Self> {
        Elsewhere::with_near(Vec::new())
    }

    fn with_near(near: Vec<Range<u64>>) -> Arc<Self> {
        let files = Env::memory().file_system;
        files.create_dir(Path::new("tables"), Site::DbDirCreate).unwrap();
        let (told, brought, live) = (Mutex::default(), Mutex::default(), Mutex::new(None));
        Arc::new(Elsewhere { files, told, live, near, brought })
    }

    fn path(number: FileNumber) -> PathBuf {
        Path::new("tables").join(number.0.to_string())
    }

    fn live(&self) -> BTreeSet<FileNumber> {
        self.live.lock().unwrap().clone().unwrap()
    }
}

impl TableStore for Elsewhere {
    fn create(&self, number: FileNumber) -> Result<Box<dyn WritableFile>> {
        self.files.create(&Elsewhere::path(number), Site::TableCreate)
    }

    fn open(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
        self.files.open(&Elsewhere::path(number))
    }

    fn remove(&self, number: FileNumber) -> Result<()> {
        self.files.remove_file(&Elsewhere::path(number), Site::TableRemove)
    }

    fn list(&self) -> Result<Vec<FileNumber>> {
        let names = self.files.list(Path::new("tables"))?;
        Ok(names.iter().map(|name| FileNumber(name.parse().unwrap())).collect())
    }

    fn sync_names(&self) -> Result<()> {
        self.files.sync_dir(Path::new("tables"), Site::TableDirSync)
    }

    fn installed(&self, change: &Installed<'_>) {
        assert!(!change.edit.is_empty());
        self.told.lock().unwrap().push(change.edit.to_vec());
        let mut live = self.live.lock().unwrap();
        if change.is_whole {
            *live = Some(BTreeSet::new());
        }
        let live = live.as_mut().expect("what comes first is whole");
        change.removed.iter().for_each(|number| assert!(live.remove(number), "{number}"));
        live.extend(change.added);
    }

    fn near(&self, number: FileNumber) -> Vec<Range<u64>> {
        assert!(self.live().contains(&number), "asked before it goes");
        self.near.clone()
    }

    fn bring_near(&self, tables: &[(FileNumber, Vec<Range<u64>>)]) {
        let live = self.live();
        assert!(tables.iter().all(|(number, _)| !live.contains(number)), "before it is shown");
        self.brought.lock().unwrap().extend_from_slice(tables);
    }
}

fn options(env: &Env, store: &Arc<Elsewhere>) -> Options {
    Options {
        create_if_missing: true,
        env: env.clone(),
        table_store: Some(store.clone()),
        info_log: false,
        write_buffer_size: 16 << 10,
        max_file_size: 8 << 10,
        level1_bytes: 32 << 10,
        background: Background::ByHand,
        unclamped: true,
        ..Options::default()
    }
}

/// Writes every key twice, and does all that is to be done for it.
fn fill(db: &Db) {
    for number in (0..KEYS).chain(0..KEYS) {
        let key = number * 7919 % KEYS;
        db.put(key.to_be_bytes(), key.to_string()).unwrap();
        work_off(db);
    }
    db.flush().unwrap();
    work_off(db);
}

fn check(db: &Db, store: &Elsewhere) {
    let tables = db.levels().into_iter().flat_map(|level| level.tables);
    assert_eq!(store.live(), tables.map(|table| table.number).collect());
    for number in 0..KEYS {
        assert_eq!(db.get(number.to_be_bytes()).unwrap().unwrap(), number.to_string().as_bytes());
    }
}

#[test]
fn tables_lie_where_the_store_puts_them_and_it_knows_which_count() {
    let (env, store) = (Env::memory(), Elsewhere::new());
    let db = Db::open("db", options(&env, &store)).unwrap();
    fill(&db);
    assert!(db.metrics().merges >= 5, "{:?}", db.metrics());
    check(&db, &store);
    db.checkpoint("copy").unwrap();
    db.close().unwrap();

    let db = Db::open("db", options(&env, &store)).unwrap();
    check(&db, &store);
    work_off(&db);
    let held: BTreeSet<FileNumber> = store.list().unwrap().into_iter().collect();
    assert_eq!(held, store.live(), "what does not count is removed");
    let names = env.file_system.list(Path::new("db")).unwrap();
    assert!(names.iter().all(|name| !name.ends_with(".ldb")), "{names:?}");
    drop(db);
    // As a crash leaves it that comes before the edit.
    let orphan = FileNumber(held.last().unwrap().0 + 40);
    store.create(orphan).unwrap().close(Site::TableClose).unwrap();
    let db = Db::open("db", options(&env, &store)).unwrap();
    work_off(&db);
    let held = store.list().unwrap();
    assert_eq!(held.iter().copied().collect::<BTreeSet<_>>(), store.live(), "orphans are swept");
    db.put("new", "").unwrap();
    db.flush().unwrap();
    assert!(store.live().last().unwrap() > &orphan, "no number is given twice");
    db.delete("new").unwrap();
    drop(db);
    let error = Db::open("other", options(&env, &store)).unwrap_err();
    assert!(error.to_string().contains("ldb is there"), "tables of somebody's: {error}");
    let error = Db::open("db", Options { table_store: None, ..options(&env, &store) });
    assert!(error.unwrap_err().to_string().contains("missing files"));

    let copy = Options { table_store: None, ..options(&env, &store) };
    let copy = Db::open("copy", copy).unwrap();
    assert_eq!(copy.iter().unwrap().entries().unwrap().count(), KEYS as usize);
}

/// Which tables lie where, in their order, and what they hold.
fn shape(db: &Db) -> Vec<String> {
    let levels = db.levels();
    let tables =
        levels.iter().flat_map(|level| level.tables.iter().map(move |table| (level, table)));
    let shown = tables.map(|(level, table)| {
        let (number, bounds) = (table.number, (&table.smallest, &table.largest));
        format!("{:?} {:?} {number:?} {bounds:?}", level.level, level.area)
    });
    shown.collect()
}

/// As when the machine is lost, and what its store was told lies elsewhere.
#[test]
fn a_lost_folder_is_made_again_of_what_the_store_was_told() {
    for compaction in [Compaction::Leveled, Compaction::Sliced] {
        let (env, store) = (Env::memory(), Elsewhere::new());
        let options = |env: &Env| Options { compaction, ..options(env, &store) };
        let db = Db::open("db", options(&env)).unwrap();
        for number in (0..KEYS).chain(0..KEYS).chain(0..KEYS) {
            let key = number * 7919 % KEYS;
            db.put(key.to_be_bytes(), key.to_string()).unwrap();
            work_off(&db);
        }
        db.flush().unwrap();
        let levels = shape(&db);
        drop(db);
        let told = store.told.lock().unwrap().clone();
        let whole = siltstone::fold_edits(&told).unwrap();
        assert!(siltstone::oldest_log_of(&whole).unwrap().is_some());
        assert!(told.len() > 20);
        for edits in [told, vec![whole]] {
            let elsewhere = Env::memory();
            siltstone::restore_manifest(&elsewhere, "new/db", &edits).unwrap();
            let again = siltstone::restore_manifest(&elsewhere, "new/db", &edits).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::InvalidArgument);
            let db = Db::open_read_only("new/db", options(&elsewhere)).unwrap();
            assert_eq!(shape(&db), levels);
            check(&db, &store);
        }
    }
}

#[test]
fn edits_that_make_up_nothing_restore_nothing() {
    let env = Env::memory();
    for edits in [vec![], vec![vec![1, 2, 3]], vec![vec![2, 5]]] {
        let refused = siltstone::restore_manifest(&env, "db", edits).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption);
        assert!(env.file_system.list("db".as_ref()).is_err(), "no folder is made");
    }
}

/// Whether merges have something brought near of what they have made, where this is near of every table, and so many tables in level 0
/// hold writers back. All merges are of level 0.
fn is_brought_near(near: Vec<Range<u64>>, slow_down: usize) -> bool {
    let (env, store) = (Env::memory(), Elsewhere::with_near(near));
    let level0 = Level0Limits { compact: 4, slow_down, stop: 100 };
    let db = Db::open("db", Options { level0, level1_bytes: 1 << 30, ..options(&env, &store) });
    let db = db.unwrap();
    fill(&db);
    assert!(db.metrics().merges > 0);
    check(&db, &store);
    let brought = store.brought.lock().unwrap();
    let sound = |ranges: &[Range<u64>]| {
        !ranges.is_empty()
            && ranges.iter().all(|range| !range.is_empty())
            && ranges.windows(2).all(|two| two[0].end < two[1].start)
    };
    assert!(brought.iter().all(|(_, ranges)| sound(ranges)), "{brought:?}");
    !brought.is_empty()
}

#[test]
fn what_was_near_before_a_merge_is_brought_near() {
    let near = || vec![0..1, 2000..2001];
    assert!(is_brought_near(near(), 20));
    assert!(!is_brought_near(Vec::new(), 20));
    assert!(!is_brought_near(near(), 4), "writers wait");
}
