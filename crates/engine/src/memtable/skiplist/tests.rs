//! The list below the memtable: searches, the splice, readers beside the writer. Those named
//! `loom_` explore every interleaving of a few operations; run them with
//! `cargo xtask loom`.

use super::*;
use crate::base::key::{InternalKey, SeqNo};
use crate::base::sync::lockless::Ordering::Release;

/// Few buckets, so that chains have several keys.
const INDEXED: usize = 4 << 10;

fn add(writer: &mut Writer, user: &[u8], tag: u64) -> bool {
    writer.insert(Entry { user, tag, value: &tag.to_le_bytes() })
}

/// A check of one generation: the value is the tag, so a torn or early read shows.
fn check_entry(cursor: &Cursor) -> (&[u8], u64) {
    let (user, tag) = split(cursor.key());
    assert_eq!(cursor.value(), tag.to_le_bytes());
    (user, tag)
}

#[cfg(not(loom))]
mod plain {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::base::key::ValueKind;
    use crate::memtable::skiplist::writer::random_height;

    fn number(n: u64) -> [u8; 8] {
        n.to_be_bytes()
    }

    fn internal(n: u64) -> Vec<u8> {
        InternalKey::new(&number(n), SeqNo(0), ValueKind::Value).into_bytes()
    }

    /// With as many keys as buckets.
    #[test]
    fn marks_tell_most_keys_that_are_absent() {
        const KEYS: u64 = 1024;
        let (list, mut writer) = SkipList::new(UserOrder::Bytewise, KEYS as usize * 128, 301, None);
        for n in 0..KEYS {
            add(&mut writer, &number(n), 1);
            list.newest(&number(n), 1); // Who is not searched has no buckets.
        }
        let is_marked = |n: &u64| list.0.index.bucket(&number(*n)).unwrap().is_marked();
        assert!((0..KEYS).all(|n| is_marked(&n)));
        let taken_for_there = (KEYS..2 * KEYS).filter(is_marked).count() as u64;
        assert!((1..KEYS / 6).contains(&taken_for_there), "{taken_for_there} of {KEYS}");
    }

    #[test]
    fn lookups_agree_with_a_set() {
        let (list, mut writer) = SkipList::new(UserOrder::Bytewise, INDEXED, 301, None);
        let mut model = BTreeSet::new();
        let mut random = 1000;
        let range = 1000;
        for _ in 0..500 {
            random_height(&mut random);
            let n = random % range;
            assert_eq!(add(&mut writer, &number(n), 1), model.insert(n));
        }
        for n in 0..range {
            assert_eq!(list.newest(&number(n), 1).is_some(), model.contains(&n));
        }
        let mut cursor = list.cursor();
        for n in 0..range {
            cursor.seek(&internal(n));
            for &expected in model.range(n..).take(3) {
                assert_eq!(check_entry(&cursor).0, number(expected));
                cursor.next();
            }
        }
        cursor.seek_to_last();
        for &expected in model.iter().rev() {
            assert_eq!(check_entry(&cursor).0, number(expected));
            cursor.prev();
        }
        assert!(!cursor.valid());
    }

    /// Several rising streams, falling runs and repeats move the splice in every way.
    #[test]
    fn the_splice_finds_its_place_from_anywhere() {
        let (list, mut writer) = SkipList::new(UserOrder::Bytewise, INDEXED, 1, None);
        let mut model = BTreeSet::new();
        let rising = (0..100).flat_map(|n| [n, 10_000 + n, 5_000 + n]);
        let falling = (200..300).rev();
        let pairs = (0..100).flat_map(|n| [20_000 + 2 * n, 20_001 + 2 * n, 20_000 + 2 * n]);
        for n in rising.chain(falling).chain(pairs).chain(0..400) {
            assert_eq!(add(&mut writer, &number(n), 1), model.insert(n));
        }
        let mut cursor = list.cursor();
        cursor.seek_to_first();
        for expected in model {
            assert_eq!(check_entry(&cursor).0, number(expected));
            cursor.next();
        }
        assert!(!cursor.valid());
    }

