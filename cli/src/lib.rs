//! The part of the program `margay` that the project's own tests use: the harness of file tests.

pub mod filetest;
