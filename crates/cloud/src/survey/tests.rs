//! A database with tables that are real, and what surveys say of it when it is whole, and when it is not.

use std::sync::Mutex;

use bytes::Bytes;
use siltstone::{
    Background, Db, EditedVersion, Env, FileNumber, Installed, LevelInfo, Options,
    RandomAccessFile, Site, TableStore, WritableFile,
};

use super::jobs::list_jobs;
use super::measure::{Amount, Share, measure};
use super::verify::{Depth, Finding, Verdict, verify_database};
use super::*;
use crate::bucket::{Bucket, Call, Condition};
use crate::collect::{CollectOptions, Collector};
use crate::fickle::{Fickle, world};
use crate::log::record::Table;
use crate::log::version_log::{Edit, Opening, VersionLog};
use crate::names::{Attempt, PinName, Root, TableId};
use crate::pins::clone::clone_database;
use crate::pins::lease::ReaderLease;
use crate::pins::pin::create_checkpoint;
use crate::{ErrorKind, Failure, Part, table};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A version edit, and the numbers of tables that it adds and removes.
type Change = (Bytes, Vec<u64>, Vec<u64>);

/// Tables in memory, and edits as they were told.
struct Keeper {
    env: Env,
    edits: Mutex<Vec<Change>>,
}

impl Keeper {
    fn path(number: FileNumber) -> PathBuf {
        Path::new("tables").join(number.0.to_string())
    }
}

impl TableStore for Keeper {
    fn create(&self, number: FileNumber) -> siltstone::Result<Box<dyn WritableFile>> {
        self.env.file_system.create(&Keeper::path(number), Site::TableCreate)
    }

    fn open(&self, number: FileNumber) -> siltstone::Result<Arc<dyn RandomAccessFile>> {
        self.env.file_system.open(&Keeper::path(number))
    }

    fn remove(&self, _: FileNumber) -> siltstone::Result<()> {
        // They are uploaded later.
        Ok(())
    }

    fn list(&self) -> siltstone::Result<Vec<FileNumber>> {
        Ok(Vec::new())
    }

    fn sync_names(&self) -> siltstone::Result<()> {
        Ok(())
    }

    fn installed(&self, change: &Installed<'_>) {
        let numbers = |numbers: &[FileNumber]| numbers.iter().map(|number| number.0).collect();
        let edit = Bytes::copy_from_slice(change.edit);
        self.edits.lock().unwrap().push((edit, numbers(change.added), numbers(change.removed)));
    }
}

/// Keys of the database that [`fill`] makes.
const KEYS: u64 = 300;

/// Commits what a small database does: two flushes, a merge, and a third flush. `touch` may change tables on their way.
fn fill(home: &Home, touch: impl Fn(u64, Vec<u8>) -> Vec<u8>) -> VersionLog {
    let env = Env::memory();
    env.file_system.create_dir(Path::new("tables"), Site::DbDirCreate).unwrap();
    let store = Arc::new(Keeper { env: env.clone(), edits: Mutex::default() });
    let options = Options {
        create_if_missing: true,
        env,
        table_store: Some(store.clone()),
        background: Background::ByHand,
        ..Options::default()
    };
    let db = Db::open("db", options).unwrap();
    for from in [0, 0, KEYS / 2] {
        (from..KEYS).for_each(|key| db.put(format!("{key:04}"), "value").unwrap());
        db.flush().unwrap();
        if from == 0 {
            db.compact_range(None, None).unwrap();
        }
    }
    let mut log = VersionLog::open(home, &Opening::new(Token(1))).unwrap().0;
    let mut uploaded = std::collections::BTreeMap::new();
    for (edit, added, removed) in store.edits.lock().unwrap().drain(..) {
        let added = added.iter().map(|number| {
            let table = *uploaded.entry(*number).or_insert_with(|| {
                let file = store.open(FileNumber(*number)).unwrap();
                let mut body = vec![0; file.len() as usize];
                file.read_at(&mut body, 0).unwrap();
                let body = Bytes::from(touch(*number, body));
                table::upload(log.home(), log.table_id(*number), &body, Purpose::Flush).unwrap()
            });
            (*number, table)
        });
        let added: Vec<(u64, Table)> = added.collect();
        log.commit(Edit { payloads: vec![edit], added, removed }).unwrap();
    }
    log
}

