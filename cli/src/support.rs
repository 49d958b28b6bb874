//! `margay support`: shows which functions of the driver API and which PTX instructions work.
//!
//! The tables are generated from other tables of the project and embedded into this program; tests fail if they are out
//! of date. Invariant: each function or instruction that a table lists as working is executed by a test.

mod driver;
mod ptx;

use clap::ValueEnum;

use crate::output::{Outcome, Report};

const EXAMPLES: &str = "\
Examples:
  margay support
  margay support --ptx
  margay support --json | jq '.[] | select(.status != \"works\") | .export'
  margay support --ptx --json | jq '.[] | select(.runs == \"no\") | .shape'
  margay support --markdown ptx > docs/support-ptx.md";

/// The arguments of `margay support`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Show the instructions of PTX instead of the driver API.
    #[arg(long, conflicts_with = "markdown")]
    ptx: bool,
    /// Print one JSON document.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print a page for the documentation.
    #[arg(long, value_enum, value_name = "SUBJECT")]
    markdown: Option<Subject>,
}

/// The subject of a support table.
#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    /// Entry points of the driver API.
    Driver,
    /// Instructions of PTX.
    Ptx,
}

/// Prints a table.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let text = match (arguments.markdown, arguments.ptx, arguments.json) {
        (Some(Subject::Driver), ..) => driver::markdown(),
        (Some(Subject::Ptx), ..) => ptx::markdown(),
        (None, true, true) => format!("{}\n", ptx::json()),
        (None, true, false) => ptx::summary(),
        (None, false, true) => format!("{}\n", driver::json()),
        (None, false, false) => driver::summary(),
    };
    Ok(Report::of(text))
}
