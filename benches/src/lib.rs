//! What the benchmarks measure: kernels beside other ways to run them, launches, what a program pays once, the
//! stages of loading a text, and what the machine can do at most.
//!
//! `margay bench` prints [`run`]'s [`Report`] as tables or JSON, `cargo xtask bench` writes the tables of
//! `BENCHMARKING.md`, and Criterion's benches in `benches/` time the same things. Invariant: nothing here is timed
//! before its result was compared.

pub mod case;
mod comparison;
mod contender;
mod data;
mod fetches;
mod interpreter;
pub mod kernels;
pub mod launches;
mod library;
mod limits;
mod machine;
pub mod measure;
mod memory;
mod report;
pub mod stages;
pub mod start;
mod tables;
mod work;

pub use comparison::{Prepared, check_driver};
pub use report::{Options, Report, run};
