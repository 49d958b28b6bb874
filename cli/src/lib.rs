//! The part of the program `margay` that the project's own tests use: the harness of file tests, and the reading of
//! files.

pub mod filetest;
pub mod input;
