//! Polls for a while before a thread sleeps: waking a thread costs more than most waits last.
//!
//! Invariant: a thread that polls for more than an instant yields its processor between polls, because the awaited
//! thread may need this processor.

use std::time::{Duration, Instant};

/// Polls between two yields: a fraction of a microsecond.
const LOOKS: u32 = 4;

/// Polls `ready` for about `limit`; returns whether it became true.
pub(crate) fn until(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    if ready() {
        return true;
    }
    let begin = Instant::now();
    loop {
        for _ in 0..LOOKS {
            std::hint::spin_loop();
            if ready() {
                return true;
            }
        }
        std::thread::yield_now();
        if begin.elapsed() >= limit {
            return false;
        }
    }
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
}
