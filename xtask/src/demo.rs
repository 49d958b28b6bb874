//! `cargo xtask demo`: a demonstration for new users, who can run it directly after they have
//! cloned the repository.
//!
//! The command builds Margay, then starts `examples/demo.rs`, which runs kernels that NVIDIA's
//! compiler has compiled. The example compares the results with the results of the same calculation
//! in Rust.

use std::process::Command;

use crate::{Outcome, exec};

pub(crate) fn run(args: &[String]) -> Outcome {
    if let Some(extra) = args.first() {
        return Err(format!("no option {extra}"));
    }
    exec::build_programs()?;
    exec::run(&mut Command::new(exec::release_dir().join("examples/demo")))
}
