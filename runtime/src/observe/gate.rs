//! The switch of a tool that waits for a request of another program part.

use std::sync::atomic::{AtomicBool, Ordering};

/// A switch of a tool. While the gate is closed, the tool receives nothing, and the runtime works as without the tool:
/// each event costs one load and one branch. A new gate is closed.
///
/// ```
/// let gate = margay::observe::Gate::default();
/// assert!(!gate.is_open());
/// gate.set(true);
/// assert!(gate.is_open());
/// ```
#[derive(Debug, Default)]
pub struct Gate(AtomicBool);

impl Gate {
    /// Opens or closes the gate.
    pub fn set(&self, open: bool) {
        self.0.store(open, Ordering::Relaxed);
    }

    /// Returns whether the gate is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
