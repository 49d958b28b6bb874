//! Writing to files and standard error without ending the process by a signal.
//!
//! A write past the limit on file sizes (`RLIMIT_FSIZE`) ends the process by `SIGXFSZ`, and a write to a pipe without a
//! reader ends it by `SIGPIPE`, unless the signal is ignored or blocked. If the signal is ignored or blocked, the write
//! fails with `EFBIG` [setrlimit(2)] or `EPIPE` [write(2)]. A program must not end because this library writes a cache
//! or a message, and the library must not change the program's actions for the signals. The library therefore blocks
//! both signals during a write.

use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr;

/// Runs `write` with `SIGXFSZ` and `SIGPIPE` blocked, so that a write past the size limit, or to a
/// pipe without a reader, returns an error.
pub fn without_write_signals<T>(write: impl FnOnce() -> T) -> T {
    let _blocked = [libc::SIGXFSZ, libc::SIGPIPE].map(Blocked::new);
    write()
}

/// Writes a line to standard error. If the write fails, does nothing.
pub fn tell(line: std::fmt::Arguments<'_>) {
    without_write_signals(|| {
        let _ = writeln!(std::io::stderr(), "{line}");
    });
}

/// A guard that blocks a signal in this thread while the guard exists.
struct Blocked {
    /// The set that contains only the signal.
    signal: libc::sigset_t,
    /// Whether the signal was already blocked. If so, it stays blocked after the guard is dropped.
    was_blocked: bool,
    /// Whether the signal was already pending. If so, it stays pending after the guard is dropped.
    was_pending: bool,
}

impl Blocked {
    fn new(number: libc::c_int) -> Blocked {
        let mut signal = MaybeUninit::<libc::sigset_t>::uninit();
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut pending = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `sigemptyset` initialises the set. The other sets contain zeros or what the system wrote.
        unsafe {
            libc::sigemptyset(signal.as_mut_ptr());
            libc::sigaddset(signal.as_mut_ptr(), number);
            libc::pthread_sigmask(libc::SIG_BLOCK, signal.as_ptr(), mask.as_mut_ptr());
            libc::sigpending(pending.as_mut_ptr());
            Blocked {
                signal: signal.assume_init(),
                was_blocked: libc::sigismember(mask.as_ptr(), number) == 1,
                was_pending: libc::sigismember(pending.as_ptr(), number) == 1,
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
        // SAFETY: all arguments are valid for the calls. A write sends the signal to the writing thread, so this
        // thread can consume it here.
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

    const SIGNALS: [libc::c_int; 2] = [libc::SIGXFSZ, libc::SIGPIPE];

    fn pending_or_blocked(signal: libc::c_int) -> (bool, bool) {
        let mut pending = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both sets are valid for the calls.
        unsafe {
            libc::sigpending(pending.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
            (
                libc::sigismember(pending.as_ptr(), signal) == 1,
                libc::sigismember(mask.as_ptr(), signal) == 1,
            )
        }
    }

    fn raise(signal: libc::c_int) {
        // SAFETY: the call sends to this thread the same signal that a failed write sends.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
    }

    #[test]
    fn the_signal_of_a_write_is_taken_back() {
        for signal in SIGNALS {
            without_write_signals(|| {
                raise(signal);
                assert_eq!(pending_or_blocked(signal), (true, true));
            });
            assert_eq!(pending_or_blocked(signal), (false, false));
        }
    }

    // Regression test: workers block this signal. The signal of a write of the log stayed pending, and the process
    // ended when the worker restored the signal mask of its thread.
    #[test]
    fn the_signal_of_a_write_is_taken_back_if_the_caller_blocks_it() {
        for signal in SIGNALS {
            let outer = Blocked::new(signal);
            without_write_signals(|| raise(signal));
            assert_eq!(pending_or_blocked(signal), (false, true));
            drop(outer);
        }
    }

    #[test]
    fn who_blocks_it_keeps_it() {
        for signal in SIGNALS {
            let outer = Blocked::new(signal);
            raise(signal);
            without_write_signals(|| {});
            assert_eq!(pending_or_blocked(signal), (true, true));
            drop(outer);
            assert_eq!(pending_or_blocked(signal), (false, false));
        }
    }
}
