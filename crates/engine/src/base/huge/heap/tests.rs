//! Pieces taken and given back in all orders, by one thread and by many.

use proptest::prelude::*;

use super::*;

/// Bytes that no other piece of a test has.
fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number.wrapping_mul(2_654_435_761) >> 7).wrapping_add(at) as u8).collect()
}

fn maps(heap: &HugeHeap) -> usize {
    heap.maps.lock().by_start.len()
}

/// With maps made as they are needed.
fn copy(heap: &Arc<HugeHeap>, bytes: &[u8]) -> Option<Piece> {
    heap.copy(bytes).or_else(|| {
        heap.stock_up();
        heap.copy(bytes)
    })
}

#[test]
fn who_copies_makes_no_map_and_one_is_told_to() {
    let heap = HugeHeap::new(4 * HUGE_BYTES);
    assert!(!heap.runs_low());
    assert!(heap.copy(&[1]).is_none() && heap.copy(&[1]).is_none());
    let told = (0..2 * TOLD_ONE_IN).filter(|_| heap.runs_low()).count();
    assert_eq!((told, maps(&heap)), (2, 0), "nobody has come");
    heap.stock_up();
    assert_eq!((heap.runs_low(), maps(&heap)), (false, UNUSED));
    let first = heap.copy(&[1]).unwrap();
    assert_eq!(
        (heap.runs_low(), heap.runs_low(), maps(&heap)),
        (true, false, UNUSED),
        "one is in use"
    );
    heap.stock_up();
    let second = heap.copy(&[2]).unwrap();
    assert_eq!((heap.runs_low(), maps(&heap)), (false, 1 + UNUSED), "the same map");
    assert_eq!((&first[..], &second[..]), (&[1][..], &[2][..]));
}

#[test]
fn many_who_make_maps_make_no_more_than_there_may_be() {
    let heap = HugeHeap::new(3 * HUGE_BYTES);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| heap.stock_up());
        }
    });
    assert_eq!(maps(&heap), UNUSED);
    while heap.copy(&[1; PIECE_BYTES_MAX]).map(std::mem::forget).is_some() {
        heap.stock_up();
    }
    assert_eq!((maps(&heap), heap.runs_low()), (3, false));
}

#[test]
fn what_is_empty_or_large_is_left_alone() {
    let heap = HugeHeap::new(HUGE_BYTES);
    heap.stock_up();
    assert!(heap.copy(&[]).is_none() && heap.copy(&[0; PIECE_BYTES_MAX + 1]).is_none());
    assert_eq!(heap.taken_bytes(), 0);
    assert!(copy(&HugeHeap::new(HUGE_BYTES - 1), &[0]).is_none(), "no room for a map");
    let pieces =
        [1, GRAIN_BYTES, GRAIN_BYTES + 1, PIECE_BYTES_MAX].map(|len| heap.copy(&vec![7; len]));
    let memory = pieces.map(|piece| piece.unwrap().memory());
    assert_eq!(memory, [1, 1, 2, PIECE_BYTES_MAX / GRAIN_BYTES].map(|grains| grains * GRAIN_BYTES));
}

#[test]
fn all_of_a_map_is_used_and_what_is_given_back_joins_its_neighbours() {
    let heap = HugeHeap::new(2 * HUGE_BYTES + 1);
    let each = 33 * GRAIN_BYTES;
    let mut pieces: Vec<_> = std::iter::from_fn(|| copy(&heap, &vec![1; each])).collect();
    assert_eq!((maps(&heap), pieces.len()), (2, 2 * (GRAINS / 33)));
    drop(pieces.swap_remove(100));
    assert!(copy(&heap, &vec![1; each + 1]).is_none());
    pieces.push(heap.copy(&vec![1; each]).unwrap());
    assert!(copy(&heap, &vec![1; each]).is_none());
    // By address they lie side by side, but for the two maps.
    pieces.sort_by_key(|piece| piece.start);
    drop(pieces.drain(7..9));
    let both = heap.copy(&vec![2; 2 * each]).unwrap();
    assert!(
        both.iter().all(|&byte| byte == 2) && pieces.iter().all(|piece| piece[..] == vec![1; each])
    );
}

