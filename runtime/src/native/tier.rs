//! Tier selection: chooses between scalar code and vector code for the CTAs of a kernel.
//!
//! Vector code takes longer to compile than scalar code. For this reason, vector code is compiled
//! only after scalar code has run for about the time that this compilation takes. After that, a
//! measurement run begins: scalar code and vector code alternate after every few CTAs, because CTAs
//! that are far apart in the grid can have different amounts of work. The faster code runs the
//! following CTAs. Scalar code can be several times as fast as vector code, for example if lanes
//! run loops of different lengths and read distant addresses. The results of a kernel do not depend
//! on the choice.
//!
//! A measurement can be wrong, for example if a worker had to wait for its processor or if the
//! measured CTAs had no work. For this reason, another measurement run begins after the faster code
//! has run for some time. The time between measurement runs grows as long as the same code is
//! faster. If a measurement run shows that the other code is now faster, the time between
//! measurement runs becomes the minimum again.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use margay_jit::Specialisation;

use super::exact::{ExactChoice, Next};
use super::kernel::{NativeKernel, Wanted};

/// In a measurement run, scalar code and vector code each run for at least this time. The next
/// constant is the minimum number of parts of launches ([`Rate`]) that each of them runs.
const MEASUREMENT: Duration = Duration::from_micros(500);
const MEASUREMENT_PARTS: u64 = 4;
/// Number of CTAs in a part of a measurement run.
const MEASUREMENT_PART: u64 = 2;
/// Scalar code is chosen if vector code takes more than 11/10 of the time of scalar code.
const WORSE: (u128, u128) = (11, 10);
/// The minimum number of CTAs in the first part of a launch, if no measurement run takes place. If a measurement has shown
/// how long a CTA takes, the first part takes at least the time in nanoseconds that the next constant states.
const FIRST_PART: u64 = 16;
const FIRST_PART_TIME: u128 = 50_000;
/// Number of nanoseconds for which the chosen code runs between the first two measurement runs, and
/// after a measurement run whose result differs from the previous result. After a measurement run
/// with the same result as the previous one, the time is multiplied by [`FARTHER`]. The time is
/// always at least [`LOST`] times the time that the slower code took in the last measurement run.
const BETWEEN: u64 = 10_000_000;
const FARTHER: u64 = 4;
const LOST: u64 = 20;

/// Measurements of scalar code or of vector code: its total running time, and how many CTAs and
/// parts it has run. A part is a group of CTAs of a launch; scalar and vector code can alternate
/// only between parts.
#[derive(Debug, Default)]
pub(super) struct Rate {
    nanoseconds: AtomicU64,
    ctas: AtomicU64,
    parts: AtomicU64,
}

