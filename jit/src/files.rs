//! Writing files, standard error among them, in a process whose files may only have some size (`RLIMIT_FSIZE`).
//!
//! A write past the limit ends the process by `SIGXFSZ` unless the signal is ignored or blocked; then it fails with `EFBIG`
//! [setrlimit(2)]. No program shall end because a library of it writes a cache, and the signal's action is the program's.

use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr;

/// Runs `write`, in which a write past the limit is an error.
pub fn without_size_signal<T>(write: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::new();
    write()
}

/// Writes a line to standard error. Nobody is left to tell where that fails.
pub fn tell(line: std::fmt::Arguments<'_>) {
    without_size_signal(|| {
        let _ = writeln!(std::io::stderr(), "{line}");
    });
}

/// The signal is blocked in this thread.
struct Blocked {
    signal: libc::sigset_t,
    /// Whether it was blocked or waited for already: then nothing changes.
    before: bool,
}

impl Blocked {
    fn new() -> Blocked {
        let mut signal = MaybeUninit::<libc::sigset_t>::uninit();
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `sigemptyset` initialises the set, and the mask is zeroes or what the system wrote.
        unsafe {
            libc::sigemptyset(signal.as_mut_ptr());
            libc::sigaddset(signal.as_mut_ptr(), libc::SIGXFSZ);
            libc::pthread_sigmask(libc::SIG_BLOCK, signal.as_ptr(), mask.as_mut_ptr());
            Blocked {
                signal: signal.assume_init(),
                before: libc::sigismember(mask.as_ptr(), libc::SIGXFSZ) == 1,
            }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if self.before {
            return;
        }
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: all are valid for the calls. The signal of a write goes to the thread that writes, so it is taken back here.
        unsafe {
            libc::sigtimedwait(&self.signal, ptr::null_mut(), &now);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &self.signal, ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending_or_blocked() -> (bool, bool) {
        let mut pending = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both are valid for the calls.
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
        // SAFETY: sends the signal that a write past the limit sends, to this thread.
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
