//! Sleeping and waking of idle workers.
//!
//! The method is an event count: a worker reads the epoch, searches for work, and sleeps only if the epoch is
//! unchanged. At most one worker is the *watcher*: it searches for work and then spins for a while, so that a launch
//! that comes soon needs no system call. All other idle workers sleep at once and leave the processors to threads that
//! have work.
//!
//! Invariant: after [`Sleep::wake_one`], a worker that searches finds the work that was visible before the call, or a
//! worker is woken for it. Several pieces of work may rely on one watcher. A worker that takes a piece stops watching;
//! if it then sees more work, it wakes another worker ([`Sleep::wake_if_resting`]).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::spin;

/// How long a watcher spins.
const WATCH: Duration = Duration::from_micros(100);
/// Assumed time to wake a worker until it is measured, in nanoseconds. Measured times are limited to
/// [`LONGEST_WAKING`]: longer ones mean that the system was busy.
const WAKING: u64 = 10_000;
const LONGEST_WAKING: u64 = 1_000_000;

pub(super) struct Sleep {
    /// Zero point of the clock.
    start: Instant,
    epoch: AtomicU64,
    sleepers: AtomicUsize,
    /// Time when a sleeper was notified that has not woken yet, in nanoseconds; 0 if there is none.
    notified: AtomicU64,
    /// Moving average of the time to wake a worker, in nanoseconds.
    waking: AtomicU64,
    /// Whether there is a watcher.
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
    /// Returns the recently measured time to wake a sleeping worker, in nanoseconds; 0 while there is a watcher.
    pub(super) fn waking(&self) -> u64 {
        if self.watched.load(Ordering::Relaxed) {
            return 0;
        }
        self.waking.load(Ordering::Relaxed)
    }

    /// Returns the nanoseconds on this object's clock, never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).map_or(u64::MAX, |nanos| nanos.max(1))
    }

    /// Records how long it took to wake the worker that has just woken.
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

    /// Returns the epoch, which must be read before searching for work.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Makes the calling worker the watcher, which must search for work soon. Returns false if there is a watcher
    /// already.
    pub(super) fn begin_watch(&self) -> bool {
        !self.watched.load(Ordering::Relaxed) && !self.watched.swap(true, Ordering::SeqCst)
    }

    /// Ends the watch. The worker must still search for work that is already visible: no other worker may know of it.
    pub(super) fn end_watch(&self) {
        self.watched.store(false, Ordering::SeqCst);
    }

    /// Spins for a while as the watcher; returns whether something has happened since `epoch`.
    pub(super) fn watch(&self, epoch: u64) -> bool {
        spin::until(WATCH, || self.epoch() != epoch)
    }

    /// Sleeps until woken, for at most `limit`, unless something has happened since `epoch`.
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

    /// Does the same as [`Sleep::wake_one`] for work that other workers would find later without being woken.
    pub(super) fn wake_if_resting(&self) {
        let watched = self.watched.load(Ordering::SeqCst);
        if watched || self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_one();
        }
    }

    /// Announces work for one more worker.
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

    /// Wakes every sleeper.
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
        // No sleeper was notified.
        sleep.note_waking();
        assert_eq!(sleep.waking(), WAKING);
        sleep.notified.store(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(2));
        sleep.note_waking();
        // The average takes a quarter of the longest time that counts.
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
