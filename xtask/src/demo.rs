//! `cargo xtask demo`: the first command to run in a clone.
//!
//! The command builds Margay, then starts `examples/demo.rs`, which runs kernels that NVIDIA's compiler compiled and
//! compares their results with those of the same calculation in Rust.

use std::process::Command;

use crate::{Outcome, exec};

pub(crate) fn run(args: &[String]) -> Outcome {
    if let Some(extra) = args.first() {
        return Err(format!("no option {extra}"));
    }
    exec::build_programs()?;
    exec::run(&mut Command::new(exec::release_dir().join("examples/demo")))
}
