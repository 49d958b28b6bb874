//! Which code a kernel's CTAs run: lanes one by one, or slices.
//!
//! Slices take longer to compile, so they come when single lanes have run for about that long. Then both take
//! turns, each with a few CTAs beside those of the other, since CTAs far apart may have different work; and the
//! faster goes on. Where each lane reads from elsewhere in loops of different lengths, single lanes are several
//! times as fast. Results do not depend on the choice.
//!
//! A trial may be unlucky: a worker had to wait for its processor, or the first CTAs had nothing to do. So there is
//! another one when the winner has run for some time, and so on at growing distances, but soon after one that found otherwise.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use margay_jit::Specialisation;

use super::kernel::NativeKernel;

/// How long each of the two is on trial, at least, and in how many parts.
const TRIAL: Duration = Duration::from_micros(500);
const TRIAL_PARTS: u64 = 4;
/// CTAs of such a part.
const TRIAL_PART: u64 = 2;
/// Single lanes win if slices take longer than theirs by these parts.
const WORSE: (u128, u128) = (5, 4);
/// CTAs of the first part before the trial.
const FIRST_PART: u64 = 16;
/// Nanoseconds between the first two trials; how many times as far the next ones lie from each other; and how many times
/// the time that the loser took in the last one they do at least.
const BETWEEN: u64 = 10_000_000;
const FARTHER: u64 = 4;
const LOST: u64 = 20;

/// Time taken by a number of CTAs.
#[derive(Debug, Default)]
struct Rate {
    nanoseconds: AtomicU64,
    ctas: AtomicU64,
    parts: AtomicU64,
}

impl Rate {
    fn add(&self, time: Duration, ctas: u64) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(time, Ordering::Relaxed);
        self.ctas.fetch_add(ctas, Ordering::Relaxed);
        self.parts.fetch_add(1, Ordering::Relaxed);
    }

    /// Time and number.
    fn get(&self) -> (u128, u128) {
        let time = self.nanoseconds.load(Ordering::Relaxed);
        (time.into(), self.ctas.load(Ordering::Relaxed).into())
    }

    fn clear(&self) {
        self.nanoseconds.store(0, Ordering::Relaxed);
        self.ctas.store(0, Ordering::Relaxed);
        self.parts.store(0, Ordering::Relaxed);
    }

    fn is_known(&self) -> bool {
        let parts = self.parts.load(Ordering::Relaxed);
        self.get().0 >= TRIAL.as_nanos() && parts >= TRIAL_PARTS
    }
}

/// What is known of a kernel's speed.
#[derive(Debug)]
pub(super) struct Trial {
    /// Nanoseconds that single lanes run before slices are compiled.
    patience: u64,
    /// Nanoseconds that they have run.
    waited: AtomicU64,
    /// Both, in the trial.
    single: Rate,
    slices: Rate,
    verdict: AtomicU8,
    /// The one before.
    last: AtomicU8,
    /// Nanoseconds that the winner has run, and after how many there is another trial.
    since: AtomicU64,
    until: AtomicU64,
}

impl Trial {
    /// The verdicts; 0 stands for none.
    const SLICES: u8 = 1;
    const SINGLE: u8 = 2;