/// An edit that drops a table, in the engine's words as well.
fn dropping(log: &VersionLog, number: u64) -> Edit {
    let newest = replay::read_newest(log.home()).unwrap().unwrap();
    let edits = newest.payloads.iter().map(|payload| payload.as_ref());
    let levels = EditedVersion::replay(edits, &Options::default()).unwrap().levels();
    let has = |level: &&LevelInfo| level.tables.iter().any(|table| table.number.0 == number);
    let level = levels.iter().find(has).unwrap().level.number();
    // Tag 6: removed table.
    let payload = Bytes::from(vec![6, level, u8::try_from(number).unwrap()]);
    Edit { payloads: vec![payload], removed: vec![number], ..Edit::default() }
}

fn untouched(_: u64, body: Vec<u8>) -> Vec<u8> {
    body
}

fn verified(home: &Home, depth: Depth) -> Vec<Finding> {
    let mut all = Vec::new();
    let found = verify_database(home, depth, &Options::default(), &mut |one| all.push(one));
    assert!(found.unwrap());
    all
}

fn damage(findings: &[Finding]) -> Vec<(String, String)> {
    let damage = findings.iter().filter_map(|finding| match &finding.verdict {
        Verdict::Damaged(error) => Some((finding.object.clone(), error.message().to_owned())),
        _ => None,
    });
    damage.collect()
}

fn verdict(findings: &[Finding], object: &str) -> String {
    let found = findings.iter().find(|finding| finding.object == object).unwrap();
    format!("{:?}", found.verdict)
}

fn put(bucket: &Fickle, name: &str, body: &'static [u8]) {
    let (body, call) = (Bytes::from_static(body), Call::new(Purpose::Tool));
    bucket.put(name, body, Condition::Always, call).unwrap();
}

/// Changes an object behind everybody's back.
fn flip(bucket: &Fickle, name: &str, at: usize) {
    let call = Call::new(Purpose::Tool);
    let mut body = bucket.get(name, Part::Whole, call).unwrap().body.to_vec();
    body[at] ^= 1;
    bucket.put(name, body.into(), Condition::Always, call).unwrap();
}

fn pin(home: &Home, name: &str, token: u128, version: VersionNumber) -> Pin {
    let (name, token) = (PinName::new(name).unwrap(), Token(token));
    let pin = Pin { name, token, version, life: Duration::ZERO, note: "by hand".to_owned() };
    create_checkpoint(home, &pin).unwrap();
    pin
}

fn own_table(log: &VersionLog) -> (String, Table) {
    let table = *log.state().tables().values().next().unwrap();
    (log.home().root().table(table.id), table)
}

#[test]
fn a_survey_sees_all_that_there_is() {
    let (_, home) = world();
    assert!(survey(&home).unwrap().is_none());
    assert!(!verify_database(&home, Depth::Bytes, &Options::default(), &mut |_| ()).unwrap());
    assert!(measure(&home).unwrap().is_none());
    let log = fill(&home, untouched);
    let version = log.state().version();
    let pin = pin(&home, "daily", 7, version);
    let lease = ReaderLease::new(&home, version, Duration::from_secs(60), Token(9)).unwrap();
    let found = survey(&home).unwrap().unwrap();
    assert_eq!(found.owner.unwrap(), read_owner(&home).unwrap().unwrap());
    assert_eq!((found.boundary, found.newest.state), (VersionNumber(0), log.state().clone()));
    assert_eq!(found.pins, [(pin, 0)]);
    let reader =
        Reader { token: lease.token(), version, life: Duration::from_secs(60), written_ms: 0 };
    assert_eq!(found.readers, [reader]);
    assert_eq!(read_record(&home, version).unwrap().unwrap().version, version);
    assert_eq!(read_record(&home, version.next()).unwrap(), None);
}

#[test]
fn what_is_whole_is_found_whole() {
    let (_, home) = world();
    let log = fill(&home, untouched);
    pin(&home, "daily", 7, log.state().version());
    for depth in [Depth::Presence, Depth::Bytes, Depth::Entries] {
        let findings = verified(&home, depth);
        assert_eq!(damage(&findings), []);
        let entries: u64 = findings.iter().filter_map(|finding| finding.entries).sum();
        let read = if depth == Depth::Entries { KEYS + KEYS / 2 } else { 0 };
        assert_eq!(entries, read, "{depth:?}");
        let foreign = findings.iter().any(|one| matches!(one.verdict, Verdict::Foreign));
        assert!(!foreign, "{findings:?}");
    }
}

