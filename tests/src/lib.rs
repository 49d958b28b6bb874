//! Harness of the file tests.

pub mod conformance;
pub mod fuzz;
mod fuzz_driver;
