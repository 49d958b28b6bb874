//! Decides when a worker checks that Margay's handlers of SIGSEGV and SIGILL are installed ([`fault::keep_frequent`]).
//!
//! The program can replace these handlers at any time, but a check takes as long as a short launch. A check that began
//! after the ID of a launch was allocated covers this launch: the check has found every handler that the submitting
//! thread installed before it submitted the launch. A worker therefore checks once for all launches that wait in a
//! stream. While the worker polls for launches, it checks as soon as a call of the API allocates an ID, so that the
//! check and the preparation of the launch run at the same time.
//!
//! Invariant: a piece of a launch runs only after a check that covers the launch and that is at most [`VALID`] old.

use std::time::{Duration, Instant};

use crate::fault;
use crate::process::unused_id;

/// The time after which a check is repeated, because a thread other than the submitting thread can install handlers.
const VALID: Duration = Duration::from_micros(100);

/// The last check of a worker.
#[derive(Debug, Default)]
pub(super) struct HandlerCheck {
    /// The check covers the launches with smaller IDs.
    covered: u64,
    at: Option<Instant>,
}

impl HandlerCheck {
    /// Checks the handlers, unless the last check is valid for a piece that begins at the time `now`. `run` is the ID of
    /// the piece's launch.
    pub(super) fn before_piece(&mut self, run: u64, now: Instant) {
        let is_fresh = |at: Instant| now.saturating_duration_since(at) <= VALID;
        if run >= self.covered || !self.at.is_some_and(is_fresh) {
            self.check(now);
        }
    }

    /// Checks the handlers if an ID has been allocated since the last check. A worker calls this function while it polls
    /// for launches.
    pub(super) fn while_polling(&mut self) {
        if self.covered != unused_id() {
            self.check(Instant::now());
        }
    }

    fn check(&mut self, now: Instant) {
        self.covered = unused_id();
        self.at = Some(now);
        fault::keep_frequent();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::next_id;

    #[test]
    fn a_check_covers_the_launches_with_smaller_ids() {
        let (mut check, now) = (HandlerCheck::default(), Instant::now());
        let (first, second) = (next_id(), next_id());
        check.before_piece(first, now);
        let covered = check.covered;
        assert!(second < covered);
        check.before_piece(second, now + VALID);
        assert_eq!(check.covered, covered, "the first check is still valid");
        let third = next_id();
        check.before_piece(third, now + VALID);
        assert!(third < check.covered);
    }

    #[test]
    fn a_check_expires() {
        let (mut check, now) = (HandlerCheck::default(), Instant::now());
        let run = next_id();
        check.before_piece(run, now);
        let later = now + VALID + Duration::from_nanos(1);
        check.before_piece(run, later);
        assert_eq!(check.at, Some(later));
    }

    #[test]
    fn polling_workers_check_when_ids_are_allocated() {
        let mut check = HandlerCheck::default();
        let run = next_id();
        check.while_polling();
        assert!(run < check.covered);
    }
}