#[test]
fn each_kind_of_damage_is_told_of_by_name() {
    let (bucket, home) = world();
    let log = fill(&home, untouched);
    let kept = pin(&home, "daily", 7, log.state().version());
    ReaderLease::new(&home, kept.version, Duration::from_secs(60), Token(9)).unwrap();
    let newest = home.object(&Name::Version(log.state().version()));
    let first = home.object(&Name::Version(VersionNumber(1)));
    let (table, _) = own_table(&log);
    let pin = home.object(&Name::Pin(kept.name, kept.token));
    let reader = home.object(&Name::Reader(Token(9)));
    let owner = home.object(&Name::Owner);
    for name in [newest, first, table, pin, reader, owner] {
        for at in [0, 5, 13] {
            flip(&bucket, &name, at);
            let damage = damage(&verified(&home, Depth::Bytes));
            assert!(damage.iter().any(|(damaged, _)| *damaged == name), "{name}: {damage:?}");
            flip(&bucket, &name, at);
        }
    }
    assert_eq!(damage(&verified(&home, Depth::Entries)), []);
}

#[test]
fn a_hole_in_the_log_has_a_name() {
    let (bucket, home) = world();
    let log = fill(&home, untouched);
    let missing = home.object(&Name::Version(VersionNumber(3)));
    bucket.delete(std::slice::from_ref(&missing), Call::new(Purpose::Tool)).unwrap();
    let newest = log.state().version();
    let message = format!("is missing, and version {newest} stands on it");
    assert_eq!(damage(&verified(&home, Depth::Bytes)), [(missing, message)]);
}

#[test]
fn tables_are_looked_at_as_closely_as_was_asked() {
    // The checksum is right, as if the table had been damaged before it was uploaded.
    let (bucket, home) = world();
    let log = fill(&home, |_, mut body| {
        body[30] ^= 1;
        body
    });
    let (name, _) = own_table(&log);
    assert_eq!(damage(&verified(&home, Depth::Bytes)), []);
    let deep = damage(&verified(&home, Depth::Entries));
    assert_eq!(deep.len(), log.state().tables().len());
    assert!(deep[0].1.contains("at byte "), "{deep:?}");
    flip(&bucket, &name, 100);
    assert_eq!(damage(&verified(&home, Depth::Presence)), []);
    let message = "is not the table that the version names";
    assert_eq!(damage(&verified(&home, Depth::Bytes)), [(name.clone(), message.to_owned())]);
    put(&bucket, &name, b"short");
    let damaged = damage(&verified(&home, Depth::Presence));
    assert!(damaged[0].1.contains("has 5 bytes, the version says "), "{damaged:?}");
    bucket.delete(std::slice::from_ref(&name), Call::new(Purpose::Tool)).unwrap();
    let message = "is missing, and a version names it";
    assert_eq!(damage(&verified(&home, Depth::Presence)), [(name, message.to_owned())]);
}

#[test]
fn edits_that_do_not_fit_are_damage_and_other_comparators_end_the_look() {
    let (_, home) = world();
    let mut log = fill(&home, untouched);
    log.commit(Edit { payloads: vec![Bytes::from_static(b"\xff")], ..Edit::default() }).unwrap();
    assert_eq!(damage(&verified(&home, Depth::Bytes)), []);
    let newest = home.object(&Name::Version(log.state().version()));
    let deep = damage(&verified(&home, Depth::Entries));
    assert!(deep[0].0 == newest && deep[0].1.contains("do not fit"), "{deep:?}");

    let (_, home) = world();
    let mut log = fill(&home, untouched);
    let number = *log.state().tables().keys().next().unwrap();
    log.commit(Edit { removed: vec![number], ..Edit::default() }).unwrap();
    let newest = home.object(&Name::Version(log.state().version()));
    let deep = damage(&verified(&home, Depth::Entries));
    let message = format!("table {number} is not the same in the edits and in the record");
    assert!(deep[0].0 == newest && deep[0].1.contains(&message), "{deep:?}");

    let (_, home) = world();
    let mut log = fill(&home, untouched);
    let other = Bytes::from_static(b"\x01\x05other");
    log.commit(Edit { payloads: vec![other], ..Edit::default() }).unwrap();
    let ended = verify_database(&home, Depth::Entries, &Options::default(), &mut |_| ());
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Misuse);
}

#[test]
fn what_nobody_names_is_no_damage() {
    let (bucket, home) = world();
    let mut log = fill(&home, untouched);
    let coming = table::upload(&home, log.table_id(900), &Bytes::new(), Purpose::Flush).unwrap();
    let coming = home.root().table(coming.id);
    put(&bucket, "db/some/one's", b"?");
    let dropped = log.state().tables().keys().copied().next().unwrap();
    let (past, _) = own_table(&log);
    log.commit(dropping(&log, dropped)).unwrap();
    let findings = verified(&home, Depth::Bytes);
    assert_eq!(damage(&findings), []);
    for (object, said) in [(&*coming, "Unnamed"), ("db/some/one's", "Foreign"), (&*past, "Past")] {
        assert_eq!(verdict(&findings, object), said, "{object}");
    }
    log.keep_open(901, Vec::new()).unwrap();
    log.commit(Edit::default()).unwrap();
    assert_eq!(verdict(&verified(&home, Depth::Bytes), &coming), "Orphan");
}

