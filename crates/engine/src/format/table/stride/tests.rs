//! Strides over blocks of all kinds, against what each entry is by itself.

use super::*;
use crate::base::comparator::{InternalOrder, UserOrder};
use crate::base::iter::InternalIterator;
use crate::base::key::{InternalKey, ValueKind};
use crate::format::table::block_builder::BlockBuilder;
use crate::format::table::block_iter::BlockIter;
use crate::version::testing::Random;

#[derive(Clone, Copy)]
enum Way {
    Forward,
    Backward,
}

type Entries = Vec<(InternalKey, Vec<u8>)>;

/// Keys of many versions and shapes, with what they share or not; `plain` leaves out what no stride takes.
fn random_entries(random: &mut Random, plain: bool) -> Entries {
    let shared = [0, 3, if plain { 12 } else { 40 }][random.below(3)];
    let mut users: Vec<Vec<u8>> = (0..random.below(120) + 1)
        .map(|_| {
            let own = random.below(if plain { 10 } else { 30 }) + usize::from(plain);
            let own = (0..own).map(|_| *random.pick(b"\0ab\xff"));
            [&b"beginning of keys, of a length that no stride takes"[..shared]]
                .concat()
                .into_iter()
                .chain(own)
                .collect()
        })
        .collect();
    users.sort();
    users.dedup();
    let mut entries = Entries::new();
    for user in &users {
        let versions = if random.percent(80) { 1 } else { random.below(4) + 1 };
        for version in (0..versions).rev() {
            let kind = if random.percent(90) { ValueKind::Value } else { ValueKind::Deletion };
            let seqno = SeqNo((version * 100 + random.below(100)) as u64);
            let len = *random.pick(&[0, 1, 100, 127, 128, 200, if plain { 300 } else { 20_000 }]);
            let value = (0..len).map(|_| random.below(256) as u8).collect();
            entries.push((InternalKey::new(user, seqno, kind), value));
        }
    }
    entries
}

/// Whether a scan that sees `answers.seqno` goes from entry `before` to the one behind it, forward.
fn follows(entries: &Entries, index: usize, answers: &Answers) -> bool {
    let ((before, _), (key, _)) = (&entries[index - 1], &entries[index]);
    let tag = crate::base::key::tag_of(key.as_bytes());
    before.user() < key.user() && tag as u8 == 1 && key.seqno() <= answers.seqno
}

fn leading(entries: &Entries, index: usize) -> u128 {
    leading_words(entries[index].0.as_bytes())
}

fn bytes_of(entries: &Entries, restart_interval: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(restart_interval);
    entries.iter().for_each(|(key, value)| builder.add(key.as_bytes(), value));
    builder.finish().to_vec()
}

/// What `stride` stands on and what it leads to, from end to end.
fn all_of(stride: &mut Stride) -> Entries {
    while stride.step_back() {}
    let mut all = Entries::new();
    while let Some(key) = stride.key() {
        let key = InternalKey::from_bytes(key).unwrap();
        all.push((key, stride.value().unwrap().to_vec()));
        if !stride.step() {
            break;
        }
    }
    all
}

#[track_caller]
fn check_stand(iter: &BlockIter, entry: &(InternalKey, Vec<u8>)) {
    assert_eq!((iter.key(), iter.value()), (entry.0.as_bytes(), &entry.1[..]));
}

