//! Tests of the routines against direct computation with more precision, and of what does not depend on threads.

#![allow(
    clippy::excessive_precision,
    clippy::needless_range_loop,
    reason = "expected values and references are written like their formulas"
)]

#[path = "blas/exact.rs"]
mod exact;
#[path = "blas/extra.rs"]
mod extra;
#[path = "blas/factor.rs"]
mod factor;
#[path = "blas/level1.rs"]
mod level1;
#[path = "blas/level2.rs"]
mod level2;
#[path = "blas/level3.rs"]
mod level3;
#[path = "blas/matmul.rs"]
mod matmul;
#[path = "blas/matrix.rs"]
mod matrix;
#[path = "blas/products.rs"]
mod products;
#[path = "blas/run.rs"]
mod run;
#[path = "blas/scaled.rs"]
mod scaled;
