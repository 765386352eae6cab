//! A skip list of internal keys: one inserter, any number of readers without locks. The memtable
//! is made of it.
//!
//! **Layout** of a node, one allocation, which a [`Node`] points into the middle of:
//!
//! ```text
//!  link h-1 | ... | link 1 | link 0 | key bytes u32 | value bytes u32 | user key | tag | value
//!                                   ^ the node's address
//! ```
//!
//! The links that most searches follow lie next to the key, and no node needs to know its height.
//!
//! **Invariants.**
//! - I1: a `Node<'a>` is the head or a node whose fields and bytes were written before it was
//!   linked; none of these but its links change while the list, which outlives `'a`, exists.
//! - I2: a node found at some level has a link for that level and for all below.
//! - I3: the nodes of a level are in strictly rising order, and are a part of those a level below.
//! - I4: for each level, the writer's `splice` holds the last node of that level that is not after
//!   `splice[0]`, or the head.
//!
//! **Concurrency.** Only the [`Writer`] changes links, through `&mut self`; there is one per list.
//! It stores each link with `Release` after the new node is whole; readers load links with
//! `Acquire`, so a node that is reached is seen whole. Nodes are never unlinked and live as long as
//! the list. The list's height is a hint: a reader that sees an old one starts lower, one that sees
//! a new one too early finds the head's upper links empty and steps down.

#![expect(unsafe_code, reason = "nodes of many sizes, linked in place, in memory of their own")]

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use crate::base::comparator::{BytewiseComparator, Comparator, UserOrder};
use crate::base::key::{TAG_BYTES, split};
use crate::base::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::base::sync::atomic::{AtomicPtr, AtomicUsize};
use crate::memtable::arena::{Arena, Bump};

/// Levels of the tallest node: with one node in four reaching the next level, enough for 16 million.
const HEIGHT_MAX: usize = 12;
/// One node in so many has a further level.
const BRANCHING: u32 = 4;

/// A list to read; clones share it.
#[derive(Clone)]
pub(super) struct SkipList(Arc<Shared>);

struct Shared {
    order: UserOrder,
    /// A node without key and value, before all others, with all levels.
    head: NonNull<Header>,
    /// Levels in use, at least one.
    height: AtomicUsize,
    arena: Arena,
}

// SAFETY: `head` points into `arena`, which moves with it; what it leads to is shared under the
// rules above.
unsafe impl Send for Shared {}
// SAFETY: readers only load links, which are atomics, and bytes that no longer change (I1).
unsafe impl Sync for Shared {}

/// The right to insert; there is one per list.
pub(super) struct Writer {
    list: Arc<Shared>,
    bump: Bump,
    /// Where the last insertion took place: the next key in order goes in without a search.
    splice: [NonNull<Header>; HEIGHT_MAX],
    random: u64,
}

// SAFETY: the pointers of `splice` lead into the list that the writer shares, which is `Sync`.
unsafe impl Send for Writer {}

/// What a node's address points to.
#[repr(C)]
struct Header {
    key_bytes: u32,
    value_bytes: u32,
    #[cfg(loom)]
    whole: loom::cell::UnsafeCell<()>,
}

type Link = AtomicPtr<Header>;

const _: () = assert!(align_of::<Link>() <= Arena::ALIGN && align_of::<Header>() <= Arena::ALIGN);
const _: () = assert!(size_of::<Link>() % align_of::<Header>() == 0);

/// A node of a list that outlives `'a`.
#[derive(Clone, Copy)]
struct Node<'a>(NonNull<Header>, PhantomData<&'a Shared>);

/// The place of an internal key, whether it is there or not.
#[derive(Clone, Copy)]
struct Target<'a> {
    user: &'a [u8],
    tag: u64,
}

