//! Puts idle workers to sleep and wakes them.
//!
//! The mechanism is an event count: a worker reads a counter (the epoch), searches for work, and
//! sleeps only if the counter has not changed in the meantime. At most one worker is the *watcher*.
//! The watcher searches for work and then spins for a while, so that a launch that is submitted
//! during this time starts without a system call. All other idle workers sleep at once and leave
//! the processor cores to threads that have work.
//!
//! Invariant: after [`Sleep::wake_one`], a worker that is already searching finds the work that was visible before the
//! call, or a worker is woken to find it. If several pieces of work are submitted, the watcher may
//! be the only worker that searches for them. When the watcher takes a piece of work, it is no
//! longer the watcher. If it then finds more work, it wakes another worker
//! ([`Sleep::wake_if_resting`]).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::spin;

/// Time for which the watcher spins before it sleeps.
const WATCH: Duration = Duration::from_micros(100);
/// Time in nanoseconds that waking a worker is assumed to take until it is measured. Measured times
/// above [`LONGEST_WAKING`] count as [`LONGEST_WAKING`], because longer times mean that the system
/// was busy.
const WAKING: u64 = 10_000;
const LONGEST_WAKING: u64 = 1_000_000;

pub(super) struct Sleep {
    /// The start of the time that [`Sleep::now`] measures.
    start: Instant,
    epoch: AtomicU64,
    sleepers: AtomicUsize,
    /// Time in nanoseconds at which a sleeping worker was notified; 0 if every notified worker has woken.
    notified: AtomicU64,
    /// Moving average of the times, in nanoseconds, from the notification of a sleeping worker
    /// until it runs.
    waking: AtomicU64,
    /// Whether a worker is the watcher.
    watched: AtomicBool,
    lock: Mutex<()>,
    condition: Condvar,
}

impl Default for Sleep {
    fn default() -> Sleep {
        Sleep {
            start: Instant::now(),
            epoch: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            notified: AtomicU64::new(0),
            waking: AtomicU64::new(WAKING),
            watched: AtomicBool::new(false),
            lock: Mutex::new(()),
            condition: Condvar::new(),
        }
    }
}

impl Sleep {
    /// Returns the average measured time to wake a sleeping worker, in nanoseconds; 0 while a
    /// worker is the watcher.
    pub(super) fn waking(&self) -> u64 {
        if self.watched.load(Ordering::Relaxed) {
            return 0;
        }
        self.waking.load(Ordering::Relaxed)
    }

    /// Returns the number of nanoseconds since `start`, at least 1.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).map_or(u64::MAX, |nanos| nanos.max(1))
    }

    /// Adds to the moving average the time that it took to wake the calling worker.
    fn note_waking(&self) {
        let notified = self.notified.swap(0, Ordering::Relaxed);
        if notified == 0 {
            return;
        }
        let took = self.now().saturating_sub(notified).min(LONGEST_WAKING);
        let average = self.waking.load(Ordering::Relaxed);
        self.waking
            .store((3 * average + took) / 4, Ordering::Relaxed);
    }

    /// Returns the epoch. A worker must read the epoch before it searches for work.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Makes the calling worker the watcher. Returns false if another worker is the watcher. The
    /// watcher must search for work soon.
    pub(super) fn begin_watch(&self) -> bool {
        !self.watched.load(Ordering::Relaxed) && !self.watched.swap(true, Ordering::SeqCst)
    }

    /// Ends the calling worker's role as the watcher. The worker must then search for work again,
    /// because no other worker was woken for work that was submitted in the meantime.
    pub(super) fn end_watch(&self) {
        self.watched.store(false, Ordering::SeqCst);
    }

    /// Spins until the epoch differs from `epoch`, for at most [`WATCH`], and calls `polled` after each poll; returns
    /// whether the epoch has changed. The caller is the watcher.
    pub(super) fn watch(&self, epoch: u64, mut polled: impl FnMut()) -> bool {
        spin::until(WATCH, || {
            let has_changed = self.epoch() != epoch;
            if !has_changed {
                polled();
            }
            has_changed
        })
    }

    /// Makes the calling worker sleep until it is woken, for at most `limit`. Does not sleep if the
    /// epoch differs from `epoch`.
    pub(super) fn sleep(&self, epoch: u64, limit: Option<Duration>) {
        let mut guard = self.lock.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if self.epoch() == epoch {
            match limit {
                Some(limit) => {
                    self.condition.wait_for(&mut guard, limit);
                }
                None => self.condition.wait(&mut guard),
            }
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        drop(guard);
        self.note_waking();
    }

    /// Does the same as [`Sleep::wake_one`] if a worker is the watcher or sleeps. Callers use this
    /// function for work that a busy worker will find later if no idle worker takes it.
    pub(super) fn wake_if_resting(&self) {
        let watched = self.watched.load(Ordering::SeqCst);
        if watched || self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_one();
        }
    }

    /// Increments the epoch, so that a worker that is searching for work continues to search. Wakes
    /// one sleeping worker, unless another worker is the watcher.
    pub(super) fn wake_one(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        if self.watched.load(Ordering::SeqCst) {
            return;
        }
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.notified.store(self.now(), Ordering::Relaxed);
            let _guard = self.lock.lock();
            self.condition.notify_one();
        }
    }

    /// Wakes all sleeping workers.
    pub(super) fn wake_all(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let _guard = self.lock.lock();
        self.condition.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waking_is_measured() {
        let sleep = Sleep::default();
        assert_eq!(sleep.waking(), WAKING);
        // No sleeping worker was notified.
        sleep.note_waking();
        assert_eq!(sleep.waking(), WAKING);
        sleep.notified.store(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(2));
        sleep.note_waking();
        // The new average consists of three quarters of the old average and one quarter of the maximum measured time.
        assert_eq!(sleep.waking(), (3 * WAKING + LONGEST_WAKING) / 4);
        sleep.note_waking();
        assert_eq!(sleep.waking(), (3 * WAKING + LONGEST_WAKING) / 4);
    }

    #[test]
    fn a_watcher_need_not_wake() {
        let sleep = Sleep::default();
        assert!(sleep.begin_watch());
        assert_eq!(sleep.waking(), 0);
        sleep.end_watch();
        assert_eq!(sleep.waking(), WAKING);
    }
}
