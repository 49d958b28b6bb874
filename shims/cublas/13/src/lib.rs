//! `libcublas.so.13`: exports the functions of `libmargay_cublas.so` under the names of this library.

#[path = "../../exports.rs"]
pub mod exports;

/// The number of this library in `margay_cublas_functions`.
const LIBRARY: u32 = 0;
/// The CUDA version to which this library belongs.
const TOOLKIT: u32 = 13;
