//! Operations: kernels, copies and fills from their submission to their end.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use crate::framework::{EventRef, Framework, OwnedEvent};
use crate::limits;
use crate::sites::{Made, Site, Visit};

/// A submitted kernel, copy or fill. Clones name the same operation.
///
/// An operation that was submitted while no tool listened has no event. It causes no notifications.
#[derive(Clone, Debug, Default)]
pub struct Operation(Option<Arc<Submitted>>);

/// An operation with an event.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub(crate) site: Arc<Site>,
    pub(crate) visit: Visit,
    /// The event's unique ID.
    pub(crate) id: u64,
    /// The name of the stream, which is the user data of the operation's notifications.
    pub(crate) stream: &'static CStr,
    /// Whether the operation is a copy.
    pub(crate) is_copy: bool,
    /// Whether the begin of the operation was sent, and its end was not.
    pub(crate) running: AtomicBool,
}

impl Operation {
    /// An operation without an event.
    pub const NONE: Operation = Operation(None);

    /// Returns the ID of the operation's event, which subscribers see in edges and as the universal ID of threads.
    pub fn id(&self) -> Option<u64> {
        self.0.as_ref().map(|submitted| submitted.id)
    }

    #[inline]
    pub(crate) fn submitted(&self) -> Option<&Submitted> {
        self.0.as_deref()
    }
}

impl From<Submitted> for Operation {
    fn from(submitted: Submitted) -> Self {
        Operation(Some(Arc::new(submitted)))
    }
}

impl Submitted {
    pub(crate) fn event(&self) -> EventRef<'_> {
        self.visit.event.handle()
    }
}

/// The number of queues, each with its own lock.
const QUEUES: usize = 16;

/// The events that the producer will release, the oldest first. An event is released when [`limits::FINISHED`] newer ones
/// exist, because subscribers may ask for the event of an ID that they have received, and when its operation has been
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct OldEvents([Mutex<VecDeque<Arc<OwnedEvent>>>; QUEUES]);

impl OldEvents {
    /// Adds the event of `visit`, and releases old events.
    pub(crate) fn add(&self, framework: &Framework, visit: &Visit) {
        let Made::Owned(event) = &visit.event else {
            return;
        };
        let queue = &self.0[visit.instance as usize % QUEUES];
        if let Some(old) = exchange(&mut queue.lock(), event, limits::FINISHED / QUEUES) {
            framework.release(old);
        }
    }
}

/// Appends `event`. Returns the oldest element if there are more than `limit` and nothing else refers to it; an element
/// that is in use becomes the newest one.
fn exchange<T>(queue: &mut VecDeque<Arc<T>>, event: &Arc<T>, limit: usize) -> Option<T> {
    queue.push_back(Arc::clone(event));
    if queue.len() <= limit {
        return None;
    }
    match Arc::try_unwrap(queue.pop_front()?) {
        Ok(old) => Some(old),
        Err(used) => {
            queue.push_back(used);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_in_use_stay() {
        let mut queue = VecDeque::new();
        let [a, b, c] = [1, 2, 3].map(Arc::new);
        assert_eq!(exchange(&mut queue, &a, 2), None);
        assert_eq!(exchange(&mut queue, &b, 2), None);
        drop(b);
        // `a` is in use: it becomes the newest, and `b` the oldest.
        assert_eq!(exchange(&mut queue, &c, 2), None);
        assert_eq!(exchange(&mut queue, &Arc::new(4), 2), Some(2));
    }
}
