//! Contention throttling: limits the number of workers of a kernel whose threads may all access the same memory.
//!
//! An atomic operation on global memory takes several times as long if another core holds the cache
//! line. A histogram with few bins can therefore be slower with two workers than with one worker,
//! depending on its data. Kernels with such atomics are measured: one worker alone and all workers
//! together run the kernel alternately, several times. If all workers together are not faster, one
//! worker runs the kernel until the next measurement. The number of workers does not affect the
//! results of a kernel, because even a single worker can complete every launch.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Number of nanoseconds for which each configuration (one worker, or all workers together) runs
/// the kernel before the other configuration runs it.
const TURN: u64 = 250_000;
/// Number of times that each configuration runs the kernel in a measurement.
const TURNS: u64 = 4;
/// All workers run the kernel if they are faster than one worker by at least this factor.
const BETTER: f64 = 1.03;
/// Running time of the kernel in nanoseconds between two measurements, as a sum over all workers.
const BETWEEN: u64 = 400_000_000;

/// The measurement of one configuration: running time in nanoseconds as a sum over all workers, and
/// the number of units that the workers completed.
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

    /// Returns the number of units that one worker completes in a nanosecond.
    fn speed(&self) -> f64 {
        let nanos = self.nanos.load(Ordering::Relaxed).max(1);
        self.units.load(Ordering::Relaxed) as f64 / nanos as f64
    }

    fn clear(&self) {
        self.nanos.store(0, Ordering::Relaxed);
        self.units.store(0, Ordering::Relaxed);
    }
}

/// Measurements of a kernel, and the resulting choice between one worker and all workers.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    one: Rate,
    all: Rate,
    decided: AtomicBool,
    alone: AtomicBool,
    /// Running time of the kernel in nanoseconds since the last measurement, as a sum over all
    /// workers.
    since: AtomicU64,
}

impl Throttle {
    /// Returns the maximum number of workers that may run the kernel now.
    pub(super) fn allowed(&self, workers: usize) -> usize {
        let alone = if self.decided.load(Ordering::Relaxed) {
            self.alone.load(Ordering::Relaxed)
        } else {
            self.one.turns(1) <= self.all.turns(workers as u64)
        };
        if alone { 1 } else { workers }
    }

    /// Records that a worker completed `units` units in `time`, and that `users` of `workers` workers executed the run
    /// during this time.
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

    /// Simulates two workers until the throttle has chosen the number of workers. A unit takes
    /// `one` microseconds with one worker and `two` microseconds with two workers.
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
