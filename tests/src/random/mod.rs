//! Random kernels, which must have the same results in native code and in the interpreter.
//!
//! [`generate::kernel`] generates a kernel from a seed. Kernels contain nested divergence, loops,
//! barriers, collectives and shared memory, and compute with integers of 8 to 64 bits and with
//! `f16`, `f32` and `f64`. [`machines::Bench`] runs the kernel with native code and with the
//! interpreter, with several numbers of workers, in grid order and in reverse order, and compares
//! all bytes of the results. [`reduce::reduce`] makes a failing kernel as short as possible. `cargo
//! xtask generate` runs many kernels; the tests run only a few kernels.

mod functions;
pub mod generate;
pub mod layout;
pub mod machines;
mod memory;
pub mod numbers;
pub mod program;
pub mod reduce;
pub mod templates;
mod warps;
pub mod write;

use machines::{Bench, Failure};
use program::Kernel;

/// Number of kernels that are compiled together as one module.
pub const BATCH: usize = 16;

/// Returns the seed of the kernel with the index `index` in the run with the seed `run`.
pub fn seed_of(run: u64, index: u64) -> u64 {
    numbers::Random::new(run ^ index.wrapping_mul(0xd134_2543_de82_ef95)).bits()
}

/// Runs the kernels with the indices `first .. first + count` of the run with the seed `run`, and
/// returns the failures.
///
/// # Errors
///
/// Returns an error if a runtime cannot be created.
pub fn run(
    bench: &mut Bench,
    run: u64,
    first: u64,
    count: usize,
) -> Result<Vec<Failure>, margay::Error> {
    let mut failures = Vec::new();
    let seeds: Vec<u64> = (0..count as u64).map(|i| seed_of(run, first + i)).collect();
    for batch in seeds.chunks(BATCH) {
        let kernels: Vec<Kernel> = batch.iter().map(|&seed| generate::kernel(seed)).collect();
        failures.extend(bench.run(&kernels)?);
    }
    Ok(failures)
}

/// Makes the kernel of a failure as short as possible, and returns its text with a description of
/// the failure.
pub fn report(bench: &mut Bench, failure: &Failure) -> String {
    let mut last = failure.clone();
    reduce::reduce(&failure.kernel, |kernel| {
        match bench.fails(kernel, failure.setting) {
            // Smaller grids have smaller outputs, so reduced kernels can have wrong addresses.
            Ok(Some(found)) if found.without_result == failure.without_result => {
                last = found;
                true
            }
            _ => false,
        }
    });
    let kernel = &last.kernel;
    let text = write::kernel(kernel);
    format!(
        "// seed {:#018x}; {}: {}\n// reduced: {}\n// grid {:?}, block {:?}\n{}{}",
        kernel.seed,
        failure.setting,
        failure.what,
        last.what,
        kernel.grid.to_array(),
        kernel.block.to_array(),
        write::header(&text),
        text,
    )
}
