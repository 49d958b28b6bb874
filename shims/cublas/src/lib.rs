//! `libmargay_cublas.so`: the functions of cuBLAS, cuBLASLt and cublasXt, computed on Margay's workers.
//!
//! The crates `margay-cublas-12`, `margay-cublas-13`, `margay-cublas-lt-12` and `margay-cublas-lt-13` export the functions
//! under NVIDIA's names; they get the addresses from [`margay_cublas_functions`]. `margay-cublas-api` contains the lists of
//! entry points, from which [`entries`] is generated. A function checks its arguments, makes a plan of `margay-blas`, and
//! submits it to the stream as native kernels of the driver ([`launch`]), so it runs in stream order on the driver's
//! workers, can be captured in graphs, and is seen by tools.
//!
//! Invariants:
//! - No panic propagates out of a function ([`entry`]).
//! - Handles are numbers in a table ([`handle`]). Addresses of the host are tested before they are read or written
//!   ([`host`]), and the driver checks the ranges of device memory ([`memory`]).
//! - No lock is held while a function of the program is called.

mod call;
mod copy;
mod driver;
mod entries;
mod entry;
mod factor;
#[cfg(test)]
mod fake;
mod gemm;
mod handle;
mod host;
mod launch;
mod legacy;
mod level1;
mod level1ex;
mod level2;
mod level3;
mod library;
mod log;
mod lt;
mod lt_log;
mod memory;
mod options;
mod status;
#[cfg(test)]
mod tests;
mod types;
mod xt;

pub use entries::margay_cublas_functions;
