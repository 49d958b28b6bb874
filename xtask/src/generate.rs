//! `cargo xtask generate [--count N] [--seed S] [--one KERNEL] [--print KERNEL]`: runs random
//! kernels in native code and in the interpreter, with several numbers of workers, in grid order
//! and in reverse order. If the results of a kernel differ, the command makes the kernel as short
//! as possible and prints it. The program `random_kernels` describes the options.

use std::process::Command;

use crate::{Outcome, exec};

pub(crate) fn run(args: &[String]) -> Outcome {
    exec::build_programs()?;
    let program = exec::release_dir().join("random_kernels");
    exec::run(Command::new(program).args(args))
}
