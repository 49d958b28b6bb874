//! Harness of the file tests.

pub mod conformance;
pub mod fuzz;
