//! What the project's tests share: conformance data, bodies of the fuzz targets, what the file tests cover.

pub mod conformance;
pub mod fuzz;
mod fuzz_driver;
mod fuzz_images;
pub mod ptx_files;
pub mod random;
pub mod sweep;
