//! Makes a grouped trace from a raw one.
//!
//! The lines are sorted by CTA and warp with bounded memory: sorted runs go to temporary files, which are merged at the end.
//! The result is byte for byte that of the original post-processor, except that the columns for the core are removed and that
//! an asynchronous copy has one line.

mod emit;
mod sort;

use std::io::Write;
use std::path::Path;

use crate::error::{Error, Fault, ReadError};
use crate::form::Form;
use crate::header::Header;
use crate::list::{Command, CommandList};
use crate::options::ReadOptions;
use crate::output::Output;
use crate::raw::{RawLine, RawReader};

use emit::{Emitter, Failure};
use sort::{Record, Sorter};

/// Options of [`group`].
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// How the raw trace is read.
    pub read: ReadOptions,
    /// The memory for sorting in bytes.
    pub memory: usize,
}

impl Default for GroupOptions {
    fn default() -> GroupOptions {
        GroupOptions {
            read: ReadOptions::default(),
            memory: 64 << 20,
        }
    }
}

/// What [`group`] wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupReport {
    /// The number of CTAs. CTAs without any line are left out.
    pub ctas: u64,
    /// The number of CTAs that were left out, which the simulator needs.
    pub missing_ctas: u64,
    /// The number of warps without lines, which the simulator refuses.
    pub empty_warps: u64,
    /// The number of lines.
    pub lines: u64,
}

/// Makes a grouped trace (`.traceg` or `.traceg.xz`) from a raw one.
///
/// # Errors
///
/// Faults of the raw trace, [`Fault::HalfCopy`], and those of writing.
pub fn group(raw: &Path, grouped: &Path, options: &GroupOptions) -> Result<GroupReport, Error> {
    if !matches!(Form::of(grouped), Some((Form::Grouped, _))) {
        return Err(ReadError::new(grouped, 0, Fault::Suffix).into());
    }
    let reader = RawReader::open(raw, &options.read)?;
    let write = Error::write(grouped);
    let mut out = Output::create(grouped).map_err(&write)?;
    let report = group_into(reader, &mut out, grouped, options)?;
    out.finish().map_err(write)?;
    Ok(report)
}

/// Writes the grouped trace of `reader` to `out`, which `path` names in messages.
pub(crate) fn group_into(
    mut reader: RawReader,
    out: &mut impl Write,
    path: &Path,
    options: &GroupOptions,
) -> Result<GroupReport, Error> {
    let write = Error::write(path);
    out.write_all(reader.header_text()).map_err(&write)?;
    out.write_all(b"\n\n").map_err(&write)?;
    let header = reader.header().clone();
    let mut sorter = Sorter::new(options.memory);
    while let Some(line) = reader.next_line()? {
        let record = record(&line, reader.body(), &header);
        sorter.push(&record).map_err(&write)?;
    }
    let mut emitter = Emitter::new(out, &header, options.memory);
    let failure = |failure| match failure {
        Failure::Io(error) => write(error),
        Failure::Fault(fault) => ReadError::new(reader.path(), 0, fault).into(),
    };
    let mut merged = sorter.finish().map_err(&write)?;
    while let Some(record) = merged.next().map_err(&write)? {
        emitter.push(record).map_err(failure)?;
    }
    emitter.finish().map_err(failure)
}

fn record<'a>(line: &RawLine, body: &'a [u8], header: &Header) -> Record<'a> {
    Record {
        cta: header.grid.index(line.cta),
        warp: line.warp,
        is_copy: line.instruction.opcode.is_copy(),
        text: body,
    }
}

/// Groups all kernels of a `kernelslist` and writes the list of the results beside it, with the suffix `.g`. Kernel files
/// that are grouped already are not changed. Returns the report of each raw kernel.
///
/// # Errors
///
/// As [`group`], and those of the list.
pub fn group_list(list: &Path, options: &GroupOptions) -> Result<Vec<GroupReport>, Error> {
    let commands = CommandList::read(list)?;
    let mut path = list.as_os_str().to_owned();
    path.push(".g");
    let path = Path::new(&path);
    let write = Error::write(path);
    let mut out = Output::create(path).map_err(&write)?;
    let mut reports = Vec::new();
    for (_, command) in &commands.commands {
        let written = match command {
            Command::Kernel(name) => match grouped_name(name) {
                Some(grouped) => {
                    let target = commands.resolve(&grouped);
                    reports.push(group(&commands.resolve(name), &target, options)?);
                    Command::Kernel(grouped)
                }
                None => command.clone(),
            },
            _ => command.clone(),
        };
        written.write(&mut out).map_err(&write)?;
    }
    out.finish().map_err(write)?;
    Ok(reports)
}

/// Returns the name of the grouped file for a raw one.
fn grouped_name(name: &str) -> Option<String> {
    match name.strip_suffix(".xz") {
        Some(stem) if stem.ends_with(".trace") => Some(format!("{stem}g.xz")),
        None if name.ends_with(".trace") => Some(format!("{name}g")),
        _ => None,
    }
}
