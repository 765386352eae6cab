//! A ledger that is told, uploads and commits, by hand and at random.

use super::*;
use crate::names::{Attempt, Epoch, JobId};

fn own(id: u64) -> Table {
    Table { home: 0, id: TableId::Own { epoch: Epoch(1), number: id }, bytes: 10, crc32c: 7 }
}

fn change(added: &[u64], removed: &[u64]) -> Change {
    Change {
        payload: Bytes::from(format!("+{added:?} -{removed:?}")),
        is_whole: false,
        added: added.to_vec(),
        removed: removed.to_vec(),
    }
}

fn whole(tables: &[u64]) -> Change {
    Change { is_whole: true, ..change(tables, &[]) }
}

fn tell(ledger: &mut Ledger, change: Change) {
    let _ = tell_adopted(ledger, change);
}

fn tell_adopted(ledger: &mut Ledger, change: Change) -> Vec<u64> {
    ledger.tell(change, |number| 100 + number)
}

/// Uploads what waits; returns the numbers.
fn upload(ledger: &mut Ledger, times: usize) -> Vec<u64> {
    let mut done = Vec::new();
    for _ in 0..times {
        let Some((number, id)) = ledger.next_upload() else { break };
        ledger.uploaded(number, own(id));
        done.push(number);
    }
    done
}

fn commit(ledger: &mut Ledger) -> (usize, Vec<u64>, Vec<u64>) {
    let batch = ledger.batch().expect("something to commit");
    ledger.settle(&batch);
    assert_eq!(batch.edit.payloads.len(), batch.changes);
    let added = batch.edit.added.iter().map(|(number, _)| *number).collect();
    (batch.changes, added, batch.edit.removed)
}

#[test]
fn edits_wait_for_their_tables_and_go_together() {
    let mut ledger = Ledger::default();
    tell(&mut ledger, whole(&[]));
    tell(&mut ledger, change(&[5], &[]));
    tell(&mut ledger, change(&[6], &[]));
    tell(&mut ledger, change(&[], &[]));
    assert_eq!(ledger.bytes_waiting(), 105 + 106);
    assert_eq!(commit(&mut ledger), (1, vec![], vec![]));
    assert!(ledger.batch().is_none());
    assert_eq!(upload(&mut ledger, 1), [5]);
    assert_eq!(commit(&mut ledger), (1, vec![5], vec![]));
    assert_eq!(upload(&mut ledger, 9), [6]);
    assert_eq!(commit(&mut ledger), (2, vec![6], vec![]));
    assert!(ledger.is_level());
    assert_eq!(ledger.bytes_waiting(), 0);
    assert_eq!(ledger.committed().keys().copied().collect::<Vec<_>>(), [5, 6]);
}

#[test]
fn later_tables_that_are_there_do_not_overtake() {
    let mut ledger = Ledger::default();
    tell(&mut ledger, change(&[5], &[]));
    tell(&mut ledger, change(&[6], &[]));
    let first = ledger.next_upload().unwrap();
    assert_eq!(upload(&mut ledger, 1), [6]);
    assert!(ledger.batch().is_none());
    ledger.uploaded(5, own(first.1));
    assert_eq!(commit(&mut ledger), (2, vec![5, 6], vec![]));
}

/// What compaction rewrites faster than the network takes it never goes over it.
#[test]
fn tables_that_came_and_went_are_not_uploaded() {
    let mut ledger = Ledger::default();
    tell(&mut ledger, change(&[5], &[]));
    tell(&mut ledger, change(&[6], &[5]));
    tell(&mut ledger, change(&[7], &[6]));
    assert_eq!(ledger.bytes_waiting(), 107);
    assert_eq!(upload(&mut ledger, 9), [7]);
    assert_eq!(commit(&mut ledger), (3, vec![7], vec![]));
    assert!(ledger.is_level());
}

#[test]
fn a_table_that_goes_while_it_is_uploaded_serves_the_edits_in_between() {
    let mut ledger = Ledger::default();
    tell(&mut ledger, change(&[5], &[]));
    let (five, id) = ledger.next_upload().unwrap();
    tell(&mut ledger, change(&[6], &[5]));
    ledger.uploaded(five, own(id));
    assert_eq!(commit(&mut ledger), (1, vec![5], vec![]));
    assert_eq!(upload(&mut ledger, 9), [6]);
    assert_eq!(commit(&mut ledger), (1, vec![6], vec![5]));
}