impl SkipList {
    /// An empty list and the one writer it will ever have. Heights are drawn from `seed`.
    pub(super) fn new(order: UserOrder, seed: u64) -> (Self, Writer) {
        let (arena, mut bump) = Arena::new();
        // SAFETY: the two were made together.
        let head = unsafe { new_node(&arena, &mut bump, HEIGHT_MAX, None) };
        let list = Arc::new(Shared { order, head, height: AtomicUsize::new(1), arena });
        let splice = [head; HEIGHT_MAX];
        // A xorshift generator never leaves zero.
        let random = (seed ^ 0x9e37_79b9_7f4a_7c15).max(1);
        (SkipList(Arc::clone(&list)), Writer { list, bump, splice, random })
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.0.arena.used_bytes()
    }

    /// The tag and the value of the newest entry of `user` with a tag of at most `tag`.
    #[inline]
    pub(super) fn newest(&self, user: &[u8], tag: u64) -> Option<(u64, &[u8])> {
        let node = self.0.first_not_before(Target { user, tag })?;
        self.0.same(node.user(), user).then(|| (node.tag(), node.value()))
    }

    pub(super) fn cursor(&self) -> Cursor {
        Cursor { list: Arc::clone(&self.0), at: None }
    }
}

impl Shared {
    fn head(&self) -> Node<'_> {
        Node::of(self, self.head)
    }

    /// Are `a` and `b` one key?
    #[inline]
    fn same(&self, a: &[u8], b: &[u8]) -> bool {
        match &self.order {
            UserOrder::Bytewise => a == b,
            UserOrder::Custom(custom) => custom.compare(a, b).is_eq(),
        }
    }

    fn first(&self) -> Option<Node<'_>> {
        self.head().next(0)
    }

    fn first_not_before(&self, target: Target<'_>) -> Option<Node<'_>> {
        self.descend(target, |_, _| {}).1
    }

    fn last_before(&self, target: Target<'_>) -> Option<Node<'_>> {
        self.unless_head(self.descend(target, |_, _| {}).0)
    }

    fn last(&self) -> Option<Node<'_>> {
        let mut node = self.head();
        for level in (0..self.height.load(Relaxed)).rev() {
            while let Some(next) = node.next(level) {
                node = next;
            }
        }
        self.unless_head(node)
    }

    fn unless_head<'a>(&self, node: Node<'a>) -> Option<Node<'a>> {
        (node.0 != self.head).then_some(node)
    }

    /// The neighbours that `target` has or would have: the last node before it, or the head, and
    /// the first that is not. Tells `passed` the former for each level on the way down.
    #[inline]
    fn descend(
        &self,
        target: Target<'_>,
        passed: impl FnMut(usize, Node<'_>),
    ) -> (Node<'_>, Option<Node<'_>>) {
        // The order is looked at once per search: the usual one is compiled into the loop.
        match &self.order {
            UserOrder::Bytewise => self.descend_by(&BytewiseComparator, target, passed),
            UserOrder::Custom(custom) => self.descend_by(&**custom, target, passed),
        }
    }

    /// Brings the `splice` of the writer to `target`, and returns the first node not before it.
    #[inline]
    fn descend_from<C: Comparator + ?Sized>(
        &self,
        splice: &mut [NonNull<Header>; HEIGHT_MAX],
        order: &C,
        target: Target<'_>,
    ) -> Option<Node<'_>> {
        let before = Node::of(self, splice[0]);
        if before.0 == self.head || before.is_before(order, target) {
            let next = before.next(0);
            if next.is_none_or(|next| !next.is_before(order, target)) {
                return next; // By I4 the upper levels of the splice are right, too.
            }
        }
        self.descend_by(order, target, |level, node| splice[level] = node.0).1
    }

    #[inline]
    fn descend_by<C: Comparator + ?Sized>(
        &self,
        order: &C,
        target: Target<'_>,
        mut passed: impl FnMut(usize, Node<'_>),
    ) -> (Node<'_>, Option<Node<'_>>) {
        let mut node = self.head();
        let mut level = self.height.load(Relaxed) - 1;
        // The node that ended the level above often ends this one: it is compared once.
        let mut known_after = ptr::null_mut();
        loop {
            let next = node.next(level);
            if let Some(next) = next
                && next.0.as_ptr() != known_after
            {
                if next.is_before(order, target) {
                    node = next;
                    continue;
                }
                known_after = next.0.as_ptr();
            }
            passed(level, node);
            if level == 0 {
                return (node, next);
            }
            level -= 1;
        }
    }
}

