//! Logs in real files, mapped whatever the folder's file system.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::env::posix::log::span::SPAN_BYTES;
use crate::format::record::BLOCK_BYTES as FORMAT_BLOCK_BYTES;

/// Whatever the folder's file system: it lasts for as long as the test does.
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn mapped(name: &str) -> MappedLog {
    let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let options = File::options().read(true).write(true).create_new(true).clone();
    let mut log = create(options.open(&path).expect("nobody has the name"), &path);
    log.span = Span::map(log.open_file(), 0).ok();
    log.may_map = log.span.is_some();
    log
}

#[test]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn no_append_but_the_first_pays_for_zeros_and_pages() {
    let mut log = mapped("halves");
    let (mut zeros, mut pages) = (0, 0);
    let mut before = (0, 0);
    while log.end < SPAN_BYTES - (1 << 10) {
        let is_first = log.end == 0;
        log.append(&[7; 133], Site::WalAppend).unwrap();
        let now = (log.zeroed, log.span.as_ref().unwrap().has_pages_until);
        let (wrote, made) = (now.0 - before.0, now.1 - before.1);
        assert!(wrote <= STEP_BYTES && made <= STEP_BYTES);
        assert!(is_first || wrote == 0 || made == 0, "at {}", log.end);
        zeros += u64::from(wrote > 0);
        pages += u64::from(made > 0);
        before = now;
    }
    assert_eq!((zeros, pages), (SPAN_BYTES / STEP_BYTES, SPAN_BYTES / STEP_BYTES));
    std::fs::remove_file(&log.path).unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn appends_find_the_zeros_that_were_written_ahead() {
    const AHEAD: u64 = 2 * PIECE_BYTES + CALL_BYTES;
    let mut log = mapped("ahead");
    assert!(!log.get_ahead(AHEAD), "nothing is expected");
    log.expect_appends(AHEAD_OF_BYTES_MAX + 1);
    assert!(!log.get_ahead(AHEAD), "too much is");
    log.expect_appends(4 * PIECE_BYTES);
    assert!(!log.get_ahead(0), "nothing is likely");
    let mut get_ahead = || log.get_ahead(AHEAD - 100);
    assert!(get_ahead() && get_ahead() && !get_ahead() && !get_ahead());
    let mut expected = Vec::new();
    for number in 0.. {
        let before = log.span.as_ref().unwrap().has_pages_until;
        let data = [number as u8 | 1; 1001];
        log.append(&data, Site::WalAppend).unwrap();
        expected.extend(data);
        let made = log.span.as_ref().unwrap().has_pages_until - before;
        assert!(made <= STEP_BYTES, "as short steps as ever");
        if log.end > AHEAD - STEP_BYTES {
            break;
        }
        assert_eq!(log.zeroed, AHEAD);
    }
    while log.end < 2 * AHEAD {
        log.append(&[7; 1001], Site::WalAppend).unwrap();
        expected.extend([7; 1001]);
    }
    log.close(Site::WalClose).unwrap();
    assert!(std::fs::read(&log.path).unwrap() == expected);
    std::fs::remove_file(&log.path).unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn zeros_end_where_a_call_for_what_was_expected_does() {
    let mut log = mapped("ahead-of-more");
    log.expect_appends(PIECE_BYTES + 1);
    assert!(log.get_ahead(u64::MAX >> 1) && !log.get_ahead(u64::MAX >> 1));
    let length = std::fs::metadata(&log.path).unwrap().len();
    assert_eq!((length, length % BLOCK_BYTES), (PIECE_BYTES + CALL_BYTES, 0));
    std::fs::remove_file(&log.path).unwrap();
}

/// A sync asks for blocks and not for zeros, and a long append for neither.
#[test]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn zeros_ahead_stay_behind_what_is_appended() {
    let mut log = mapped("ahead-and-synced");
    log.expect_appends(AHEAD_OF_BYTES_MAX);
    assert!((0..4).all(|_| log.get_ahead(AHEAD_OF_BYTES_MAX)));
    let mut expected = Vec::new();
    for number in 0_usize..600 {
        let bytes = if number % 50 == 49 { 40_000 } else { 100 + number };
        if number == 300 {
            // A call goes past the last zeros.
            let data = vec![7; 9 * PIECE_BYTES as usize];
            log.append(&data, Site::WalAppend).unwrap();
            expected.extend(data);
            assert!(log.end > log.zeroed);
            assert!(log.get_ahead(AHEAD_OF_BYTES_MAX) && log.zeroed > log.end);
        }
        let data: Vec<u8> = (0..bytes).map(|at| (at ^ number) as u8 | 1).collect();
        log.append(&data, Site::WalAppend).unwrap();
        expected.extend(data);
        if number % 30 == 29 {
            log.sync(Site::WalSync).unwrap();
        }
        let length = log.open_file().metadata().unwrap().len();
        assert!(length == log.allocated && log.zeroed <= length.max(log.end));
    }
    log.close(Site::WalClose).unwrap();
    assert!(std::fs::read(&log.path).unwrap() == expected);
    std::fs::remove_file(&log.path).unwrap();
}

