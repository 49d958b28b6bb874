//! Compiles functions of the vector IR, runs the code on this host, and compares the results with those of the
//! interpreter. On hosts without AVX-512, tests of its code check that functions compile.

#![cfg(target_arch = "x86_64")]

mod decoded;
mod faults;
mod few_lanes;
mod native;
mod operations;
mod ops;
mod products;
mod programs;
mod random;
mod rows;
mod updates;
