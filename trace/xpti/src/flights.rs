//! Counts the threads that are sending, so that nothing is sent after the end.
//!
//! A thread enters before it calls the framework and leaves behind the call. Closing forbids entering, and waits for the
//! threads inside. A callback of a subscriber may call the runtime; what it does causes no notification, because its
//! thread is already inside. This also prevents endless recursion.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Whether the producer of this process sends events. [`crate::active`] reads it.
pub(crate) static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether this process is a forked child of the one that started the producer.
///
/// Another thread may have held a lock of the framework during the fork, so the child must not call the framework.
static IN_CHILD: AtomicBool = AtomicBool::new(false);

/// Ends the producer in a forked child. The system calls the function in the child.
pub(crate) extern "C" fn end_in_child() {
    ACTIVE.store(false, Ordering::Relaxed);
    IN_CHILD.store(true, Ordering::Relaxed);
}

/// The number of counters. Threads share them only if there are more threads.
const COUNTERS: usize = 16;

/// A counter in cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicUsize);

/// The threads that are sending.
#[derive(Default)]
pub(crate) struct Flights {
    counters: [Counter; COUNTERS],
    closed: AtomicBool,
}

thread_local! {
    /// The index of this thread's counter.
    static INDEX: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Whether this thread is inside.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A thread that may call the framework.
#[must_use]
pub(crate) struct Flight<'a> {
    counter: &'a AtomicUsize,
}

impl Flights {
    /// Returns `None` if the producer has ended, if a subscriber's callback runs on this thread, or in a forked child.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Flight<'_>> {
        if IN_CHILD.load(Ordering::Relaxed) {
            return None;
        }
        // The storage of a thread that is ending may be gone.
        if INSIDE
            .try_with(|inside| inside.replace(true))
            .unwrap_or(true)
        {
            return None;
        }
        let counter = &self.counters[index()].0;
        counter.fetch_add(1, Ordering::SeqCst);
        let flight = Flight { counter };
        // Sequentially consistent with `close`: either this load sees the mark, or `close` sees the count.
        if self.closed.load(Ordering::SeqCst) {
            return None;
        }
        Some(flight)
    }

    /// Tells whether threads may enter.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed) && !IN_CHILD.load(Ordering::Relaxed)
    }

    /// Forbids entering. Returns false if that was already so.
    pub(crate) fn close(&self) -> bool {
        ACTIVE.store(false, Ordering::Relaxed);
        !self.closed.swap(true, Ordering::SeqCst)
    }

    /// Waits until no other thread is inside. Returns false if one is still inside after `patience`.
    pub(crate) fn drain(&self, patience: Duration) -> bool {
        let own = usize::from(INSIDE.try_with(Cell::get).unwrap_or(false));
        let deadline = Instant::now() + patience;
        while self.inside() > own {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }

    fn inside(&self) -> usize {
        let counters = self.counters.iter();
        counters
            .map(|counter| counter.0.load(Ordering::SeqCst))
            .sum()
    }
}

impl Drop for Flight<'_> {
    #[inline]
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Release);
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}

/// Returns the index of this thread's counter.
fn index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let index = INDEX.try_with(Cell::get).unwrap_or(0);
    if index < COUNTERS {
        return index;
    }
    let index = NEXT.fetch_add(1, Ordering::Relaxed) % COUNTERS;
    let _ = INDEX.try_with(|cell| cell.set(index));
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_enters_once() {
        let flights = Flights::default();
        let flight = flights.enter();
        assert!(flight.is_some());
        assert!(flights.enter().is_none());
        drop(flight);
        assert!(flights.enter().is_some());
        assert!(flights.enter().is_some());
    }

    #[test]
    fn nobody_enters_after_the_end() {
        let flights = Flights::default();
        assert!(flights.close());
        assert!(!flights.close());
        assert!(flights.enter().is_none());
        assert!(!flights.is_open());
        assert!(flights.drain(Duration::ZERO));
        // A refused thread is not inside.
        assert!(Flights::default().enter().is_some());
    }

    #[test]
    fn the_end_waits_for_other_threads_only() {
        let flights = Flights::default();
        let _own = flights.enter();
        assert!(flights.drain(Duration::ZERO));
        let (entered, wait) = std::sync::mpsc::channel();
        let (leave, left) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let flights = &flights;
            scope.spawn(move || {
                let _flight = flights.enter().unwrap();
                entered.send(()).unwrap();
                left.recv().unwrap();
            });
            wait.recv().unwrap();
            flights.close();
            assert!(!flights.drain(Duration::from_millis(1)));
            leave.send(()).unwrap();
            assert!(flights.drain(Duration::from_secs(60)));
        });
    }
}
