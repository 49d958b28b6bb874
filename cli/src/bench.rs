//! `margay bench`: measures how fast kernels run on this machine, compared with C, OpenCL and other drivers.
//!
//! The crate `margay-benches` takes the measurements; this file defines the options and writes the output files.

use std::fs;
use std::path::{Path, PathBuf};

use margay_benches::case::Set;
use margay_benches::start::Once;
use margay_benches::{Options, Report};

use crate::output::{self, Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  margay bench
  margay bench saxpy n-body launches
  margay bench --set second
  margay bench --baseline old/margay n-body
  margay bench --json times.json --driver /usr/lib/x86_64-linux-gnu/libcuda.so.1

C is compiled by clang-19 or clang, OpenCL runs on PoCL, where these are installed.";

/// The arguments of `margay bench`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Parts of kernel names, and names of tables: limits, launches, copies, fetches, interpreter, checks,
    /// starting, loading (default: everything).
    names: Vec<String>,
    /// Compare with this libcuda.so.1 as well.
    #[arg(long, value_name = "PATH")]
    driver: Option<String>,
    /// Write everything that was measured to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Compare with another build of Margay instead: a margay program, or a libcuda.so.
    #[arg(long, value_name = "FILE", conflicts_with = "driver")]
    baseline: Option<String>,
    /// Measure only the kernels of one set.
    #[arg(long, value_name = "SET", value_parser = set)]
    set: Option<Set>,
    /// Use little data to test the command; the reported times are meaningless.
    #[arg(long)]
    check: bool,
    /// Replace the tables in this file, which are between two marker comments.
    #[arg(long, value_name = "FILE", hide = true)]
    write: Option<PathBuf>,
    /// Measure a single cost, for the process of this program that has started this process.
    #[arg(long, value_name = "NAME", hide = true)]
    once: Option<String>,
    /// Take samples for the process of this program that has started this process, with this number of workers.
    #[arg(long, value_name = "WORKERS", hide = true)]
    serve: Option<usize>,
}

/// Parses the name of a set of kernels.
fn set(name: &str) -> Result<Set, String> {
    let known = Set::ALL.into_iter().find(|set| set.name() == name);
    known.ok_or_else(|| "the sets are `first` and `second`".to_owned())
}

/// Runs the benchmarks and writes the report.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if let Some(name) = &arguments.once {
        return Ok(output::Report::of(format!("{}\n", Once::answer(name)?)));
    }
    if let Some(workers) = arguments.serve {
        margay_benches::serve(workers, arguments.driver.as_deref())?;
        return Ok(output::Report::of(String::new()));
    }
    let report = margay_benches::run(&Options {
        names: arguments.names.clone(),
        driver: arguments.driver.clone(),
        check: arguments.check,
        set: arguments.set,
        baseline: arguments.baseline.clone(),
    })?;
    if let Some(path) = &arguments.json {
        fs::write(path, report.json() + "\n").map_err(|e| told(path, &e.to_string()))?;
    }
    if let Some(path) = &arguments.write {
        replace(path, &report)?;
    }
    Ok(output::Report {
        text: report.markdown(),
        status: u8::from(!report.failures().is_empty()),
    })
}

fn told(path: &Path, error: &str) -> Failure {
    Failure::from(format!("{}: {error}", path.display()))
}

const BEGIN: &str = "<!-- begin: cargo xtask bench -->\n";
const END: &str = "<!-- end -->";

/// Replaces the tables between the two marker comments in the file at `path`.
fn replace(path: &Path, report: &Report) -> Result<(), Failure> {
    let file = margay::input::read_text(path).map_err(|e| told(path, &e.to_string()))?;
    let parts = file.split_once(BEGIN);
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or_else(|| told(path, "it has no markers for the tables"))?;
    let tables = report.markdown();
    fs::write(path, format!("{before}{BEGIN}\n{tables}\n{END}{after}"))
        .map_err(|e| told(path, &e.to_string()))
}
