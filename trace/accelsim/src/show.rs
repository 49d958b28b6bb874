//! A readable listing of traces.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use crate::addresses::Addresses;
use crate::dim::Dim3;
use crate::error::{Error, ReadError};
use crate::events::{Event, Events};
use crate::header::Header;
use crate::instruction::{Extra, Instruction, RegisterValue, TensorAccess};
use crate::options::ReadOptions;
use crate::set::kernel_files;

/// Which instructions [`show`] lists. The default lists all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only the kernel with this launch number or, if the text is no number, only kernels whose mangled name contains it.
    pub kernel: Option<String>,
    /// Only this CTA.
    pub cta: Option<Dim3>,
    /// Only this warp of each CTA.
    pub warp: Option<u32>,
    /// How each address is listed.
    pub addresses: AddressStyle,
}

/// How [`show`] lists addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AddressStyle {
    /// As the file has them: base and stride, base and deltas, or a list.
    #[default]
    Compact,
    /// The address of each lane.
    Lanes,
}

impl Filter {
    fn has_kernel(&self, header: &Header) -> bool {
        let Some(kernel) = &self.kernel else {
            return true;
        };
        match kernel.parse::<u64>() {
            Ok(id) => header.kernel_id == id,
            Err(_) => header.kernel_name.contains(kernel.as_str()),
        }
    }

    fn has(&self, event: &Event) -> bool {
        self.cta.is_none_or(|cta| cta == event.cta)
            && self.warp.is_none_or(|warp| warp == event.warp)
    }
}

/// Lists the instructions of a kernel file, or of all kernels of a list or folder. Where the CTA or warp changes, a line names
/// them.
///
/// # Errors
///
/// Those of reading; [`Error::Output`].
pub fn show(
    path: &Path,
    filter: &Filter,
    options: &ReadOptions,
    out: &mut impl Write,
) -> Result<(), Error> {
    for file in kernel_files(path)? {
        let events = Events::open(&file, options)?;
        if filter.has_kernel(events.header()) {
            list(events, filter, out)?;
        }
    }
    Ok(())
}

fn list(mut events: Events, filter: &Filter, out: &mut impl Write) -> Result<(), Error> {
    let header = events.header().clone();
    write_header(&header, out).map_err(Error::Output)?;
    let mut place = None;
    while let Some(event) = next(&mut events, filter)? {
        if place != Some((event.cta, event.warp)) {
            place = Some((event.cta, event.warp));
            writeln!(out, "CTA {} warp {}", event.cta, event.warp).map_err(Error::Output)?;
        }
        write_event(&event, &header, filter.addresses, out).map_err(Error::Output)?;
    }
    Ok(())
}

/// Returns the next instruction that passes the filter.
fn next(events: &mut Events, filter: &Filter) -> Result<Option<Event>, ReadError> {
    while let Some(event) = events.next()? {
        if filter.has(&event) {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

fn write_header(header: &Header, out: &mut impl Write) -> io::Result<()> {
    let Header {
        kernel_name,
        kernel_id,
        grid,
        block,
        ..
    } = header;
    writeln!(
        out,
        "kernel {kernel_id} {kernel_name}: grid ({grid}), block ({block}), {} bytes shared, {} registers, stream {}",
        header.shared_bytes, header.registers, header.stream,
    )?;
    writeln!(
        out,
        "binary version {}, tracer version {} ({})",
        header.binary_version, header.tracer_version, header.nvbit_version,
    )
}

fn write_event(
    event: &Event,
    header: &Header,
    style: AddressStyle,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut line = Vec::new();
    let instruction = &event.instruction;
    let Instruction {
        pc, mask, opcode, ..
    } = instruction;
    let operands = operands(instruction);
    write!(line, "  {pc:04x} {mask:08x} {opcode:<24} {operands:<16}")?;
    if let Some(number) = instruction.line {
        write!(line, " line {number}")?;
    }
    if instruction.immediate != 0 {
        write!(line, " immediate {}", instruction.immediate)?;
    }
    if let Some(addresses) = &instruction.addresses {
        write_access(instruction, addresses, header, style, &mut line)?;
    }
    if let Some(extra) = &instruction.extra {
        write_extra(extra, &mut line)?;
    }
    out.write_all(line.trim_ascii_end())?;
    writeln!(out)
}

/// Returns destination and sources, for example `R4 <- R0 R2`.
fn operands(instruction: &Instruction) -> String {
    let mut text = String::new();
    if let Some(register) = instruction.destination {
        text = format!("{register:?}");
    }
    if !instruction.sources.is_empty() {
        text.push_str(if text.is_empty() { "<-" } else { " <-" });
    }
    for register in instruction.sources.iter() {
        text.push_str(&format!(" {register:?}"));
    }
    text
}

fn write_access(
    instruction: &Instruction,
    addresses: &Addresses,
    header: &Header,
    style: AddressStyle,
    out: &mut impl Write,
) -> io::Result<()> {
    let mask = instruction.mask;
    match instruction.opcode.memory() {
        Some((space, kind)) => {
            let space = header.resolve(space, addresses, mask);
            let width = instruction.opcode.width();
            write!(out, " {} {} of {width} bytes", space.name(), kind.name())?;
        }
        None => write!(out, " {} bytes", instruction.width)?,
    }
    match (style, addresses) {
        (AddressStyle::Compact, Addresses::Stride { base, stride }) => {
            write!(out, " at {base:#x} stride {stride}")
        }
        (AddressStyle::Compact, Addresses::Deltas { base, deltas }) => {
            write!(out, " at {base:#x}")?;
            deltas
                .iter()
                .try_for_each(|delta| write!(out, " {delta:+}"))
        }
        _ => addresses
            .lanes(mask)
            .try_for_each(|(lane, address)| write!(out, " {lane}:{address:#x}")),
    }
}

fn write_extra(extra: &Extra, out: &mut impl Write) -> io::Result<()> {
    if let Some(flag) = extra.commit_group {
        write!(out, " commit group {flag}")?;
    }
    if let Some(TensorAccess {
        barrier,
        cta_mask,
        bytes,
        out_of_bounds_bytes,
        addresses,
    }) = &extra.tensor
    {
        write!(
            out,
            " barrier {barrier:#x} {bytes} bytes ({out_of_bounds_bytes} out of bounds)"
        )?;
        if let Some(mask) = cta_mask {
            write!(out, " to CTAs {mask:#x}")?;
        }
        for address in addresses.decoded() {
            write!(out, " {address:#x}")?;
        }
    }
    if let Some(immediate) = extra.second_immediate {
        write!(out, " second immediate {immediate}")?;
    }
    extra
        .values
        .iter()
        .try_for_each(|value| write!(out, " {}", Shown(value)))
}

/// A register value for the listing.
struct Shown<'a>(&'a RegisterValue);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            RegisterValue::Same(value) => write!(f, "[{value:#x}]"),
            RegisterValue::Lanes(lanes) => {
                let texts: Vec<_> = lanes.iter().map(|value| format!("{value:#x}")).collect();
                write!(f, "[{}]", texts.join(" "))
            }
        }
    }
}
