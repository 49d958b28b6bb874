//! Messages from one rank to another: `ncclSend` and `ncclRecv`.
//!
//! The messages of a group form one operation of a stream. Its first kernel posts the messages, then the stream waits until
//! all of them are done. Between two ranks, the first send belongs to the first receive, and so on, in the order in which
//! the streams execute the operations. If all ranks belong to one process, the rank that posts the second half of a message
//! copies it ([`crate::matching`]). Otherwise a thread of each process carries messages in chunks through shared memory
//! ([`crate::proxy`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::comm::Comm;
use crate::launch::{LAUNCH_FAILED, range, submit};
use crate::matching::{Message, Operation};
use crate::pending::Exchange;
use crate::proxy;
use crate::status::Outcome;

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
            let exchange = Exchange::new(&posting, messages.len(), &noted);
            for &message in &messages {
                match posting.local() {
                    Some(local) => local.post(posting.rank, message, Arc::clone(&exchange) as _),
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
