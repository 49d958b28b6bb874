//! What the benchmarks measure: the stages of loading a text, launches, what a program pays once, and kernels beside
//! loops in Rust.
//!
//! Criterion's benches in `benches/` and the program `margay-bench`, which writes the tables of
//! `BENCHMARKING.md`, time the same things through this library. Invariant: nothing here is timed before its
//! result was compared ([`case::Case::prepare`]).

pub mod case;
mod cpu;
mod data;
pub mod kernels;
pub mod launches;
pub mod measure;
pub mod stages;
pub mod start;

pub use cpu::instruction_set;
