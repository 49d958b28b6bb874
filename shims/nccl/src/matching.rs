//! Messages between the ranks of one process: finds the two halves of a message, and copies it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

/// A message of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) sends: bool,
    pub(crate) peer: usize,
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

/// The operation to which a message belongs.
pub(crate) trait Operation: Send + Sync {
    /// Notes the end of a message.
    fn end(&self, succeeded: bool);
    /// Returns the address of the communicator.
    fn owner(&self) -> usize;
}

/// One half of a message that waits for the other.
struct Half {
    message: Message,
    operation: Arc<dyn Operation>,
}

/// The halves of messages from one rank to another.
#[derive(Default)]
struct Queue {
    sends: VecDeque<Half>,
    receives: VecDeque<Half>,
}

/// What the ranks of a communicator share if they belong to one process.
#[derive(Default)]
pub(crate) struct Local {
    queues: Mutex<HashMap<(usize, usize), Queue>>,
}

impl Local {
    /// Posts a half of a message of the rank `own`. If the other half waits, copies the message.
    pub(crate) fn post(&self, own: usize, message: Message, operation: Arc<dyn Operation>) {
        let pair = match message.sends {
            true => (own, message.peer),
            false => (message.peer, own),
        };
        let mut queues = self.queues.lock();
        let queue = queues.entry(pair).or_default();
        let (others, same) = match message.sends {
            true => (&mut queue.receives, &mut queue.sends),
            false => (&mut queue.sends, &mut queue.receives),
        };
        let Some(other) = others.pop_front() else {
            same.push_back(Half { message, operation });
            return;
        };
        drop(queues);
        let succeeded = message.bytes == other.message.bytes;
        if succeeded {
            let (from, to) = match message.sends {
                true => (message.address, other.message.address),
                false => (other.message.address, message.address),
            };
            // SAFETY: the driver has checked both ranges when the operations were submitted, and both streams wait.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, message.bytes) };
        }
        other.operation.end(succeeded);
        operation.end(succeeded);
    }

    /// Removes the messages of a communicator's operations that do not have their other half.
    pub(crate) fn forget(&self, owner: usize) {
        let mut removed = Vec::new();
        for queue in self.queues.lock().values_mut() {
            for halves in [&mut queue.sends, &mut queue.receives] {
                let (own, rest): (Vec<_>, Vec<_>) = halves
                    .drain(..)
                    .partition(|half| half.operation.owner() == owner);
                halves.extend(rest);
                removed.extend(own);
            }
        }
    }
}