impl Rate {
    pub(super) fn add(&self, time: Duration, ctas: u64) {
        let time = nanoseconds(time);
        self.nanoseconds.fetch_add(time, Ordering::Relaxed);
        self.ctas.fetch_add(ctas, Ordering::Relaxed);
        self.parts.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the measured time in nanoseconds and the number of CTAs that ran in this time.
    pub(super) fn get(&self) -> (u128, u128) {
        let time = self.nanoseconds.load(Ordering::Relaxed);
        (time.into(), self.ctas.load(Ordering::Relaxed).into())
    }

    fn clear(&self) {
        self.nanoseconds.store(0, Ordering::Relaxed);
        self.ctas.store(0, Ordering::Relaxed);
        self.parts.store(0, Ordering::Relaxed);
    }

    /// Returns the number of measured parts.
    pub(super) fn parts(&self) -> u64 {
        self.parts.load(Ordering::Relaxed)
    }

    /// Returns whether the measurement has taken long enough.
    pub(super) fn is_known(&self) -> bool {
        self.get().0 >= MEASUREMENT.as_nanos() && self.parts() >= MEASUREMENT_PARTS
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The measured times of a kernel's scalar and vector code, and the choice between them.
#[derive(Debug)]
pub(super) struct TierSelection {
    /// Compile budget: number of nanoseconds for which scalar code runs before vector code is compiled.
    compile_budget: AtomicU64,
    /// Number of nanoseconds for which scalar code has run before the first measurement run.
    waited: AtomicU64,
    /// Measurements of scalar code; the next field contains the measurements of vector code.
    single: Rate,
    slices: Rate,
    verdict: AtomicU8,
    /// The value that the previous measurement run assigned to `verdict`.
    last: AtomicU8,
    /// Number of nanoseconds for which the chosen code has run since the last measurement run. When it reaches the
    /// value of the next field, the next measurement run begins.
    since: AtomicU64,
    until: AtomicU64,
}

impl TierSelection {
    /// The verdict (the result of a measurement run) that vector code is faster. The next constant
    /// is the verdict that scalar code is faster. The value 0 means that there is no verdict.
    const SLICES: u8 = 1;
    const SINGLE: u8 = 2;

    /// Creates a tier selection whose first measurement run begins when the compile budget is used up. If the budget is
    /// zero, vector code always runs.
    pub(super) fn new(compile_budget: Duration) -> TierSelection {
        TierSelection {
            compile_budget: AtomicU64::new(nanoseconds(compile_budget)),
            waited: AtomicU64::new(0),
            single: Rate::default(),
            slices: Rate::default(),
            verdict: AtomicU8::new(if compile_budget.is_zero() {
                TierSelection::SLICES
            } else {
                0
            }),
            last: AtomicU8::new(0),
            since: AtomicU64::new(0),
            until: AtomicU64::new(if compile_budget.is_zero() {
                u64::MAX
            } else {
                0
            }),
        }
    }

    /// Creates a tier selection in which vector code runs first, and the first measurement run begins later.
    pub(super) fn vector_first() -> TierSelection {
        TierSelection {
            until: AtomicU64::new(BETWEEN),
            ..TierSelection::new(Duration::ZERO)
        }
    }

    /// Shortens the compile budget, because the disk cache contains the vector code. The
    /// measurement run then begins after scalar code has run for at most the time [`MEASUREMENT`].
    pub(super) fn hurry(&self) {
        let least = nanoseconds(MEASUREMENT);
        self.compile_budget.fetch_min(least, Ordering::Relaxed);
    }

    /// Replaces an estimate of the compile budget. Has no effect if vector code runs without a compile budget.
    pub(super) fn set_budget(&self, compile_budget: Duration) {
        if self.compile_budget.load(Ordering::Relaxed) != 0 {
            let budget = nanoseconds(compile_budget);
            self.compile_budget.store(budget, Ordering::Relaxed);
        }
    }

    /// Returns whether vector code runs next, or in the current measurement run.
    pub(super) fn needs_vector_code(&self) -> bool {
        match self.verdict.load(Ordering::Relaxed) {
            TierSelection::SLICES => true,
            TierSelection::SINGLE => false,
            _ => self.has_begun(),
        }
    }

    /// Returns the specialisation that runs next: `wanted` or, if scalar code must run, the
    /// specialisation for scalar code. During a measurement run, the result is `wanted`, and
    /// [`TieredLaunch::part`] chooses.
    pub(super) fn now(&self, wanted: Specialisation) -> Specialisation {
        let single = Specialisation::SINGLE.trusted(wanted.is_trusted());
        match self.verdict.load(Ordering::Relaxed) {
            TierSelection::SLICES => wanted,
            TierSelection::SINGLE => single,
            _ if self.has_begun() => wanted,
            _ => single,
        }
    }

    fn has_begun(&self) -> bool {
        self.waited.load(Ordering::Relaxed) >= self.compile_budget.load(Ordering::Relaxed)
    }

    /// Returns whether vector code, and not scalar code, runs the next part of the measurement run.
    /// The parts of all launches are counted together, because a launch may be so small that it has
    /// only one part.
    fn is_turn_of_slices(&self) -> bool {
        self.slices.parts() <= self.single.parts()
    }

    /// Returns whether there is a verdict.
    pub(super) fn is_over(&self) -> bool {
        self.verdict.load(Ordering::Relaxed) != 0
    }

    /// Adds `time` to the time for which scalar code has run before the first measurement run.
    fn wait(&self, time: Duration) {
        let time = nanoseconds(time);
        self.waited.fetch_add(time, Ordering::Relaxed);
    }

    /// Adds to the measurements of the current measurement run: `ctas` CTAs took the time `time`.
    /// When both kinds of code have been measured, sets the verdict.
    fn note(&self, specialisation: Specialisation, time: Duration, ctas: u64) {
        if specialisation.is_single() {
            self.single.add(time, ctas);
        } else {
            self.slices.add(time, ctas);
        }
        if !self.single.is_known() || !self.slices.is_known() {
            return;
        }
        let ((single, of_single), (slices, of_slices)) = (self.single.get(), self.slices.get());
        // The times per CTA of both kinds of code, multiplied by a common denominator and by the factors in `WORSE`.
        let theirs = single * of_slices * WORSE.0;
        let ours = slices * of_single * WORSE.1;
        let (verdict, lost) = if ours > theirs {
            (TierSelection::SINGLE, slices)
        } else {
            (TierSelection::SLICES, single)
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

    /// Returns the number of CTAs in the first part of a launch.
    fn first_part(&self) -> u64 {
        let rate = match self.verdict.load(Ordering::Relaxed) {
            TierSelection::SLICES => &self.slices,
            TierSelection::SINGLE => &self.single,
            _ => return FIRST_PART,
        };
        let (time, ctas) = rate.get();
        let ctas = (FIRST_PART_TIME * ctas).checked_div(time).unwrap_or(0);
        u64::try_from(ctas).unwrap_or(u64::MAX).max(FIRST_PART)
    }

    /// Adds `time` to the time for which the chosen code has run since the last measurement run. If
    /// this time has reached the time between measurement runs, begins the next measurement run.
    fn goes_on(&self, time: Duration) {
        let time = nanoseconds(time);
        let since = self.since.fetch_add(time, Ordering::Relaxed);
        if since.saturating_add(time) >= self.until.load(Ordering::Relaxed) {
            self.single.clear();
            self.slices.clear();
            self.verdict.store(0, Ordering::Relaxed);
        }
    }
}

/// Divides a worker's range of the CTAs of a launch into parts, and chooses for each part whether scalar or vector code
/// runs it.
pub(super) struct TieredLaunch<'a> {
    kernel: &'a NativeKernel,
    wanted: Wanted,
    /// What the choice of code for the shape of the blocks says about the next part; `None` if it is not asked.
    next: Option<Next>,
    /// The specialisation that runs the next part.
    pub(super) specialisation: Specialisation,
    /// Number of CTAs in the next part, if no measurement run takes place.
    part: u64,
    began: Option<(Instant, u64)>,
}

impl<'a> TieredLaunch<'a> {
    pub(super) fn new(wanted: Wanted, kernel: &'a NativeKernel) -> TieredLaunch<'a> {
        TieredLaunch {
            kernel,
            wanted,
            next: None,
            specialisation: wanted.scalar(),
            part: kernel.tier_selection.first_part(),
            began: None,
        }
    }

    /// Returns the specialisation for the shape of the launch's blocks and its choice, if there is one and vector code runs
    /// next.
    fn exact(&self) -> Option<(Specialisation, &'a ExactChoice)> {
        if self.specialisation.is_single() {
            return None;
        }
        let (exact, choice) = self.kernel.exact(self.wanted.block)?;
        Some((exact.trusted(self.wanted.trusted), choice))
    }

    /// Chooses the specialisation of the next part, begins to measure the time of the part, and returns its number of
    /// CTAs. `left` is the number of remaining CTAs.
    pub(super) fn part(&mut self, left: u64) -> u64 {
        let selection = &self.kernel.tier_selection;
        // The code is compiled here so that the measured time does not include the compilation.
        self.specialisation = self.kernel.compiled_now(self.wanted);
        self.next = None;
        if selection.is_over() {
            if let Some((exact, choice)) = self.exact() {
                let next = choice.next();
                self.next = Some(next);
                if matches!(next, Next::Exact | Next::Measured(true)) {
                    self.specialisation = exact;
                }
                if matches!(next, Next::Measured(_)) {
                    // The code is compiled here so that the measured time does not include the compilation.
                    self.kernel.compile(self.specialisation);
                    let part = MEASUREMENT_PART.min(left);
                    self.began = Some((Instant::now(), part));
                    return part;
                }
            }
            // The launch still runs in parts, so that the next measurement run can begin before a long launch ends.
            let part = self.part.min(left);
            self.began = Some((Instant::now(), part));
            return part;
        }
        let part = if selection.has_begun() {
            if !selection.is_turn_of_slices() {
                self.specialisation =
                    Specialisation::SINGLE.trusted(self.specialisation.is_trusted());
            } else if let Some((exact, choice)) = self.exact()
                && choice.next() == Next::Exact
            {
                self.specialisation = exact;
            }
            MEASUREMENT_PART
        } else {
            self.part
        };
        let part = part.min(left);
        self.kernel.compile(self.specialisation);
        self.began = Some((Instant::now(), part));
        part
    }

    /// Records that the part that the last call of [`TieredLaunch::part`] began is complete.
    pub(super) fn done(&mut self) {
        let Some((began, ctas)) = self.began.take() else {
            return;
        };
        if !self.record(began.elapsed(), ctas) {
            self.part = self.part.saturating_mul(2);
        }
    }

    /// Records that the part ended early: it ran only the first `ctas` CTAs. The last of these CTAs left its phases, for
    /// example because its lanes yielded, and is complete as well. Its whole time counts, because other CTAs of the
    /// kernel probably leave their phases, too.
    pub(super) fn done_early(&mut self, ctas: u64) {
        if let Some((began, _)) = self.began.take() {
            self.record(began.elapsed(), ctas);
        }
    }

    /// Records the time of a part. Returns whether the part belongs to a measurement run.
    fn record(&self, time: Duration, ctas: u64) -> bool {
        let selection = &self.kernel.tier_selection;
        let measured = !selection.is_over() && selection.has_begun();
        if let Some(next) = self.next
            && let Some((_, choice)) = self.kernel.exact(self.wanted.block)
        {
            choice.note(next, time, ctas);
            if matches!(next, Next::Measured(_)) {
                return true;
            }
        }
        if selection.is_over() {
            selection.goes_on(time);
        } else if measured {
            selection.note(self.specialisation, time, ctas);
        } else {
            selection.wait(time);
        }
        measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use margay_jit::Widths;

    fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// Returns a tier selection whose measurement run has begun.
    fn begun() -> TierSelection {
        let selection = TierSelection::new(micros(1));
        selection.wait(micros(1));
        selection
    }

    #[test]
    fn the_first_part_of_a_launch_takes_a_minimum_time() {
        let selection = begun();
        assert_eq!(selection.first_part(), FIRST_PART);
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        for _ in 0..MEASUREMENT_PARTS {
            selection.note(Specialisation::SINGLE, micros(300), 1);
            selection.note(wanted, micros(300), 600);
        }
        assert!(selection.is_over());
        assert_eq!(selection.first_part(), 100);
    }

    #[test]
    fn slices_come_when_single_lanes_have_run_for_long_enough() {
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        let selection = TierSelection::new(micros(1000));
        assert_eq!(selection.now(wanted), Specialisation::SINGLE);
        selection.wait(micros(999));
        assert_eq!(selection.now(wanted), Specialisation::SINGLE);
        selection.wait(micros(1));
        assert_eq!(selection.now(wanted), wanted);
        assert!(!selection.is_over());
    }

    #[test]
    fn single_lanes_are_tried_after_vector_code_that_ran_first() {
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        let selection = TierSelection::vector_first();
        assert_eq!(selection.now(wanted), wanted);
        selection.goes_on(Duration::from_nanos(BETWEEN - 1));
        assert!(selection.is_over());
        selection.goes_on(Duration::from_nanos(1));
        assert!(!selection.is_over() && selection.has_begun());
        tried(&selection, 1000);
        assert_eq!(selection.now(wanted), Specialisation::SINGLE);
        let always = TierSelection::new(Duration::ZERO);
        always.goes_on(Duration::from_secs(1000));
        assert!(always.is_over());
    }

    #[test]
    fn slices_that_are_there_are_tried_at_once() {
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        let selection = TierSelection::new(micros(100_000));
        selection.hurry();
        selection.wait(MEASUREMENT - micros(1));
        assert_eq!(selection.now(wanted), Specialisation::SINGLE);
        selection.wait(micros(1));
        assert_eq!(selection.now(wanted), wanted);
        assert!(!selection.is_over());
    }

    #[test]
    fn the_faster_of_the_two_goes_on() {
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        // Scalar code takes 100 microseconds for a CTA.
        for (slices, winner) in [(60, wanted), (108, wanted), (115, Specialisation::SINGLE)] {
            let selection = begun();
            for turn in 0..5 {
                assert!(
                    !selection.is_over() || turn >= 4,
                    "too early to tell: {turn}"
                );
                selection.note(wanted, micros(slices * 2), 2);
                selection.note(Specialisation::SINGLE, micros(200), 2);
            }
            assert!(selection.is_over());
            assert_eq!(selection.now(wanted), winner, "{slices} microseconds");
        }
    }

    /// Completes a measurement run in which a CTA takes `slices` microseconds with vector code and
    /// 100 microseconds with scalar code.
    fn tried(selection: &TierSelection, slices: u64) {
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        assert!(!selection.is_over());
        for _ in 0..4 {
            selection.note(wanted, micros(slices * 2), 2);
            selection.note(Specialisation::SINGLE, micros(200), 2);
        }
        assert!(selection.is_over());
    }

    #[test]
    fn an_unlucky_measurement_run_is_not_the_last() {
        let selection = begun();
        tried(&selection, 400);
        // The time between measurement runs is 64,000 microseconds: 20 times the time that vector code took.
        selection.goes_on(micros(63_999));
        assert!(selection.is_over());
        selection.goes_on(micros(1));
        tried(&selection, 70);
        selection.goes_on(micros(15_999));
        assert!(selection.is_over());
        selection.goes_on(micros(1));
        tried(&selection, 70);
        selection.goes_on(micros(63_999));
        assert!(selection.is_over());
        selection.goes_on(micros(1));
        assert!(!selection.is_over());
    }

    /// Tests launches with so few CTAs that each launch consists of only one part.
    #[test]
    fn small_launches_try_both() {
        let wanted = Specialisation::of([1, 1, 1], Widths::all(16));
        let selection = begun();
        let mut turns = 0;
        while !selection.is_over() {
            let (specialisation, time) = match selection.is_turn_of_slices() {
                true => (wanted, 80),
                false => (Specialisation::SINGLE, 10),
            };
            selection.note(specialisation, micros(time), 1);
            turns += 1;
            assert!(turns <= 100, "single lanes are never tried");
        }
        assert_eq!(selection.now(wanted), Specialisation::SINGLE);
    }

    #[test]
    fn without_a_compile_budget_there_is_no_measurement_run() {
        let wanted = Specialisation::of([32, 1, 1], Widths::all(16));
        let selection = TierSelection::new(Duration::ZERO);
        selection.goes_on(Duration::from_secs(1_000_000));
        assert!(selection.is_over());
        assert_eq!(selection.now(wanted), wanted);
    }
}
