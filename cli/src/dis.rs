//! `margay dis`: shows how a kernel is translated to native code.
//!
//! The command prints either the IR of the whole module after lowering, or, for each function, the
//! IR after a pass, the generated code, or statistics. It can also print the syntax tree of a PTX
//! text, and the list of passes. In listings of IR, lines that are not IR begin with `//`, which
//! starts a comment in the IR's text form, so the IR parser accepts a printed module.

use std::fmt::Write;
use std::path::PathBuf;

use margay::inspect::{Inspection, Language, Listing, passes, syntax_tree};
use margay_cli::input;
use serde_json::{Value, json};

use crate::output::{Failure, Outcome, Paint, Report, paint, with_progress};

const EXAMPLES: &str = "\
Examples:
  margay dis saxpy.ptx                          the module as it was lowered
  margay dis saxpy.ptx --after sync-points      each function after the last pass
  margay dis program -k _Z5saxpyifPKfPf --asm   machine code of one kernel of a program
  margay dis saxpy.ptx --uniformity --block 256  which values lanes share
  margay dis saxpy.ptx --ast                    the syntax tree, before names are resolved
  margay dis --passes                           the passes, in order
  margay dis saxpy.ptx --time --json | jq '.[0].passes'
  margay dis saxpy.ptx > a.ir; margay dis a.ir --after simplify

FILE may also be a module of IR, as printed by the first example. At most 2 GiB of it are read.";

/// The arguments of `margay dis`.
#[derive(clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "margay dis [OPTIONS] FILE\n       margay dis --passes [--json]"
)]
pub(crate) struct Arguments {
    /// PTX text, a fat binary, a program or object that contains one, or IR.
    #[arg(required_unless_present = "passes")]
    file: Option<PathBuf>,
    /// The (mangled) name of a kernel or function; may be repeated (default: all).
    #[arg(long, short, value_name = "NAME")]
    kernel: Vec<String>,
    /// Show the IR after the pass of this name.
    #[arg(long, value_name = "PASS", conflicts_with_all = ["vir", "clif", "asm", "time"])]
    after: Option<String>,
    /// Print after each instruction whether its results are equal for a launch, a CTA or a warp, affine in the lane, or
    /// varying (after the last pass, or after the pass of --after).
    #[arg(long, conflicts_with_all = ["vir", "clif", "asm", "time"])]
    uniformity: bool,
    /// The shape of the blocks that --uniformity may assume.
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = shape, requires = "uniformity")]
    block: Option<[u32; 3]>,
    /// Show the vector IR: the program for whole CTAs.
    #[arg(long, conflicts_with_all = ["clif", "asm", "time"])]
    vir: bool,
    /// Show the code generator's input.
    #[arg(long, conflicts_with_all = ["asm", "time"])]
    clif: bool,
    /// Show the machine code.
    #[arg(long, conflicts_with = "time")]
    asm: bool,
    /// Show how long each pass takes and how much IR it leaves.
    #[arg(long)]
    time: bool,
    /// List why the code is slower than it could be, and how often each reason occurs.
    #[arg(long, conflicts_with_all = ["after", "vir", "clif", "asm", "time", "uniformity"])]
    fallbacks: bool,
    /// Show the syntax tree of a PTX text.
    #[arg(long, conflicts_with_all = ["kernel", "after", "vir", "clif", "asm", "time", "fallbacks", "uniformity", "json"])]
    ast: bool,
    /// List the passes.
    #[arg(long, conflicts_with_all = ["file", "kernel", "after", "vir", "clif", "asm", "time", "fallbacks", "uniformity", "ast"])]
    passes: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

fn shape(text: &str) -> Result<[u32; 3], String> {
    let mut all = [1; 3];
    let parts: Vec<&str> = text.split([',', 'x']).collect();
    if parts.len() > all.len() {
        return Err("at most three dimensions".to_owned());
    }
    for (extent, part) in all.iter_mut().zip(parts) {
        let number = part.trim().parse();
        *extent = number.map_err(|_| format!("`{part}` is not a number"))?;
    }
    Ok(all)
}

/// The output of the command for one function.
struct Section {
    function: String,
    listings: Vec<Listing>,
    timings: Vec<margay::inspect::Timing>,
    /// The stages of the back end for wide vectors.
    wide: Vec<margay::inspect::Timing>,
}

