//! What a reader pins: one immutable bundle of memtables and version, and up to which write it may
//! look.

use std::ops::Deref;
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::sync::Swap;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::memtable::MemTable;
use crate::version::Version;

pub(crate) struct SuperVersion {
    /// The memtable that takes writes.
    pub(crate) memtable: Arc<MemTable>,
    /// Memtables that wait to be flushed, newest first.
    pub(crate) immutables: Vec<Arc<MemTable>>,
    pub(crate) version: Arc<Version>,
}

impl SuperVersion {
    /// Memtables in search order.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<MemTable>> {
        std::iter::once(&self.memtable).chain(&self.immutables)
    }
}

/// What readers see, `S` being the super version: where leaders and installers publish, and readers
/// look without a lock.
pub(crate) struct View<S> {
    current: Swap<S>,
    /// How many views there have been. Raised once the next one is there, before writes to its memtable are visible.
    number: AtomicU64,
    visible: AtomicU64,
}

impl<S> View<S> {
    pub(crate) fn new(first: Arc<S>) -> Self {
        View { current: Swap::new(first), number: AtomicU64::new(0), visible: AtomicU64::new(0) }
    }

    /// The state of the moment, for a short look.
    #[inline]
    pub(crate) fn load(&self) -> impl Deref<Target = Arc<S>> + use<S> {
        self.current.load()
    }

    pub(crate) fn load_full(&self) -> Arc<S> {
        self.current.load_full()
    }

    /// Makes `next` what new readers pin. Called under the state lock.
    pub(crate) fn publish(&self, next: Arc<S>) {
        self.current.store(next);
        self.number.fetch_add(1, Ordering::SeqCst);
    }

    /// Of the view of the moment, or, while another is published, of that before. Who has pinned a view of this number, and then learns
    /// that it is the same, has all that was visible before.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::SeqCst)
    }

    /// The last sequence number that reads see. Readers pin first: between the two loads a
    /// compaction may drop what an older number needs.
    #[inline]
    pub(crate) fn visible(&self) -> SeqNo {
        // Pairs with the store in `show`: who sees the number sees the entries.
        SeqNo(self.visible.load(Ordering::Acquire))
    }

    /// Shows every write up to `seqno`, whose entries are all in place.
    pub(crate) fn show(&self, seqno: SeqNo) {
        self.visible.store(seqno.0, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod exhaustive {
    use super::*;
    use crate::base::comparator::UserOrder;
    use crate::base::key::ValueKind;
    use crate::base::sync::explore;
    use crate::memtable::{Found, Inserter};

    /// What a compaction leaves: reads below this number may miss entries.
    struct Kept {
        oldest: SeqNo,
    }

    /// Two writes are shown; a compaction between them keeps only what is visible then.
    #[test]
    fn loom_who_pins_first_reads_what_is_kept() {
        explore(|| {
            let view = Arc::new(View::new(Arc::new(Kept { oldest: SeqNo(0) })));
            let reader = {
                let view = Arc::clone(&view);
                loom::thread::spawn(move || {
                    let pinned = view.load_full();
                    let seqno = view.visible();
                    assert!(pinned.oldest <= seqno, "{} is dropped for {seqno}", pinned.oldest);
                })
            };
            let compaction = {
                let view = Arc::clone(&view);
                loom::thread::spawn(move || {
                    let oldest = view.visible();
                    view.publish(Arc::new(Kept { oldest }));
                })
            };
            view.show(SeqNo(1));
            view.show(SeqNo(2));
            reader.join().unwrap();
            compaction.join().unwrap();
        });
    }

    const KEY: &[u8] = b"key";

    fn insert(inserter: &mut Inserter, view: &View<Vec<Arc<MemTable>>>, seqno: u64) {
        assert!(inserter.add(SeqNo(seqno), ValueKind::Value, KEY, &seqno.to_le_bytes()));
        view.show(SeqNo(seqno));
    }

    /// A key is written before and after its memtable is switched, beside a reader of that key. The
    /// reader finds what was visible when it began or later, whichever memtable holds it.
    #[test]
    fn loom_a_switch_of_memtables_hides_nothing() {
        explore(|| {
            let (old, mut inserter) = MemTable::new(UserOrder::Bytewise, 0, 1);
            let view = Arc::new(View::new(Arc::new(vec![Arc::clone(&old)])));
            let reader = {
                let view = Arc::clone(&view);
                loom::thread::spawn(move || {
                    let before = view.visible();
                    let pinned = view.load_full();
                    let seqno = view.visible();
                    let found = pinned.iter().find_map(|table| table.get(KEY, seqno));
                    let found = match found {
                        Some(Found::Value(value)) => SeqNo(value[0].into()),
                        Some(Found::Deleted) => panic!("nobody deleted it"),
                        None => SeqNo(0),
                    };
                    assert!(before <= found && found <= seqno, "{before} {found} {seqno}");
                })
            };
            insert(&mut inserter, &view, 1);
            let (fresh, mut inserter) = MemTable::new(UserOrder::Bytewise, 0, 1);
            view.publish(Arc::new(vec![fresh, old]));
            insert(&mut inserter, &view, 2);
            reader.join().unwrap();
        });
    }
}