/// As on a full disk. Zeros that are there stay of use.
#[test]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn zeros_that_cannot_be_written_are_not_counted_on() {
    let mut log = mapped("no-zeros");
    log.expect_appends(4 * PIECE_BYTES);
    assert!(log.get_ahead(4 * PIECE_BYTES));
    let state = |log: &MappedLog| (log.zeroed, log.allocated);
    let before = state(&log);
    let writable = log.file.replace(File::open(&log.path).unwrap());
    assert!(!log.get_ahead(4 * PIECE_BYTES));
    log.file = writable;
    assert_eq!(state(&log), before);
    assert!(log.reserved <= log.allocated, "what was set aside goes with what was written");
    assert!(!log.get_ahead(4 * PIECE_BYTES), "it is not tried again");
    for _ in 0..2 * PIECE_BYTES / 1000 {
        log.append(&[7; 1000], Site::WalAppend).unwrap();
    }
    log.close(Site::WalClose).unwrap();
    let found = std::fs::read(&log.path).unwrap();
    assert!(found.len() as u64 == log.end && found.iter().all(|byte| *byte == 7));
    std::fs::remove_file(&log.path).unwrap();
}

/// What of it is not used is given back.
#[test]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn what_is_expected_is_made_ready() {
    let mut log = mapped("expected");
    log.expect_appends(1 << 20);
    let state =
        |log: &MappedLog| (log.reserved, log.zeroed, log.span.as_ref().unwrap().has_pages_until);
    assert_eq!(state(&log), (1 << 20, STEP_BYTES, STEP_BYTES));
    log.append(&[7; 100], Site::WalAppend).unwrap();
    assert_eq!(state(&log), (1 << 20, STEP_BYTES, STEP_BYTES), "the first append makes nothing");
    log.close(Site::WalClose).unwrap();
    assert!(512 * std::fs::metadata(&log.path).unwrap().blocks() <= PAGE_BYTES);
    assert_eq!(std::fs::read(&log.path).unwrap(), [7; 100]);
    std::fs::remove_file(&log.path).unwrap();
}

/// It takes all processors, and the writer waits.
#[test]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn pages_are_given_back_once_where_the_length_is_known() {
    for (expected, times) in [(0, 4), (4 << 20, 1)] {
        let mut log = mapped("pages");
        log.expect_appends(expected);
        let mut kept = Vec::new();
        while log.end < 4 << 20 {
            log.append(&[7; 1000], Site::WalAppend).unwrap();
            kept.push(log.span.as_ref().unwrap().kept);
        }
        kept.dedup();
        assert_eq!(kept.len(), times + 1, "{expected}: {kept:?}");
        std::fs::remove_file(&log.path).unwrap();
    }
}

/// To cut it would free blocks twice.
#[test]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn a_log_that_goes_away_is_not_cut() {
    let mut log = mapped("unneeded");
    log.append(&[7; 100], Site::WalAppend).unwrap();
    log.expect_removal();
    log.close(Site::WalClose).unwrap();
    assert_eq!(std::fs::metadata(&log.path).unwrap().len(), LENGTH_STEP_BYTES);
    std::fs::remove_file(&log.path).unwrap();
}

