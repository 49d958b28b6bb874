//! `cargo xtask guards [ROUNDS]`: what guard pages and fault handling cost.
//!
//! `tests/abi/guards.c` says what is compared; the numbers in `BENCHMARKING.md` come from here.

use std::process::Command;

use crate::{Outcome, exec};

/// Enough for the least times of a machine that is not idle.
const ROUNDS: &str = "60";

pub(crate) fn run(args: &[String]) -> Outcome {
    exec::build_programs()?;
    let folder = exec::root().join(".cache");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let program = folder.join("guards");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile
        .args(["-std=gnu11", "-O1", "-o"])
        .arg(&program)
        .arg(exec::root().join("tests/abi/guards.c"))
        .arg(exec::release_dir().join("libcuda.so"));
    exec::run(&mut compile)?;
    let rounds = args.first().map_or(ROUNDS, String::as_str);
    let mut run = Command::new(exec::release_dir().join("margay"));
    exec::run(run.args(["run", "--"]).arg(&program).arg(rounds))
}
