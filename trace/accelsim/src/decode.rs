//! Instructions from text.

use crate::addresses::Addresses;
use crate::error::{Fault, excerpt};
use crate::header::LineFormat;
use crate::instruction::{Extra, Instruction, RegisterValue, TensorAccess, TensorAddresses};
use crate::number::{self, Fields};
use crate::opcode::Opcodes;
use crate::options::ReadOptions;
use crate::register::{MAX_SOURCES, Register, RegisterKind, Sources};

/// The number of sources that the simulator reads.
const SIMULATOR_SOURCES: usize = 4;

/// Parses the fields of an instruction, from the line number or pc on.
pub(crate) fn instruction(
    fields: &mut Fields<'_>,
    format: LineFormat,
    options: &ReadOptions,
    opcodes: &mut Opcodes,
) -> Result<Instruction, Fault> {
    let line = match format.line_numbers {
        true => Some(decimal32(fields, "line number")?),
        false => None,
    };
    let pc = hex(fields, "pc")?;
    let mask = next(fields, "mask")?;
    let mask = number::hex32(mask).ok_or_else(|| Fault::hex("mask", mask))?;
    let destination = destination(fields, format)?;
    let opcode = opcodes.intern(next(fields, "opcode")?)?;
    if destination.is_some() && opcode.forbids_destination() {
        return Err(Fault::StoreDestination(opcode.text().to_owned()));
    }
    let sources = sources(fields, format, options)?;
    let mut instruction = Instruction {
        line,
        destination,
        sources,
        ..Instruction::new(pc, mask, opcode)
    };
    let mut extra = Extra::default();
    if format.version >= 6 && instruction.opcode.is_group_matrix() {
        extra.commit_group = Some(decimal(fields, "commit-group flag")?);
    }
    instruction.width = decimal32(fields, "width")?;
    access(&mut instruction, &mut extra, fields, format)?;
    if let Some(text) = fields.next() {
        let immediate = number::signed(text);
        instruction.immediate = immediate.ok_or_else(|| Fault::decimal("immediate", text))?;
        if format.version >= 6 {
            values(&instruction, &mut extra, fields)?;
        }
    }
    if fields.clone().next().is_some() {
        return Err(Fault::Surplus(excerpt(fields.rest().trim_ascii())));
    }
    if extra != Extra::default() {
        instruction.extra = Some(Box::new(extra));
    }
    Ok(instruction)
}

fn next<'a>(fields: &mut Fields<'a>, what: &'static str) -> Result<&'a [u8], Fault> {
    fields.next().ok_or(Fault::Missing(what))
}

fn decimal(fields: &mut Fields<'_>, what: &'static str) -> Result<u64, Fault> {
    let text = next(fields, what)?;
    number::decimal(text).ok_or_else(|| Fault::decimal(what, text))
}

pub(crate) fn decimal32(fields: &mut Fields<'_>, what: &'static str) -> Result<u32, Fault> {
    let text = next(fields, what)?;
    number::decimal32(text).ok_or_else(|| Fault::decimal(what, text))
}

fn hex(fields: &mut Fields<'_>, what: &'static str) -> Result<u64, Fault> {
    let text = next(fields, what)?;
    number::hex(text).ok_or_else(|| Fault::hex(what, text))
}

fn register(fields: &mut Fields<'_>, format: LineFormat) -> Result<Register, Fault> {
    let text = next(fields, "register")?;
    Register::parse(text)
        .filter(|register| format.version >= 6 || register.kind() == RegisterKind::General)
        .ok_or_else(|| Fault::Register(excerpt(text)))
}

fn destination(fields: &mut Fields<'_>, format: LineFormat) -> Result<Option<Register>, Fault> {
    match decimal(fields, "number of destinations")? {
        0 => Ok(None),
        1 => register(fields, format).map(Some),
        count => Err(Fault::Destinations(count)),
    }
}

fn sources(
    fields: &mut Fields<'_>,
    format: LineFormat,
    options: &ReadOptions,
) -> Result<Sources, Fault> {
    let count = decimal(fields, "number of sources")?;
    let limit = match options.five_sources {
        true => MAX_SOURCES,
        false => SIMULATOR_SOURCES,
    };
    if count > limit as u64 {
        return Err(Fault::Sources { count, limit });
    }
    let mut registers = [Register::general(0); MAX_SOURCES];
    let registers = &mut registers[..count as usize];
    for held in registers.iter_mut() {
        *held = register(fields, format)?;
    }
    Ok(Sources::first(registers))
}

/// Parses what follows the width.
fn access(
    instruction: &mut Instruction,
    extra: &mut Extra,
    fields: &mut Fields<'_>,
    format: LineFormat,
) -> Result<(), Fault> {
    let opcode = &instruction.opcode;
    if instruction.width == 0 {
        return match opcode.memory() {
            Some(_) => Err(Fault::NoAddresses(opcode.text().to_owned())),
            None => Ok(()),
        };
    }
    if format.version >= 6 && opcode.is_tensor_memory() {
        extra.tensor = Some(tensor(fields)?);
        return Ok(());
    }
    instruction.addresses = Some(addresses(instruction.mask, fields)?);
    Ok(())
}