    /// A trial that begins when single lanes have run for some time; there is none if that is no time.
    pub(super) fn new(patience: Duration) -> Trial {
        Trial {
            patience: u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX),
            waited: AtomicU64::new(0),
            single: Rate::default(),
            slices: Rate::default(),
            verdict: AtomicU8::new(if patience.is_zero() { Trial::SLICES } else { 0 }),
            last: AtomicU8::new(0),
            since: AtomicU64::new(0),
            until: AtomicU64::new(if patience.is_zero() { u64::MAX } else { 0 }),
        }
    }

    /// Slices need not be compiled, so they are tried as soon as the speed of single lanes is known.
    pub(super) fn hurry(&mut self) {
        self.patience = self.patience.min(TRIAL.as_nanos() as u64);
    }

    /// `wanted`, or the version of single lanes.
    pub(super) fn now(&self, wanted: Specialisation) -> Specialisation {
        let single = Specialisation::SINGLE.trusted(wanted.is_trusted());
        match self.verdict.load(Ordering::Relaxed) {
            Trial::SLICES => wanted,
            Trial::SINGLE => single,
            _ if self.has_begun() => wanted,
            _ => single,
        }
    }

    fn has_begun(&self) -> bool {
        self.waited.load(Ordering::Relaxed) >= self.patience
    }

    /// Whether it is the turn of slices in the trial. Launches may have no more CTAs than a part, so that this cannot
    /// be told from the parts of one launch.
    fn is_turn_of_slices(&self) -> bool {
        let parts = |rate: &Rate| rate.parts.load(Ordering::Relaxed);
        parts(&self.slices) <= parts(&self.single)
    }

    fn is_over(&self) -> bool {
        self.verdict.load(Ordering::Relaxed) != 0
    }

    /// Notes that single lanes have run for some time before the trial.
    fn wait(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.waited.fetch_add(time, Ordering::Relaxed);
    }

    /// Notes that some CTAs of a version took some time in the trial.
    fn note(&self, version: Specialisation, time: Duration, ctas: u64) {
        if version.is_single() {
            self.single.add(time, ctas);
        } else {
            self.slices.add(time, ctas);
        }
        if !self.single.is_known() || !self.slices.is_known() {
            return;
        }
        let ((single, of_single), (slices, of_slices)) = (self.single.get(), self.slices.get());
        // Time a CTA, brought to one denominator.
        let theirs = single * of_slices * WORSE.0;
        let ours = slices * of_single * WORSE.1;
        let (verdict, lost) = if ours > theirs {
            (Trial::SINGLE, slices)
        } else {
            (Trial::SLICES, single)
        };
        let until = match self.last.swap(verdict, Ordering::Relaxed) == verdict {
            true => self.until.load(Ordering::Relaxed).saturating_mul(FARTHER),
            false => BETWEEN,
        };
        let lost = u64::try_from(lost).unwrap_or(u64::MAX);
        let until = until.max(lost.saturating_mul(LOST));
        self.until.store(until, Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
        self.verdict.store(verdict, Ordering::Relaxed);
    }

    /// Notes that the winner has run for some time.
    fn goes_on(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let since = self.since.fetch_add(time, Ordering::Relaxed);
        if since.saturating_add(time) >= self.until.load(Ordering::Relaxed) {
            self.single.clear();
            self.slices.clear();
            self.verdict.store(0, Ordering::Relaxed);
        }
    }
}

/// Runs a launch's CTAs in parts as long as the verdict is open.
pub(super) struct Pace<'a> {
    kernel: &'a NativeKernel,
    wanted: Specialisation,
    /// What the next part runs.
    pub(super) version: Specialisation,
    /// CTAs of the next part before the trial.
    part: u64,
    began: Option<(Instant, u64)>,
}

