//! The nodes of a skip list: their bytes, and how one is made, read and linked. Only the list in
//! the module above uses them.
//!
//! **Layout**, one allocation, which a [`Node`] points into the middle of:
//!
//! ```text
//!  link h-1 | ... | link 1 | link 0 | bucket link | key bytes u32 | value bytes u32 | user key | tag | value
//!                                   ^ the node's address
//! ```
//!
//! A link is the next node's address and a hint of its key (see `window`). The links that searches
//! follow most lie next to the key, and no node needs to know its height.
//!
//! **Invariants.**
//! - N1: a `Node<'a>` was written whole before its address became known, and lives in an arena that
//!   outlives `'a`. Nothing in it but the links ever changes.
//! - N2: a link's hint is never older than its node: it is of that node, or of one linked in front
//!   of it since.
//!
//! **Concurrency.** One thread at a time links; all may follow. A link's hint is stored before its address,
//! which is stored with `Release` and loaded with `Acquire`, in front of the hint. Hence N2, and
//! hence a node that is reached is seen whole.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;

use crate::base::comparator::Comparator;
use crate::base::key::{TAG_BYTES, split};
use crate::base::prefetch::prefetch;
#[cfg(not(loom))]
use crate::base::prefetch::prefetch_span;
use crate::base::sync::lockless::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::lockless::{AtomicPtr, AtomicU64};
use crate::memtable::arena::{Arena, Bump};
use crate::memtable::window::UNKNOWN;

/// A key and a value of a hundred bytes. Longer values are read on in order, as processors foresee.
#[cfg(not(loom))]
const PREFETCHED_BYTES: usize = 192;

/// What the list stores.
#[derive(Clone, Copy, Default)]
pub(in crate::memtable) struct Entry<'a> {
    pub(in crate::memtable) user: &'a [u8],
    pub(in crate::memtable) tag: u64,
    pub(in crate::memtable) value: &'a [u8],
}

/// The place of an internal key, whether it is there or not.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) user: &'a [u8],
    pub(super) tag: u64,
    pub(super) hint: u64,
}

/// A node in an arena that outlives `'a`.
#[derive(Clone, Copy)]
pub(super) struct Node<'a>(NonNull<Header>, PhantomData<&'a Arena>);

/// What a node's address points to.
#[repr(C)]
pub(super) struct Header {
    /// Stored before the node is first reached through its bucket.
    next_in_bucket: AtomicPtr<Header>,
    key_bytes: u32,
    value_bytes: u32,
    /// Stands for all that is written once, so that Loom sees who reads it too early.
    #[cfg(loom)]
    whole: loom::cell::UnsafeCell<()>,
}

#[repr(C)]
struct Link {
    next: AtomicPtr<Header>,
    hint: AtomicU64,
}

const _: () = assert!(align_of::<Link>() <= Arena::ALIGN && align_of::<Header>() <= Arena::ALIGN);
const _: () = assert!(size_of::<Link>().is_multiple_of(align_of::<Header>()));

impl<'a> Node<'a> {
    /// A node with `height` empty links.
    ///
    /// # Safety
    /// `arena` and `bump` were made together.
    pub(super) unsafe fn new(
        arena: &'a Arena,
        bump: &mut Bump,
        height: usize,
        entry: Entry<'_>,
    ) -> Self {
        let Entry { user, tag, value } = entry;
        let key_bytes = user.len() + TAG_BYTES;
        let header = Header {
            next_in_bucket: AtomicPtr::default(),
            key_bytes: u32::try_from(key_bytes).expect("writes reject longer keys on entry"),
            value_bytes: u32::try_from(value.len()).expect("writes reject longer values on entry"),
            #[cfg(loom)]
            whole: loom::cell::UnsafeCell::new(()),
        };
        let links_bytes = height * size_of::<Link>();
        let bytes = links_bytes + size_of::<Header>() + key_bytes + value.len();
        // SAFETY: the caller's promise.
        let memory = unsafe { bump.allocate(arena, bytes) };
        let links = memory.cast::<Link>();
        for at in 0..height {
            let empty = Link { next: AtomicPtr::default(), hint: AtomicU64::new(UNKNOWN) };
            // SAFETY: the memory begins with room for `height` links, and is aligned for them.
            unsafe { links.add(at).write(empty) };
        }
        // SAFETY: the header follows the links, whose size keeps its alignment.
        let node = unsafe { links.add(height).cast::<Header>() };
        // SAFETY: as above.
        unsafe { node.write(header) };
        // SAFETY: key, tag and value follow the header in the memory counted above, which nothing
        // else uses, so that they cannot overlap the sources.
        unsafe {
            let at = node.add(1).cast::<u8>().as_ptr();
            ptr::copy_nonoverlapping(user.as_ptr(), at, user.len());
            ptr::copy_nonoverlapping(tag.to_le_bytes().as_ptr(), at.add(user.len()), TAG_BYTES);
            ptr::copy_nonoverlapping(value.as_ptr(), at.add(key_bytes), value.len());
        }
        Node(node, PhantomData)
    }

    /// # Safety
    /// `pointer` came from [`pointer`](Self::pointer) of a node whose arena outlives `'a`.
    #[inline]
    pub(super) unsafe fn from_pointer(pointer: NonNull<Header>) -> Self {
        Node(pointer, PhantomData)
    }