fn addresses(mask: u32, fields: &mut Fields<'_>) -> Result<Addresses, Fault> {
    let needed = mask.count_ones() as usize;
    let few = |found| Fault::AddressCount { found, needed };
    let addresses = match decimal(fields, "address mode")? {
        0 => {
            let mut list = [0; 32];
            for (found, address) in list[..needed].iter_mut().enumerate() {
                let text = fields.next().ok_or_else(|| few(found))?;
                *address = number::hex(text).ok_or_else(|| Fault::hex("address", text))?;
            }
            Addresses::List(list[..needed].into())
        }
        1 => {
            let base = hex(fields, "base address")?;
            let text = next(fields, "stride")?;
            let stride = number::signed(text).and_then(|stride| i32::try_from(stride).ok());
            let stride = stride.ok_or_else(|| Fault::decimal("stride", text))?;
            Addresses::Stride { base, stride }
        }
        2 => {
            let base = hex(fields, "base address")?;
            let mut deltas = [0; 31];
            let deltas = &mut deltas[..needed.saturating_sub(1)];
            for (found, delta) in deltas.iter_mut().enumerate() {
                let text = fields.next().ok_or_else(|| few(found + 1))?;
                *delta = number::signed(text).ok_or_else(|| Fault::decimal("delta", text))?;
            }
            Addresses::Deltas {
                base,
                deltas: (&*deltas).into(),
            }
        }
        mode => return Err(Fault::AddressMode(mode)),
    };
    match addresses.count(mask) {
        found if found < needed => Err(few(found)),
        _ => Ok(addresses),
    }
}

fn tensor(fields: &mut Fields<'_>) -> Result<TensorAccess, Fault> {
    let barrier = hex(fields, "barrier address")?;
    let cta_mask = match decimal(fields, "multicast flag")? {
        0 => None,
        _ => Some(hex(fields, "CTA mask")?),
    };
    Ok(TensorAccess {
        barrier,
        cta_mask,
        bytes: decimal(fields, "byte count")?,
        out_of_bounds_bytes: decimal(fields, "out-of-bounds byte count")?,
        addresses: tensor_addresses(fields)?,
    })
}

fn tensor_addresses(fields: &mut Fields<'_>) -> Result<TensorAddresses, Fault> {
    match decimal(fields, "address mode")? {
        0 => {
            let needed = count(fields)?;
            let mut list = Vec::new();
            for found in 0..needed {
                let text = fields.next().ok_or(Fault::AddressCount { found, needed })?;
                list.push(number::hex(text).ok_or_else(|| Fault::hex("address", text))?);
            }
            Ok(TensorAddresses::List(list))
        }
        2 => {
            let base = hex(fields, "base address")?;
            let needed = count(fields)?;
            let mut deltas = Vec::new();
            for found in 1..needed {
                let text = fields.next().ok_or(Fault::AddressCount { found, needed })?;
                deltas.push(number::signed(text).ok_or_else(|| Fault::decimal("delta", text))?);
            }
            Ok(TensorAddresses::Deltas { base, deltas })
        }
        mode => Err(Fault::AddressMode(mode)),
    }
}

/// Parses the number of addresses of a tensor-memory instruction. The length of the line bounds the work.
fn count(fields: &mut Fields<'_>) -> Result<usize, Fault> {
    decimal32(fields, "number of addresses").map(|count| count as usize)
}

/// Parses what follows the immediate in version 6.
fn values(
    instruction: &Instruction,
    extra: &mut Extra,
    fields: &mut Fields<'_>,
) -> Result<(), Fault> {
    let mut following = fields.clone();
    if let Some(text) = following.next()
        && let Some(immediate) = number::signed(text)
    {
        extra.second_immediate = Some(immediate);
        *fields = following;
    }
    match fields.next() {
        None | Some(b"NoVal") => Ok(()),
        Some(b"Val") => {
            let registers =
                usize::from(instruction.destination.is_some()) + instruction.sources.len();
            for _ in 0..registers {
                extra.values.push(value(fields)?);
            }
            Ok(())
        }
        Some(text) => Err(Fault::Surplus(excerpt(text))),
    }
}

fn value(fields: &mut Fields<'_>) -> Result<RegisterValue, Fault> {
    match decimal(fields, "number of values")? {
        1 => hex(fields, "register value").map(RegisterValue::Same),
        32 => {
            let mut lanes = Box::new([0; 32]);
            for lane in lanes.iter_mut() {
                *lane = hex(fields, "register value")?;
            }
            Ok(RegisterValue::Lanes(lanes))
        }
        count => Err(Fault::decimal(
            "number of values",
            count.to_string().as_bytes(),
        )),
    }
}
