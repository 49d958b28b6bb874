//! `cargo xtask demo`: the first thing to run in a clone.
//!
//! Builds everything, then starts `examples/demo.rs`, which runs kernels that NVIDIA's compiler built and
//! compares their results with the same calculation in Rust.

use crate::{Outcome, exec};

pub(crate) fn run(args: &[String]) -> Outcome {
    if let Some(extra) = args.first() {
        return Err(format!("no option {extra}"));
    }
    exec::run(exec::cargo().args(["build", "--release", "--workspace"]))?;
    exec::run(exec::cargo().args([
        "run",
        "--quiet",
        "--release",
        "-p",
        "margay",
        "--example",
        "demo",
    ]))
}
