//! The program `margay`: runs CUDA programs and single kernels on the CPU, and lists the CUDA code and libraries that a
//! program would load.
//!
//! Each subcommand has one file with the command's arguments and a function `run`, which returns the text to print and
//! the exit status. Invariant: no subcommand ends the process. Two subcommands replace the process: `margay run` by the
//! program, and `margay launch --engine` by a new instance of `margay`.

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
mod probe;
mod profile;
mod program;
mod run;
mod sim;
mod smi;
mod support;
mod test;
mod tools;
mod trace;
mod waste;

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
  margay profile --report profile.html -- ./vector_add 1000000
  margay trace --accelsim traces -- ./vector_add 1000000
  margay sim traces
  margay probe -p block_sched -- ./vector_add 1000000
  margay waste -t=1 ./vector_add 1000000
  margay launch saxpy.ptx --grid 4 --block 256 --arg u32:1000 --arg f32:2 \\
      --arg iota:f32:1000 --arg zeros:f32:1000 --print 3
  margay test kernel.ptx
  margay dis saxpy.ptx --after sync-points
  margay doctor -- ./vector_add
  margay smi
  margay support
  margay bench saxpy matrix";

/// Runs CUDA programs on the CPU: compiles PTX to native code, as a drop-in replacement of libcuda.so.1.
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
    /// Run a CUDA program and report undefined behaviour of its threads.
    Check(Box<check::Arguments>),
    /// Run a CUDA program and count exactly what its kernels do.
    Profile(Box<profile::Arguments>),
    /// Run a CUDA program and write what it does to files for other tools.
    Trace(Box<trace::Arguments>),
    /// Run a CUDA program with Neutrino's probes in its kernels.
    Probe(Box<probe::Arguments>),
    /// Estimate how many cycles a GPU needs for instruction traces.
    Sim(sim::Arguments),
    /// Run a CUDA program with red zones, and report wrong calls.
    Waste(waste::Arguments),
    /// Launch one kernel of a PTX file or image on your own data.
    Launch(launch::Arguments),
    /// Run PTX files whose comments state the expected results.
    Test(test::Arguments),
    /// Show how kernels are translated to native code.
    Dis(dis::Arguments),
    /// Show which functions of the driver API and which PTX instructions work.
    Support(support::Arguments),
    /// Measure how fast kernels run here, compared with C, OpenCL and other drivers.
    Bench(bench::Arguments),
    /// Explain what a program would load, or describe this machine.
    Doctor(doctor::Arguments),
    /// Show the device, its memory and the processes that use it.
    Smi(smi::Arguments),
    /// Print a completion script for a shell.
    Completions(completions::Arguments),
    /// Print a manual page, or write all of them.
    Man(man::Arguments),
}

/// Size in bytes of the stack of the thread that runs the commands: the usual size of a main thread's stack.
const STACK: usize = 8 << 20;

/// Runs the command on a new thread, because `ulimit -s` can make the stack of the main thread too small. If no thread
/// can be started, runs the command on the main thread.
fn main() -> ExitCode {
    let thread = std::thread::Builder::new().stack_size(STACK);
    match thread.spawn(run_command) {
        Ok(thread) => thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(_) => run_command(),
    }
}

fn run_command() -> ExitCode {
    if let Some((tool, arguments)) = tools::started_as() {
        return tool.run(arguments);
    }
    let result = match Arguments::parse_from(waste::canonical(std::env::args_os())).command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Waste(arguments) => waste::run(&arguments),
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
            let written = output::print(&report.text);
            ExitCode::from(match report.status {
                0 if !written => 1,
                status => status,
            })
        }
        Err(Failure { message, status }) => {
            output::complain(&message);
            ExitCode::from(status)
        }
    }
}
