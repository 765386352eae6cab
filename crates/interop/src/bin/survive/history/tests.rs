//! Judgements on small histories: what is clean, and what each kind of fault is counted as.

use super::*;

const SEED: u64 = 11;

fn script() -> Script {
    Script { seed: SEED }
}

fn content(batches: impl IntoIterator<Item = (usize, u64)>) -> Found {
    let mut found = Found::new();
    for (writer, number) in batches {
        for change in script().batch(writer, number) {
            match change {
                Change::Put(key, value) => found.insert(key, value),
                Change::Delete(key) => found.remove(&key),
            };
        }
    }
    found
}

fn begin(history: &mut History, writer: u8, number: u64, synced: bool) {
    history.note(Message::Begun { writer, number, synced });
}

fn write(history: &mut History, writer: u8, number: u64, synced: bool) {
    begin(history, writer, number, synced);
    history.note(Message::Acked { writer, number });
}

/// One writer's batches 1 to `acked`, the last of them synced.
fn one_writer(acked: u64, synced: u64) -> History {
    let mut history = History::new(script(), 1);
    (1..=acked).for_each(|number| write(&mut history, 0, number, number == synced));
    history
}

#[test]
fn all_that_was_acknowledged_is_well_with_or_without_the_one_in_flight() {
    for last in [100, 101] {
        let mut history = one_writer(100, 50);
        begin(&mut history, 0, 101, false);
        let verdict = history.judge(&content((1..=last).map(|n| (0, n))), Promise::Process);
        assert!(verdict.is_clean(), "{verdict:?}");
        assert_eq!(history.firsts(), [102]);
    }
}

#[test]
fn a_lost_suffix_is_a_loss_for_a_dead_process_and_none_for_a_power_cut() {
    let found = content((1..=80).map(|number| (0, number)));
    let verdict = one_writer(83, 20).judge(&found, Promise::Process);
    assert_eq!(verdict, Verdict { lost_unsynced: 3, ..Verdict::default() });
    assert!(one_writer(83, 20).judge(&found, Promise::Power).is_clean());
    let verdict = one_writer(83, 83).judge(&found, Promise::Power);
    assert_eq!(verdict, Verdict { lost_synced: 1, lost_unsynced: 2, ..Verdict::default() });
}

#[test]
fn a_missing_batch_before_one_that_is_there_is_a_hole() {
    let (gone, end) = (30, 90);
    let batches = (1..=end).filter(|number| *number != gone);
    let found = content(batches.map(|number| (0, number)));
    let verdict = one_writer(end, 10).judge(&found, Promise::Power);
    assert_eq!(verdict.holes + verdict.partial, 1, "{verdict:?}");
    assert_eq!(verdict.lost_unsynced, 0);
    let verdict = one_writer(end, end).judge(&found, Promise::Power);
    assert_eq!(verdict.lost_unsynced, 1, "{verdict:?}");
}

#[test]
fn a_part_of_a_batch_is_told() {
    let many = |number: &u64| script().batch(0, *number).len() > 12;
    let last = (1..).find(many).expect("some are long");
    let mut found = content((1..=last).map(|number| (0, number)));
    let key = format!("a/own/{last:010}").into_bytes();
    found.remove(&key).expect("its own key is there");
    let verdict = one_writer(last, 0).judge(&found, Promise::Power);
    assert_eq!(verdict.partial, 1, "{verdict:?}");
}

#[test]
fn what_was_acknowledged_before_another_writers_batch_may_not_be_missing_beside_it() {
    let last = 9;
    let mut history = History::new(script(), 2);
    (1..=last).for_each(|number| write(&mut history, 0, number, false));
    write(&mut history, 1, 1, false);
    let found = content((1..last).map(|number| (0, number)).chain([(1, 1)]));
    let verdict = history.judge(&found, Promise::Power);
    assert_eq!((verdict.holes, verdict.lost_unsynced), (1, 0), "{verdict:?}");
}

#[test]
fn a_failed_batch_is_not_missed_beside_another_writers_later_one() {
    let mut history = History::new(script(), 2);
    write(&mut history, 0, 1, false);
    begin(&mut history, 0, 2, false);
    history.note(Message::Failed { writer: 0, number: 2 });
    write(&mut history, 1, 1, true);
    assert_eq!((history.acked(), history.promised()), (2, 2));
    assert!(history.judge(&content([(0, 1), (1, 1)]), Promise::Process).is_clean());
}

#[test]
fn a_sync_promises_what_others_had_acknowledged() {
    let last = 9;
    let mut history = History::new(script(), 2);
    (1..=last).for_each(|number| write(&mut history, 0, number, false));
    write(&mut history, 1, 1, true);
    assert_eq!(history.promised(), last + 1);
    let verdict = history.judge(&content((1..last).map(|number| (0, number))), Promise::Power);
    assert_eq!((verdict.lost_unsynced, verdict.lost_synced), (1, 1), "{verdict:?}");
}

#[test]
fn a_failed_batch_is_no_loss_and_is_told_if_it_shows() {
    let failed = 20;
    let after = 25;
    let history = || {
        let mut history = one_writer(failed - 1, 0);
        begin(&mut history, 0, failed, true);
        history.note(Message::Failed { writer: 0, number: failed });
        (failed + 1..=after).for_each(|number| write(&mut history, 0, number, false));
        history
    };
    let without = (1..=after).filter(|number| *number != failed).map(|number| (0, number));
    let verdict = history().judge(&content(without), Promise::Process);
    assert_eq!(verdict, Verdict::default());
    let verdict = history().judge(&content((1..=after).map(|n| (0, n))), Promise::Process);
    assert_eq!(verdict, Verdict { shown: 1, ..Verdict::default() });
}

#[test]
fn what_was_once_found_must_not_go_and_foreign_values_are_seen() {
    let end = 50;
    let mut history = one_writer(end, 0);
    let found = content((1..=end).map(|number| (0, number)));
    assert!(history.judge(&found, Promise::Power).is_clean());
    let before = content((1..end).map(|number| (0, number)));
    assert!(history.judge(&before, Promise::Power).lost_synced > 0);
    let mut strange = found.clone();
    *strange.values_mut().next().expect("there are some") = b"strange".to_vec();
    assert_eq!(history.judge(&strange, Promise::Power).garbled, 1);
    let mut foreign = found;
    foreign.insert(b"zebra".to_vec(), Vec::new());
    assert_eq!(history.judge(&foreign, Promise::Power).garbled, 1);
}
