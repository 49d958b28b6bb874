//! Polling for a short time before a thread sleeps. Most waits end sooner than a sleeping thread
//! could be woken.
//!
//! A yield is a system call, which takes longer than many events for which threads poll. A thread therefore polls for
//! about a microsecond between two yields, but yields sooner if its last yield took so long that another thread must have
//! used the processor. That thread may be the one that it waits for.
//!
//! Invariant: a polling thread yields its processor after every [`MOST_LOOKS`] polls at the latest, because the thread
//! that it waits for may need this processor.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Number of polls between two yields, if other threads use the processor of the polling thread.
const FEWEST_LOOKS: u32 = 4;
/// Number of polls between two yields, if no other thread uses the processor.
const MOST_LOOKS: u32 = 40;
/// A yield that takes longer than this time has let another thread run.
const LONG_YIELD: Duration = Duration::from_micros(1);

thread_local! {
    /// Number of polls before the next yield of this thread.
    static LOOKS: Cell<u32> = const { Cell::new(MOST_LOOKS) };
}

/// Polls `ready` until it returns true, but for at most about `limit`. Returns whether `ready` returned true.
pub(crate) fn until(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    if ready() {
        return true;
    }
    let begin = Instant::now();
    loop {
        if briefly(&mut ready) {
            return true;
        }
        let yielded = Instant::now();
        std::thread::yield_now();
        let now = Instant::now();
        LOOKS.set(looks_after(now.duration_since(yielded)));
        if now.duration_since(begin) >= limit {
            return false;
        }
    }
}

/// Returns the number of polls after a yield that took the time `took`.
fn looks_after(took: Duration) -> u32 {
    match took > LONG_YIELD {
        true => FEWEST_LOOKS,
        false => MOST_LOOKS,
    }
}

/// Polls `ready` for about a microsecond, or for less if other threads use the processor. Makes no system call. Returns
/// whether `ready` returned true.
pub(crate) fn briefly(mut ready: impl FnMut() -> bool) -> bool {
    (0..LOOKS.get()).any(|_| {
        std::hint::spin_loop();
        ready()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_until_it_is_true_or_time_is_up() {
        let mut asked = 0;
        let third = until(Duration::from_secs(3600), || {
            asked += 1;
            asked == 3
        });
        assert!(third);
        assert!(!until(Duration::from_micros(1), || false));
        assert!(until(Duration::ZERO, || true));
    }

    #[test]
    fn threads_that_share_a_processor_yield_sooner() {
        assert_eq!(looks_after(Duration::from_nanos(400)), MOST_LOOKS);
        assert_eq!(looks_after(Duration::from_micros(3)), FEWEST_LOOKS);
    }

    #[test]
    fn a_brief_poll_ends() {
        let mut asked = 0;
        assert!(!briefly(|| {
            asked += 1;
            false
        }));
        assert_eq!(asked, LOOKS.get());
        assert!(briefly(|| true));
    }
}