/// One stride each way from a random entry. Returns how many entries could have been taken, and how many were.
fn check_strides(random: &mut Random, plain: bool) -> (usize, usize) {
    let entries = random_entries(random, plain);
    let block = Block::new(bytes_of(&entries, random.below(20) + 1)).unwrap();
    let block = Arc::new(CachedBlock::new(block));
    let start = random.below(entries.len());
    let answers = Answers {
        seqno: SeqNo(random.below(400) as u64 + 20),
        others: random.percent(30).then(|| leading(&entries, random.below(entries.len()))),
        entries: [1, 8, 64][random.below(3)],
    };
    let mut iter = BlockIter::new(InternalOrder::new(UserOrder::Bytewise));
    let mut stride = Stride::default();
    let (mut could, mut did) = (0, 0);
    for way in [Way::Forward, Way::Backward] {
        iter.set_block(Arc::clone(&block));
        iter.seek(entries[start].0.as_bytes()).unwrap();
        let is_nearer = |index: usize| {
            answers.others.is_none_or(|others| match way {
                Way::Forward => leading(&entries, index) < others,
                Way::Backward => leading(&entries, index) > others,
            })
        };
        let is_answer = |index: &usize| follows(&entries, *index, &answers) && is_nearer(*index);
        let expected = match way {
            Way::Forward => {
                start + 1
                    ..start
                        + 1
                        + (start + 1..entries.len())
                            .take(answers.entries)
                            .take_while(is_answer)
                            .count()
            }
            Way::Backward => start - (1..start).rev().take_while(is_answer).count()..start,
        };
        let taken = match way {
            Way::Forward => iter.run_forward(&mut stride, &answers),
            Way::Backward => iter.run_backward(&mut stride, &answers),
        };
        could += expected.len();
        if !taken {
            assert!(stride.key().is_none());
            check_stand(&iter, &entries[start]);
            continue;
        }
        let found = all_of(&mut stride);
        did += found.len();
        let (found_at, stand) = match way {
            Way::Forward => (expected.start, expected.start + found.len() - 1),
            Way::Backward => (expected.end - found.len(), expected.end - found.len()),
        };
        assert!(found.len() <= expected.len());
        assert_eq!(found, entries[found_at..found_at + found.len()]);
        check_stand(&iter, &entries[stand]);
        // From there it goes on as ever.
        iter.next().unwrap();
        assert_eq!(iter.valid(), stand + 1 < entries.len());
        if iter.valid() {
            check_stand(&iter, &entries[stand + 1]);
            iter.prev().unwrap();
            check_stand(&iter, &entries[stand]);
        }
        stride.release();
    }
    (could, did)
}

#[test]
fn a_stride_takes_what_a_scan_would_take_one_by_one() {
    let mut random = Random::new(301);
    for _ in 0..3_000 {
        check_strides(&mut random, false);
    }
    let (mut could, mut did) = (0, 0);
    for _ in 0..3_000 {
        let (c, d) = check_strides(&mut random, true);
        (could, did) = (could + c, did + d);
    }
    assert!(did * 10 > could * 8, "of {could} plain entries it took {did}");
}

/// L2: neither a panic nor an endless walk, and keys in order.
#[test]
fn strides_over_broken_blocks_end() {
    let mut random = Random::new(77);
    for _ in 0..5_000 {
        let entries = random_entries(&mut random, true);
        let mut bytes = bytes_of(&entries, 16);
        for _ in 0..random.below(4) + 1 {
            let at = random.below(bytes.len());
            bytes[at] = random.below(256) as u8;
        }
        let Ok(block) = Block::new(bytes) else { continue };
        let block = Arc::new(CachedBlock::new(block));
        for way in [Way::Forward, Way::Backward] {
            walk(&block, way);
        }
    }
}

/// Through all of a block, in strides where they are possible.
fn walk(block: &Arc<CachedBlock>, way: Way) {
    let mut iter = BlockIter::new(InternalOrder::new(UserOrder::Bytewise));
    iter.set_block(Arc::clone(block));
    let answers = Answers { seqno: SeqNo(1_000), others: None, entries: 64 };
    let mut stride = Stride::default();
    let mut moved = match way {
        Way::Forward => iter.seek_to_first(),
        Way::Backward => iter.seek_to_last(),
    };
    while moved.is_ok() && iter.valid() {
        let taken = match way {
            Way::Forward => iter.run_forward(&mut stride, &answers),
            Way::Backward => iter.run_backward(&mut stride, &answers),
        };
        assert_eq!(taken, stride.key().is_some());
        assert!(all_of(&mut stride).is_sorted_by(|a, b| a.0.user() < b.0.user()));
        moved = match way {
            Way::Forward => iter.next(),
            Way::Backward => iter.prev(),
        };
    }
}
