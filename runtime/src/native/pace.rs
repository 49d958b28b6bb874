//! Which code a kernel's CTAs run: lanes one by one, or slices.
//!
//! Slices take longer to compile, so they come when single lanes have run for about that long. Then both have
//! been measured on some CTAs, and the faster goes on: where each lane reads from elsewhere in loops of
//! different lengths, single lanes are several times as fast. Results do not depend on the choice.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use margay_jit::Version;

use super::kernel::NativeKernel;

/// How long slices are on trial.
const TRIAL: Duration = Duration::from_micros(500);
/// Single lanes win if slices take longer than theirs by these parts.
const WORSE: (u128, u128) = (5, 4);
/// CTAs of the first part.
const FIRST_PART: u64 = 16;

/// Time taken by a number of CTAs.
#[derive(Debug, Default)]
struct Rate {
    nanoseconds: AtomicU64,
    ctas: AtomicU64,
}

impl Rate {
    fn add(&self, time: Duration, ctas: u64) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(time, Ordering::Relaxed);
        self.ctas.fetch_add(ctas, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        let time = self.nanoseconds.load(Ordering::Relaxed);
        (time, self.ctas.load(Ordering::Relaxed))
    }
}

/// What is known of a kernel's speed.
#[derive(Debug)]
pub(super) struct Trial {
    /// Nanoseconds that single lanes run before slices are compiled.
    patience: u64,
    single: Rate,
    slices: Rate,
    verdict: AtomicU8,
}

impl Trial {
    /// The verdicts; 0 stands for none.
    const SLICES: u8 = 1;
    const SINGLE: u8 = 2;

    /// A trial that begins when single lanes have run for some time; there is none if that is no time.
    pub(super) fn new(patience: Duration) -> Trial {
        Trial {
            patience: u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX),
            single: Rate::default(),
            slices: Rate::default(),
            verdict: AtomicU8::new(if patience.is_zero() { Trial::SLICES } else { 0 }),
        }
    }

    /// Slices need not be compiled, so they are tried as soon as the speed of single lanes is known.
    pub(super) fn hurry(&mut self) {
        self.patience = self.patience.min(TRIAL.as_nanos() as u64);
    }

    /// `wanted`, or the version of single lanes.
    pub(super) fn now(&self, wanted: Version) -> Version {
        match self.verdict.load(Ordering::Relaxed) {
            Trial::SLICES => wanted,
            Trial::SINGLE => Version::SINGLE,
            _ if self.single.get().0 >= self.patience => wanted,
            _ => Version::SINGLE,
        }
    }

    fn is_over(&self) -> bool {
        self.verdict.load(Ordering::Relaxed) != 0
    }

    /// Notes that some CTAs of a version took some time.
    fn note(&self, version: Version, time: Duration, ctas: u64) {
        if version == Version::SINGLE {
            return self.single.add(time, ctas);
        }
        self.slices.add(time, ctas);
        let ((single, of_single), (slices, of_slices)) = (self.single.get(), self.slices.get());
        if u128::from(slices) < TRIAL.as_nanos() {
            return;
        }
        // Time a CTA, brought to one denominator.
        let theirs = u128::from(single) * u128::from(of_slices) * WORSE.0;
        let ours = u128::from(slices) * u128::from(of_single) * WORSE.1;
        let verdict = if ours > theirs {
            Trial::SINGLE
        } else {
            Trial::SLICES
        };
        self.verdict.store(verdict, Ordering::Relaxed);
    }
}

/// Runs a launch's CTAs in parts as long as the verdict is open.
pub(super) struct Pace<'a> {
    kernel: &'a NativeKernel,
    wanted: Version,
    /// What the next part runs.
    pub(super) version: Version,
    /// CTAs of the next part.
    part: u64,
    began: Option<(Instant, u64)>,
}

impl<'a> Pace<'a> {
    pub(super) fn new(wanted: Version, kernel: &'a NativeKernel) -> Pace<'a> {
        Pace {
            kernel,
            wanted,
            version: kernel.trial.now(wanted),
            part: FIRST_PART,
            began: None,
        }
    }

    /// How many of the CTAs that are left come next.
    pub(super) fn part(&mut self, left: u64) -> u64 {
        self.version = self.kernel.trial.now(self.wanted);
        if self.kernel.trial.is_over() {
            return left;
        }
        let part = self.part.min(left);
        // Compiling is not part of the time.
        self.kernel.compile(self.version);
        self.began = Some((Instant::now(), part));
        part
    }

    /// The part has run to its end.
    pub(super) fn done(&mut self) {
        if let Some((began, ctas)) = self.began.take() {
            self.kernel.trial.note(self.version, began.elapsed(), ctas);
            self.part *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use margay_jit::Widths;

    fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn slices_come_when_single_lanes_have_run_for_long_enough() {
        let wanted = Version::of([32, 1, 1], Widths::all(16));
        let trial = Trial::new(micros(1000));
        assert_eq!(trial.now(wanted), Version::SINGLE);
        trial.note(Version::SINGLE, micros(999), 10);
        assert_eq!(trial.now(wanted), Version::SINGLE);
        trial.note(Version::SINGLE, micros(1), 1);
        assert_eq!(trial.now(wanted), wanted);
        assert!(!trial.is_over());
    }

    #[test]
    fn slices_that_are_there_are_tried_at_once() {
        let wanted = Version::of([32, 1, 1], Widths::all(16));
        let mut trial = Trial::new(micros(100_000));
        trial.hurry();
        trial.note(Version::SINGLE, TRIAL - micros(1), 10);
        assert_eq!(trial.now(wanted), Version::SINGLE);
        trial.note(Version::SINGLE, micros(1), 1);
        assert_eq!(trial.now(wanted), wanted);
        assert!(!trial.is_over());
    }

    #[test]
    fn the_faster_of_the_two_goes_on() {
        let wanted = Version::of([32, 1, 1], Widths::all(16));
        // 100 microseconds a CTA by single lanes.
        for (slices, winner) in [(50, wanted), (120, wanted), (130, Version::SINGLE)] {
            let trial = Trial::new(micros(1000));
            trial.note(Version::SINGLE, micros(1000), 10);
            trial.note(wanted, micros(slices), 1);
            assert!(!trial.is_over(), "too early to tell");
            trial.note(wanted, micros(slices * 10), 10);
            assert!(trial.is_over());
            assert_eq!(trial.now(wanted), winner, "{slices} microseconds");
        }
    }

    #[test]
    fn without_patience_there_is_no_trial() {
        let wanted = Version::of([32, 1, 1], Widths::all(16));
        let trial = Trial::new(Duration::ZERO);
        assert!(trial.is_over());
        assert_eq!(trial.now(wanted), wanted);
    }
}
