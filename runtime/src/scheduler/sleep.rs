//! Sleeping and waking of idle workers.
//!
//! An event count: a worker notes the epoch, looks for work, and rests only when the epoch is
//! still the same. One worker at a time is the *watcher*: it is about to look for work and then
//! spins for a while, so that a launch that comes soon needs no system call. All others sleep at
//! once, and leave the processors to those who have work.
//!
//! Invariant: work that is made visible before [`Sleep::wake_one`] is seen by some worker that
//! looks, or one is woken. A watcher may stand for several pieces of work; whoever takes one,
//! stops watching and then sees more wakes another worker ([`Sleep::wake_if_resting`]).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::spin;

/// How long a worker watches.
const WATCH: Duration = Duration::from_micros(100);
/// How long it takes to wake a worker, before it was measured, and the longest time that counts as measured: beyond it,
/// the system had other things to do.
const WAKING: u64 = 10_000;
const LONGEST_WAKING: u64 = 1_000_000;

pub(super) struct Sleep {
    /// The clock's zero.
    start: Instant,
    epoch: AtomicU64,
    sleepers: AtomicUsize,
    /// When a sleeper was notified that has not yet woken, on the clock in nanoseconds; 0 if none was.
    notified: AtomicU64,
    /// How long waking takes, in nanoseconds: a moving average.
    waking: AtomicU64,
    /// Whether a worker watches the epoch.
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
    /// How long it takes until a worker that sleeps has woken, in nanoseconds, as measured of late. 0 while one watches.
    pub(super) fn waking(&self) -> u64 {
        if self.watched.load(Ordering::Relaxed) {
            return 0;
        }
        self.waking.load(Ordering::Relaxed)
    }

    /// Nanoseconds on this object's clock, never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).map_or(u64::MAX, |nanos| nanos.max(1))
    }

    /// Notes how long a sleeper took that has just woken.
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

    /// To be read before looking for work.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Makes the calling worker the watcher, which must look for work soon; false when there is one.
    pub(super) fn begin_watch(&self) -> bool {
        !self.watched.load(Ordering::Relaxed) && !self.watched.swap(true, Ordering::SeqCst)
    }

    /// The watcher does something else. Work that was made visible until now may be its to see.
    pub(super) fn end_watch(&self) {
        self.watched.store(false, Ordering::SeqCst);
    }

    /// Spins for a while, for the watcher: whether something has happened since `epoch`.
    pub(super) fn watch(&self, epoch: u64) -> bool {
        spin::until(WATCH, || self.epoch() != epoch)
    }

    /// Sleeps until woken unless something happened since `epoch`; at most `limit`.
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

    /// The same as [`Sleep::wake_one`] for work that others would find anyway, later.
    pub(super) fn wake_if_resting(&self) {
        let watched = self.watched.load(Ordering::SeqCst);
        if watched || self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_one();
        }
    }

    /// Tells that there is work for one more worker.
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
        // Nobody was notified.
        sleep.note_waking();
        assert_eq!(sleep.waking(), WAKING);
        sleep.notified.store(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(2));
        sleep.note_waking();
        // A quarter of the longest time that counts.
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
