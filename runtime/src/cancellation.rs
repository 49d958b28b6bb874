//! Disables the cancellation of the calling thread while the thread executes code of this library.
//!
//! `pthread_cancel` ends a thread at its next cancellation point, which is a system call such as `read` or `write`. The
//! C library then unwinds the stack of the thread. The unwinding must not reach frames of Rust
//! functions, because it would then abort the process or leave locks of the library locked. Every
//! function of the C interfaces therefore disables cancellation until it returns. If a cancellation
//! is requested during the call, it stays pending, and the thread ends at its next cancellation
//! point after the call.
//!
//! Limitation: a thread for which asynchronous cancellation is enabled must not be cancelled while
//! it calls the library. POSIX permits such a thread to call only three functions (see the
//! specification of `pthread_setcanceltype`).

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;

unsafe extern "C" {
    /// Sets whether the calling thread can be cancelled, and stores the previous state in `previous` unless this
    /// pointer is null. The function makes no system call.
    fn pthread_setcancelstate(state: c_int, previous: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
const DISABLE: c_int = 1;

/// While a value of this type exists, the calling thread cannot be cancelled. Values can be nested; the outermost value
/// restores the thread's state.
///
/// ```
/// let uncancelled = margay::cancellation::Disabled::begin();
/// // This output cannot end the thread.
/// println!("a text");
/// drop(uncancelled);
/// ```
#[derive(Debug)]
#[must_use]
pub struct Disabled {
    previous: c_int,
    /// A value of this type must stay on its thread, because the cancellation state belongs to one
    /// thread.
    _thread: PhantomData<*const ()>,
}

impl Disabled {
    /// Disables the cancellation of the calling thread.
    #[inline]
    pub fn begin() -> Disabled {
        let mut previous = DISABLE;
        // SAFETY: `previous` is a local. A valid state is never refused.
        unsafe { pthread_setcancelstate(DISABLE, &mut previous) };
        Disabled {
            previous,
            _thread: PhantomData,
        }
    }
}

impl Drop for Disabled {
    #[inline]
    fn drop(&mut self) {
        if self.previous != DISABLE {
            // SAFETY: the state is the one that the call in `begin` has returned.
            unsafe { pthread_setcancelstate(self.previous, ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the calling thread can be cancelled.
    fn is_enabled() -> bool {
        let mut state = DISABLE;
        // SAFETY: the two calls store and restore the state.
        unsafe {
            pthread_setcancelstate(DISABLE, &mut state);
            pthread_setcancelstate(state, ptr::null_mut());
        }
        state != DISABLE
    }

    #[test]
    fn the_outermost_value_restores_the_state() {
        assert!(is_enabled());
        let outer = Disabled::begin();
        let inner = Disabled::begin();
        assert!(!is_enabled());
        drop(inner);
        assert!(!is_enabled());
        drop(outer);
        assert!(is_enabled());
    }
}
