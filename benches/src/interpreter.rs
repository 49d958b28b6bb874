//! Compares the times of the interpreter with those of native code. Both engines run the same
//! kernels with the same data on one worker.

use std::time::Instant;

use margay::{EngineChoice, Runtime};
use serde::Serialize;

use crate::case::{Case, Scale};
use crate::comparison::Prepared;
use crate::kernels::CASES;
use crate::measure::{self, Time};

/// Parts of the names of the measured kernels. Together, the kernels use arithmetic, shared memory, barriers, atomics
/// and divergent branches.
const NAMES: [&str; 9] = [
    "matrix product, tiled",
    "block reduction",
    "Mandelbrot set",
    "histogram",
    "Black-Scholes",
    "scan",
    "breadth-first search",
    "n-body",
    "SHA-256",
];

/// Number of measured runs in the interpreter. The number is small because these runs take long.
const RUNS: usize = 3;

/// The times of a kernel on both engines.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Interpreted {
    pub(crate) name: &'static str,
    pub(crate) data: &'static str,
    /// Seconds of a run in native code.
    pub(crate) native: Time,
    /// Seconds of a run in the interpreter: the median of [`RUNS`] runs.
    pub(crate) interpreted: f64,
}

impl Interpreted {
    /// Returns the interpreter's time divided by that of native code.
    pub(crate) fn ratio(&self) -> f64 {
        self.interpreted / self.native.median
    }
}

fn runtime(engine: EngineChoice) -> Result<Runtime, String> {
    let built = Runtime::builder().workers(1).engine(engine).build();
    built.map_err(|e| e.to_string())
}

/// Measures the kernels of [`NAMES`] on both engines. Before a kernel is timed on an engine, its
/// results on this engine are compared with the expected results.
///
/// # Errors
/// Returns an error if a runtime does not start or a kernel fails.
pub(crate) fn measure(scale: Scale) -> Result<Vec<Interpreted>, String> {
    let native = runtime(EngineChoice::Native)?;
    let interpreter = runtime(EngineChoice::Interpreter)?;
    let case_of = |name: &&str| CASES.iter().find(|case| case.name.contains(name));
    let cases: Vec<&Case> = NAMES.iter().filter_map(case_of).collect();
    let one = |case: &Case| {
        margay::files::tell(format_args!("{}", case.name));
        let mut ready = Prepared::new(case, scale, &native)?;
        let native = measure::alone(|| ready.run());
        let mut ready = Prepared::new(case, scale, &interpreter)?;
        let mut times: Vec<f64> = (0..RUNS)
            .map(|_| {
                let started = Instant::now();
                ready.run();
                started.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        Ok(Interpreted {
            name: case.name,
            data: match scale {
                Scale::Full => case.size,
                Scale::Small => "a little",
            },
            native,
            interpreted: times[RUNS / 2],
        })
    };
    cases.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_a_kernel() {
        for name in NAMES {
            assert!(CASES.iter().any(|case| case.name.contains(name)), "{name}");
        }
    }
}
