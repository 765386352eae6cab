//! What only the operating system's files can show.

use super::*;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

/// Set in the environment of a test process that is to take this lock.
const CHILD_LOCKS: &str = "SILTSTONE_TEST_CHILD_LOCKS";

#[test]
fn a_planted_link_is_not_written_through() {
    let world = World::posix();
    fs::write(world.at("precious"), b"precious").unwrap();
    for name in ["000005.ldb", "LOCK"] {
        symlink(world.at("precious"), world.at(name)).unwrap();
    }
    let created = world.fs.create(&world.at("000005.ldb"), Site::TableCreate);
    assert_eq!(refused(created, &world.at("000005.ldb")).kind(), ErrorKind::Io);
    assert_eq!(refused(world.lock("LOCK"), &world.at("LOCK")).kind(), ErrorKind::Io);
    assert_eq!(fs::read(world.at("precious")).unwrap(), b"precious");
}

#[test]
fn a_lock_holds_behind_a_linked_folder() {
    let world = World::posix();
    fs::create_dir(world.at("db")).unwrap();
    symlink(world.at("db"), world.at("alias")).unwrap();
    let lock = world.lock("db/LOCK").unwrap();
    assert_locked(world.lock("alias/LOCK"), &world.at("alias/LOCK"), IN_PROCESS);
    drop(lock);
    drop(world.lock("alias/LOCK").unwrap());
}

#[test]
fn two_environments_of_one_process_share_their_locks() {
    let (world, other) = (World::posix(), Env::posix());
    let lock = world.lock("LOCK").unwrap();
    let again = || other.file_system.lock(&world.at("LOCK"), Site::LockCreate);
    assert_locked(again(), &world.at("LOCK"), IN_PROCESS);
    drop(lock);
    drop(again().unwrap());
}

#[test]
fn names_that_are_not_utf8_are_left_out() {
    let world = World::posix();
    world.put("f", b"");
    // Some systems refuse such names, which serves as well.
    let _ = fs::write(world.dir.join(OsStr::from_bytes(b"\xff\xfe")), b"");
    assert_eq!(world.names(), ["f"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_log_that_is_appended_to_no_more_is_not_mapped() {
    let world = World::posix();
    let maps = || fs::read_to_string("/proc/self/maps").unwrap();
    let name = world.at("f").display().to_string();
    let mut log = world.fs.create_log(&world.at("f"), Site::WalCreate).unwrap();
    for _ in 0..10 {
        log.append(&[7; 100], Site::WalAppend).unwrap();
    }
    // Where files of a file system may not be mapped, there is nothing to hand out.
    let was_mapped = maps().contains(&name);
    let map = log.end_appends();
    assert_eq!(map.is_some(), was_mapped);
    drop(map);
    assert!(!maps().contains(&name));
    assert!(log.end_appends().is_none());
}

#[test]
#[cfg(target_os = "linux")]
fn a_long_log_takes_little_memory() {
    let world = World::posix();
    let name = world.at("f").display().to_string();
    let mut log = world.fs.create_log(&world.at("f"), Site::WalCreate).unwrap();
    for _ in 0..8000 {
        log.append(&[7; 1000], Site::WalAppend).unwrap();
    }
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let parts =
        maps.split(&name).skip(1).flat_map(|map| map.lines().find(|l| l.starts_with("Rss:")));
    let kib: u64 =
        parts.map(|l| l.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum();
    assert!(kib <= 1024, "{kib} KiB");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told_apart() {
    let full = Path::new("/dev/full");
    let mut file = Env::posix().file_system.create(full, Site::WalCreate).unwrap();
    let error = refused(file.append(b"x", Site::WalAppend), full);
    assert!(error.is_no_space(), "{error}");
}

#[test]
fn a_lock_shuts_out_other_processes() {
    let world = World::posix();
    let lock = world.lock("LOCK").unwrap();
    // Closing a second descriptor would lose the lock; the refusal must not have opened one.
    assert_locked(world.lock("LOCK"), &world.at("LOCK"), IN_PROCESS);
    let child = LockingChild::start(&world.at("LOCK"));
    let holder =
        format!("Resource temporarily unavailable (held by process {})", std::process::id());
    assert!(child.answer.ends_with(&holder), "{}", child.answer);
    drop(child);

    drop(lock);
    let child = LockingChild::start(&world.at("LOCK"));
    assert_eq!(child.answer, "held");
    assert_locked(world.lock("LOCK"), &world.at("LOCK"), "Resource temporarily unavailable");
    // A process that is killed holds nothing any more.
    drop(child);
    drop(world.lock("LOCK").unwrap());
}

/// This test binary, started anew to run [`child`] alone. Killed when dropped.
struct LockingChild {
    process: Child,
    answer: String,
}

impl LockingChild {
    fn start(path: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("the test's own path"))
            .args(["--exact", "--nocapture", "operating_system::child"])
            .env(CHILD_LOCKS, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test binary starts");
        let output = process.stdout.take().expect("the output is piped");
        let mut lines = BufReader::new(output).lines().map_while(std::io::Result::ok);
        let found = lines.find_map(|line| Some(line.split_once("answer: ")?.1.to_owned()));
        LockingChild { process, answer: found.expect("the child answers") }
    }
}

impl Drop for LockingChild {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The other process: takes the lock, tells the outcome, keeps it until its input ends. Run as
/// a test of its own it does nothing.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD_LOCKS) else { return };
    let lock = Env::posix().file_system.lock(Path::new(&path), Site::LockCreate);
    match &lock {
        Ok(_) => println!("answer: held"),
        Err(error) => println!("answer: {error}"),
    }
    let _ = std::io::stdin().read_line(&mut String::new());
}
