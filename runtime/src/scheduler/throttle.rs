//! How many workers a kernel is given whose threads may all want the same memory.
//!
//! Atomics on global memory take several times as long when the line comes from another core, so a histogram with few
//! bins is slower with two workers than with one. Whether it is so depends on the data. Kernels with such atomics
//! are therefore tried: a few times in turn one worker runs alone and all run together; if together they get less done
//! than one does, one goes on alone, until the next trial. Results do not depend on it: a launch ends with one worker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Each of the two runs this long before it is the other's turn.
const TURN: u64 = 250_000;
/// Turns of each in a trial.
const TURNS: u64 = 4;
/// Together the workers have to get this much more done than one.
const BETTER: f64 = 1.03;
/// Time that the workers of a kernel run, in sum, between trials.
const BETWEEN: u64 = 400_000_000;

/// Nanoseconds of all workers, and units that they completed.
#[derive(Debug, Default)]
struct Rate {
    nanos: AtomicU64,
    units: AtomicU64,
}

impl Rate {
    fn add(&self, nanos: u64, units: u64) {
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.units.fetch_add(units, Ordering::Relaxed);
    }

    fn turns(&self, workers: u64) -> u64 {
        self.nanos.load(Ordering::Relaxed) / (TURN * workers)
    }

    /// Units in a worker's nanosecond.
    fn speed(&self) -> f64 {
        let nanos = self.nanos.load(Ordering::Relaxed).max(1);
        self.units.load(Ordering::Relaxed) as f64 / nanos as f64
    }

    fn clear(&self) {
        self.nanos.store(0, Ordering::Relaxed);
        self.units.store(0, Ordering::Relaxed);
    }
}

/// What is known of a kernel.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    one: Rate,
    all: Rate,
    decided: AtomicBool,
    alone: AtomicBool,
    /// Nanoseconds since the last trial.
    since: AtomicU64,
}

impl Throttle {
    /// How many of the workers may run the kernel now.
    pub(super) fn allowed(&self, workers: usize) -> usize {
        let alone = if self.decided.load(Ordering::Relaxed) {
            self.alone.load(Ordering::Relaxed)
        } else {
            self.one.turns(1) <= self.all.turns(workers as u64)
        };
        if alone { 1 } else { workers }
    }

    /// Notes that a worker completed some units while so many of all workers were in the run, from the beginning to the
    /// end.
    pub(super) fn note(&self, time: Duration, units: u64, users: usize, workers: usize) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if self.decided.load(Ordering::Relaxed) {
            let since = self.since.fetch_add(nanos, Ordering::Relaxed);
            if since >= BETWEEN {
                self.since.store(0, Ordering::Relaxed);
                self.one.clear();
                self.all.clear();
                self.decided.store(false, Ordering::Relaxed);
            }
            return;
        }
        match users {
            1 => self.one.add(nanos, units),
            users if users == workers => self.all.add(nanos, units),
            _ => return,
        }
        if self.one.turns(1) >= TURNS && self.all.turns(workers as u64) >= TURNS {
            let together = self.all.speed() * workers as f64;
            let alone = together < self.one.speed() * BETTER;
            self.alone.store(alone, Ordering::Relaxed);
            self.decided.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets one and two workers take turns until all is known; microseconds for a unit of one alone, and of each of two.
    fn tried(one: u64, two: u64) -> Throttle {
        let throttle = Throttle::default();
        let mut turns = 0;
        while !throttle.decided.load(Ordering::Relaxed) {
            let users = throttle.allowed(2);
            let each = if users == 1 { one } else { two };
            for _ in 0..users {
                throttle.note(Duration::from_micros(each), 1, users, 2);
            }
            turns += 1;
            assert!(turns < 10_000, "a trial ends");
        }
        throttle
    }

    #[test]
    fn a_kernel_begins_alone() {
        assert_eq!(Throttle::default().allowed(8), 1);
    }

    #[test]
    fn workers_that_hinder_each_other_are_sent_away() {
        assert_eq!(tried(100, 110).allowed(2), 2);
        assert_eq!(tried(100, 190).allowed(2), 2);
        assert_eq!(tried(100, 200).allowed(2), 1);
        assert_eq!(tried(100, 900).allowed(2), 1);
    }

    #[test]
    fn they_come_back_for_another_trial() {
        let throttle = tried(100, 900);
        throttle.note(Duration::from_nanos(BETWEEN), 1, 1, 2);
        assert_eq!(throttle.allowed(2), 1);
        throttle.note(Duration::from_nanos(1), 1, 1, 2);
        assert!(!throttle.decided.load(Ordering::Relaxed));
        throttle.note(Duration::from_nanos(TURN), 1, 1, 2);
        assert_eq!(throttle.allowed(2), 2);
    }

    #[test]
    fn what_neither_was_alone_nor_together_does_not_count() {
        let throttle = Throttle::default();
        throttle.note(Duration::from_secs(1), 1, 2, 3);
        assert_eq!(throttle.allowed(3), 1);
    }
}