impl<'a> Pace<'a> {
    pub(super) fn new(wanted: Specialisation, kernel: &'a NativeKernel) -> Pace<'a> {
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
        let trial = &self.kernel.trial;
        self.version = trial.now(self.wanted);
        if trial.is_over() {
            // In parts, too: the next trial is to fall where the time goes.
            let part = self.part.min(left);
            self.began = Some((Instant::now(), part));
            return part;
        }
        let part = if trial.has_begun() {
            if !trial.is_turn_of_slices() {
                self.version = Specialisation::SINGLE.trusted(self.version.is_trusted());
            }
            TRIAL_PART
        } else {
            self.part
        };
        let part = part.min(left);
        // Compiling is not part of the time.
        self.kernel.compile(self.version);
        self.began = Some((Instant::now(), part));
        part
    }

    /// The part has run to its end.
    pub(super) fn done(&mut self) {
        let Some((began, ctas)) = self.began.take() else {
            return;
        };
        let trial = &self.kernel.trial;
        if trial.is_over() {
            trial.goes_on(began.elapsed());
            self.part *= 2;
        } else if trial.has_begun() {
            trial.note(self.version, began.elapsed(), ctas);
        } else {
            trial.wait(began.elapsed());
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

    /// A trial that has begun.
    fn begun() -> Trial {
        let trial = Trial::new(micros(1));
        trial.wait(micros(1));
        trial
    }

    #[test]
    fn slices_come_when_single_lanes_have_run_for_long_enough() {
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        let trial = Trial::new(micros(1000));
        assert_eq!(trial.now(wanted), Specialisation::SINGLE);
        trial.wait(micros(999));
        assert_eq!(trial.now(wanted), Specialisation::SINGLE);
        trial.wait(micros(1));
        assert_eq!(trial.now(wanted), wanted);
        assert!(!trial.is_over());
    }

    #[test]
    fn slices_that_are_there_are_tried_at_once() {
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        let mut trial = Trial::new(micros(100_000));
        trial.hurry();
        trial.wait(TRIAL - micros(1));
        assert_eq!(trial.now(wanted), Specialisation::SINGLE);
        trial.wait(micros(1));
        assert_eq!(trial.now(wanted), wanted);
        assert!(!trial.is_over());
    }

    #[test]
    fn the_faster_of_the_two_goes_on() {
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        // 100 microseconds a CTA by single lanes.
        for (slices, winner) in [(60, wanted), (120, wanted), (130, Specialisation::SINGLE)] {
            let trial = begun();
            for turn in 0..5 {
                assert!(!trial.is_over() || turn >= 4, "too early to tell: {turn}");
                trial.note(wanted, micros(slices * 2), 2);
                trial.note(Specialisation::SINGLE, micros(200), 2);
            }
            assert!(trial.is_over());
            assert_eq!(trial.now(wanted), winner, "{slices} microseconds");
        }
    }

    /// A trial that ends with a time for a CTA of slices; single lanes take 100 microseconds.
    fn tried(trial: &Trial, slices: u64) {
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        assert!(!trial.is_over());
        for _ in 0..4 {
            trial.note(wanted, micros(slices * 2), 2);
            trial.note(Specialisation::SINGLE, micros(200), 2);
        }
        assert!(trial.is_over());
    }

    #[test]
    fn an_unlucky_trial_is_not_the_last() {
        let trial = begun();
        tried(&trial, 400);
        // Twenty times what slices took.
        trial.goes_on(micros(63_999));
        assert!(trial.is_over());
        trial.goes_on(micros(1));
        tried(&trial, 70);
        trial.goes_on(micros(15_999));
        assert!(trial.is_over());
        trial.goes_on(micros(1));
        tried(&trial, 70);
        trial.goes_on(micros(63_999));
        assert!(trial.is_over());
        trial.goes_on(micros(1));
        assert!(!trial.is_over());
    }

    /// Each part may be all of a launch.
    #[test]
    fn small_launches_try_both() {
        let wanted = Specialisation::of([1, 1, 1], Widths::all(16));
        let trial = begun();
        let mut turns = 0;
        while !trial.is_over() {
            let (version, time) = match trial.is_turn_of_slices() {
                true => (wanted, 80),
                false => (Specialisation::SINGLE, 10),
            };
            trial.note(version, micros(time), 1);
            turns += 1;
            assert!(turns <= 100, "single lanes are never tried");
        }
        assert_eq!(trial.now(wanted), Specialisation::SINGLE);
    }

    #[test]
    fn without_patience_there_is_no_trial() {
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        let trial = Trial::new(Duration::ZERO);
        trial.goes_on(Duration::from_secs(1_000_000));
        assert!(trial.is_over());
        assert_eq!(trial.now(wanted), wanted);
    }
}
