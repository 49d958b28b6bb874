//! Harness of the file tests.

pub mod conformance;
