//! The promises of [`FileSystem`], each a case that runs on every implementation; then what only
//! the operating system's files can show: symbolic links, other processes, a full disk.
#![expect(clippy::disallowed_methods, reason = "tests set the stage with the system's own files")]
#![expect(clippy::unwrap_used, reason = "cases are functions that the tests call")]

mod fault_rules;
mod operating_system;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use siltstone::{
    Env, Error, ErrorKind, FileLock, FileSystem, Metadata, RandomAccessFile, Result, Site,
};
use support::{FaultFs, TempDir};

/// A file system and an empty folder in it.
struct World {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    _guard: Option<TempDir>,
}

impl World {
    fn posix() -> Self {
        let guard = TempDir::new("env");
        let dir = guard.path().to_owned();
        World { fs: Env::posix().file_system, dir, _guard: Some(guard) }
    }

    fn memory() -> Self {
        World::of(Env::memory().file_system)
    }

    fn without_faults() -> Self {
        World::of(FaultFs::new(Env::memory().file_system))
    }

    fn of(fs: Arc<dyn FileSystem>) -> Self {
        let dir = PathBuf::from("/some/place");
        fs.create_dir(&dir, Site::DbDirCreate).expect("an empty file system takes a folder");
        World { fs, dir, _guard: None }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let mut file = self.fs.create(&self.at(name), Site::TableCreate).expect("create");
        file.append(bytes, Site::TableAppend).expect("append");
        file.sync(Site::TableSync).expect("sync");
        file.close(Site::TableClose).expect("close");
    }

    fn get(&self, name: &str) -> Result<Vec<u8>> {
        let file = self.fs.open(&self.at(name))?;
        read(&*file, 0, file.len() as usize)
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.fs.list(&self.dir).expect("list");
        names.sort();
        names
    }

    fn lock(&self, name: &str) -> Result<Box<dyn FileLock>> {
        self.fs.lock(&self.at(name), Site::LockCreate)
    }
}

fn read(file: &dyn RandomAccessFile, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, offset)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The error of a call that must fail, checked to name `path`.
#[track_caller]
fn refused<T>(result: Result<T>, path: &Path) -> Error {
    let error = result.err().expect("the call must fail");
    assert!(error.to_string().contains(path.to_str().unwrap_or("?")), "{error}");
    error
}

#[track_caller]
fn assert_locked<T>(result: Result<T>, path: &Path, reason: &str) {
    let error = refused(result, path);
    assert!(error.is_locked(), "{error}");
    let text = format!("IO error: lock {}: {reason}", path.display());
    assert!(error.to_string().starts_with(&text), "{error}");
}

