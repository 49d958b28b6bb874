//! Makes threads that write to a range wait while the pages of the range are replaced. A thread that writes to the
//! range faults and sleeps in the signal handler. After the pages have been replaced, the thread repeats the write.
//!
//! A write can fault just before the range is released, and the signal handler can start just after the release. The
//! module therefore keeps the bounds of the last [`RECENT`] ranges. For a limited number of later faults in such a
//! range, the faulting thread repeats the access, and the fault does not count as an error.
//!
//! Invariant: at most one range is held at any time. All static variables of this module that a
//! signal handler reads are atomic.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// A range that is held or was held.
struct Recent {
    start: AtomicU64,
    end: AtomicU64,
    /// Determines the effect of a fault in the range. If the value is [`HELD`], the faulting thread waits. If the
    /// value is 0, the fault counts as an error. Any other value states how many more faults of all threads lead to
    /// a repetition of the access.
    tries: AtomicU32,
}

impl Recent {
    const fn none() -> Recent {
        Recent {
            start: AtomicU64::new(0),
            end: AtomicU64::new(0),
            tries: AtomicU32::new(0),
        }
    }

    fn contains(&self, address: u64) -> bool {
        let (start, end) = (&self.start, &self.end);
        start.load(Ordering::SeqCst) <= address && address < end.load(Ordering::SeqCst)
    }
}

/// Number of ranges that are kept. A thread that has faulted just before the release of a range can be delayed while
/// other ranges are held.
const RECENT: usize = 64;
static RANGES: [Recent; RECENT] = [const { Recent::none() }; RECENT];

const HELD: u32 = u32::MAX;
/// After the release of a range, at most this number of faults in the range lead to a repetition of
/// the access. The number is larger than the number of threads whose write can have faulted just
/// before the release.
const LATE: u32 = 1 << 14;

/// Number of ranges that were held before.
static ONE: Mutex<usize> = Mutex::new(0);

/// While a `Hold` exists, threads that write to its range wait.
pub(crate) struct Hold {
    range: &'static Recent,
    _one: MutexGuard<'static, usize>,
}

/// Makes threads that fault in `range` wait until the returned value is dropped. After this call,
/// the caller write-protects the range, replaces its pages and makes the range writable again.
pub(crate) fn writers(range: Range<u64>) -> Hold {
    let mut one = ONE.lock();
    let recent = &RANGES[*one % RECENT];
    *one += 1;
    recent.tries.store(0, Ordering::SeqCst);
    recent.start.store(range.start, Ordering::SeqCst);
    recent.end.store(range.end, Ordering::SeqCst);
    recent.tries.store(HELD, Ordering::SeqCst);
    Hold {
        range: recent,
        _one: one,
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.range.tries.store(LATE, Ordering::SeqCst);
    }
}

/// If `address` is in the held range, waits until the range is released. Returns whether the access must be repeated.
/// The fault handler calls this function.
pub(super) fn wait_out(address: u64) -> bool {
    let mut again = false;
    for range in &RANGES {
        again |= wait_for(range, address);
    }
    again
}

fn wait_for(range: &Recent, address: u64) -> bool {
    let mut waited = false;
    loop {
        if !range.contains(address) {
            return waited;
        }
        match range.tries.load(Ordering::SeqCst) {
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
                let less = range.tries.compare_exchange(left, left - 1, order, order);
                if less.is_ok() {
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
    fn a_released_range_gives_way_while_other_ranges_are_held() {
        drop(writers(0x8000..0x9000));
        let other = writers(0xa000..0xb000);
        assert!(wait_out(0x8000));
        drop(other);
        assert!(wait_out(0x8000));
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
