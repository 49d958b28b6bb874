//! Limits the time for which a lane waits in a loop before other lanes run.
//!
//! A turn is a unit of the iteration budget of waiting loops. The lanes of a CTA share a number of
//! turns, at first [`TURNS`]; a lane in a waiting loop yields when no turns are left. If each
//! iteration takes long, because the loop also computes, the lane may yield only after seconds. The
//! lane that it waits for may be the last of all lanes to run. This module adapts the number of turns
//! of a launch so that a lane yields after about [`PERIOD`].

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use margay_jit::abi::TURNS;

/// The time after which a waiting lane should yield. Yielding takes a few microseconds.
const PERIOD: Duration = Duration::from_micros(200);
/// Minimum of the number of turns. With this number, a loop that only reads runs 16 iterations
/// before it yields, and a loop that polls runs one iteration.
const FEWEST: i32 = 16;

/// The number of turns that each CTA of a launch receives when it begins and when it continues
/// after a yield.
#[derive(Debug)]
pub(super) struct TurnBudget {
    turns: AtomicI32,
    /// Whether the number of turns is changed according to measured times.
    is_measured: bool,
}

impl TurnBudget {
    /// Returns the budget of a launch. If `is_measured` is false, the number of turns does not
    /// depend on time. The caller passes false if no thread of the kernel waits, or if the order in
    /// which lanes run must be the same in each run.
    pub(super) fn new(is_measured: bool) -> TurnBudget {
        TurnBudget {
            turns: AtomicI32::new(TURNS),
            is_measured,
        }
    }

    /// Returns the current number of turns.
    pub(super) fn turns(&self) -> i32 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Returns the current time if [`TurnBudget::adapt`] needs it, or `None` if the number of turns
    /// is constant.
    pub(super) fn start(&self) -> Option<Instant> {
        self.is_measured.then(Instant::now)
    }

    /// Changes the number of turns after a CTA has used `turns` turns in the time `elapsed` and its
    /// lanes have yielded.
    pub(super) fn adapt(&self, turns: i32, elapsed: Duration) {
        self.turns.store(next(turns, elapsed), Ordering::Relaxed);
    }
}

/// Returns whether a CTA that began to run at `begun` has run for so long that other CTAs should run if some of its
/// lanes wait.
pub(super) fn is_overdue(begun: Instant) -> bool {
    begun.elapsed() > 2 * PERIOD
}

/// Returns the number of turns that a CTA uses in the time [`PERIOD`] if it uses `turns` turns in
/// the time `elapsed`.
fn next(turns: i32, elapsed: Duration) -> i32 {
    let nanoseconds = elapsed.as_nanos().max(1);
    let turns = turns.unsigned_abs().into();
    let next = PERIOD.as_nanos().saturating_mul(turns) / nanoseconds;
    i32::try_from(next).map_or(TURNS, |next| next.clamp(FEWEST, TURNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_turns_is_proportional_to_their_speed() {
        assert_eq!(next(TURNS, PERIOD), TURNS);
        assert_eq!(next(TURNS, PERIOD * 4), TURNS / 4);
        assert_eq!(next(TURNS / 4, PERIOD / 2), TURNS / 2);
        assert_eq!(next(TURNS, Duration::from_secs(10)), FEWEST);
        assert_eq!(next(FEWEST, Duration::ZERO), TURNS);
        assert_eq!(next(FEWEST, Duration::MAX), FEWEST);
    }
}