#[test]
fn a_bucket_out_of_reach_is_no_damage() {
    let (bucket, home) = world();
    fill(&home, untouched);
    bucket.break_gets("/s/", Failure::Denied);
    let ended = verify_database(&home, Depth::Bytes, &Options::default(), &mut |_| ());
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Denied);
}

#[test]
fn shares_add_up_and_clones_borrow() {
    let (bucket, home) = world();
    let mut log = fill(&home, untouched);
    let version = log.state().version();
    let (_, first) = own_table(&log);
    let number = *log.state().tables().keys().next().unwrap();
    let all: u64 = log.state().tables().values().map(|table| table.bytes).sum();
    let share = |home: &Home, share: Share| measure(home).unwrap().unwrap().shares[share as usize];
    assert_eq!(share(&home, Share::Newest).bytes, all);
    pin(&home, "daily", 7, version);
    log.commit(dropping(&log, number)).unwrap();
    assert_eq!(share(&home, Share::Newest).bytes, all - first.bytes);
    assert_eq!(share(&home, Share::Pinned), Amount { objects: 1, bytes: first.bytes });
    table::upload(&home, log.table_id(900), &Bytes::from_static(b"new"), Purpose::Flush).unwrap();
    assert_eq!(share(&home, Share::Unnamed), Amount { objects: 1, bytes: 3 });
    put(&bucket, "db/else", b"12");
    assert_eq!(share(&home, Share::Foreign), Amount { objects: 1, bytes: 2 });
    let names = bucket.names();
    let total = measure(&home).unwrap().unwrap().total();
    assert_eq!(total.objects as usize, names.len());

    let child = home.at(Root::new("child").unwrap());
    clone_database(&home, &child, log.state().version(), None, Token(5)).unwrap();
    let measured = measure(&child).unwrap().unwrap();
    assert_eq!(measured.borrowed.bytes, all - first.bytes);
    assert_eq!(measured.shares[Share::Newest as usize], Amount::default());
    let findings = verified(&child, Depth::Entries);
    assert_eq!(damage(&findings), []);
    let theirs = findings.iter().filter(|finding| finding.object.starts_with("db/s/"));
    assert_eq!(theirs.count(), log.state().tables().len(), "tables of parents are read, too");
}

#[test]
fn jobs_are_told_from_their_folders() {
    let (bucket, home) = world();
    let mut log = fill(&home, untouched);
    let job = log.job_id(901);
    let id = |ordinal| TableId::Worked { job, attempt: Attempt { term: 0, count: 1 }, ordinal };
    let body = Bytes::from_static(b"table");
    let first = table::upload(&home, id(0), &body, Purpose::CompactOut).unwrap();
    table::upload(&home, id(1), &body, Purpose::CompactOut).unwrap();
    put(&bucket, &home.root().job(job, "notes"), b"some");
    log.commit(Edit { added: vec![(950, first)], ..Edit::default() }).unwrap();
    let folders = list_jobs(&home).unwrap();
    let [folder] = folders.as_slice() else { panic!("{folders:?}") };
    assert_eq!((folder.job, folder.attempts, folder.bytes), (job, 1, 14));
    assert_eq!((folder.outputs, folder.named, folder.is_alive), (2, 1, true));
    log.keep_open(960, Vec::new()).unwrap();
    log.commit(Edit::default()).unwrap();
    assert!(!list_jobs(&home).unwrap()[0].is_alive);
}

/// A collector that is faster than who looks: the table is gone, and so is the version that had it.
#[test]
fn what_was_collected_meanwhile_is_no_damage() {
    let (bucket, home) = world();
    let mut log = fill(&home, untouched);
    let number = *log.state().tables().keys().next().unwrap();
    log.commit(dropping(&log, number)).unwrap();
    siltstone::Clock::sleep(&*bucket, Duration::from_secs(7200));
    log.commit(Edit::default()).unwrap();
    let options = CollectOptions { age_min: Duration::ZERO, ..CollectOptions::default() };
    let removed = Collector::new(&home, options).collect(Token(3)).unwrap().removed;
    assert!(removed.iter().any(|doomed| doomed.name.ends_with(".ldb")), "{removed:?}");
    assert_eq!(damage(&verified(&home, Depth::Entries)), []);
}