#[test]
fn maps_of_which_nothing_is_taken_go_but_for_a_few() {
    let heap = HugeHeap::new(10 * HUGE_BYTES);
    let mut pieces: Vec<_> =
        std::iter::from_fn(|| copy(&heap, &vec![1; PIECE_BYTES_MAX])).collect();
    assert_eq!(maps(&heap), 10);
    while let Some(piece) = pieces.pop() {
        drop(piece);
        let used = pieces.len().div_ceil(HUGE_BYTES / PIECE_BYTES_MAX);
        assert!(maps(&heap) <= used + UNUSED);
    }
    assert_eq!((maps(&heap), heap.taken_bytes()), (UNUSED, 0));
    assert!(heap.copy(&[1]).is_some() && maps(&heap) == UNUSED);
}

/// As blocks of a cache that is full do: with each one that goes another comes, of much the same size.
#[test]
fn what_comes_and_goes_does_not_spread_over_more_maps() {
    let heap = HugeHeap::new(64 * HUGE_BYTES);
    let mut random = 1_u32;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % below
    };
    let mut pieces = Vec::new();
    while heap.taken_bytes() < 8 * HUGE_BYTES {
        pieces.extend(copy(&heap, &vec![1; 4000 + next(300) as usize]));
    }
    for _ in 0..400 {
        for _ in 0..100 {
            let at = next(pieces.len() as u32) as usize;
            pieces.swap_remove(at);
        }
        for _ in 0..100 {
            pieces.extend(heap.copy(&vec![1; 4000 + next(300) as usize]));
            if heap.runs_low() {
                heap.stock_up();
            }
        }
    }
    let needed = heap.taken_bytes().div_ceil(HUGE_BYTES);
    assert!(maps(&heap) <= needed + UNUSED + 2, "{} for {needed}", maps(&heap));
}

#[test]
fn threads_share_a_heap() {
    let heap = HugeHeap::new(8 * HUGE_BYTES);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let heap = &heap;
            scope.spawn(move || {
                let mut pieces = Vec::new();
                for n in 0..20_000 {
                    let wanted = content(thread + n, 1 + (n * 37 + thread) % 9000);
                    pieces.push((copy(heap, &wanted), wanted));
                    if n > 100 {
                        let (piece, wanted) = pieces.swap_remove(n * 7919 % pieces.len());
                        assert!(piece.is_none_or(|piece| *piece == wanted));
                    }
                }
                let are_right = |(piece, wanted): &(Option<Piece>, Vec<u8>)| {
                    piece.as_ref().is_none_or(|piece| **piece == *wanted)
                };
                assert!(pieces.iter().any(|(piece, _)| piece.is_some()));
                assert!(pieces.iter().all(are_right));
            });
        }
    });
    assert_eq!(heap.taken_bytes(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..Default::default() })]

    /// Whatever is taken and given back in whatever order: pieces keep what was written, none lies in another, and only where
    /// no run is long enough there is no room.
    #[test]
    fn pieces_are_apart(steps in prop::collection::vec((any::<bool>(), 1..20_000_usize, any::<usize>()), 1..2000)) {
        let heap = HugeHeap::new(2 * HUGE_BYTES);
        let mut pieces: Vec<(Piece, usize)> = Vec::new();
        for (number, (takes, len, which)) in steps.into_iter().enumerate() {
            if takes || pieces.is_empty() {
                match copy(&heap, &content(number, len)) {
                    Some(piece) => pieces.push((piece, number)),
                    None => {
                        let mut maps = heap.maps.lock();
                        prop_assert_eq!(maps.by_start.len(), 2);
                        for map in maps.by_start.values_mut() {
                            prop_assert_eq!(map.find(0..GRAINS, grains_of(len)), None);
                        }
                    }
                }
            } else {
                let (piece, number) = pieces.swap_remove(which % pieces.len());
                prop_assert!(*piece == *content(number, piece.len()));
            }
        }
        let memory: usize = pieces.iter().map(|(piece, _)| piece.memory()).sum();
        prop_assert_eq!(heap.taken_bytes(), memory);
        pieces.sort_by_key(|(piece, _)| piece.start);
        for pair in pieces.windows(2) {
            let end = pair[0].0.start.addr().get() + pair[0].0.memory();
            prop_assert!(end <= pair[1].0.start.addr().get());
        }
        for (piece, number) in &pieces {
            prop_assert!(**piece == *content(*number, piece.len()));
        }
    }
}
