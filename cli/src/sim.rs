//! `margay sim`: estimates how many cycles a GPU needs for the kernels of instruction traces.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use margay_sim::{Config, Options, Progress, write_kernel};

use crate::check::files;
use crate::output::{Failure, Outcome, Report, note};

const EXAMPLES: &str = "\
Examples:
  margay trace --accelsim traces -- ./vector_add
  margay sim traces
  margay sim traces --config rtx3070 --json report.json
  margay sim traces/kernelslist.g --config gpgpusim.config --config trace.config

The times are estimates of a model. docs/sim.md explains it.";

/// The arguments of `margay sim`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The list of kernels (kernelslist.g), or its folder.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    trace: PathBuf,
    /// A GPU (qv100, rtx2060, rtx3070) or a configuration file of the simulator GPGPU-Sim or Accel-Sim. May be repeated:
    /// each file overrides the earlier ones. Default: qv100.
    #[arg(long, value_name = "GPU|FILE")]
    config: Vec<String>,
    /// Write the report as JSON to a file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    json: Option<PathBuf>,
    /// Run each kernel after the one before it, also those of different streams.
    #[arg(long)]
    serial: bool,
    /// Report a barrier as a deadlock if a warp ends without reaching it. The original simulator goes on.
    #[arg(long)]
    strict_barriers: bool,
}

/// Simulates a trace. Prints each kernel when it ends, and then the totals.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let config = Config::load(&arguments.config).map_err(|error| error.to_string())?;
    for ignored in &config.ignored {
        note(&format!(
            "margay: {}:{}: option {} has no effect",
            ignored.path.display(),
            ignored.line,
            ignored.option
        ));
    }
    let list = match arguments.trace.is_dir() {
        true => arguments.trace.join("kernelslist.g"),
        false => arguments.trace.clone(),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let options = Options {
        overlap_streams: !arguments.serial,
        strict_barriers: arguments.strict_barriers,
        progress: Box::new(|progress| match progress {
            Progress::KernelEnded(kernel) => {
                write_kernel(&mut out, &config, kernel)?;
                out.flush()
            }
            _ => Ok(()),
        }),
        ..Options::default()
    };
    let report = margay_sim::simulate(&list, &config, options);
    let report = report.map_err(|error| Failure::from(error.to_string()))?;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        files::write(path, &(text + "\n"))?;
    }
    Ok(Report::of(String::new()))
}