    /// Nothing for Miri to see, and much to do.
    #[cfg(not(miri))]
    /// Each level is in order and part of the level below.
    fn check_levels(list: &SkipList) {
        let list = &*list.0;
        let level = |level| {
            let mut found = Vec::new();
            let mut node = list.node(list.head);
            while let (Some(next), _) = list.next(node, level) {
                found.push(next.key().to_vec());
                node = next;
            }
            found
        };
        let heights = 0..list.height.load(Relaxed);
        let levels: Vec<_> = heights.map(level).collect();
        for keys in &levels {
            let place = |key: &Vec<u8>| {
                let (user, tag) = split(key);
                (user.to_vec(), u64::MAX - tag)
            };
            assert!(keys.is_sorted_by(|a, b| place(a) < place(b)));
        }
        for (upper, lower) in levels.iter().skip(1).zip(&levels) {
            let lower: BTreeSet<_> = lower.iter().collect();
            assert!(upper.iter().all(|key| lower.contains(key)));
        }
    }

    /// Keys that hints tell apart, and keys that they do not, in runs and at random, from before the list has a finder
    /// until it has none any more; the window moves on the way.
    #[test]
    fn the_finder_finds_what_a_search_finds() {
        for seed in 1..if cfg!(miri) { 2 } else { 30 } {
            let (list, mut writer) = SkipList::new(UserOrder::Bytewise, INDEXED, seed, None);
            let (mut model, mut random) = (BTreeSet::new(), seed);
            let mut number = 0_u64;
            for at in 0..if cfg!(miri) { 100 } else { 5000 } {
                random_height(&mut random);
                let roll = random >> 32;
                number = match roll % 8 {
                    0..3 => number + 1,
                    3 => number.saturating_sub(1 + roll / 64 % 5),
                    _ => roll % 4000,
                };
                let middle =
                    if seed % 3 == 0 { "a middle that is too long for a hint" } else { "" };
                let prefix = if at > 300 && seed % 2 == 0 { number % 3 } else { 1 };
                let key = format!("base{prefix}/{middle}{number:06}");
                let tag = roll / 8 % 3;
                assert_eq!(add(&mut writer, key.as_bytes(), tag), model.insert((key, 3 - tag)));
            }
            let mut cursor = list.cursor();
            cursor.seek_to_first();
            for (key, tag) in &model {
                assert_eq!(check_entry(&cursor), (key.as_bytes(), 3 - tag));
                cursor.next();
            }
            assert!(!cursor.valid());
            check_levels(&list);
        }
    }

    #[test]
    fn heights_fall_off_by_four() {
        let mut random = 1;
        let mut counts = [0; HEIGHT_MAX + 1];
        for _ in 0..1 << 20 {
            counts[random_height(&mut random)] += 1;
        }
        assert_eq!(counts[0], 0);
        for (height, count) in counts.iter().enumerate().take(7).skip(1) {
            let expected = (3 << 20) >> (2 * height);
            assert!((expected * 8 / 10..expected * 12 / 10).contains(count));
        }
    }

    const KEYS: u64 = 4;
    const DIGITS: usize = 12;

    /// Keys with a common base, so that hints are in use: `key`, then its generation as a number.
    fn versioned(key: u64, generation: u64) -> Vec<u8> {
        format!("base{key}/{generation:0DIGITS$}").into_bytes()
    }

    /// What the writer has published: for each key, the last generation that it has inserted.
    #[derive(Default)]
    struct Published([std::sync::atomic::AtomicU64; KEYS as usize]);

    impl Published {
        fn snapshot(&self) -> [u64; KEYS as usize] {
            std::array::from_fn(|key| self.0[key].load(Acquire))
        }
    }

    fn write(writer: &mut Writer, published: &Published, random: &mut u64) {
        random_height(random);
        let key = *random % KEYS;
        let published = &published.0[key as usize];
        let generation = published.load(Relaxed) + 1;
        // Generations fall in the list, so that insertions come in front of what readers know.
        assert!(add(writer, &versioned(key, u64::from(u32::MAX) - generation), generation));
        published.store(generation, Release);
    }

