//! Benchmarks of kernels (compared with other implementations), of launches, of copies, of program start, of the stages of loading
//! a PTX text, and of the limits of the machine.
//!
//! `margay bench` prints the [`Report`] of [`run`] as tables or JSON, `cargo xtask bench` writes the tables of
//! `BENCHMARKING.md`, and the Criterion benches in `benches/` measure the same code. Invariant: a kernel's results are
//! compared with the expected results before its times are measured.

mod baseline;
pub mod case;
mod checks;
mod comparison;
mod contender;
mod copies;
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
mod roofline;
pub mod stages;
pub mod start;
mod tables;
mod work;

pub use baseline::serve;
pub use comparison::{Prepared, check_driver};
pub use report::{Options, Report, run};
