//! Sweeps. A sweep runs a numeric instruction in native code with every input, or with a sample of
//! inputs that includes difficult inputs, and checks the results.
//!
//! Each row of the table in [`mod@rows`] contains an instruction, its inputs and a checker of its
//! results. Approximate functions are compared with the host's `f64` functions, and errors are
//! measured in the unit of the PTX ISA's bound. Correctly rounded functions are checked by exact
//! comparison with the neighbours of the result ([`mod@format`]) or compared with the crate
//! `rustc_apfloat` ([`mod@oracle`]). The checkers share no code with `margay_ops::meaning`. `cargo
//! xtask sweep` runs all inputs and writes `docs/accuracy.md`; the tests run samples.

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

/// A checker of results. It records wrong results and the errors of approximate results.
pub trait Judge: Send + Sync {
    /// Checks one result.
    fn one(&self, inputs: &[u64], got: u64, tally: &mut Tally);

    /// Checks `results`, the results for the inputs `start`, `start + step` and so on.
    fn ramp(&self, start: u32, step: u32, results: &[u32], tally: &mut Tally);
}

impl<F: Fn(&[u64], u64, &mut Tally) + Send + Sync> Judge for F {
    fn one(&self, inputs: &[u64], got: u64, tally: &mut Tally) {
        self(inputs, got, tally);
    }

    // Compiled separately for each checker, because billions of results are checked here.
    fn ramp(&self, start: u32, step: u32, results: &[u32], tally: &mut Tally) {
        let mut input = start;
        for &got in results {
            self(&[input.into()], got.into(), tally);
            input = input.wrapping_add(step);
        }
    }
}

/// The checker of the results of a row's instruction.
pub type Check = Box<dyn Judge>;
