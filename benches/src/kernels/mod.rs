//! The kernels: their data, their launches, and the expected results, which a plain loop in Rust computes.
//!
//! Some CUDA sources are programs in `tests/cuda`; the other CUDA sources are in `benches/cuda`. `benches/opencl` has
//! the same kernels in OpenCL, and `benches/c` has typical CPU implementations in C.

use crate::case::{Case, Set};

mod bfs;
mod black_scholes;
mod block_sums;
mod convolution;
mod elementwise;
mod gemm_half;
mod histogram;
mod mandelbrot;
mod matmul;
mod nbody;
mod radix_sort;
mod reduction;
mod rows;
mod saxpy;
mod scan;
mod second;
mod sha256;
mod spmv;
mod stencil;
mod stencil_tiled;
mod transpose;

/// The kernels of the first set, in the order of the rows of their table in the report.
pub const CASES: &[Case] = &[
    elementwise::ADD_IN_CACHE,
    elementwise::ADD_IN_MEMORY,
    elementwise::SAXPY_IN_CACHE,
    matmul::CASE,
    block_sums::BLOCKS,
    block_sums::WARPS,
    mandelbrot::CASE,
    stencil::IN_CACHE,
    stencil::IN_MEMORY,
    histogram::CASE,
    black_scholes::CASE,
    black_scholes::FAST,
    saxpy::CASE,
    reduction::TREE,
    reduction::SHUFFLE,
    scan::CASE,
    radix_sort::CASE,
    transpose::CASE,
    stencil_tiled::CASE,
    convolution::CASE,
    rows::SOFTMAX,
    rows::LAYER_NORM,
    gemm_half::TILED,
    gemm_half::MATRIX,
    spmv::CASE,
    bfs::CASE,
    nbody::CASE,
    sha256::CASE,
];

/// Returns the kernels of a set, in the order of the rows of their table in the report.
pub fn of(set: Set) -> &'static [Case] {
    match set {
        Set::First => CASES,
        Set::Second => second::CASES,
    }
}

/// Returns the kernels of all sets.
pub fn all() -> impl Iterator<Item = &'static Case> {
    Set::ALL.into_iter().flat_map(of)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{all, of};
    use crate::case::Set;
    use crate::comparison::wrong;
    use crate::contender::c::{C, Compiler};
    use crate::contender::margay::Margay;
    use crate::contender::opencl::Platform;

    #[test]
    fn each_kernel_belongs_to_its_set_and_has_its_own_name() {
        for set in Set::ALL {
            assert!(of(set).iter().all(|case| case.group.set() == set));
        }
        let names: BTreeSet<&str> = all().map(|case| case.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn kernels_are_right() {
        let margay = Margay::with_workers(Some(2)).expect("starts");
        assert_eq!(wrong(&margay), [""; 0]);
    }

    #[test]
    fn c_is_right() {
        let compiler =
            Compiler::any().expect("clang 15, gcc 12 or later: other tests need a C compiler too");
        let c = C::new(compiler, 3).expect("starts");
        assert_eq!(wrong(&c), [""; 0]);
    }

    #[test]
    fn opencl_is_right_or_says_that_it_is_missing() {
        match Platform::pocl() {
            Ok(platform) => {
                let device = platform.with_cores(1).expect("starts");
                assert_eq!(wrong(&device), [""; 0]);
            }
            Err(why) => assert!(why.contains("OpenCL"), "{why}"),
        }
    }
}
