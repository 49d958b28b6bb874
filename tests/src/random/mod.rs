//! Random kernels, which must have the same results on every engine.
//!
//! [`generate::kernel`] generates a kernel from a seed. Kernels contain nested divergence, loops,
//! barriers, collectives, shared memory and all types. [`machines::Bench`] runs the kernel in both
//! engines with several numbers of workers, in grid order and in reverse order, and compares all
//! bytes. [`reduce::reduce`] reduces a failing kernel. `cargo xtask generate` runs many kernels;
//! the tests run only a few kernels.

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

/// Number of kernels in a module.
pub const BATCH: usize = 16;

/// Returns the seed of the kernel with the index `index` in a run.
pub fn seed_of(run: u64, index: u64) -> u64 {
    numbers::Random::new(run ^ index.wrapping_mul(0xd134_2543_de82_ef95)).bits()
}

/// Runs the kernels with the indices `first .. first + count` of a run and returns the failures.
///
/// # Errors
///
/// The errors of building a runtime.
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

/// Reduces the kernel of a failure, and formats it with a description.
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