/// Makes each case a test on each file system.
macro_rules! on_every_file_system {
    ($($case:ident,)+) => {
        mod posix {
            $(#[test] fn $case() { super::$case(&super::World::posix()); })+
        }
        mod memory {
            $(#[test] fn $case() { super::$case(&super::World::memory()); })+
        }
        mod faults_without_rules {
            $(#[test] fn $case() { super::$case(&super::World::without_faults()); })+
        }
    };
}

on_every_file_system! {
    appended_bytes_are_read_back,
    reads_fall_short_only_at_the_end,
    a_reader_tells_path_and_length,
    a_live_file_grows_under_its_reader,
    a_log_is_what_was_appended_and_zeros,
    a_log_is_cut_to_its_length_when_it_ends,
    a_log_that_is_appended_to_no_more_is_synced_and_ends,
    creating_empties_the_file,
    creating_needs_a_folder,
    folders_are_not_files,
    missing_files_are_not_found,
    metadata_tells_size_and_kind,
    listing_names_direct_children,
    folders_are_made_with_their_parents,
    only_empty_folders_are_removed,
    an_open_file_outlives_its_name,
    renaming_replaces,
    renaming_onto_itself_changes_nothing,
    renaming_keeps_the_old_target_readable,
    a_hard_link_is_a_second_name,
    a_hard_link_replaces_nothing,
    folders_are_synced,
    paths_are_compared_by_place_not_spelling,
    a_lock_shuts_out_the_next,
    a_lock_goes_by_the_file_not_its_name,
    a_lock_keeps_the_file_and_its_bytes,
    locks_of_different_files_are_apart,
    a_lock_needs_a_folder,
    files_are_read_from_many_threads,
}

fn appended_bytes_are_read_back(world: &World) {
    let mut file = world.fs.create(&world.at("f"), Site::WalCreate).unwrap();
    file.append(b"hello ", Site::WalAppend).unwrap();
    file.append(b"", Site::WalAppend).unwrap();
    // What is appended is there for readers at once, synced or not.
    assert_eq!(world.get("f").unwrap(), b"hello ");
    file.append(b"world", Site::WalAppend).unwrap();
    file.sync(Site::WalSync).unwrap();
    file.append(&vec![7; 1 << 20], Site::WalAppend).unwrap();
    file.close(Site::WalClose).unwrap();
    let bytes = world.get("f").unwrap();
    assert_eq!(bytes[..11], *b"hello world");
    assert_eq!(bytes[11..], vec![7; 1 << 20]);
}

fn reads_fall_short_only_at_the_end(world: &World) {
    world.put("f", b"0123456789");
    let file = world.fs.open(&world.at("f")).unwrap();
    for (offset, len, found) in [
        (0, 10, &b"0123456789"[..]),
        (0, 0, b""),
        (3, 4, b"3456"),
        (9, 1, b"9"),
        (8, 100, b"89"),
        (10, 1, b""),
        (11, 5, b""),
        (i64::MAX as u64, 5, b""),
        (i64::MAX as u64 + 1, 5, b""),
        (u64::MAX, 5, b""),
    ] {
        assert_eq!(read(&*file, offset, len).unwrap(), found, "{len} bytes at {offset}");
    }
}

fn a_reader_tells_path_and_length(world: &World) {
    world.put("empty", b"");
    world.put("full", b"abc");
    let empty = world.fs.open(&world.at("empty")).unwrap();
    let full = world.fs.open(&world.at("full")).unwrap();
    assert_eq!((empty.len(), empty.is_empty(), empty.path()), (0, true, &*world.at("empty")));
    assert_eq!((full.len(), full.is_empty(), full.path()), (3, false, &*world.at("full")));
}

fn a_live_file_grows_under_its_reader(world: &World) {
    let mut file = world.fs.create(&world.at("f"), Site::WalCreate).unwrap();
    file.append(b"abc", Site::WalAppend).unwrap();
    let reader = world.fs.open(&world.at("f")).unwrap();
    file.append(b"def", Site::WalAppend).unwrap();
    assert_eq!(reader.len(), 3);
    assert_eq!(read(&*reader, 0, 10).unwrap(), b"abcdef");
}

/// Pieces of many sizes: such as fit into a mapped window, cross its end, and are larger.
fn pieces() -> impl Iterator<Item = Vec<u8>> {
    let len = |n: usize| [1, 7, 8, 9, 140, 33_000, 0, 4096, 90_000, 300_000, 63][n % 11];
    (0..66).map(move |n| (0..len(n)).map(|at| (n + at % 251 + 1) as u8 | 1).collect())
}

fn a_log_is_what_was_appended_and_zeros(world: &World) {
    let mut file = world.fs.create_log(&world.at("f"), Site::WalCreate).unwrap();
    let mut appended = Vec::new();
    for (n, piece) in pieces().enumerate() {
        file.append(&piece, Site::WalAppend).unwrap();
        appended.extend(piece);
        if n % 5 == 0 {
            file.sync(Site::WalSync).unwrap();
        }
        let found = world.get("f").unwrap();
        assert!(found[..appended.len()] == appended, "after piece {n}");
        assert!(found[appended.len()..].iter().all(|&byte| byte == 0), "after piece {n}");
    }
    file.close(Site::WalClose).unwrap();
    assert!(world.get("f").unwrap() == appended);
    // And a new one in its place begins empty.
    let mut file = world.fs.create_log(&world.at("f"), Site::WalCreate).unwrap();
    assert!(world.get("f").unwrap().is_empty());
    file.append(b"anew", Site::WalAppend).unwrap();
    file.close(Site::WalClose).unwrap();
    assert_eq!(world.get("f").unwrap(), b"anew");
}

fn a_log_is_cut_to_its_length_when_it_ends(world: &World) {
    for closes in [true, false] {
        let mut file = world.fs.create_log(&world.at("f"), Site::WalCreate).unwrap();
        for _ in 0..10 {
            file.append(&[7; 100], Site::WalAppend).unwrap();
        }
        if closes {
            file.close(Site::WalClose).unwrap();
        }
        drop(file);
        assert_eq!(world.get("f").unwrap(), vec![7; 1000]);
    }
}

fn a_log_that_is_appended_to_no_more_is_synced_and_ends(world: &World) {
    let mut file = world.fs.create_log(&world.at("f"), Site::WalCreate).unwrap();
    for _ in 0..10 {
        file.append(&[7; 100], Site::WalAppend).unwrap();
    }
    let map = file.end_appends();
    assert!(world.get("f").unwrap().starts_with(&[7; 1000]));
    file.sync(Site::WalSync).unwrap();
    drop(file);
    assert_eq!(world.get("f").unwrap(), vec![7; 1000]);
    // Whoever has it may take longer than the log.
    drop(map);
    assert_eq!(world.get("f").unwrap(), vec![7; 1000]);
}

fn creating_empties_the_file(world: &World) {
    world.put("f", b"a long content");
    world.put("f", b"short");
    assert_eq!(world.get("f").unwrap(), b"short");
    let _file = world.fs.create(&world.at("f"), Site::WalCreate).unwrap();
    assert_eq!(world.get("f").unwrap(), b"");
    assert_eq!(world.names(), ["f"]);
}

fn creating_needs_a_folder(world: &World) {
    let path = world.at("missing/f");
    assert!(refused(world.fs.create(&path, Site::WalCreate), &path).is_not_found());
    world.put("f", b"");
    let path = world.at("f/g");
    assert_eq!(refused(world.fs.create(&path, Site::WalCreate), &path).kind(), ErrorKind::Io);
}

fn folders_are_not_files(world: &World) {
    let (folder, file) = (world.at("folder"), world.at("file"));
    world.fs.create_dir(&folder, Site::DbDirCreate).unwrap();
    world.put("file", b"");
    let errors = [
        refused(world.fs.create(&folder, Site::WalCreate), &folder),
        refused(world.fs.open(&folder), &folder),
        refused(world.fs.remove_file(&folder, Site::WalRemove), &folder),
        refused(world.fs.rename(&file, &folder, Site::CurrentRename), &file),
        refused(world.fs.hard_link(&file, &folder, Site::CheckpointLink), &file),
        refused(world.fs.lock(&folder, Site::LockCreate), &folder),
        refused(world.fs.list(&file), &file),
        refused(world.fs.create_dir(&file, Site::DbDirCreate), &file),
        refused(world.fs.create_dir(&file.join("g"), Site::DbDirCreate), &file),
        refused(world.fs.remove_dir(&file, Site::DestroyRemoveDir), &file),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }
    assert_eq!(world.names(), ["file", "folder"]);
}

fn missing_files_are_not_found(world: &World) {
    let (path, to) = (world.at("missing"), world.at("to"));
    let errors = [
        refused(world.fs.open(&path), &path),
        refused(world.fs.metadata(&path), &path),
        refused(world.fs.list(&path), &path),
        refused(world.fs.remove_file(&path, Site::WalRemove), &path),
        refused(world.fs.remove_dir(&path, Site::DestroyRemoveDir), &path),
        refused(world.fs.rename(&path, &to, Site::CurrentRename), &path),
        refused(world.fs.hard_link(&path, &to, Site::CheckpointLink), &path),
        refused(world.fs.sync_dir(&path, Site::WalDirSync), &path),
    ];
    for error in errors {
        assert!(error.is_not_found(), "{error}");
    }
    assert_eq!(world.names(), [""; 0]);
}

fn metadata_tells_size_and_kind(world: &World) {
    world.put("f", b"12345");
    let found = world.fs.metadata(&world.at("f")).unwrap();
    assert_eq!(found, Metadata { len: 5, is_dir: false });
    assert!(world.fs.metadata(&world.dir).unwrap().is_dir);
}

fn listing_names_direct_children(world: &World) {
    world.put("b", b"");
    world.put("a", b"");
    world.fs.create_dir(&world.at("c/d"), Site::DbDirCreate).unwrap();
    world.put("c/e", b"");
    // Shares the folder's beginning, but is not in it.
    world.put("c.log", b"");
    assert_eq!(world.names(), ["a", "b", "c", "c.log"]);
    let mut inner = world.fs.list(&world.at("c")).unwrap();
    inner.sort();
    assert_eq!(inner, ["d", "e"]);
    assert_eq!(world.fs.list(&world.at("c/d")).unwrap(), [""; 0]);
}

fn folders_are_made_with_their_parents(world: &World) {
    for _ in 0..2 {
        world.fs.create_dir(&world.at("a/b/c"), Site::DbDirCreate).unwrap();
    }
    assert!(world.fs.metadata(&world.at("a/b/c")).unwrap().is_dir);
    assert_eq!(world.fs.list(&world.at("a")).unwrap(), ["b"]);
}

fn only_empty_folders_are_removed(world: &World) {
    world.fs.create_dir(&world.at("a"), Site::DbDirCreate).unwrap();
    world.put("a/f", b"");
    let remove = || world.fs.remove_dir(&world.at("a"), Site::DestroyRemoveDir);
    assert_eq!(refused(remove(), &world.at("a")).kind(), ErrorKind::Io);
    world.fs.remove_file(&world.at("a/f"), Site::DestroyRemove).unwrap();
    remove().unwrap();
    assert_eq!(world.names(), [""; 0]);
}

fn an_open_file_outlives_its_name(world: &World) {
    world.put("f", b"still here");
    let reader = world.fs.open(&world.at("f")).unwrap();
    world.fs.remove_file(&world.at("f"), Site::TableRemove).unwrap();
    assert!(refused(world.get("f"), &world.at("f")).is_not_found());
    assert_eq!(read(&*reader, 0, 100).unwrap(), b"still here");

    let mut writer = world.fs.create(&world.at("g"), Site::WalCreate).unwrap();
    let reader = world.fs.open(&world.at("g")).unwrap();
    world.fs.remove_file(&world.at("g"), Site::WalRemove).unwrap();
    writer.append(b"unseen", Site::WalAppend).unwrap();
    writer.sync(Site::WalSync).unwrap();
    assert_eq!(read(&*reader, 0, 100).unwrap(), b"unseen");
    assert_eq!(world.names(), [""; 0]);
}

fn renaming_replaces(world: &World) {
    world.put("000007.dbtmp", b"new");
    world.put("CURRENT", b"old");
    let rename =
        || world.fs.rename(&world.at("000007.dbtmp"), &world.at("CURRENT"), Site::CurrentRename);
    rename().unwrap();
    assert_eq!(world.get("CURRENT").unwrap(), b"new");
    assert_eq!(world.names(), ["CURRENT"]);
    assert!(rename().unwrap_err().is_not_found());
}

fn renaming_onto_itself_changes_nothing(world: &World) {
    world.put("f", b"kept");
    world.fs.rename(&world.at("f"), &world.at("f"), Site::CurrentRename).unwrap();
    world.fs.hard_link(&world.at("f"), &world.at("g"), Site::CheckpointLink).unwrap();
    assert_eq!(world.get("f").unwrap(), b"kept");
    assert_eq!(world.names(), ["f", "g"]);
}

fn renaming_keeps_the_old_target_readable(world: &World) {
    world.put("new", b"new");
    world.put("old", b"old");
    let old = world.fs.open(&world.at("old")).unwrap();
    let new = world.fs.open(&world.at("new")).unwrap();
    world.fs.rename(&world.at("new"), &world.at("old"), Site::CurrentRename).unwrap();
    assert_eq!(read(&*old, 0, 3).unwrap(), b"old");
    assert_eq!(read(&*new, 0, 3).unwrap(), b"new");
}

fn a_hard_link_is_a_second_name(world: &World) {
    world.put("f", b"bytes");
    world.fs.create_dir(&world.at("checkpoint"), Site::CheckpointDirCreate).unwrap();
    let link = world.at("checkpoint/f");
    world.fs.hard_link(&world.at("f"), &link, Site::CheckpointLink).unwrap();
    world.fs.remove_file(&world.at("f"), Site::TableRemove).unwrap();
    assert_eq!(world.get("checkpoint/f").unwrap(), b"bytes");
}

fn a_hard_link_replaces_nothing(world: &World) {
    world.put("f", b"one");
    world.put("g", b"two");
    let linked = world.fs.hard_link(&world.at("f"), &world.at("g"), Site::CheckpointLink);
    assert_eq!(refused(linked, &world.at("f")).kind(), ErrorKind::Io);
    assert_eq!(world.get("g").unwrap(), b"two");
}

fn folders_are_synced(world: &World) {
    world.put("f", b"");
    world.fs.sync_dir(&world.dir, Site::WalDirSync).unwrap();
    // The parent of a bare name such as `db`.
    world.fs.sync_dir(Path::new(""), Site::DbParentSync).unwrap();
}

fn paths_are_compared_by_place_not_spelling(world: &World) {
    world.put("f", b"bytes");
    world.fs.create_dir(&world.at("a"), Site::DbDirCreate).unwrap();
    for spelling in ["./f", "a/../f", ".//./f", "a/./../f"] {
        assert_eq!(world.get(spelling).unwrap(), b"bytes", "{spelling}");
    }
}

const IN_PROCESS: &str = "already held by process";

fn a_lock_shuts_out_the_next(world: &World) {
    let lock = world.lock("LOCK").unwrap();
    world.fs.create_dir(&world.at("a"), Site::DbDirCreate).unwrap();
    for spelling in ["LOCK", "./LOCK", "a/../LOCK"] {
        assert_locked(world.lock(spelling), &world.at(spelling), IN_PROCESS);
    }
    // Being refused must not have loosened it.
    assert_locked(world.lock("LOCK"), &world.at("LOCK"), IN_PROCESS);
    drop(lock);
    for _ in 0..2 {
        drop(world.lock("./LOCK").unwrap());
    }
}

fn a_lock_goes_by_the_file_not_its_name(world: &World) {
    let lock = world.lock("LOCK").unwrap();
    world.fs.hard_link(&world.at("LOCK"), &world.at("LINK"), Site::CheckpointLink).unwrap();
    assert_locked(world.lock("LINK"), &world.at("LINK"), IN_PROCESS);
    world.fs.remove_file(&world.at("LOCK"), Site::DestroyRemove).unwrap();
    // Another file of the old name is another lock; dropping it leaves the first in place.
    drop(world.lock("LOCK").unwrap());
    assert_locked(world.lock("LINK"), &world.at("LINK"), IN_PROCESS);
    drop(lock);
    drop(world.lock("LINK").unwrap());
}

fn a_lock_keeps_the_file_and_its_bytes(world: &World) {
    world.put("LOCK", b"left by someone");
    drop(world.lock("LOCK").unwrap());
    assert_eq!(world.get("LOCK").unwrap(), b"left by someone");
    drop(world.lock("NEW").unwrap());
    assert_eq!(world.names(), ["LOCK", "NEW"]);
}

fn locks_of_different_files_are_apart(world: &World) {
    let a = world.lock("a").unwrap();
    let _b = world.lock("b").unwrap();
    drop(a);
    let _a = world.lock("a").unwrap();
    assert!(world.lock("b").err().unwrap().is_locked());
}

fn a_lock_needs_a_folder(world: &World) {
    assert!(refused(world.lock("missing/LOCK"), &world.at("missing/LOCK")).is_not_found());
}

fn files_are_read_from_many_threads(world: &World) {
    let bytes: Vec<u8> = (0..=255).collect();
    world.put("f", &bytes);
    let file = world.fs.open(&world.at("f")).unwrap();
    std::thread::scope(|scope| {
        for start in 0..4_u64 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                for offset in (start..256).step_by(3) {
                    let expected = bytes[offset as usize..].iter().take(16);
                    assert!(read(&**file, offset, 16).unwrap().iter().eq(expected));
                }
            });
        }
    });
}