    #[inline]
    pub(super) fn pointer(self) -> NonNull<Header> {
        self.0
    }

    /// # Safety
    /// The node has a link for `level`.
    #[inline]
    unsafe fn link(self, level: usize) -> &'a Link {
        // SAFETY: links lie in front of the header, that of level 0 last.
        unsafe { self.0.cast::<Link>().sub(level + 1).as_ref() }
    }

    /// The next node at `level`, and a hint of its key.
    ///
    /// # Safety
    /// The node has a link for `level`.
    #[inline]
    pub(super) unsafe fn next(self, level: usize) -> (Option<Node<'a>>, u64) {
        // SAFETY: the caller's promise.
        let link = unsafe { self.link(level) };
        // Pairs with the `Release` in `link_after`, and comes before the hint for the sake of N2.
        let next = NonNull::new(link.next.load(Acquire)).map(|next| Node(next, PhantomData));
        (next, link.hint.load(Relaxed))
    }

    /// Brings the node after the next one near, for who goes from node to node: they lie in no order, and a step takes
    /// less time than a miss.
    ///
    /// # Safety
    /// The node and the next one have a link for level 0.
    #[inline]
    pub(super) unsafe fn prefetch_second(self) {
        #[cfg(not(loom))] // It would take each look for a step of its own.
        // SAFETY: the caller's promise.
        if let Some(second) = unsafe { self.next(0).0.and_then(|next| next.next(0).0) } {
            let start = second.0.as_ptr().cast::<Link>().wrapping_sub(1).cast::<u8>();
            prefetch_span(start, PREFETCHED_BYTES);
        }
    }

    /// Brings the lowest links near.
    #[inline]
    pub(super) fn prefetch_links(self) {
        prefetch(self.0.as_ptr().cast::<Link>().wrapping_sub(1));
    }

    /// Links this node behind `before` at `level`. One thread at a time does this.
    ///
    /// # Safety
    /// Both have a link for `level`, and the same arena.
    #[inline]
    pub(super) unsafe fn link_after(self, before: Node<'a>, level: usize, hint: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.link_between(before, level, before.next(level), hint) };
    }

    /// As [`link_after`](Self::link_after), where it is known what comes behind `before`, and its hint: `before` is only written
    /// to, which nothing waits for.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn link_between(
        self,
        before: Node<'a>,
        level: usize,
        (next, hint_of_next): (Option<Node<'_>>, u64),
        hint: u64,
    ) {
        // SAFETY: the caller's promise.
        let (link, own) = unsafe { (before.link(level), self.link(level)) };
        // `Relaxed`: no other thread writes links now, nor can any reach this node at this level yet.
        own.next.store(next.map_or(ptr::null_mut(), |next| next.0.as_ptr()), Relaxed);
        own.hint.store(hint_of_next, Relaxed);
        link.hint.store(hint, Relaxed);
        // Pairs with the `Acquire` in `next`: publishes all that is stored above.
        link.next.store(self.0.as_ptr(), Release);
    }

    /// A node that came to the bucket before this one.
    #[inline]
    pub(super) fn next_in_bucket(self) -> Option<NonNull<Header>> {
        // `Relaxed`: whoever got here through the bucket sees all that was stored before it got there.
        NonNull::new(self.header().next_in_bucket.load(Relaxed))
    }

    /// Only while the node is not in its bucket. Only one thread does this.
    #[inline]
    pub(super) fn set_next_in_bucket(self, next: Option<NonNull<Header>>) {
        let next = next.map_or(ptr::null_mut(), NonNull::as_ptr);
        self.header().next_in_bucket.store(next, Relaxed);
    }

    #[inline]
    fn header(self) -> &'a Header {
        // SAFETY: by N1.
        let header: &'a Header = unsafe { self.0.as_ref() };
        #[cfg(loom)]
        header.whole.with(|_| {});
        header
    }

    /// # Safety
    /// The bytes, counted from the header's end, lie within the node.
    #[inline]
    unsafe fn bytes(self, offset: usize, bytes: usize) -> &'a [u8] {
        // SAFETY: the caller's promise, and N1.
        unsafe { slice::from_raw_parts(self.0.add(1).cast::<u8>().add(offset).as_ptr(), bytes) }
    }

    /// The internal key.
    #[inline]
    pub(super) fn key(self) -> &'a [u8] {
        // SAFETY: the internal key follows the header.
        unsafe { self.bytes(0, self.header().key_bytes as usize) }
    }

    #[inline]
    pub(super) fn value(self) -> &'a [u8] {
        let header = self.header();
        // SAFETY: the value follows the internal key.
        unsafe { self.bytes(header.key_bytes as usize, header.value_bytes as usize) }
    }

    #[inline]
    pub(super) fn user(self) -> &'a [u8] {
        split(self.key()).0
    }

    #[inline]
    pub(super) fn tag(self) -> u64 {
        split(self.key()).1
    }

    #[inline]
    pub(super) fn is_before<C: Comparator + ?Sized>(self, order: &C, target: Target<'_>) -> bool {
        let (user, tag) = split(self.key());
        match order.compare(user, target.user) {
            Ordering::Less => true,
            Ordering::Equal => tag > target.tag, // Newer entries come first.
            Ordering::Greater => false,
        }
    }
}

impl PartialEq for Node<'_> {
    /// Is it the same node?
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
