//! Carries messages between processes: one thread of each process copies chunks between the memory of kernels and the
//! buffers of channels.
//!
//! The thread starts with the first message and is never joined. It polls while messages are open, with growing pauses, and
//! sleeps otherwise.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::control::CHUNK;
use crate::driver::driver;
use crate::matching::{Message, Operation};
use crate::pending::Exchange;

/// A message that is being carried.
struct Carried {
    message: Message,
    exchange: Arc<Exchange>,
    done: usize,
    started: bool,
}

/// The open messages of a channel, in order; the first one is carried. The key is the address of the communicator, the peer
/// and the direction.
type Open = HashMap<(usize, usize, bool), VecDeque<Carried>>;

static OPEN: LazyLock<Mutex<Open>> = LazyLock::new(Mutex::default);
static POSTED: Condvar = Condvar::new();

/// Posts a half of a message.
pub(crate) fn post(message: Message, exchange: &Arc<Exchange>) {
    static THREAD: OnceLock<bool> = OnceLock::new();
    let start = || {
        let thread = std::thread::Builder::new().name("margay-nccl".to_owned());
        thread.spawn(run).is_ok()
    };
    if !THREAD.get_or_init(start) {
        return exchange.end(false);
    }
    let key = (
        Arc::as_ptr(&exchange.comm).addr(),
        message.peer,
        message.sends,
    );
    let carried = Carried {
        message,
        exchange: Arc::clone(exchange),
        done: 0,
        started: false,
    };
    OPEN.lock().entry(key).or_default().push_back(carried);
    POSTED.notify_one();
}

fn run() {
    const EAGER: u32 = 200;
    let mut rounds = 0u32;
    loop {
        let mut open = OPEN.lock();
        if open.is_empty() {
            POSTED.wait(&mut open);
            rounds = 0;
        }
        let mut moved = false;
        open.retain(|_, queue| {
            if let Some(first) = queue.front_mut() {
                let step = first.step();
                moved |= step != Step::Waits;
                if let Step::Ended(succeeded) = step {
                    first.exchange.end(succeeded);
                    queue.pop_front();
                }
            }
            !queue.is_empty()
        });
        drop(open);
        rounds = if moved { 0 } else { rounds.saturating_add(1) };
        match rounds.checked_sub(EAGER) {
            None => std::thread::yield_now(),
            Some(late) => std::thread::sleep(Duration::from_micros(u64::from(late.clamp(20, 500)))),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Waits,
    Moved,
    Ended(bool),
}

impl Carried {
    /// Carries the next chunk if the channel is ready.
    fn step(&mut self) -> Step {
        let comm = &self.exchange.comm;
        if comm.aborted.load(SeqCst) {
            return Step::Ended(true);
        }
        let (own, peer) = (comm.rank, self.message.peer);
        let (from, to) = match self.message.sends {
            true => (own, peer),
            false => (peer, own),
        };
        let channel = comm.control.channel(from, to);
        let buffer = comm.control.buffer(from, to);
        let is_full = channel.posted.load(SeqCst) != channel.taken.load(SeqCst);
        if is_full == self.message.sends {
            return Step::Waits;
        }
        let bytes = CHUNK.min(self.message.bytes - self.done);
        let place = self.message.address + self.done;
        // The program may have freed the memory.
        let accessible = driver().is_ok_and(|driver| driver.is_accessible(place, bytes));
        if self.message.sends {
            let provided = self.started || comm.control.provide(buffer, CHUNK);
            // The receiver sees a wrong length if the message fails.
            let (ok, length) = match accessible && provided {
                true => (true, self.message.bytes as u64),
                false => (false, u64::MAX),
            };
            if ok {
                // SAFETY: the driver knows the memory, and the buffer has room for a chunk.
                unsafe { std::ptr::copy(place as *const u8, buffer as *mut u8, bytes) };
            }
            channel.bytes.store(bytes as u64, SeqCst);
            channel.message.store(length, SeqCst);
            channel.posted.fetch_add(1, SeqCst);
            return self.moved(bytes, ok);
        }
        let agrees = channel.message.load(SeqCst) == self.message.bytes as u64
            && channel.bytes.load(SeqCst) == bytes as u64;
        let ok = accessible && agrees;
        if ok {
            // SAFETY: as above.
            unsafe { std::ptr::copy(buffer as *const u8, place as *mut u8, bytes) };
        }
        channel.taken.fetch_add(1, SeqCst);
        self.moved(bytes, ok)
    }

    fn moved(&mut self, bytes: usize, ok: bool) -> Step {
        self.done += bytes;
        self.started = true;
        match ok && self.done < self.message.bytes {
            true => Step::Moved,
            false => Step::Ended(ok),
        }
    }
}
