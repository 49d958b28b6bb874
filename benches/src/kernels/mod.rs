//! The kernels, each beside the same loop in Rust.
//!
//! Most are checked-in programs of `tests/cuda`; the rest are in `benches/cuda`. Each loop is written as one would
//! in Rust: slices and iterators, the loop order that suits a CPU. [`crate::cpu`] compiles it for the machine.

use crate::case::Case;

mod black_scholes;
mod histogram;
mod mandelbrot;
mod matmul;
mod nbody;
mod reduction;
mod saxpy;
mod scan;
mod sha256;
mod stencil;
mod transpose;

/// All of them, in the order of the table.
pub const CASES: &[Case] = &[
    saxpy::CASE,
    reduction::TREE,
    reduction::SHUFFLE,
    scan::CASE,
    histogram::CASE,
    transpose::CASE,
    stencil::CASE,
    matmul::CASE,
    nbody::CASE,
    mandelbrot::CASE,
    black_scholes::CASE,
    sha256::CASE,
];

#[cfg(test)]
mod tests {
    use margay::Runtime;

    use super::CASES;
    use crate::case::Scale;

    #[test]
    fn kernels_and_loops_agree() {
        let runtime = Runtime::builder().workers(2).build().expect("starts");
        let wrong: Vec<String> = CASES
            .iter()
            .filter_map(|case| case.prepare(Scale::Small, &[&runtime]).err())
            .collect();
        assert_eq!(wrong, [""; 0]);
    }
}
