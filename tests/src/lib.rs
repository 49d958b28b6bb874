//! Code that the project's tests share: conformance data, bodies of the fuzz targets, literal cases as file tests, coverage of the file tests.

pub mod conformance;
pub mod fuzz;
mod fuzz_driver;
mod fuzz_images;
mod fuzz_kernels;
mod fuzz_process;
pub mod literal;
pub mod ptx_files;
pub mod random;
pub mod sweep;
