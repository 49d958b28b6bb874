//! Polling for a short time before a thread sleeps. Most waits end sooner than a sleeping thread
//! could be woken.
//!
//! Invariant: a polling thread yields its processor after every [`LOOKS`] polls, because the thread that it waits for
//! may need this processor. A yield is a system call, which takes longer than many events for which threads poll, so
//! the time between two yields is about a microsecond.

use std::time::{Duration, Instant};

/// Number of polls between two yields.
const LOOKS: u32 = 40;

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
        std::thread::yield_now();
        if begin.elapsed() >= limit {
            return false;
        }
    }
}

/// Polls `ready` for about a microsecond, without a system call. Returns whether `ready` returned true.
pub(crate) fn briefly(mut ready: impl FnMut() -> bool) -> bool {
    (0..LOOKS).any(|_| {
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
    fn a_brief_poll_ends() {
        let mut asked = 0;
        assert!(!briefly(|| {
            asked += 1;
            false
        }));
        assert_eq!(asked, LOOKS);
        assert!(briefly(|| true));
    }
}
