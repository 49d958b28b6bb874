//! The launches whose predecessors are complete.
//!
//! Workers choose only among the *listed* launches. Their number is limited, so that the choice
//! takes little time. Further launches are *queued* until a listed launch is over. If all units of
//! the listed launches have started, queued launches are also listed, because these units may wait
//! for a queued launch.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Run;

/// If this number of launches is listed, further launches are queued. GPUs execute at most 128
/// launches at the same time (CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability").
const MOST_LISTED: usize = 128;

/// The sort key of a queued launch: its priority when it was queued, and then its number.
type Order = (i32, u64);

/// The launches whose predecessors are complete.
#[derive(Default)]
pub(super) struct Active {
    /// The launches among which workers choose, in the order in which workers prefer them.
    listed: Vec<Arc<Run>>,
    queued: BTreeMap<Order, Arc<Run>>,
}

impl Active {
    /// Lists a launch. However, if [`MOST_LISTED`] launches are already listed, the new launch is
    /// queued, unless its priority is higher than that of every listed launch.
    pub(super) fn add(&mut self, run: Arc<Run>) {
        let priority = run.priority();
        let is_urgent = || self.listed.iter().all(|other| priority < other.priority());
        if self.listed.len() < MOST_LISTED || is_urgent() {
            self.listed.push(run);
        } else {
            self.queued.insert((priority, run.id()), run);
        }
    }

    /// Removes a launch. Returns false if the launch was neither listed nor queued.
    pub(super) fn remove(&mut self, run: &Arc<Run>) -> bool {
        let is_it = |other: &Arc<Run>| Arc::ptr_eq(other, run);
        if let Some(at) = self.listed.iter().position(is_it) {
            self.listed.remove(at);
            if self.listed.len() < MOST_LISTED {
                self.list_next();
            }
            return true;
        }
        if self.queued.remove(&(run.priority(), run.id())).is_some() {
            return true;
        }
        // The priority of the launch has changed since it was queued, so its key is not known.
        let before = self.queued.len();
        self.queued.retain(|_, other| !is_it(other));
        self.queued.len() != before
    }

    /// Moves the first queued launch to the listed launches and returns it. Returns `None` if no
    /// launch is queued.
    pub(super) fn list_next(&mut self) -> Option<&Arc<Run>> {
        let (_, run) = self.queued.pop_first()?;
        self.listed.push(run);
        self.listed.last()
    }

    /// Returns whether launches are queued.
    pub(super) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Returns the listed launches.
    pub(super) fn listed(&self) -> &[Arc<Run>] {
        &self.listed
    }

    /// Returns the listed launch at `index`, and moves this launch to the end of the list.
    pub(super) fn take_turn(&mut self, index: usize) -> Arc<Run> {
        let run = self.listed.remove(index);
        self.listed.push(Arc::clone(&run));
        run
    }

    /// Returns all launches.
    pub(super) fn all(&self) -> Vec<Arc<Run>> {
        self.listed
            .iter()
            .chain(self.queued.values())
            .cloned()
            .collect()
    }
}
