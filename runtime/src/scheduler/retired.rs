//! Finished launches that are not freed yet.
//!
//! A launch shares the reference counts of its kernel, its context and other objects with all launches of the kernel. If
//! workers freed launches while another thread prepares the next ones, the cache lines with these counts and the
//! memory of the launches would move between the two cores all the time. Instead, workers add finished launches to a
//! list, and the threads that submit launches free them.
//!
//! Invariant: the list holds at most [`MOST`] launches. A worker empties it before it sleeps, and so does a thread that
//! has waited for work. Objects that a launch refers to therefore exist only a little longer than the launch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::Run;

/// Maximum number of launches in the list. If it is full, a worker frees the launch that it has finished.
const MOST: usize = 256;
/// Number of launches that a thread frees when it submits a launch. The number is more than one, so that the list
/// becomes shorter.
const FREED_AT_ONCE: usize = 2;

/// The finished launches that are not freed yet.
#[derive(Default)]
pub(super) struct Retired {
    runs: Mutex<Vec<Arc<Run>>>,
    /// The length of `runs`.
    count: AtomicUsize,
}

impl Retired {
    /// Adds a launch to the list. If the list is full, drops the reference.
    pub(super) fn add(&self, run: Arc<Run>) {
        if self.count.load(Ordering::Relaxed) >= MOST {
            return;
        }
        let mut runs = self.runs.lock();
        runs.push(run);
        self.count.store(runs.len(), Ordering::Relaxed);
    }

    /// Frees a few launches.
    pub(super) fn free_some(&self) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut freed: SmallVec<[Arc<Run>; FREED_AT_ONCE]> = SmallVec::new();
        let mut runs = self.runs.lock();
        let kept = runs.len().saturating_sub(FREED_AT_ONCE);
        freed.extend(runs.drain(kept..));
        self.count.store(kept, Ordering::Relaxed);
        // Freeing a launch can free a context, whose destruction takes other locks.
        drop(runs);
    }

    /// Frees all launches.
    pub(super) fn free_all(&self) {
        self.free_while(|| true);
    }

    /// Frees launches as long as `goes_on` returns true.
    pub(super) fn free_while(&self, goes_on: impl Fn() -> bool) {
        while self.count.load(Ordering::Relaxed) != 0 && goes_on() {
            self.free_some();
        }
    }
}
