//! Each thread's stack of current contexts.
//!
//! When a thread ends, destructors of C++ thread-local objects and of pthread keys can still free memory and use the
//! current context. The stack must therefore outlive Rust's thread-local values. The C library calls the destructors of
//! pthread keys in several rounds. The destructor of one such key frees the stack in the last round.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::null;
use std::sync::OnceLock;

use margay::Context;

use crate::result::CuResult;
use crate::types::CUcontext;

/// The contexts of a thread's stack with their handles. The last element is the current context.
type Stack = Vec<(CUcontext, Context)>;

/// A thread's stack.
struct Owned {
    stack: RefCell<Stack>,
    /// How often the key's destructor has been called for this stack.
    rounds: Cell<u32>,
}

/// `PTHREAD_DESTRUCTOR_ITERATIONS` of glibc and musl.
const ROUNDS: u32 = 4;

thread_local! {
    /// The address of the thread's stack, or null. The variable has no destructor, so it can be
    /// read until the thread's memory is freed.
    static OWNED: Cell<*const Owned> = const { Cell::new(null()) };
}

/// Returns the key whose destructor frees the stacks, or `None` if no pthread key is free. Without a key, stacks are
/// never freed.
fn key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is writable, and the destructor has the right signature.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(end_thread)) };
        (made == 0).then_some(key)
    })
}

unsafe extern "C" fn end_thread(value: *mut c_void) {
    let owned = value.cast::<Owned>();
    // SAFETY: the value is the pointer that `owned` created; only this function frees the stack, on the thread that
    // owns the stack.
    let round = unsafe { (*owned).rounds.get() } + 1;
    if let Some(key) = key().filter(|_| round < ROUNDS) {
        // SAFETY: as above; the key exists.
        unsafe {
            (*owned).rounds.set(round);
            libc::pthread_setspecific(key, value);
        }
        return;
    }
    OWNED.set(null());
    // SAFETY: as above; no pointer to the stack remains.
    drop(unsafe { Box::from_raw(owned) });
}

/// Returns the thread's stack. The first call in a thread creates the stack.
fn owned() -> *const Owned {
    if OWNED.get().is_null() {
        let new = Box::into_raw(Box::new(Owned {
            stack: RefCell::default(),
            rounds: Cell::new(0),
        }));
        OWNED.set(new);
        if let Some(key) = key() {
            // SAFETY: the key exists. If the call fails, the stack is never freed.
            unsafe { libc::pthread_setspecific(key, new.cast::<c_void>()) };
        }
    }
    OWNED.get()
}

/// Calls `work` with the calling thread's stack of contexts.
///
/// # Errors
/// Returns `UNKNOWN` if `work` calls this function.
pub(super) fn with_stack<R>(work: impl FnOnce(&mut Stack) -> R) -> Result<R, CuResult> {
    // SAFETY: the stack lives until the thread ends; no other thread has access to it.
    let owned = unsafe { &*owned() };
    let mut stack = owned
        .stack
        .try_borrow_mut()
        .map_err(|_| CuResult::UNKNOWN)?;
    Ok(work(&mut stack))
}
