//! The promises of the disk, and how little else it promises.

use std::path::Path;
use std::sync::Arc;

use siltstone::{FileSystem, Site};

use super::*;

const SITE: Site = Site::TempRemove;

fn fresh() -> StrictFs {
    StrictFs::new(Disk::with_folder(Path::new("/d")))
}

fn write(fs: &StrictFs, path: &str, bytes: &[u8], sync: bool) {
    let mut file = fs.create(Path::new(path), SITE).unwrap();
    file.append(bytes, SITE).unwrap();
    if sync {
        file.sync(SITE).unwrap();
    }
}

fn sync_dir(fs: &StrictFs) {
    fs.sync_dir(Path::new("/d"), SITE).unwrap();
}

/// What is left after cuts of all kinds, many of each.
fn leftovers(fs: &StrictFs) -> Vec<Vec<(String, Vec<u8>)>> {
    let disk = fs.disk();
    let mut all = Vec::new();
    for (seed, kind) in (1..40).flat_map(|seed| CutKind::ALL.map(|kind| (seed, kind))) {
        if kind != CutKind::ProcessDeath {
            let left = disk.after(&Cut::of(kind, &disk, &mut crate::Dice::new(seed)));
            let file = |(path, bytes): (&Path, &[u8])| (path.display().to_string(), bytes.to_vec());
            all.push(left.files().map(file).collect());
        }
    }
    all.sort();
    all.dedup();
    all
}

fn file(name: &str, bytes: &[u8]) -> (String, Vec<u8>) {
    (name.to_owned(), bytes.to_vec())
}

#[test]
fn what_was_synced_is_there_after_every_cut() {
    let fs = fresh();
    write(&fs, "/d/a", b"bytes", true);
    sync_dir(&fs);
    assert_eq!(leftovers(&fs), [[file("/d/a", b"bytes")]]);
}

#[test]
fn a_name_or_bytes_alone_may_be_lost() {
    let fs = fresh();
    write(&fs, "/d/a", b"bytes", true);
    assert_eq!(leftovers(&fs), [vec![], vec![file("/d/a", b"bytes")]]);

    let fs = fresh();
    write(&fs, "/d/a", b"by", false);
    sync_dir(&fs);
    let left = leftovers(&fs);
    for bytes in [&b""[..], b"b", b"by", b"\0\0", b"b\0", b"b\xa5"] {
        assert!(left.contains(&vec![file("/d/a", bytes)]), "{bytes:?} is possible");
    }
    assert!(!left.contains(&vec![]), "the name is durable");
}

#[test]
fn a_later_write_may_overtake_an_earlier_one() {
    let fs = fresh();
    let mut writer = fs.create(Path::new("/d/a"), SITE).unwrap();
    sync_dir(&fs);
    writer.append(b"one", SITE).unwrap();
    writer.append(b"two", SITE).unwrap();
    assert!(leftovers(&fs).contains(&vec![file("/d/a", b"\0\0\0two")]));
}

#[test]
fn a_move_is_lost_or_done_or_leaves_both_names() {
    let fs = fresh();
    write(&fs, "/d/old", b"new", true);
    write(&fs, "/d/name", b"old", true);
    sync_dir(&fs);
    fs.rename(Path::new("/d/old"), Path::new("/d/name"), SITE).unwrap();
    let lost = vec![file("/d/name", b"old"), file("/d/old", b"new")];
    let done = vec![file("/d/name", b"new")];
    let both = vec![file("/d/name", b"new"), file("/d/old", b"new")];
    assert_eq!(leftovers(&fs), [done, both, lost]);
}

#[test]
fn a_removal_may_come_back_until_the_folder_is_synced() {
    let fs = fresh();
    write(&fs, "/d/a", b"x", true);
    sync_dir(&fs);
    fs.remove_file(Path::new("/d/a"), SITE).unwrap();
    assert_eq!(leftovers(&fs).len(), 2);
    sync_dir(&fs);
    assert_eq!(leftovers(&fs), [vec![]; 1]);
}

#[test]
fn what_lies_in_a_lost_folder_is_lost() {
    let fs = fresh();
    fs.create_dir(Path::new("/d/e/f"), SITE).unwrap();
    write(&fs, "/d/e/f/a", b"x", true);
    fs.sync_dir(Path::new("/d/e/f"), SITE).unwrap();
    fs.sync_dir(Path::new("/d/e"), SITE).unwrap();
    assert_eq!(leftovers(&fs), [vec![], vec![file("/d/e/f/a", b"x")]]);
    sync_dir(&fs);
    assert_eq!(leftovers(&fs), [[file("/d/e/f/a", b"x")]]);
}

#[test]
fn emptying_a_file_is_a_change_of_its_own() {
    let fs = fresh();
    write(&fs, "/d/a", b"before", true);
    sync_dir(&fs);
    write(&fs, "/d/a", b"now", false);
    let left = leftovers(&fs);
    for bytes in [&b"before"[..], b"", b"now", b"nowore"] {
        assert!(left.contains(&vec![file("/d/a", bytes)]), "{bytes:?} is possible");
    }
}

#[test]
fn the_death_of_a_process_makes_nothing_durable() {
    let fs = fresh();
    write(&fs, "/d/a", b"x", false);
    let disk = fs.disk();
    let dead = disk.after(&Cut::of(CutKind::ProcessDeath, &disk, &mut crate::Dice::new(1)));
    assert_eq!(dead.files().count(), 1);
    let cut = dead.after(&Cut::of(CutKind::NothingKept, &dead, &mut crate::Dice::new(1)));
    assert_eq!(cut.files().count(), 0);
}

#[test]
fn a_journal_replays_to_the_same_disk() {
    let fs = fresh();
    write(&fs, "/d/a", b"x", true);
    fs.hard_link(Path::new("/d/a"), Path::new("/d/b"), SITE).unwrap();
    fs.rename(Path::new("/d/a"), Path::new("/d/c"), SITE).unwrap();
    drop(fs.lock(Path::new("/d/LOCK"), SITE).unwrap());
    let hash = fs.trace_hash();
    let mut again = Disk::with_folder(Path::new("/d"));
    fs.entries().iter().for_each(|entry| again.apply(&entry.step));
    assert_eq!(again.content_hash(), fs.disk().content_hash());
    assert_eq!(fs.trace_hash(), hash);
    let open: Arc<dyn siltstone::RandomAccessFile> = fs.open(Path::new("/d/c")).unwrap();
    fs.remove_file(Path::new("/d/c"), SITE).unwrap();
    let mut byte = [0];
    assert_eq!((open.read_at(&mut byte, 0).unwrap(), byte), (1, *b"x"), "readable while open");
}