/// Zeros that were written ahead are written over by calls.
#[test]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn calls_may_pass_over_what_is_half_ready() {
    let mut log = mapped("passed-over");
    let mut expected = Vec::new();
    for length in [20_000, 300_000, 7, 40_000, 100, 16_000, 70_000, 3] {
        for short in [133, length] {
            let data: Vec<u8> = (1..=short).map(|at| (at % 251) as u8 + 1).collect();
            log.append(&data, Site::WalAppend).unwrap();
            expected.extend(data);
        }
    }
    assert!(log.may_map && log.reserved > log.allocated);
    log.close(Site::WalClose).unwrap();
    assert!(std::fs::read(&log.path).unwrap() == expected);
    let taken = 512 * std::fs::metadata(&log.path).unwrap().blocks();
    assert!(taken < log.end + PAGE_BYTES, "what was reserved goes: {taken} for {}", log.end);
    std::fs::remove_file(&log.path).unwrap();
}

/// With a log that is synced each time every store would fault.
#[test]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn a_log_that_is_synced_often_has_no_map() {
    let mut log = mapped("synced-often");
    let mut expected = Vec::new();
    let mut append = |log: &mut MappedLog, bytes: usize| {
        let data = vec![expected.len() as u8 | 1; bytes];
        log.append(&data, Site::WalAppend).unwrap();
        expected.extend(data);
    };
    let mut steps = Vec::new();
    while log.end < 1 << 20 {
        append(&mut log, 150);
        log.sync(Site::WalSync).unwrap();
        assert!(log.span.is_none() && log.zeroed >= log.end);
        assert!(log.open_file().metadata().unwrap().len().is_multiple_of(BLOCK_BYTES));
        steps.push(log.zeroed);
    }
    steps.dedup();
    assert!(steps.len() < 10, "{steps:?}");
    // Without syncs it comes back.
    for _ in 0..BETWEEN_SYNCS_BYTES / 1_000 + 3 {
        append(&mut log, 1_000);
    }
    assert!(log.span.is_some());
    // And stays if much lies between them.
    for _ in 0..10 {
        append(&mut log, 1_000);
        append(&mut log, BETWEEN_SYNCS_BYTES as usize);
        log.sync(Site::WalSync).unwrap();
        assert!(log.span.is_some());
    }
    log.close(Site::WalClose).unwrap();
    assert!(std::fs::read(&log.path).unwrap() == expected);
    std::fs::remove_file(&log.path).unwrap();
}

/// Across steps and spans, with syncs and long appends between. If the process died, LevelDB could go on at the file's end.
#[test]
#[expect(clippy::disallowed_methods, reason = "as the module above")]
fn a_long_log_holds_what_was_appended() {
    let mut log = mapped("log");
    let (mut expected, mut given_back) = (Vec::new(), 0);
    for number in 0_usize.. {
        let bytes = match number % 100 {
            99 => 300_000,
            rest => number * 7919 % (STORED_BYTES_MAX / 100 * (rest + 1)),
        };
        let data: Vec<u8> = (1..=bytes).map(|at| (at ^ number) as u8).collect();
        log.append(&data, Site::WalAppend).unwrap();
        expected.extend(data);
        let length = log.open_file().metadata().unwrap().len();
        let ends_well = length == log.end || length.is_multiple_of(FORMAT_BLOCK_BYTES as u64);
        assert!(ends_well && length >= log.end, "{length} for {}", log.end);
        if number % 1000 < 100 {
            log.sync(Site::WalSync).unwrap();
        }
        given_back += log.span.as_ref().map_or(0, |span| u64::from(span.kept > span.start));
        if expected.len() as u64 > 2 * SPAN_BYTES {
            break;
        }
    }
    assert!(log.may_map && given_back > 100, "{given_back}");
    log.close(Site::WalClose).unwrap();
    let found = std::fs::read(&log.path).unwrap();
    std::fs::remove_file(&log.path).unwrap();
    assert!(found == expected);
}
