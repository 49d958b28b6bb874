//! Probes a kernel as the original engine does, with its limits and surprises.
//!
//! The original engine works on lines of text: it copies the chosen kernel with everything that precedes the first
//! kernel, and compares each line with the tracepoints. This module does the same, so that the probed text has the same
//! effect. It supports the current grammar of probe files. Where the original engine stops, or writes text that the
//! assembler rejects, the original runs the kernel without probes, and [`probe`] returns the reason as an error.
//!
//! The differences from [`rewrite()`](crate::rewrite()) are: tracepoints are compared with any part of a line; text
//! behind a taken branch never runs; `ADDR` omits the constant offset; `BYTES` is unknown for `cp.async`; probes of warps
//! at predicated instructions, and `exit`, are not supported; scratch registers have no first value; nothing checks
//! whether a slot has space; a dynamic map needs a counting run; blocks whose size is not a multiple of 32 have too few
//! slots for warps.

mod expand;
mod operands;
mod prune;
mod scan;
mod start;

use std::sync::Arc;

use margay_frontend::resolve::resolve;
use margay_frontend::{SourceFile, parse};

use crate::error::Error;
use crate::model::{Capacity, Field, Level, Map, Packing, Point, Probe, ProbeFile};
use crate::snippet::{Snippet, split};
use crate::width::Width;
use prune::Pruned;

/// A kernel with probes in the original's manner. The texts are those of the files in the kernel's folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompatKernel {
    /// The name of the kernel.
    pub name: String,
    /// The number of the kernel's own parameters.
    pub parameters: usize,
    /// The kernel with what it needs, without probes: `pruned.ptx`.
    pub pruned: String,
    /// The kernel with probes: `probed.ptx`.
    pub probed: String,
    /// The kernel that counts the bytes of the dynamic map in each thread: `countd.ptx`. Its additional parameter is
    /// the address of one u64 for each thread. The maximum is the argument `bytes_NAME` of the probed kernel, and the
    /// size of its slots.
    pub countd: Option<String>,
}

/// Probes the kernel `kernel` of a PTX text. `name` is the text's name for messages.
///
/// # Errors
///
/// Returns the reason why the original engine runs the kernel without probes.
pub fn probe(
    name: &str,
    text: &str,
    kernel: &str,
    file: &ProbeFile,
) -> Result<CompatKernel, Error> {
    let fail = |message: String| Error::new(name, 0, message).about(kernel);
    if file
        .maps
        .iter()
        .any(|map| map.packing == Packing::AsWritten)
        || file.maps.is_empty()
    {
        let message = "the original engine has no probe files of the artifact's grammar";
        return Err(Error::new(&file.name, 0, message));
    }
    let Pruned { before, entry } = prune::prune(text, kernel).map_err(fail)?;
    let whole = |entry: &str| format!("{before}\n{entry}");
    let parameters = prune::parameters(&entry).map_err(fail)?;
    let countd = match count_file(file).map_err(fail)? {
        Some(counter) => Some(whole(&insert(&entry, &counter).map_err(fail)?)),
        None => None,
    };
    let probed = whole(&insert(&entry, file).map_err(fail)?);
    for text in countd.iter().chain([&probed]) {
        assemble(text).map_err(fail)?;
    }
    Ok(CompatKernel {
        name: prune::name(&entry).to_owned(),
        parameters,
        pruned: whole(&entry),
        probed,
        countd,
    })
}

fn insert(entry: &str, file: &ProbeFile) -> Result<String, String> {
    let mut scanned = scan::scan(entry, file);
    start::add(&mut scanned, file)?;
    let mut lines = Vec::new();
    for line in &scanned.lines {
        lines.push(match line {
            scan::Line::Text(text) => text.clone(),
            scan::Line::Probe(visit) => expand::expand(visit, file)?,
        });
    }
    Ok(lines.join("\n"))
}

/// Checks the text as the assembler of the original's last step would.
fn assemble(text: &str) -> Result<(), String> {
    let parsed = parse(Arc::new(SourceFile::new("probed.ptx", text)));
    let resolution = resolve(&parsed);
    let mut problems = parsed.diagnostics.iter().chain(&resolution.diagnostics);
    match problems.find(|problem| problem.is_error()) {
        Some(problem) => Err(format!(
            "the probed text is not valid PTX: {}",
            problem.summary(&parsed.source)
        )),
        None => Ok(()),
    }
}

/// Returns the probes of the counting run, if the file has a dynamic map. Only the first dynamic map is counted.
fn count_file(file: &ProbeFile) -> Result<Option<ProbeFile>, String> {
    let Some(map) = file
        .maps
        .iter()
        .find(|map| map.capacity == Capacity::Dynamic)
    else {
        return Ok(None);
    };
    let saves = |snippet: &Option<Snippet>| {
        let text = snippet.as_ref().map_or("", |snippet| snippet.text.as_str());
        text.contains("SAVE") && text.contains(&map.name)
    };
    let mut points = Vec::new();
    for probe in &file.probes {
        let times = usize::from(saves(&probe.before)) + usize::from(saves(&probe.after));
        points.extend(std::iter::repeat_n(probe.position.as_str(), times));
    }
    if points.is_empty() {
        return Err(format!("no probe saves to the dynamic map `{}`", map.name));
    }
    let snippet = |text: &str| split(text, 1).ok();
    let probe =
        |name: &str, position: &str, before: Option<Snippet>, after: Option<Snippet>| Probe {
            name: name.to_owned(),
            level: Level::Thread,
            position: position.to_owned(),
            points: vec![Point::Kernel],
            before,
            after,
            ignores_predicate: false,
            line: 0,
        };
    let add = format!("add.u64 %NR0, %NR0, {};", map.record);
    Ok(Some(ProbeFile {
        name: file.name.clone(),
        registers: 1,
        probes: vec![
            probe(
                "Save",
                "kernel",
                snippet("mov.u64 %NR0, 0;"),
                snippet("SAVE [ Count ] { %NR0 };"),
            ),
            probe("Count", &points.join(":"), snippet(&add), None),
        ],
        maps: vec![Map {
            name: "Count".to_owned(),
            level: Level::Thread,
            record: 8,
            capacity: Capacity::Records(1),
            fields: vec![Field {
                name: "count".to_owned(),
                width: Width::U64,
            }],
            packing: Packing::WideFirst,
            line: 0,
        }],
        callback: None,
        text: String::new(),
    }))
}
