//! The part of the program `margay` that the project's tests also use: the harness for file tests, and functions that
//! read files with a size limit.

pub use margay::input;
pub mod filetest;