/// Loads the file and prints the requested listings.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Some(file) = &arguments.file else {
        return Ok(Report::of(list_passes(arguments.json)));
    };
    let name = file.display().to_string();
    let image = input::read(file).map_err(|error| Failure::from(format!("{name}: {error}")))?;
    if arguments.ast {
        let text = String::from_utf8_lossy(&image);
        return Ok(Report::of(syntax_tree(&text, &name)?));
    }
    let inspection = Inspection::load(&image, &name)?;
    let whole = arguments.kernel.is_empty() && !specific(arguments);
    let text = if whole && !arguments.json {
        inspection.module()
    } else {
        let sections = with_progress("compiling", || sections(&inspection, arguments))?;
        if arguments.json {
            let all: Vec<Value> = sections.iter().map(to_json).collect();
            format!("{}\n", Value::Array(all))
        } else {
            sections.iter().map(to_text).collect()
        }
    };
    Ok(Report::of(text))
}

/// Returns whether at least one option requests output other than the lowered module, such as
/// machine code.
fn specific(arguments: &Arguments) -> bool {
    arguments.after.is_some()
        || arguments.uniformity
        || arguments.vir
        || arguments.clif
        || arguments.asm
        || arguments.time
        || arguments.fallbacks
}

fn list_passes(json: bool) -> String {
    if json {
        let all: Vec<Value> = passes()
            .map(|pass| json!({ "name": pass.name, "about": pass.about }))
            .collect();
        return format!("{}\n", Value::Array(all));
    }
    let mut text = String::new();
    for pass in passes() {
        // The result is ignored, because writing to a string cannot fail.
        let _ = writeln!(text, "{:<18} {}", pass.name, pass.about);
    }
    text
}

fn sections(inspection: &Inspection, arguments: &Arguments) -> Result<Vec<Section>, Failure> {
    let mut names: Vec<&str> = arguments.kernel.iter().map(String::as_str).collect();
    if names.is_empty() {
        names = inspection.functions().collect();
    }
    names
        .into_iter()
        .map(|name| section(inspection, arguments, name))
        .collect()
}

fn section(inspection: &Inspection, arguments: &Arguments, name: &str) -> Result<Section, Failure> {
    let one = |title: String, text: String| vec![Listing { title, text }];
    let (mut timings, mut wide) = (Vec::new(), Vec::new());
    let listings = if arguments.time {
        timings = inspection.timings(name)?;
        wide = inspection.wide_timings(name)?;
        Vec::new()
    } else if arguments.fallbacks {
        one(format!("{name}, fallbacks"), inspection.fallbacks(name)?)
    } else if arguments.vir {
        inspection.generated(name, Language::Vir)?
    } else if arguments.clif {
        inspection.generated(name, Language::Clif)?
    } else if arguments.asm {
        inspection.generated(name, Language::Assembly)?
    } else if arguments.uniformity {
        let last = passes().last().map_or("", |pass| pass.name);
        let pass = arguments.after.as_deref().unwrap_or(last);
        let text = inspection.uniformity(name, pass, arguments.block)?;
        one(format!("{name}, after {pass}"), text)
    } else if let Some(pass) = &arguments.after {
        one(
            format!("{name}, after {pass}"),
            inspection.behind(name, pass)?,
        )
    } else {
        one(format!("{name}, lowered"), inspection.lowered(name)?)
    };
    Ok(Section {
        function: name.to_owned(),
        listings,
        timings,
        wide,
    })
}

fn to_text(section: &Section) -> String {
    let mut text = String::new();
    for listing in &section.listings {
        let heading = paint(&format!("// {}", listing.title), Paint::Heading);
        let _ = writeln!(text, "{heading}\n{}", listing.text);
    }
    let wide = format!("{}, back end for wide vectors", section.function);
    for (title, timings) in [
        (&section.function, &section.timings),
        (&wide, &section.wide),
    ] {
        if timings.is_empty() {
            continue;
        }
        let heading = paint(&format!("// {title}"), Paint::Heading);
        let _ = writeln!(text, "{heading}");
        for timing in timings {
            let _ = writeln!(
                text,
                "{:<18} {:>9.3} ms {:>7} blocks {:>8} instructions",
                timing.pass,
                timing.time.as_secs_f64() * 1e3,
                timing.blocks,
                timing.instructions
            );
        }
    }
    text
}

fn to_json(section: &Section) -> Value {
    let listings: Vec<Value> = section
        .listings
        .iter()
        .map(|listing| json!({ "title": listing.title, "text": listing.text }))
        .collect();
    let times = |timings: &[margay::inspect::Timing]| -> Vec<Value> {
        let times = timings.iter().map(|timing| {
            json!({
                "pass": timing.pass,
                "seconds": timing.time.as_secs_f64(),
                "blocks": timing.blocks,
                "instructions": timing.instructions,
            })
        });
        times.collect()
    };
    json!({
        "function": section.function,
        "listings": listings,
        "passes": times(&section.timings),
        "wide": times(&section.wide),
    })
}