    /// Scans the whole list; every generation published before must be there.
    fn scan(list: &SkipList, published: &Published) {
        let floor = published.snapshot();
        let mut cursor = list.cursor();
        for key in 0..KEYS {
            cursor.seek(&InternalKey::seek_to(&versioned(key, 0), SeqNo(1 << 40)).into_bytes());
            let mut expected = None;
            while cursor.valid() && cursor.key().starts_with(format!("base{key}/").as_bytes()) {
                let (user, generation) = check_entry(&cursor);
                assert_eq!(user, versioned(key, u64::from(u32::MAX) - generation));
                assert!(expected.is_none_or(|expected| expected == generation), "a hole");
                assert!(expected.is_some() || generation >= floor[key as usize], "missed");
                expected = Some(generation - 1);
                cursor.next();
            }
            assert!(matches!(expected, None | Some(0)));
            assert!(expected.is_some() || floor[key as usize] == 0, "all are missed");
        }
    }

    /// Looks up single generations; those published before must be found.
    fn probe(list: &SkipList, published: &Published, random: &mut u64) {
        random_height(random);
        let key = *random % KEYS;
        let floor = published.snapshot()[key as usize];
        let generation = 1 + (*random >> 8) % (floor + 10);
        let user = versioned(key, u64::from(u32::MAX) - generation);
        match list.newest(&user, u64::MAX) {
            Some((tag, value)) => {
                assert_eq!((tag, value), (generation, &generation.to_le_bytes()[..]))
            }
            None => assert!(generation > floor, "generation {generation} of {floor} is missed"),
        }
    }

    #[test]
    fn snapshots_hold_without_threads() {
        let (list, mut writer) = SkipList::new(UserOrder::Bytewise, INDEXED, 7, None);
        let (published, mut random) = (Published::default(), 1);
        for _ in 0..if cfg!(miri) { 30 } else { 300 } {
            scan(&list, &published);
            write(&mut writer, &published, &mut random);
            probe(&list, &published, &mut random);
        }
    }

    #[test]
    fn snapshots_hold_beside_a_writer() {
        let rounds = if cfg!(miri) { 1 } else { 8 };
        let writes = if cfg!(miri) { 60 } else { 3_000 };
        for seed in 0..rounds {
            let (list, mut writer) = SkipList::new(UserOrder::Bytewise, INDEXED, seed, None);
            let (published, done) = (Published::default(), AtomicBool::new(false));
            std::thread::scope(|scope| {
                for reader in 0..2 {
                    let (list, published, done) = (list.clone(), &published, &done);
                    scope.spawn(move || {
                        let mut random = 1 + reader + seed;
                        let mut rounds = 0;
                        while !done.load(Acquire) {
                            probe(&list, published, &mut random);
                            rounds += 1;
                            if rounds % 64 == 0 {
                                scan(&list, published);
                            }
                        }
                        scan(&list, published);
                    });
                }
                let mut random = 1 + seed;
                for _ in 0..writes {
                    write(&mut writer, &published, &mut random);
                }
                done.store(true, Release);
            });
        }
    }
}

#[cfg(loom)]
mod exhaustive {
    use loom::sync::atomic::AtomicU64;

    use super::*;
    use crate::base::sync::explore as explore_schedules;

