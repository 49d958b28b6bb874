//! Makes threads that write to a range wait while the pages of the range are replaced. A thread that writes to the
//! range faults and sleeps in the signal handler. After the pages have been replaced, the thread repeats the write.
//!
//! A write can fault just before the range is released, and the signal handler can start just after the release. The
//! module therefore keeps the bounds of a released range until the next range is held. For a limited number of later
//! faults in this range, the faulting thread repeats the access, and the fault does not count as an error.
//!
//! Invariant: at most one range is held at any time. All static variables of this module that a
//! signal handler reads are atomic.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

static START: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);
/// Determines the effect of a fault in the range that is, or was, held. If the value is [`HELD`],
/// the faulting thread waits. If the value is 0, the fault counts as an error. Any other value
/// states how many more faults of all threads lead to a repetition of the access.
static TRIES: AtomicU32 = AtomicU32::new(0);
const HELD: u32 = u32::MAX;
/// After the release of a range, at most this number of faults in the range lead to a repetition of
/// the access. The number is larger than the number of threads whose write can have faulted just
/// before the release.
const LATE: u32 = 1 << 14;

static ONE: Mutex<()> = Mutex::new(());

/// While a `Hold` exists, threads that write to its range wait.
pub(crate) struct Hold {
    _one: MutexGuard<'static, ()>,
}

/// Makes threads that fault in `range` wait until the returned value is dropped. After this call,
/// the caller write-protects the range, replaces its pages and makes the range writable again.
pub(crate) fn writers(range: Range<u64>) -> Hold {
    let one = ONE.lock();
    TRIES.store(0, Ordering::SeqCst);
    START.store(range.start, Ordering::SeqCst);
    END.store(range.end, Ordering::SeqCst);
    TRIES.store(HELD, Ordering::SeqCst);
    Hold { _one: one }
}

impl Drop for Hold {
    fn drop(&mut self) {
        TRIES.store(LATE, Ordering::SeqCst);
    }
}

/// If `address` is in the held range, waits until the range is released. Returns whether the access must be repeated.
/// The fault handler calls this function.
pub(super) fn wait_out(address: u64) -> bool {
    let inside = || {
        let (start, end) = (START.load(Ordering::SeqCst), END.load(Ordering::SeqCst));
        start <= address && address < end
    };
    let mut waited = false;
    loop {
        if !inside() {
            return waited;
        }
        match TRIES.load(Ordering::SeqCst) {
            HELD => {
                let pause = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 20_000,
                };
                // SAFETY: nanosleep is async-signal-safe.
                unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
                waited = true;
            }
            _ if waited => return true,
            0 => return false,
            left => {
                let order = Ordering::SeqCst;
                if TRIES.compare_exchange(left, left - 1, order, order).is_ok() {
                    return true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_range_gives_way_a_bounded_number_of_times() {
        let hold = writers(0x1000..0x2000);
        assert!(!wait_out(0x2000), "outside");
        drop(hold);
        let tried = (0..2 * LATE).filter(|_| wait_out(0x1fff)).count();
        assert_eq!(tried as u32, LATE);
        assert!(!wait_out(0x1fff));
    }

    #[test]
    fn faults_wait_for_the_release() {
        let hold = writers(0x5000..0x6000);
        let waiter = std::thread::spawn(|| wait_out(0x5000));
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(!waiter.is_finished());
        drop(hold);
        assert!(waiter.join().expect("ended"));
    }
}