#[test]
fn a_failed_upload_is_tried_again_under_its_id_if_it_counts() {
    let mut ledger = Ledger::default();
    tell(&mut ledger, change(&[5, 6], &[]));
    let (number, id) = ledger.next_upload().unwrap();
    assert!(ledger.not_uploaded(number));
    assert_eq!(ledger.next_upload(), Some((number, id)));
    tell(&mut ledger, change(&[], &[5]));
    assert!(!ledger.not_uploaded(number));
    assert_eq!(upload(&mut ledger, 9), [6]);
    assert_eq!(commit(&mut ledger), (2, vec![6], vec![]));
}

#[test]
fn a_move_changes_nothing_in_the_bucket() {
    let mut ledger = Ledger::new(BTreeMap::from([(5, own(1))]));
    tell(&mut ledger, change(&[5], &[5]));
    assert_eq!(commit(&mut ledger), (1, vec![], vec![]));
    tell(&mut ledger, change(&[6], &[]));
    tell(&mut ledger, change(&[6], &[6]));
    assert_eq!(upload(&mut ledger, 9), [6]);
    assert_eq!(commit(&mut ledger), (2, vec![6], vec![]));
}

/// As when a database is opened whose last edits were not committed.
#[test]
fn a_whole_edit_is_compared_with_what_is_committed() {
    let mut ledger = Ledger::new(BTreeMap::from([(5, own(1)), (6, own(2)), (7, own(3))]));
    tell(&mut ledger, whole(&[6, 9]));
    assert_eq!(upload(&mut ledger, 9), [9]);
    assert_eq!(commit(&mut ledger), (1, vec![9], vec![5, 7]));
    assert!(ledger.is_level());
}

/// Of many edits that are whole only all together, all go.
#[test]
fn no_bound_keeps_edits_from_ever_going() {
    let mut ledger = Ledger::default();
    for number in 0..3 * EDITS_MAX as u64 {
        let gone = number.checked_sub(1);
        tell(&mut ledger, change(&[number], gone.as_slice()));
    }
    assert_eq!(upload(&mut ledger, 9).len(), 1);
    assert_eq!(commit(&mut ledger).0, 3 * EDITS_MAX);
}

#[test]
fn tables_that_somebody_waits_for_go_first() {
    let mut ledger = Ledger::default();
    tell(&mut ledger, change(&[1, 2, 3, 4, 5], &[]));
    assert_eq!(ledger.next_upload().map(|(number, _)| number), Some(1));
    ledger.hurry(&[5, 1, 3, 77]);
    let rest = std::iter::from_fn(|| ledger.next_upload()).map(|(number, _)| number);
    assert_eq!(rest.collect::<Vec<_>>(), [3, 5, 2, 4]);
}

#[test]
fn what_may_be_named_is_kept_open_and_no_more() {
    let mut ledger = Ledger::default();
    assert_eq!(ledger.keep_open_from(Epoch(1)), 1);
    tell(&mut ledger, change(&[50, 60], &[]));
    let (first, second) = (ledger.next_upload().unwrap(), ledger.next_upload().unwrap());
    assert_eq!((first.1, second.1), (61, 62), "above all numbers of the engine's");
    assert_eq!(ledger.begin_job(63), 63);
    ledger.uploaded(60, own(62));
    assert_eq!(ledger.keep_open_from(Epoch(1)), 61);
    ledger.uploaded(50, own(61));
    commit(&mut ledger);
    assert_eq!(ledger.keep_open_from(Epoch(1)), 63);
    let job = JobId { epoch: Epoch(1), number: 63 };
    let made = Table {
        id: TableId::Worked { job, attempt: Attempt { term: 1, count: 1 }, ordinal: 0 },
        ..own(0)
    };
    ledger.adopt(70, made);
    ledger.end_job(job.number);
    assert_eq!(ledger.keep_open_from(Epoch(1)), 63, "its table is not named yet");
    assert!(!ledger.counts(70) && ledger.counts(50));
    assert_eq!(tell_adopted(&mut ledger, change(&[70], &[50])), [70]);
    assert!(ledger.counts(70) && !ledger.counts(50));
    assert_eq!(commit(&mut ledger), (1, vec![70], vec![50]));
    assert_eq!(ledger.keep_open_from(Epoch(1)), 71, "nothing of the job is left to come");
    assert_eq!(ledger.begin_job(69), 71, "69 would not be named");
    assert_eq!(ledger.begin_job(71), 72, "it is taken");
    assert_eq!(ledger.begin_job(75), 75);
    assert_eq!(ledger.keep_open_from(Epoch(1)), 71);
}

