//! Measures how long the system takes to wake a sleeping thread. A launch that finds all workers asleep cannot end
//! earlier.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::measure::{self, Time};

/// The pause before each measurement. The sleeping thread and the cores are then as idle as before a launch after the
/// same time without work.
pub(crate) const PAUSE: Duration = Duration::from_millis(3);

/// The request that ends the sleeping thread.
const END: u32 = u32::MAX;

/// Measures the time from the call that wakes a thread until another thread sees a store of the woken thread. The thread
/// sleeps in [`std::thread::park`], which is a futex on Linux.
pub(crate) fn measure() -> Time {
    let (asked, answered) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            loop {
                match asked.load(Ordering::Acquire) {
                    END => return,
                    request if request != answered.load(Ordering::Relaxed) => {
                        answered.store(request, Ordering::Release);
                    }
                    _ => std::thread::park(),
                }
            }
        });
        let mut request = 0;
        let time = measure::after(PAUSE, || {
            request += 1;
            asked.store(request, Ordering::Release);
            sleeper.thread().unpark();
            while answered.load(Ordering::Acquire) != request {
                std::hint::spin_loop();
            }
        });
        asked.store(END, Ordering::Release);
        sleeper.thread().unpark();
        time
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_wakes() {
        assert!(super::measure().median > 0.0);
    }
}
