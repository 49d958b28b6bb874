//! Messages from one rank to another: `ncclSend` and `ncclRecv`.
//!
//! The messages of a group form one operation of a stream. Its first kernel posts the messages, then the stream waits until
//! all of them are done. Between two ranks, the first send belongs to the first receive, and so on, in the order in which
//! the streams execute the operations. If all ranks belong to one process, the rank that posts the second half of a message
//! copies it ([`Local`]). Otherwise a thread of each process carries messages in chunks through shared memory
//! ([`crate::proxy`]).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::comm::Comm;
use crate::launch::{LAUNCH_FAILED, range, submit};
use crate::proxy;
use crate::status::Outcome;

/// A message of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) sends: bool,
    pub(crate) peer: usize,
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

/// The messages of an operation that is running.
pub(crate) struct Exchange {
    pub(crate) comm: Arc<Comm>,
    /// Number of messages that are not done, plus one until all of them are posted.
    pending: AtomicU32,
    /// Whether a message failed.
    failed: Arc<AtomicBool>,
}

impl Exchange {
    /// Notes the end of a message.
    pub(crate) fn end(&self, succeeded: bool) {
        if !succeeded {
            self.failed.store(true, SeqCst);
        }
        if self.pending.fetch_sub(1, SeqCst) == 1 {
            self.comm.release();
        }
    }
}

/// One half of a message that waits for the other.
struct Half {
    message: Message,
    exchange: Arc<Exchange>,
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
    /// Posts a half of a message. If the other half waits, copies the message.
    fn post(&self, message: Message, exchange: &Arc<Exchange>) {
        let own = exchange.comm.rank;
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
            let exchange = Arc::clone(exchange);
            same.push_back(Half { message, exchange });
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
        other.exchange.end(succeeded);
        exchange.end(succeeded);
    }

    /// Removes the messages of a rank that do not have their other half.
    pub(crate) fn forget(&self, comm: &Comm) {
        let is_own = |half: &Half| std::ptr::eq(Arc::as_ptr(&half.exchange.comm), comm);
        let mut removed = Vec::new();
        for queue in self.queues.lock().values_mut() {
            for halves in [&mut queue.sends, &mut queue.receives] {
                let (own, rest): (Vec<_>, Vec<_>) = halves.drain(..).partition(is_own);
                halves.extend(rest);
                removed.extend(own);
            }
        }
    }
}

/// Submits messages as one operation.
pub(crate) fn exchange(comm: &Arc<Comm>, stream: usize, messages: Vec<Message>) -> Outcome {
    comm.in_order(stream, |driver| {
        let ranges: Vec<_> = messages
            .iter()
            .map(|message| range(message.address, message.bytes, !message.sends))
            .collect();
        let failed = Arc::new(AtomicBool::new(false));
        let (posting, noted) = (Arc::clone(comm), Arc::clone(&failed));
        let post = move |_| {
            if !posting.begin() {
                return 0;
            }
            noted.store(false, SeqCst);
            let exchange = Arc::new(Exchange {
                comm: Arc::clone(&posting),
                pending: AtomicU32::new(messages.len() as u32 + 1),
                failed: Arc::clone(&noted),
            });
            for &message in &messages {
                match posting.local() {
                    Some(local) => local.post(message, &exchange),
                    None => proxy::post(message, &exchange),
                }
            }
            exchange.end(true);
            0
        };
        submit(driver, stream, c"ncclSendRecv", 1, &ranges, post)?;
        let go = (&raw const comm.control.rank(comm.rank).go[0]).addr();
        driver.wait_for(stream, go, 1)?;
        let finish = move |_| match failed.load(SeqCst) {
            true => LAUNCH_FAILED,
            false => 0,
        };
        submit(driver, stream, c"ncclSendRecvEnd", 1, &[], finish)
    })
}
