//! What the project's tests share: conformance data and bodies of the fuzz targets.

pub mod conformance;
pub mod fuzz;
mod fuzz_driver;
