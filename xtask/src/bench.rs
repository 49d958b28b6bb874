//! `cargo xtask bench [--print] [OPTION...] [NAME...]`: runs the benchmarks and writes the tables of `BENCHMARKING.md`.
//!
//! The command builds the programs with the same features as the tests, so that Cargo compiles the
//! code generator only once. It then starts `margay bench`, which parses the other options. It
//! writes the tables of `BENCHMARKING.md` only if the arguments contain no names of benchmarks and
//! no options other than `--driver` and `--json`. CI never measures times.

use std::process::Command;

use crate::{Outcome, exec};

pub(crate) fn run(args: &[String]) -> Outcome {
    exec::build_programs()?;
    let mut command = Command::new(exec::release_dir().join("margay"));
    command.arg("bench");
    if writes(args) {
        command
            .arg("--write")
            .arg(exec::root().join("BENCHMARKING.md"));
    }
    exec::run(command.args(args.iter().filter(|a| *a != "--print")))
}

/// Returns whether the command writes the tables of `BENCHMARKING.md`. It writes them only if all
/// kernels are measured at full size, so the arguments may contain only options that name files.
fn writes(args: &[String]) -> bool {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--driver" | "--json" => _ = args.next(),
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_whole_runs_are_written() {
        let writes = |line: &str| {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            super::writes(&args)
        };
        assert!(writes(""));
        assert!(writes("--json out.json --driver libcuda.so.1"));
        assert!(!writes("--print"));
        assert!(!writes("--check"));
        assert!(!writes("--json out.json saxpy"));
    }
}