    /// Beside a reader, one writer inserts `users` in turn and publishes how many are in. The
    /// reader's look must find all that were published before it. Two entries are in from the
    /// beginning, so that hints have their window. Seeds differ in the heights that they draw.
    fn explore(users: &'static [&'static [u8]], look: fn(&SkipList, &[&[u8]], usize)) {
        for seed in [1, 5] {
            explore_schedules(move || {
                let (list, mut writer) = SkipList::new(UserOrder::Bytewise, INDEXED, seed, None);
                assert!(add(&mut writer, b"base1", 1) && add(&mut writer, b"base9", 1));
                let published = Arc::new(AtomicU64::new(0));
                let reader = {
                    let (list, published) = (list.clone(), Arc::clone(&published));
                    loom::thread::spawn(move || {
                        let count = published.load(Acquire) as usize;
                        look(&list, users, count);
                    })
                };
                for (at, user) in users.iter().enumerate() {
                    assert!(add(&mut writer, user, 1));
                    published.store(at as u64 + 1, Release);
                }
                reader.join().unwrap();
            });
        }
    }

    /// As [`explore`], with entries that are left to others: to the reader, or to a third.
    fn explore_left(
        users: &'static [&'static [u8]],
        look: fn(&SkipList, &[&[u8]], usize),
        is_helped: bool,
    ) {
        explore_schedules(move || {
            let (list, mut writer) = SkipList::new(UserOrder::Bytewise, INDEXED, 1, None);
            assert!(add(&mut writer, b"base1", 1) && add(&mut writer, b"base9", 1));
            // Those whose number is a power of two are not left.
            assert!(add(&mut writer, b"base0", 1) && add(&mut writer, b"base8", 1));
            let published = Arc::new(AtomicU64::new(0));
            let reader = {
                let (list, published) = (list.clone(), Arc::clone(&published));
                loom::thread::spawn(move || {
                    let count = published.load(Acquire) as usize;
                    look(&list, users, count);
                })
            };
            let helper = is_helped.then(|| {
                let list = list.clone();
                loom::thread::spawn(move || list.link_some())
            });
            for (at, user) in users.iter().enumerate() {
                writer.insert_unlinked(Entry {
                    user,
                    tag: 2 + at as u64,
                    value: &(2 + at as u64).to_le_bytes(),
                });
                published.store(at as u64 + 1, Release);
            }
            if let Some(helper) = helper {
                helper.join().unwrap();
            }
            reader.join().unwrap();
            assert!(add(&mut writer, b"base4", 9));
            scan(&list, users, users.len());
        });
    }

    fn get_each_left(list: &SkipList, users: &[&[u8]], count: usize) {
        for (at, user) in users.iter().enumerate() {
            let own = 2 + at as u64;
            match list.newest(user, own) {
                Some((tag, value)) => assert_eq!((tag, value), (own, &own.to_le_bytes()[..])),
                None => assert!(at >= count, "entry {at} of {count} is missed"),
            }
        }
    }

    fn get_each(list: &SkipList, users: &[&[u8]], count: usize) {
        for (at, user) in users.iter().enumerate() {
            match list.newest(user, 1) {
                Some((tag, value)) => assert_eq!((tag, value), (1, &1_u64.to_le_bytes()[..])),
                None => assert!(at >= count, "entry {at} of {count} is missed"),
            }
        }
    }

    fn scan(list: &SkipList, users: &[&[u8]], count: usize) {
        let mut cursor = list.cursor();
        let mut found = Vec::new();
        cursor.seek_to_first();
        while cursor.valid() {
            found.push(check_entry(&cursor).0.to_vec());
            cursor.next();
        }
        assert!(found.is_sorted());
        assert!(users[..count].iter().all(|user| found.iter().any(|found| found == user)));
    }

    /// `base5` is never there. A link seen with the hint of an older one would pass for its place.
    fn seek_between(list: &SkipList, users: &[&[u8]], count: usize) {
        let mut cursor = list.cursor();
        cursor.seek(InternalKey::seek_to(b"base5", SeqNo(1)).as_bytes());
        let (found, _) = check_entry(&cursor);
        assert!(found > &b"base5"[..]);
        assert!(users[..count].iter().all(|user| *user < &b"base5"[..] || found <= *user));
    }

    #[test]
    fn loom_gets_beside_insertions() {
        explore(&[b"base7", b"base3"], get_each);
        explore(&[b"base3", b"base7"], get_each);
    }

    #[test]
    fn loom_scans_beside_insertions() {
        explore(&[b"base3", b"base7", b"base2"], scan);
    }

    #[test]
    fn loom_seeks_beside_insertions() {
        explore(&[b"base7", b"base3"], seek_between);
        explore(&[b"base3", b"base7"], seek_between);
    }
    #[test]
    fn loom_gets_beside_what_is_left() {
        explore_left(&[b"base7", b"base3"], get_each_left, false);
    }

    #[test]
    fn loom_scans_beside_what_is_left_and_who_helps() {
        explore_left(&[b"base7", b"base3"], scan, true);
    }

    #[test]
    fn loom_a_full_ring() {
        explore_left(&[b"base3", b"base7", b"base2"], scan, false);
    }
}
