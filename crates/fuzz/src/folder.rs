//! Body: a database folder of hostile files.

use std::path::Path;
use std::sync::Arc;

use siltstone::{Db, Env, Options, dump_file, plan_repair, repair, verify};
use siltstone_sim::Folder;

use crate::input::Input;
use crate::reading::{DIR, contents, folder as make_folder, options, roam, scan};
use crate::seal;

const SEALED: u8 = 0x80;
const PARANOID: u8 = 0x40;
const REUSE_LOGS: u8 = 0x20;

/// Kinds of files, told by the upper three bits of a byte; the lower five are the number.
const KINDS: [&str; 8] = ["CURRENT", "MANIFEST-", ".log", ".ldb", ".sst", ".dbtmp", "LOG", ".odd"];

/// The first byte says what is done with the folder; files follow: kind and number, length (two
/// bytes), content.
pub(crate) fn folder(input: &[u8]) {
    let mut input = Input(input);
    let mode = input.byte();
    let (env, folder) = make_folder(&files(&mut input, mode & SEALED != 0));
    let options = Options {
        paranoid_checks: mode & PARANOID != 0,
        reuse_logs: mode & REUSE_LOGS != 0,
        ..options(&env)
    };
    match mode % 5 {
        0 => open_twice(&options),
        1 => look(&folder, &env, &options),
        2 => save(&folder, &options),
        3 => write(&options),
        _ => agree(&options),
    }
}

/// The input that makes a folder of these files.
pub(crate) fn encode(mode: u8, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut input = vec![mode];
    for (name, bytes) in files {
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        let number = digits.parse().unwrap_or(0) % 32;
        let kind = KINDS.iter().position(|kind| name.contains(kind)).unwrap();
        input.push((kind as u8) << 5 | number);
        input.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        input.extend_from_slice(bytes);
    }
    input
}

fn files(input: &mut Input<'_>, sealed: bool) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    while !input.is_empty() {
        let code = input.byte();
        let kind = KINDS[usize::from(code >> 5)];
        let number = match code & 0x1f {
            // Beyond what is ours, and the greatest that is.
            0x1f => u64::MAX >> 1,
            0x1e => (u64::MAX >> 1) - (1 << 41),
            number => number.into(),
        };
        let len = u16::from_le_bytes([input.byte(), input.byte()]);
        let mut bytes = input.bytes(len.into()).to_vec();
        if sealed {
            match kind {
                "MANIFEST-" | ".log" => seal::seal_records(&mut bytes, 0),
                ".ldb" | ".sst" => seal::seal_table(&mut bytes),
                _ => {}
            }
        }
        let name = match kind {
            "MANIFEST-" => format!("{kind}{number:06}"),
            _ if kind.starts_with('.') => format!("{number:06}{kind}"),
            _ => kind.to_owned(),
        };
        files.push((name, bytes));
    }
    files
}

/// What an open shows, the next one shows.
fn open_twice(options: &Options) {
    let Ok(db) = Db::open(DIR, options.clone()) else { return };
    roam(&db);
    let found = scan(&db);
    let closed = db.close();
    let again = Db::open(DIR, options.clone());
    if let (Ok(found), Ok(())) = (found, closed) {
        let again = again.expect("it opened before");
        assert_eq!(scan(&again).expect("it was read before"), found);
    }
}

/// Nothing that only reads changes the folder.
fn look(folder: &Folder, env: &Env, options: &Options) {
    let before = folder.files();
    let _ = Db::open_read_only(DIR, options.clone()).map(|db| roam(&db));
    let _ = verify(DIR, options).map(|report| report.to_string());
    let _ = plan_repair(DIR, options);
    for (name, bytes) in &before {
        // What is large unpacked takes long to print.
        if bytes.len() < 1 << 12 {
            let _ = dump_file(Path::new(DIR).join(name), env, &mut std::io::sink());
        }
    }
    assert_eq!(folder.files(), before);
}

/// What a repair makes is sound.
fn save(folder: &Folder, options: &Options) {
    let before = folder.files();
    let saved = repair(DIR, "/out", options);
    assert_eq!(folder.files(), before);
    let out = Folder::new(Arc::clone(&folder.fs), "/out");
    let Ok(report) = saved else {
        assert!(!out.names().iter().any(|name| name == "CURRENT"), "none after an error");
        return;
    };
    let verified = verify("/out", options).expect("a repaired database can be checked");
    assert!(verified.is_ok(), "{verified}");
    let db = Db::open("/out", options.clone()).expect("a repaired database opens");
    let found = contents(&db).expect("a repaired database can be read");
    assert_eq!(found.len() as u64, report.entries_kept);
}

/// Life goes on in whatever could be opened.
fn write(options: &Options) {
    let Ok(db) = Db::open(DIR, options.clone()) else { return };
    for number in 0..4 {
        let _ = db.put(format!("prefix/{number:02}"), [b'v'; 40]);
        let _ = db.delete("k");
    }
    let _ = db.flush();
    let _ = db.compact_range(None, None);
    for _ in 0..8 {
        let _ = db.run_background_step();
    }
    roam(&db);
    let found = scan(&db);
    if db.close().is_ok() {
        let again = Db::open(DIR, options.clone()).expect("it closed well");
        if let Ok(found) = found {
            assert_eq!(scan(&again).expect("it was read before"), found);
        }
    }
}

/// What the check finds sound opens, and shows the same in every way.
fn agree(options: &Options) {
    let Ok(report) = verify(DIR, options) else { return };
    if !report.is_ok() {
        return;
    }
    let beside = Db::open_read_only(DIR, options.clone()).expect("what is sound opens");
    let seen = contents(&beside).expect("what is sound can be read");
    let db = Db::open(DIR, options.clone()).expect("what is sound opens");
    assert_eq!(contents(&db).expect("what is sound can be read"), seen);
    db.compact_range(None, None).expect("what is sound can be compacted");
    assert_eq!(contents(&db).expect("what is sound can be read"), seen);
}
