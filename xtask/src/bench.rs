//! `cargo xtask bench [--check | --print] [NAME...]`: measures, and writes the tables of `BENCHMARKING.md`.
//!
//! Builds as everything else is built, so that the code generator is not compiled once more, and starts
//! `margay-bench`, which knows the options. Timing is never part of CI.

use std::process::Command;

use crate::{Outcome, exec};

pub(crate) fn run(args: &[String]) -> Outcome {
    exec::build_programs()?;
    exec::run(Command::new(exec::release_dir().join("margay-bench")).args(args))
}
