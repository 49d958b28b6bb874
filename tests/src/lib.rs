//! What the project's tests share: conformance data, bodies of the fuzz targets, what the file tests cover.

pub mod conformance;
pub mod fuzz;
mod fuzz_driver;
mod fuzz_images;
mod fuzz_kernels;
mod fuzz_process;
pub mod ptx_files;
pub mod random;
pub mod sweep;
