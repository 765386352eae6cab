//! What passes between C and Rust: bytes, texts, errors, memory that C frees. Every function of the
//! API takes its arguments in these types, which have the layout of the pointers that C passes.
#![expect(unsafe_code, reason = "pointers from C")]

use std::alloc::{Layout, handle_alloc_error};
use std::any::Any;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{ptr, slice};

use siltstone::{Error, ErrorKind, Result};

/// Where a call writes a number, such as a length.
pub(crate) type Out<'a, T> = &'a mut MaybeUninit<T>;

/// Bytes, whose length comes in an argument of its own.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Data<'a>(*const u8, PhantomData<&'a [u8]>);

impl<'a> Data<'a> {
    /// The bytes. Of no bytes, the pointer may be anything.
    #[inline]
    pub(crate) fn of(self, len: usize) -> &'a [u8] {
        if len == 0 {
            return &[];
        }
        // SAFETY: C3.
        unsafe { slice::from_raw_parts(self.0, len) }
    }

    /// The bytes, or `None` for a null pointer.
    pub(crate) fn if_given(self, len: usize) -> Option<&'a [u8]> {
        (!self.0.is_null()).then(|| self.of(len))
    }
}

/// A text that ends in a zero byte.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Text<'a> {
    fn bytes(self) -> &'a [u8] {
        // SAFETY: C4.
        unsafe { CStr::from_ptr(self.0) }.to_bytes()
    }

    pub(crate) fn path(self) -> &'a Path {
        Path::new(OsStr::from_bytes(self.bytes()))
    }

    /// The text, or `None` if it is not UTF-8.
    pub(crate) fn str(self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()).ok()
    }

    /// The text of a callback that may return null, which counts as empty. What is not UTF-8 is
    /// replaced.
    pub(crate) fn lossy(self) -> String {
        if self.0.is_null() {
            return String::new();
        }
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// `char** errptr`: where a call leaves the text of its failure.
#[repr(transparent)]
pub(crate) struct ErrorSlot(*mut *mut c_char);

impl ErrorSlot {
    /// Does `call`. A failure, or a panic, goes into the slot and leaves `None`; success leaves the
    /// slot alone.
    #[inline]
    pub(crate) fn catch<T>(self, call: impl FnOnce() -> Result<T>) -> Option<T> {
        match caught(call) {
            Ok(value) => Some(value),
            Err(error) => {
                self.set(&error);
                None
            }
        }
    }

    /// Puts the text of an error in place of the one that is there.
    #[cold]
    pub(crate) fn set(self, error: &Error) {
        if self.0.is_null() {
            return;
        }
        let text = c_text(error.to_string().as_bytes());
        // SAFETY: C5: the slot can be read and written.
        let old = unsafe { ptr::replace(self.0, text) };
        free(old.cast());
    }
}

/// Does `call`; a panic becomes an error (P1).
#[inline]
pub(crate) fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    // What a panic left half done is locked up in the object, which goes on answering with errors.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// Does `call`, which has no way to tell a failure.
pub(crate) fn quietly<T>(call: impl FnOnce() -> T) -> Option<T> {
    caught(|| Ok(call())).ok()
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("a bug in siltstone: {}", text.unwrap_or("a panic without a message"));
    Error::new(ErrorKind::Io, message)
}

/// A copy of `bytes` that C frees (P2). Not null, even of no bytes.
#[inline]
pub(crate) fn c_copy(bytes: &[u8]) -> *mut c_char {
    let copy = allocate(bytes.len());
    // SAFETY: `copy` was just allocated with at least this length.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    copy.cast()
}

/// A copy of `text` with a zero byte behind it, that C frees (P2).
pub(crate) fn c_text(text: &[u8]) -> *mut c_char {
    let copy = allocate(text.len() + 1);
    // SAFETY: `copy` was just allocated with room for the text and one byte more.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), copy, text.len());
        copy.add(text.len()).write(0);
    }
    copy.cast()
}

#[inline]
fn allocate(len: usize) -> *mut u8 {
    // Of no bytes, `malloc` may return null.
    let len = len.max(1);
    // SAFETY: `malloc` has no condition.
    let memory = unsafe { libc::malloc(len) };
    if memory.is_null() {
        // No layout is that large but those that `malloc` refuses.
        handle_alloc_error(Layout::array::<u8>(len).unwrap_or(Layout::new::<u8>()));
    }
    memory.cast()
}

/// Frees what `malloc` gave, or null.
pub(crate) fn free(memory: *mut c_void) {
    // SAFETY: C1 and P2: whoever hands memory over has it from `malloc`, and forgets it.
    unsafe { libc::free(memory) }
}

/// What C gives its callbacks, and the destructor that ends it.
pub(crate) struct State {
    state: *mut c_void,
    destructor: Option<Destructor>,
}

pub(crate) type Destructor = unsafe extern "C" fn(*mut c_void);

// SAFETY: C6.
unsafe impl Send for State {}
// SAFETY: C6.
unsafe impl Sync for State {}

impl State {
    pub(crate) fn new(state: *mut c_void, destructor: Option<Destructor>) -> Self {
        State { state, destructor }
    }

    #[inline]
    pub(crate) fn get(&self) -> *mut c_void {
        self.state
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: C6; nobody has the state but this.
            unsafe { destructor(self.state) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(text: &mut *mut c_char) -> ErrorSlot {
        ErrorSlot(text)
    }

    fn taken(text: *mut c_char) -> String {
        // SAFETY: it comes from `c_text`.
        let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        free(text.cast());
        copy
    }

    #[test]
    fn a_panic_becomes_an_error() {
        let mut text = ptr::null_mut();
        assert_eq!(slot(&mut text).catch(|| -> Result<u8> { panic!("on {}", "purpose") }), None);
        assert_eq!(taken(text), "IO error: a bug in siltstone: on purpose");
        assert_eq!(quietly(|| -> u8 { panic!("on purpose") }), None);
    }

    #[test]
    fn a_failure_replaces_the_text_and_success_does_not() {
        let mut text = c_text(b"old");
        let before = text;
        assert_eq!(slot(&mut text).catch(|| Ok(7)), Some(7));
        assert_eq!(text, before);
        let failed = slot(&mut text).catch(|| Err::<(), _>(Error::corruption("new")));
        assert!(failed.is_none());
        assert_eq!(taken(text), "Corruption: new");
        ErrorSlot(ptr::null_mut()).set(&Error::corruption("nobody wants it"));
    }

    #[test]
    fn copies_of_nothing_are_not_null() {
        let copy = c_copy(b"");
        assert!(!copy.is_null());
        free(copy.cast());
        free(ptr::null_mut());
    }
}