#[test]
fn jobs_of_earlier_owners_are_held_until_their_tables_are_named() {
    let mut ledger = Ledger::default();
    let job = |number| JobId { epoch: Epoch(1), number };
    let (now, attempt) = (Epoch(2), Attempt { term: 1, count: 1 });
    let made = |job| Table { id: TableId::Worked { job, attempt, ordinal: 0 }, ..own(0) };
    ledger.hold(job(5));
    ledger.hold(job(900));
    assert_eq!(ledger.held(now), [job(5), job(900)]);
    ledger.adopt(70, made(job(900)));
    ledger.let_go(job(900));
    tell(&mut ledger, change(&[70], &[]));
    assert_eq!(ledger.held(now), [job(5), job(900)], "its table is not named yet");
    assert_eq!(ledger.keep_open_from(now), 71, "their numbers are of another count");
    assert_eq!(commit(&mut ledger), (1, vec![70], vec![]));
    ledger.let_go(job(5));
    assert_eq!(ledger.held(now), []);
    // As a folder's notes have it when it is opened again.
    ledger.adopt(80, made(job(7)));
    assert_eq!((ledger.held(now), ledger.held(Epoch(1))), (vec![job(7)], vec![]));
}

#[test]
fn an_adopted_table_that_is_never_named_is_forgotten() {
    let mut ledger = Ledger::default();
    ledger.adopt(70, own(9));
    tell(&mut ledger, change(&[], &[]));
    assert_eq!(ledger.keep_open_from(Epoch(1)), 1);
    ledger.forget(70);
    tell(&mut ledger, change(&[71], &[]));
    assert_eq!(upload(&mut ledger, 9), [71]);
    assert_eq!(commit(&mut ledger), (2, vec![71], vec![]));
}

/// By many edits at random, with uploads and commits in between: what is committed is what was told, in order.
#[test]
fn the_bucket_follows_whatever_happens() {
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut roll = move |sides: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % sides
    };
    let mut ledger = Ledger::default();
    let mut versions = vec![BTreeSet::new()];
    let (mut committed, mut number, mut uploads, mut pending) = (0, 0, 0, Vec::new());
    for _ in 0..20_000 {
        match roll(8) {
            0..=2 => {
                let mut now: BTreeSet<u64> = versions.last().unwrap().clone();
                let removed: Vec<u64> = now.iter().copied().filter(|_| roll(4) == 0).collect();
                let added: Vec<u64> = (number..number + roll(4)).collect();
                number += 4;
                now.retain(|table| !removed.contains(table));
                now.extend(&added);
                let is_whole = roll(50) == 0;
                let list: Vec<u64> = now.iter().copied().collect();
                let told = if is_whole { whole(&list) } else { change(&added, &removed) };
                tell(&mut ledger, told);
                versions.push(now);
            }
            3..=4 => pending.extend(ledger.next_upload()),
            5 if !pending.is_empty() => {
                let (number, id) = pending.swap_remove(roll(pending.len() as u64) as usize);
                ledger.uploaded(number, own(id));
                uploads += 1;
            }
            6 if !pending.is_empty() => {
                let (number, _) = pending.swap_remove(roll(pending.len() as u64) as usize);
                ledger.not_uploaded(number);
            }
            _ => {
                let Some(batch) = ledger.batch() else { continue };
                let from = ledger.keep_open_from(Epoch(1));
                for (_, table) in &batch.edit.added {
                    assert!(matches!(table.id, TableId::Own { number, .. } if number >= from));
                }
                ledger.settle(&batch);
                committed += batch.changes;
                let there: BTreeSet<u64> = ledger.committed().keys().copied().collect();
                assert_eq!(there, versions[committed]);
            }
        }
    }
    assert!(committed > 1000 && uploads > 1000, "{committed} {uploads}");
}

/// Who reads an older version may open its tables for the first time when no version in the bucket has them.
#[test]
fn a_table_is_found_until_the_engine_needs_it_no_more() {
    let mut ledger = Ledger::new(BTreeMap::from([(5, own(5)), (6, own(6))]));
    ledger.adopt(9, own(9));
    tell(&mut ledger, change(&[9], &[5, 6]));
    ledger.forget(6);
    tell(&mut ledger, change(&[10], &[9]));
    upload(&mut ledger, 9);
    while ledger.batch().is_some() {
        commit(&mut ledger);
    }
    let found = |ledger: &Ledger| {
        let numbers = [5, 6, 9, 10].into_iter();
        numbers.filter(|number| ledger.table(*number).is_some()).collect::<Vec<_>>()
    };
    assert_eq!(found(&ledger), [5, 9, 10], "6 was given up before");
    assert_eq!(ledger.in_bucket(), [10], "what counts");
    ledger.forget(5);
    ledger.forget(9);
    assert_eq!(found(&ledger), [10]);
    assert!(ledger.parted.is_empty() && ledger.forgotten.is_empty());
}
