//! Dense linear algebra on the CPU: the computations behind Margay's replacement of cuBLAS and cuBLASLt.
//!
//! The crate knows nothing about CUDA. A routine takes a struct of arguments and returns a [`Plan`]: stages that run
//! one after another, each with a number of tasks that may run in any order and in parallel. The caller runs the tasks
//! on its own threads. A plan can run again: its tasks read vectors, matrices, pointer arrays and scalars at an address
//! ([`Scalar::At`]) when they run.
//!
//! | module | routines |
//! |---|---|
//! | [`level1`] | vectors: `dot`, `axpy`, `nrm2`, `scal`, `asum`, `iamax`, `copy`, `swap`, `rot`, `rotg`, `rotm`, `rotmg` |
//! | [`level1_ex`] | the same for vectors of mixed types |
//! | [`level2`] | matrices and vectors: `gemv`, `gbmv`, `ger`, `symv`, `syr`, `syr2`, `trmv`, `trsv`, their Hermitian forms |
//! | [`level3`] | matrices: `gemm`, `symm`, `syrk`, `syr2k`, `syrkx`, `trmm`, `trsm`, their Hermitian forms |
//! | [`products`] | matrix products of mixed types: `gemm_ex`, `gemm_grouped_ex`, `syrk_ex`, `uint8_gemm_bias` |
//! | [`batched`] | batches: `gemm`, `gemv`, `gemv_ex`, `trsm` |
//! | [`extra`] | `geam`, `dgmm`, `tpttr`, `trttp` |
//! | [`factor`] | batches of factorisations: `getrf`, `getrs`, `getri`, `matinv`, `geqrf`, `gels` |
//! | [`matmul`] | the product of cuBLASLt with layouts, scales and epilogues, and its matrix transform |
//!
//! # Conventions
//!
//! - Matrices are column-major. Names of arguments are those of BLAS: `m`, `n`, `k`, `lda`, `incx`.
//! - The caller checks dimensions: leading dimensions are at least the number of rows, increments of level 2 are not
//!   zero, and all elements lie in memory that stays valid until the plan has run for the last time.
//! - A pointer to a vector is its lowest address, as in BLAS: with a negative increment, element 0 is the last in memory.
//!   A result must not overlap an operand, except where a routine's documentation allows it.
//! - A dimension of zero is allowed and gives what the reference BLAS gives: nothing, or a scaled result.
//! - `beta = 0` does not read the old result, so NaN in it disappears. `alpha = 0` does not read the operands.
//! - Results do not depend on the number of threads or on the order of the tasks: tiles and the order of
//!   additions depend only on dimensions, types and the instruction set of the CPU.
//! - Types: `f32`, `f64`, `Complex<f32>`, `Complex<f64>` ([`Element`]). Mixed routines name types by [`DataType`], whose
//!   numbers are those of `cudaDataType_t`. Products of 16-bit and 8-bit floating-point types accumulate in `f32`, those
//!   of 8-bit integers in `i32`, which wraps.

pub mod batched;
mod columns;
pub mod complex;
mod core;
pub mod data_type;
pub mod element;
pub mod extra;
pub mod factor;
mod kernels;
mod lanes;
pub mod level1;
pub mod level1_ex;
pub mod level2;
pub mod level3;
pub mod matmul;
mod matrix_vector;
mod operands;
pub mod options;
pub mod plan;
pub mod products;
mod rank_one;
mod reduce;
mod rotations;
pub mod scalar;
mod simd;
mod storage;
mod triangular;
mod vector;
mod vector_routines;

pub use complex::Complex;
pub use data_type::DataType;
pub use element::{Element, Real};
pub use options::{Conjugation, Diagonal, Form, Operation, Side, Symmetry, Triangle};
pub use plan::{Plan, Stage};
pub use scalar::{AnyScalar, Pointers, Scalar};
