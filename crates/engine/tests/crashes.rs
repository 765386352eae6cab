//! What the crash enumerator of `siltstone-sim` found, retold by hand: what was wrong, and the shortest
//! way there.

#![allow(clippy::unwrap_used, reason = "functions that only tests call are tests, too")]

mod support;

use std::path::Path;
use std::sync::Arc;

use siltstone::{Background, Db, Env, Options, WriteBatch, WriteOptions};
use siltstone_sim::Dice;
use siltstone_sim::disk::{Cut, CutKind, Disk, StrictFs};
use support::{World, contents, put_all};

/// A disk, the file system on it, and a database's options.
fn stage(disk: Disk) -> (StrictFs, Options) {
    let fs = StrictFs::new(disk);
    let options = Options {
        create_if_missing: true,
        env: Env { file_system: Arc::new(fs.clone()), ..Env::memory() },
        info_log: false,
        background: Background::ByHand,
        ..Options::default()
    };
    (fs, options)
}

fn cut(disk: &Disk, kind: CutKind) -> Disk {
    disk.after(&Cut::of(kind, disk, &mut Dice::new(1)))
}

fn write(db: &Db, key: &str, sync: bool) {
    let mut batch = WriteBatch::new();
    batch.put(key, "value");
    db.write(&batch, WriteOptions { sync }).unwrap();
}

/// A process died after it had made the database's folder and before it had synced the folder above.
/// The next one found the folder and took its name for durable; a power cut then took the database and
/// all its synced writes.
#[test]
fn a_folder_left_by_a_dead_process_is_made_durable() {
    let (fs, _) = stage(Disk::with_folder(Path::new("/data")));
    siltstone::FileSystem::create_dir(&fs, Path::new("/data/a/db"), siltstone::Site::DbDirCreate)
        .unwrap();
    let (fs, options) = stage(cut(&fs.disk(), CutKind::ProcessDeath));
    let db = Db::open("/data/a/db", options).unwrap();
    write(&db, "promised", true);
    let (_, options) = stage(cut(&fs.disk(), CutKind::NothingKept));
    let db = Db::open("/data/a/db", options).unwrap();
    assert_eq!(db.get("promised").unwrap().as_deref(), Some(&b"value"[..]));
}

/// With `reuse_logs`, recovery copied the last memtable into a new log that vouched for all older
/// writes. Some of those were in its new tables only, which the manifest did not name yet, and in old
/// logs whose ends the page cache alone held. A power cut before the new manifest took these ends, and
/// the new log then covered the hole.
#[test]
fn a_log_made_by_recovery_covers_no_hole() {
    let (fs, mut options) = stage(Disk::with_folder(Path::new("/data")));
    options.reuse_logs = true;
    options.unclamped = true;
    options.write_buffer_size = 400;
    let db = Db::open("/data/db", options.clone()).unwrap();
    for number in 0..20 {
        write(&db, &format!("key{number:02}"), false);
    }
    // Every power cut during the recovery from the death of the process.
    let died = cut(&fs.disk(), CutKind::ProcessDeath);
    let (fs, options) = {
        let (fs, env) = stage(died.clone());
        (fs, Options { env: env.env, ..options })
    };
    drop(Db::open("/data/db", options.clone()).unwrap());
    let mut disk = died;
    for entry in fs.take_journal() {
        disk.apply(&entry.step);
        let (_, env) = stage(cut(&disk, CutKind::NothingKept));
        let db = Db::open("/data/db", Options { env: env.env, ..options.clone() }).unwrap();
        let found = contents(&db);
        let prefix = (0..found.len()).map(|number| format!("key{number:02}"));
        assert!(found.keys().eq(prefix.collect::<Vec<_>>().iter()), "{:?}", found.keys());
    }
}

/// An edit that a crash had torn into anything but a clean cut kept the database from opening.
#[test]
fn a_torn_edit_at_the_end_of_the_manifest_is_no_damage() {
    for filler in [0, 0xa5] {
        let world = World::new();
        let db = world.open();
        put_all(&db, &[("a", "1"), ("b", "2")]);
        let logs = world.folder.files();
        let manifest = world.folder.manifests().remove(0);
        let before = world.folder.len(&manifest) as usize;
        db.flush().unwrap();
        drop(db);
        let mut files = world.folder.files();
        files.extend(logs.into_iter().filter(|(name, _)| name.ends_with(".log")));
        let torn = World::with_files(&files);
        torn.folder.edit(&manifest, |bytes| bytes[before + 9..].fill(filler));
        assert_eq!(contents(&torn.open()).len(), 2);
        // The edit had been synced: the log that it replaced is gone.
        let damaged = World::with_files(&world.folder.files());
        for log in damaged.folder.wals().iter().filter(|log| !world.folder.wals().contains(log)) {
            damaged.folder.remove(log);
        }
        damaged.folder.remove(&damaged.folder.wals()[0]);
        damaged.folder.edit(&manifest, |bytes| bytes[before + 9..].fill(filler));
        let error = damaged.try_open().unwrap_err();
        assert!(error.is_corruption() && error.file().is_some(), "{error}");
    }
}

/// A folder with tables and no CURRENT was taken for an empty one: a new database was made, and the
/// open after that swept the tables away, as LevelDB does at once.
#[test]
fn a_database_that_lost_its_current_is_left_alone() {
    let world = World::new();
    let db = world.open();
    put_all(&db, &[("a", "1")]);
    drop(db);
    world.folder.remove("CURRENT");
    let before = world.folder.files();
    let error = world.try_open().unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("repair"), "{error}");
    assert_eq!(world.folder.files(), before);
}

/// What a creation that was cut short had left stayed until the open after next.
#[test]
fn what_a_creation_left_is_swept() {
    let (fs, options) = stage(Disk::with_folder(Path::new("/data")));
    drop(Db::open("/data/db", options.clone()).unwrap());
    let mut disk = Disk::with_folder(Path::new("/data"));
    for entry in fs.take_journal() {
        disk.apply(&entry.step);
        let (fs, env) = stage(cut(&disk, CutKind::AllKept));
        let db = Db::open("/data/db", Options { env: env.env, ..options.clone() }).unwrap();
        while db.run_background_step().unwrap() {}
        let left = fs.disk().files().count();
        assert_eq!(left, 4, "CURRENT, LOCK, a log, a manifest");
    }
}