impl Writer {
    /// Inserts an entry; false if one with the same user key and tag is there already.
    pub(super) fn insert(&mut self, user: &[u8], tag: u64, value: &[u8]) -> bool {
        let target = Target { user, tag };
        let Writer { list, bump, splice, random } = self;
        let list = &**list;
        let next = match &list.order {
            UserOrder::Bytewise => list.descend_from(splice, &BytewiseComparator, target),
            UserOrder::Custom(custom) => list.descend_from(splice, &**custom, target),
        };
        if next.is_some_and(|next| next.tag() == tag && list.same(next.user(), user)) {
            return false;
        }
        let height = random_height(random);
        if height > list.height.load(Relaxed) {
            // Above the old height the splice has held the head since the beginning.
            list.height.store(height, Relaxed);
        }
        // SAFETY: the writer's list and bump were made together.
        let node = unsafe { new_node(&list.arena, bump, height, Some((target, value))) };
        for (level, before) in splice[..height].iter_mut().enumerate() {
            // SAFETY: by I4 the node before was found at this level, so by I2 it has the link.
            let link = unsafe { Node::of(list, *before).link(level) };
            // SAFETY: `node` has `height` links.
            let new_link = unsafe { Node::of(list, node).link(level) };
            // `Relaxed`: no reader can reach the node at this level yet.
            new_link.store(link.load(Relaxed), Relaxed);
            // Pairs with the `Acquire` in `next`: publishes the node, its bytes and its link.
            link.store(node.as_ptr(), Release);
            *before = node;
        }
        true
    }
}

/// One with three chances in four, two with three in sixteen, and so on.
fn random_height(random: &mut u64) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    // The upper half of the generator's bits; the added one bounds the count.
    let zeros = (*random >> 32 | 1 << 31).trailing_zeros();
    (1 + (zeros / BRANCHING.trailing_zeros()) as usize).min(HEIGHT_MAX)
}

