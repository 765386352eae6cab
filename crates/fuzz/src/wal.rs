//! Body: one or two hostile logs in the folder of a sound, empty database.

use std::path::Path;
use std::sync::LazyLock;

use siltstone::{Db, Options, dump_file, verify};

use crate::input::Input;
use crate::reading::{DIR, Pairs, contents, folder, options};
use crate::seal;

/// An empty database: CURRENT, a manifest that names the log, the log.
static EMPTY: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let (env, folder) = folder(&[]);
    drop(Db::open(DIR, Options { create_if_missing: true, ..options(&env) }).unwrap());
    folder.files()
});

/// The first byte: how much of the rest is the first log, in quarters of a hundred bytes; 0 is all.
pub(crate) fn wal(input: &[u8]) {
    let reuse_logs = input.len() & 1 == 1;
    let files = files(&mut Input(input));
    let (env, folder) = folder(&files);
    let options = Options { reuse_logs, ..options(&env) };
    let before = look(&options);
    let strict = look(&Options { paranoid_checks: true, ..options.clone() });
    assert!(strict.is_none() || strict == before, "what is sound, all ways to open find");
    let report = verify(DIR, &options).expect("there is a database");
    assert!(!report.is_ok() || before.is_some(), "what is sound opens");
    for wal in folder.wals() {
        let dumped = dump_file(Path::new(DIR).join(wal), &env, &mut std::io::sink());
        dumped.expect("damage becomes text");
    }

    let opened = Db::open(DIR, options.clone()).ok();
    assert_eq!(opened.is_some(), before.is_some(), "both ways to open find the same");
    let Some(db) = opened else { return };
    assert_eq!(contents(&db).ok(), before);
    if let Err(error) = db.put("added", "later") {
        // A log may claim the last sequence numbers there are.
        assert!(error.to_string().contains("used up"), "what opens can be written: {error}");
        return;
    }
    let after = contents(&db).expect("what was written can be read");
    db.close().expect("nothing keeps it from closing");
    assert!(verify(DIR, &options).is_ok_and(|report| report.is_ok()), "what was opened is sound");
    let db = Db::open(DIR, options).expect("it opened before");
    assert_eq!(contents(&db).ok(), Some(after));
}

/// What an open that leaves no trace shows; nothing may be left out of a strict one.
fn look(options: &Options) -> Option<Pairs> {
    let db = Db::open_read_only(DIR, options.clone()).ok()?;
    assert!(!options.paranoid_checks || db.recovery_report().dropped.is_empty());
    Some(contents(&db).expect("what a log held can be read"))
}

fn files(input: &mut Input<'_>) -> Vec<(String, Vec<u8>)> {
    let mut files = EMPTY.clone();
    let log = files.iter_mut().find(|(name, _)| name.ends_with(".log")).unwrap();
    let first = match usize::from(input.byte()) * 25 {
        0 => usize::MAX,
        len => len,
    };
    log.1 = seal::short_record_file(input.bytes(first));
    if !input.is_empty() {
        files.push(("000009.log".to_owned(), seal::short_record_file(input.0)));
    }
    files
}
