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
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::spin;

/// How long a worker watches.
const WATCH: Duration = Duration::from_micros(100);

#[derive(Default)]
pub(super) struct Sleep {
    epoch: AtomicU64,
    sleepers: AtomicUsize,
    /// Whether a worker watches the epoch.
    watched: AtomicBool,
    lock: Mutex<()>,
    condition: Condvar,
}

impl Sleep {
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
