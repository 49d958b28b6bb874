//! The program `margay`: runs CUDA programs and single kernels on the CPU, and explains what a program
//! would load.
//!
//! One file for each subcommand; each has the command's arguments and a function `run` that returns
//! what to print and the exit status. Invariant: only `main` ends the process, but for `run`, which
//! becomes the program it starts.

mod bench;
mod check;
mod completions;
mod dis;
mod doctor;
mod element;
mod launch;
mod man;
mod npy;
mod output;
mod program;
mod run;
mod smi;
mod support;
mod test;
mod tools;

use std::process::ExitCode;

use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Effects};
use clap::{CommandFactory, Parser, Subcommand};

use output::Failure;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .usage(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .literal(AnsiColor::Cyan.on_default().effects(Effects::BOLD))
    .placeholder(AnsiColor::Cyan.on_default());

const EXAMPLES: &str = "\
Examples:
  margay run -- ./vector_add 1000000
  margay check -- ./vector_add 1000000
  margay launch saxpy.ptx --grid 4 --block 256 --arg u32:1000 --arg f32:2 \\
      --arg iota:f32:1000 --arg zeros:f32:1000 --print 3
  margay test kernel.ptx
  margay dis saxpy.ptx --after points
  margay doctor -- ./vector_add
  margay smi
  margay support
  margay bench saxpy matrix";

/// CUDA on the CPU: PTX to native code behind a drop-in libcuda.so.1.
#[derive(Parser)]
#[command(name = "margay", version, styles = STYLES, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a CUDA program, unmodified, on the CPU.
    Run(run::Arguments),
    /// Run a CUDA program and look for what its threads do that is undefined.
    Check(check::Arguments),
    /// Launch one kernel of a PTX file or image on data of your own.
    Launch(launch::Arguments),
    /// Run PTX files that say in comments what they must do.
    Test(test::Arguments),
    /// Show what becomes of kernels on their way to native code.
    Dis(dis::Arguments),
    /// Show what of the driver API and of PTX works.
    Support(support::Arguments),
    /// Measure how fast kernels run here, beside C, OpenCL and other drivers.
    Bench(bench::Arguments),
    /// Explain what a program would load, or what this machine offers.
    Doctor(doctor::Arguments),
    /// Show the device, its memory and who uses it.
    Smi(smi::Arguments),
    /// Print what a shell needs to complete commands and options.
    Completions(completions::Arguments),
    /// Print a manual page, or write all of them.
    Man(man::Arguments),
}

fn main() -> ExitCode {
    if let Some((tool, arguments)) = tools::started_as() {
        return tool.run(arguments);
    }
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Launch(arguments) => launch::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Dis(arguments) => dis::run(&arguments),
        Command::Support(arguments) => support::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Smi(arguments) => smi::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, Arguments::command()),
        Command::Man(arguments) => man::run(&arguments, Arguments::command()),
    };
    match result {
        Ok(report) => {
            output::print(&report.text);
            ExitCode::from(report.status)
        }
        Err(Failure { message, status }) => {
            output::complain(&message);
            ExitCode::from(status)
        }
    }
}
