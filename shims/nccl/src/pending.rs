//! The messages of an operation that is running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use crate::comm::Comm;
use crate::matching::Operation;

/// An operation whose messages are being carried.
pub(crate) struct Exchange {
    pub(crate) comm: Arc<Comm>,
    /// Number of messages that are not done, plus one until all of them are posted.
    pending: AtomicU32,
    /// Whether a message failed.
    failed: Arc<AtomicBool>,
}

impl Exchange {
    /// Returns an operation of `messages` messages.
    pub(crate) fn new(
        comm: &Arc<Comm>,
        messages: usize,
        failed: &Arc<AtomicBool>,
    ) -> Arc<Exchange> {
        failed.store(false, SeqCst);
        Arc::new(Exchange {
            comm: Arc::clone(comm),
            pending: AtomicU32::new(messages as u32 + 1),
            failed: Arc::clone(failed),
        })
    }
}

impl Operation for Exchange {
    fn end(&self, succeeded: bool) {
        if !succeeded {
            self.failed.store(true, SeqCst);
        }
        if self.pending.fetch_sub(1, SeqCst) == 1 {
            self.comm.release();
        }
    }

    fn owner(&self) -> usize {
        Arc::as_ptr(&self.comm).addr()
    }
}
