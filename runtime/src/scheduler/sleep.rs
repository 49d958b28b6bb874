//! Sleeping and waking of idle workers.
//!
//! An event count: a worker notes the epoch, looks for work, and sleeps only when the epoch is
//! still the same. Invariant: work that is made visible before [`Sleep::wake_one`] is seen by
//! some worker that looks, or one is woken.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

#[derive(Default)]
pub(super) struct Sleep {
    epoch: AtomicU64,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    condition: Condvar,
}

impl Sleep {
    /// To be read before looking for work.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
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
    pub(super) fn wake_if_sleeping(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_one();
        }
    }

    /// Tells that there is work for one more worker.
    pub(super) fn wake_one(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
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
