//! The kernels: their data, their launches, and the expected results, which a plain loop in Rust computes.
//!
//! Some CUDA sources are programs in `tests/cuda`; the other CUDA sources are in `benches/cuda`. `benches/opencl` has
//! the same kernels in OpenCL, and `benches/c` has typical CPU implementations in C.

use crate::case::Case;

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
mod sha256;
mod spmv;
mod stencil;
mod stencil_tiled;
mod transpose;

/// All kernels, in the order of the rows of the kernel table in the report.
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

#[cfg(test)]
mod tests {
    use crate::comparison::wrong;
    use crate::contender::c::{C, Compiler};
    use crate::contender::margay::Margay;
    use crate::contender::opencl::Platform;

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
