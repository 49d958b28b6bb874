//! `cargo xtask soak [--seconds N] [--threads N] [--devices N] [--seed N]`: runs a program in which
//! many threads make random calls of the driver library for a long time (default: ten minutes) and
//! check every result.
//!
//! The command compiles and runs `tests/abi/soak.c`, which the tests run for two seconds. At the
//! first wrong result, the program prints the number of the thread, the operation and the random
//! seed, and ends.

use std::process::Command;

use crate::{Outcome, exec};

/// The options of the command line.
struct Options {
    seconds: u32,
    threads: u32,
    devices: u32,
    seed: u64,
}

fn number<T: std::str::FromStr>(name: &str, value: Option<&String>) -> Result<T, String> {
    let value = value.ok_or_else(|| format!("{name} needs a number"))?;
    value
        .parse()
        .map_err(|_| format!("{name} {value}: not a number"))
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options {
            seconds: 600,
            threads: 64,
            devices: 2,
            seed: 1,
        };
        let mut args = args.iter();
        while let Some(name) = args.next() {
            let value = args.next();
            match name.as_str() {
                "--seconds" => options.seconds = number(name, value)?,
                "--threads" => options.threads = number(name, value)?,
                "--devices" => options.devices = number(name, value)?,
                "--seed" => options.seed = number(name, value)?,
                other => return Err(format!("no option {other}")),
            }
        }
        Ok(options)
    }
}

pub(crate) fn run(args: &[String]) -> Outcome {
    let options = Options::parse(args)?;
    exec::build_programs()?;
    let folder = exec::release_dir().join("soak");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let library = folder.join("libcuda.so.1");
    let _ = std::fs::remove_file(&library);
    std::os::unix::fs::symlink(exec::release_dir().join("libcuda.so"), &library)
        .map_err(|e| format!("{}: {e}", library.display()))?;
    let program = folder.join("soak");
    exec::run(
        Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-std=gnu11", "-O1", "-pthread", "-o"])
            .arg(&program)
            .arg(exec::root().join("tests/abi/soak.c"))
            .arg(&library),
    )?;
    exec::run(
        Command::new(&program)
            .args([options.seconds.to_string(), options.threads.to_string()])
            .arg(options.seed.to_string())
            .env("LD_LIBRARY_PATH", &folder)
            .env("MARGAY_DEVICES", options.devices.to_string()),
    )
}
