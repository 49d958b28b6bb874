//! `margay trace`: writes what a program does to files that other tools read, and shows such files.

mod accelsim;
mod read;
mod timeline;

use std::path::PathBuf;

use crate::check::{exit_code, signals};
use crate::output::{Outcome, Report};
use crate::run;

const EXAMPLES: &str = "\
Examples:
  margay trace --perfetto vector_add.pftrace -- ./vector_add
  margay trace --accelsim traces -- ./vector_add
  margay trace --accelsim traces --sm 86 --xz -- python train.py
  margay trace show traces --kernel 1 --warp 0
  margay trace stats traces
  margay trace compare traces/kernel-1.traceg other/kernel-1.traceg

docs/trace.md explains the files.";

/// The arguments of `margay trace`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: run::Options,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    instructions: accelsim::Options,
    #[command(flatten)]
    program: run::Program,
}

/// The files to write.
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct Outputs {
    /// Write the timeline of the program for Perfetto (ui.perfetto.dev) to this file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    perfetto: Option<PathBuf>,
    /// Write the timeline of the program in Chrome's JSON format to this file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    chrome: Option<PathBuf>,
    /// Write instruction traces for the simulator Accel-Sim to this folder. Traces in the folder are replaced.
    #[arg(long, value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    accelsim: Option<PathBuf>,
}

/// What to do with traces that were written.
#[derive(clap::Subcommand)]
enum Action {
    /// List the instructions of a trace.
    Show(read::Show),
    /// Count the instructions and accesses of each kernel of a trace.
    Stats(read::Stats),
    /// Compare two traces.
    Compare(read::Compare),
    /// Group raw traces by CTA and warp.
    Group(read::Group),
}

/// The variable that names the library with the functions of NVTX.
const NVTX: &str = "NVTX_INJECTION64_PATH";

/// Runs the program and writes its traces, or reads traces.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.action {
        Some(Action::Show(arguments)) => read::show_trace(arguments),
        Some(Action::Stats(arguments)) => read::stats(arguments),
        Some(Action::Compare(arguments)) => read::compare_traces(arguments),
        Some(Action::Group(arguments)) => read::group_traces(arguments),
        None => trace(arguments),
    }
}

fn trace(arguments: &Arguments) -> Outcome {
    let mut command = run::command(&arguments.run, &arguments.program.words)?;
    let outputs = &arguments.outputs;
    let wanted = [
        ("MARGAY_TRACE_PERFETTO", &outputs.perfetto),
        ("MARGAY_TRACE_CHROME", &outputs.chrome),
    ];
    let mut timelines = Vec::new();
    for (variable, out) in wanted {
        if let Some(out) = out {
            timelines.push(timeline::Timelines::new(variable, out)?);
        }
    }
    command.envs(timelines.iter().map(timeline::Timelines::variable));
    if !timelines.is_empty() && std::env::var_os(NVTX).is_none() {
        // Clients of NVTX then load the driver library, which has the functions that they look for.
        command.env(NVTX, "libcuda.so.1");
    }
    if let Some(folder) = &outputs.accelsim {
        accelsim::prepare(folder)?;
        let folder = std::path::absolute(folder);
        let folder = folder.map_err(|error| format!("--accelsim: {error}"))?;
        command.env("MARGAY_TRACE_ACCELSIM", folder);
        command.envs(arguments.instructions.variables());
    }
    let failed = |error| run::cannot_run(&arguments.program.words, &error);
    let (process, status) = signals::run(&mut command).map_err(failed)?;
    for timeline in &timelines {
        timeline.place(process)?;
    }
    if let Some(folder) = &outputs.accelsim {
        accelsim::summarise(folder)?;
    }
    Ok(Report {
        text: String::new(),
        status: exit_code(status),
    })
}
