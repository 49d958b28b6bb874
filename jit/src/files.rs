//! Writing to files and standard error in a process with a limit on file sizes (`RLIMIT_FSIZE`).
//!
//! A write past the limit ends the process by `SIGXFSZ`, unless the signal is ignored or blocked. If the signal is
//! ignored or blocked, the write fails with `EFBIG` [setrlimit(2)]. A program must not end because this library writes
//! a cache, and the library must not change the program's action for the signal. The library therefore blocks the
//! signal during a write.

use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr;

/// Runs `write` with `SIGXFSZ` blocked, so that a write past the size limit returns an error.
pub fn without_size_signal<T>(write: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::new();
    write()
}

/// Writes a line to standard error. If the write fails, does nothing.
pub fn tell(line: std::fmt::Arguments<'_>) {
    without_size_signal(|| {
        let _ = writeln!(std::io::stderr(), "{line}");
    });
}

/// A guard that blocks `SIGXFSZ` in this thread while the guard exists.
struct Blocked {
    signal: libc::sigset_t,
    /// Whether the signal was already blocked. If so, it stays blocked after the guard is dropped.
    was_blocked: bool,
    /// Whether the signal was already pending. If so, it stays pending after the guard is dropped.
    was_pending: bool,
}

impl Blocked {
    fn new() -> Blocked {
        let mut signal = MaybeUninit::<libc::sigset_t>::uninit();
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut pending = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `sigemptyset` initialises the set. The other sets contain zeros or what the system wrote.
        unsafe {
            libc::sigemptyset(signal.as_mut_ptr());
            libc::sigaddset(signal.as_mut_ptr(), libc::SIGXFSZ);
            libc::pthread_sigmask(libc::SIG_BLOCK, signal.as_ptr(), mask.as_mut_ptr());
            libc::sigpending(pending.as_mut_ptr());
            Blocked {
                signal: signal.assume_init(),
                was_blocked: libc::sigismember(mask.as_ptr(), libc::SIGXFSZ) == 1,
                was_pending: libc::sigismember(pending.as_ptr(), libc::SIGXFSZ) == 1,
            }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: all arguments are valid for the calls. A write past the limit sends the signal to the writing
        // thread, so this thread can consume it here.
        unsafe {
            if !self.was_pending {
                libc::sigtimedwait(&self.signal, ptr::null_mut(), &now);
            }
            if !self.was_blocked {
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &self.signal, ptr::null_mut());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending_or_blocked() -> (bool, bool) {
        let mut pending = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both sets are valid for the calls.
        unsafe {
            libc::sigpending(pending.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
            (
                libc::sigismember(pending.as_ptr(), libc::SIGXFSZ) == 1,
                libc::sigismember(mask.as_ptr(), libc::SIGXFSZ) == 1,
            )
        }
    }

    fn raise() {
        // SAFETY: the call sends to this thread the same signal that a write past the limit sends.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGXFSZ) };
    }

    #[test]
    fn the_signal_of_a_write_is_taken_back() {
        without_size_signal(|| {
            raise();
            assert_eq!(pending_or_blocked(), (true, true));
        });
        assert_eq!(pending_or_blocked(), (false, false));
    }

    // Regression test: workers block this signal. The signal of a write of the log stayed pending, and the process
    // ended when the worker restored the signal mask of its thread.
    #[test]
    fn the_signal_of_a_write_is_taken_back_if_the_caller_blocks_it() {
        let outer = Blocked::new();
        without_size_signal(raise);
        assert_eq!(pending_or_blocked(), (false, true));
        drop(outer);
    }

    #[test]
    fn who_blocks_it_keeps_it() {
        let outer = Blocked::new();
        raise();
        without_size_signal(|| {});
        assert_eq!(pending_or_blocked(), (true, true));
        drop(outer);
        assert_eq!(pending_or_blocked(), (false, false));
    }
}
