//! Ownership of the library's objects and memory, and its way to report errors. Used by every file
//! of this folder that calls the library.

use std::ffi::{CStr, c_char};
use std::ptr::{self, NonNull};

use super::error::{Error, Result};
use super::symbols::{ErrorSlot, Symbols};

/// An object or piece of memory of the library that we own (invariant I2): destroyed once, on drop.
pub(super) struct Handle<T> {
    pointer: NonNull<T>,
    destroy: unsafe extern "C" fn(*mut T),
}

impl<T> Handle<T> {
    /// # Safety
    ///
    /// A library function has just returned `pointer` and with it the ownership, and `destroy` is
    /// the function that ends such objects.
    pub(super) unsafe fn new(pointer: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Handle<T> {
        let pointer = NonNull::new(pointer).expect("constructors return an object or abort");
        Handle { pointer, destroy }
    }

    /// The object, alive as long as `self` is.
    pub(super) fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: I2: we own the object, `destroy` is its end, and no one can use it from here on.
        unsafe { (self.destroy)(self.pointer.as_ptr()) }
    }
}

/// Memory that the library has malloc'd and given to us; `None` for null.
///
/// # Safety
///
/// A library function has just returned `memory`, to be released with `leveldb_free`.
pub(super) unsafe fn owned_memory(
    symbols: &Symbols,
    memory: *mut c_char,
) -> Option<Handle<c_char>> {
    if memory.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for it.
    Some(unsafe { Handle::new(memory, symbols.free) })
}

/// A C string that the library has malloc'd and given to us; `None` for null.
///
/// # Safety
///
/// As for [`owned_memory`], and the memory ends with a zero byte.
pub(super) unsafe fn owned_string(symbols: &Symbols, text: *mut c_char) -> Option<String> {
    // SAFETY: the caller vouches for it.
    let text = unsafe { owned_memory(symbols, text) }?;
    // SAFETY: the caller vouches for the zero byte; `text` is alive until the end of this function.
    let bytes = unsafe { CStr::from_ptr(text.as_ptr()) };
    Some(bytes.to_string_lossy().into_owned())
}

/// Runs a `call` that reports errors by the library's convention.
pub(super) fn checked<T>(symbols: &Symbols, call: impl FnOnce(ErrorSlot) -> T) -> Result<T> {
    let mut text = ptr::null_mut();
    let result = call(&raw mut text);
    // SAFETY: by the convention the slot, null before, holds null or a malloc'd C string.
    match unsafe { owned_string(symbols, text) } {
        None => Ok(result),
        Some(text) => Err(Error(text)),
    }
}

/// The bytes as C functions take them, beside their length.
pub(super) fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}