/// Writes a node of `height` empty links; without an entry, a head.
///
/// # Safety
/// `arena` and `bump` were made together.
unsafe fn new_node(
    arena: &Arena,
    bump: &mut Bump,
    height: usize,
    entry: Option<(Target<'_>, &[u8])>,
) -> NonNull<Header> {
    let (target, value) = entry.unwrap_or((Target { user: b"", tag: 0 }, b""));
    let links_bytes = height * size_of::<Link>();
    let key_bytes = target.user.len() + TAG_BYTES;
    let fits = "keys and values are limited on entry";
    let header = Header {
        key_bytes: u32::try_from(key_bytes).expect(fits),
        value_bytes: u32::try_from(value.len()).expect(fits),
        #[cfg(loom)]
        whole: loom::cell::UnsafeCell::new(()),
    };
    let bytes = links_bytes + size_of::<Header>() + key_bytes + value.len();
    // SAFETY: the caller's promise.
    let memory = unsafe { bump.allocate(arena, bytes) };
    let links = memory.cast::<Link>();
    for at in 0..height {
        // SAFETY: the memory begins with room for `height` links, and is aligned for them.
        unsafe { links.add(at).write(Link::new(ptr::null_mut())) };
    }
    // SAFETY: the header follows the links, which keep its alignment.
    let node = unsafe { links.add(height).cast::<Header>() };
    // SAFETY: as above.
    unsafe { node.write(header) };
    // SAFETY: the key, the tag and the value follow the header in the same allocation, which was
    // made large enough for all of them.
    unsafe {
        let at = node.add(1).cast::<u8>().as_ptr();
        ptr::copy_nonoverlapping(target.user.as_ptr(), at, target.user.len());
        let tag = target.tag.to_le_bytes();
        ptr::copy_nonoverlapping(tag.as_ptr(), at.add(target.user.len()), TAG_BYTES);
        ptr::copy_nonoverlapping(value.as_ptr(), at.add(key_bytes), value.len());
    }
    node
}

impl<'a> Node<'a> {
    /// `at` is a node of `list`.
    #[inline]
    fn of(_list: &'a Shared, at: NonNull<Header>) -> Self {
        Node(at, PhantomData)
    }

    /// # Safety
    /// The node has a link for `level`.
    #[inline]
    unsafe fn link(self, level: usize) -> &'a Link {
        // SAFETY: links lie before the header, that of level 0 last.
        unsafe { self.0.cast::<Link>().sub(level + 1).as_ref() }
    }

    /// The node after this one at `level`, at which this one was found (I2).
    #[inline]
    fn next(self, level: usize) -> Option<Node<'a>> {
        // SAFETY: by I2.
        let link = unsafe { self.link(level) };
        // Pairs with the `Release` in `insert`.
        NonNull::new(link.load(Acquire)).map(|next| Node(next, PhantomData))
    }

    #[inline]
    fn header(self) -> &'a Header {
        // SAFETY: by I1.
        let header: &'a Header = unsafe { self.0.as_ref() };
        #[cfg(loom)]
        header.whole.with(|_| {});
        header
    }

    /// `bytes` bytes from `offset` on behind the header.
    ///
    /// # Safety
    /// They lie within the node.
    #[inline]
    unsafe fn bytes(self, offset: usize, bytes: usize) -> &'a [u8] {
        // SAFETY: the caller's promise, and I1.
        unsafe { slice::from_raw_parts(self.0.add(1).cast::<u8>().add(offset).as_ptr(), bytes) }
    }

    #[inline]
    fn key(self) -> &'a [u8] {
        // SAFETY: the internal key follows the header.
        unsafe { self.bytes(0, self.header().key_bytes as usize) }
    }

    #[inline]
    fn value(self) -> &'a [u8] {
        let header = self.header();
        // SAFETY: the value follows the internal key.
        unsafe { self.bytes(header.key_bytes as usize, header.value_bytes as usize) }
    }

    #[inline]
    fn user(self) -> &'a [u8] {
        split(self.key()).0
    }

    #[inline]
    fn tag(self) -> u64 {
        split(self.key()).1
    }

    #[inline]
    fn is_before<C: Comparator + ?Sized>(self, order: &C, target: Target<'_>) -> bool {
        let (user, tag) = split(self.key());
        match order.compare(user, target.user) {
            Ordering::Less => true,
            Ordering::Equal => tag > target.tag, // Newer entries come first.
            Ordering::Greater => false,
        }
    }
}

/// A position in a list, which it keeps alive.
pub(super) struct Cursor {
    list: Arc<Shared>,
    at: Option<NonNull<Header>>,
}

// SAFETY: `at` points into the list that the cursor shares, which is `Sync`.
unsafe impl Send for Cursor {}

impl Cursor {
    pub(super) fn valid(&self) -> bool {
        self.at.is_some()
    }

    /// Needs `valid()`, as do all that follow but the seeks.
    pub(super) fn key(&self) -> &[u8] {
        self.node().key()
    }

    pub(super) fn value(&self) -> &[u8] {
        self.node().value()
    }

    pub(super) fn next(&mut self) {
        self.at = self.node().next(0).map(|node| node.0);
    }

    /// Costs a search: there are no links backwards.
    pub(super) fn prev(&mut self) {
        let (user, tag) = split(self.node().key());
        self.at = self.list.last_before(Target { user, tag }).map(|node| node.0);
    }

    pub(super) fn seek(&mut self, key: &[u8]) {
        let (user, tag) = split(key);
        self.at = self.list.first_not_before(Target { user, tag }).map(|node| node.0);
    }

    pub(super) fn seek_to_first(&mut self) {
        self.at = self.list.first().map(|node| node.0);
    }

    pub(super) fn seek_to_last(&mut self) {
        self.at = self.list.last().map(|node| node.0);
    }

    fn node(&self) -> Node<'_> {
        Node::of(&self.list, self.at.expect("callers check that the cursor is valid"))
    }
}
