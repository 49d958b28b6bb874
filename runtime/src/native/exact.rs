//! The choice between the code of a kernel for all shapes of blocks and its code for one shape.
//!
//! Code for one shape takes longer to compile, and is not always faster. When the other code has run for about the time that
//! the compilation takes, both run in turns and are measured, and the faster one runs from then on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use super::tier::Rate;

/// The number of shapes for which a kernel has code of its own: the first ones that are launched.
const SHAPES: usize = 4;

/// The choices for the shapes of a kernel.
#[derive(Debug)]
pub(super) struct ExactShapes {
    /// The number of nanoseconds for which the general code runs before code for a shape is compiled.
    budget: u64,
    /// Whether the code for a shape always runs.
    is_preferred: bool,
    shapes: [OnceLock<([u32; 3], ExactChoice)>; SHAPES],
}

impl ExactShapes {
    pub(super) fn new(budget: Duration, is_preferred: bool) -> ExactShapes {
        ExactShapes {
            is_preferred,
            budget: u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX),
            shapes: Default::default(),
        }
    }

    /// Returns the choice for a shape; `None` if the kernel has code for other shapes only.
    pub(super) fn choice(&self, block: [u32; 3]) -> Option<&ExactChoice> {
        let made = || (block, ExactChoice::new(self.budget, self.is_preferred));
        let mut known = self.shapes.iter().map(|cell| cell.get_or_init(made));
        let found = known.find(|(shape, _)| *shape == block);
        found.map(|(_, choice)| choice)
    }
}

/// The measurements of both kinds of code for a shape, and the choice.
#[derive(Debug)]
pub(super) struct ExactChoice {
    budget: u64,
    /// The number of nanoseconds for which the general code has run.
    waited: AtomicU64,
    general: Rate,
    exact: Rate,
    verdict: AtomicU8,
}

/// Which code runs the next part of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// The general code.
    General,
    /// The code for the shape.
    Exact,
    /// A part that is measured: of the code for the shape if the flag is set.
    Measured(bool),
}

impl ExactChoice {
    const GENERAL: u8 = 1;
    const EXACT: u8 = 2;

    fn new(budget: u64, is_preferred: bool) -> ExactChoice {
        ExactChoice {
            budget,
            waited: AtomicU64::new(0),
            general: Rate::default(),
            exact: Rate::default(),
            verdict: AtomicU8::new(match is_preferred {
                true => ExactChoice::EXACT,
                false => 0,
            }),
        }
    }

    /// Returns which code runs next, if vector code runs.
    pub(super) fn next(&self) -> Next {
        match self.verdict.load(Ordering::Relaxed) {
            ExactChoice::GENERAL => Next::General,
            ExactChoice::EXACT => Next::Exact,
            _ if self.waited.load(Ordering::Relaxed) < self.budget => Next::General,
            _ => Next::Measured(self.exact.parts() <= self.general.parts()),
        }
    }

    /// Records that the code that [`ExactChoice::next`] has chosen took `time` for `ctas` CTAs.
    pub(super) fn note(&self, ran: Next, time: Duration, ctas: u64) {
        match ran {
            Next::Exact => return,
            Next::General => {
                let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                self.waited.fetch_add(time, Ordering::Relaxed);
                return;
            }
            Next::Measured(true) => self.exact.add(time, ctas),
            Next::Measured(false) => self.general.add(time, ctas),
        }
        if self.general.is_known() && self.exact.is_known() {
            let ((general, of_general), (exact, of_exact)) = (self.general.get(), self.exact.get());
            let verdict = match exact * of_general < general * of_exact {
                true => ExactChoice::EXACT,
                false => ExactChoice::GENERAL,
            };
            self.verdict.store(verdict, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a kernel until there is a choice. Both kinds of code take these numbers of microseconds for a CTA.
    fn chosen(general: u64, exact: u64) -> Next {
        let shapes = ExactShapes::new(Duration::from_micros(100), false);
        let choice = shapes.choice([32, 8, 1]).expect("the first shape");
        assert_eq!(choice.next(), Next::General);
        choice.note(Next::General, Duration::from_micros(100), 1);
        for _ in 0..10_000 {
            let next = choice.next();
            let Next::Measured(is_exact) = next else {
                return next;
            };
            let micros = if is_exact { exact } else { general };
            choice.note(next, Duration::from_micros(2 * micros), 2);
        }
        panic!("no choice");
    }

    #[test]
    fn the_faster_code_is_chosen() {
        assert_eq!(chosen(10, 9), Next::Exact);
        assert_eq!(chosen(9, 10), Next::General);
    }

    #[test]
    fn only_the_first_shapes_have_code_of_their_own() {
        let shapes = ExactShapes::new(Duration::ZERO, true);
        let known = |x: u32| shapes.choice([x, 1, 1]).is_some();
        assert!((1..=4).all(|n| known(32 * n)));
        assert!(!known(160));
        assert!(known(64));
        let choice = shapes.choice([32, 1, 1]).expect("the first shape");
        assert_eq!(choice.next(), Next::Exact);
    }
}
