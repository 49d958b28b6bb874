//! `cargo xtask generate [--count N] [--seed S] [--one KERNEL] [--print KERNEL]`: runs random kernels on both engines,
//! with several numbers of workers and in both orders. A failing kernel is reduced and printed.

use std::process::Command;

use crate::{Outcome, exec};

pub(crate) fn run(args: &[String]) -> Outcome {
    exec::build_programs()?;
    let program = exec::release_dir().join("random_kernels");
    exec::run(Command::new(program).args(args))
}
