//! Sweeps: every input of a numeric instruction, or those that are hard, through native code.
//!
//! Each row of [`mod@rows`] is an instruction with its inputs and a judge. Approximate functions are measured against
//! the host's `f64` functions, in the unit in which the PTX ISA bounds them; correctly rounded ones are judged by
//! exact comparison with the neighbours of their result ([`mod@format`]), which shares no code with `margay_ops::meaning`.
//! `cargo xtask sweep` runs all inputs and writes `docs/accuracy.md`; the tests run samples.

pub mod approx;
pub mod doubles;
pub mod exact;
pub mod format;
pub mod inputs;
pub mod kernel;
pub mod oracle;
pub mod report;
pub mod rows;
pub mod run;
pub mod tally;

pub use rows::{Row, rows};
pub use run::{Depth, Machine};
pub use tally::Tally;

/// Says what is wrong with results, or how far off they are.
pub trait Judge: Send + Sync {
    /// One result.
    fn one(&self, inputs: &[u64], got: u64, tally: &mut Tally);

    /// The results of `start`, `start + step` and so on.
    fn ramp(&self, start: u32, step: u32, results: &[u32], tally: &mut Tally);
}

impl<F: Fn(&[u64], u64, &mut Tally) + Send + Sync> Judge for F {
    fn one(&self, inputs: &[u64], got: u64, tally: &mut Tally) {
        self(inputs, got, tally);
    }

    // Compiled for each judge: billions of results come this way.
    fn ramp(&self, start: u32, step: u32, results: &[u32], tally: &mut Tally) {
        let mut input = start;
        for &got in results {
            self(&[input.into()], got.into(), tally);
            input = input.wrapping_add(step);
        }
    }
}

/// The judge of a row.
pub type Check = Box<dyn Judge>;
