//! Instructions as text.

use crate::addresses::Addresses;
use crate::header::LineFormat;
use crate::instruction::{Extra, Instruction, RegisterValue, TensorAccess, TensorAddresses};
use crate::number::{push_decimal, push_hex, push_signed};

/// Appends the line of an instruction with its newline, without the prefix of raw traces.
pub(crate) fn instruction(out: &mut Vec<u8>, instruction: &Instruction, format: LineFormat) {
    if format.line_numbers {
        decimal(out, u64::from(instruction.line.unwrap_or(0)));
    }
    push_hex(out, instruction.pc, 4);
    out.push(b' ');
    push_hex(out, u64::from(instruction.mask), 8);
    match instruction.destination {
        Some(register) => {
            out.extend_from_slice(b" 1 ");
            register.write(out);
            out.push(b' ');
        }
        None => out.extend_from_slice(b" 0 "),
    }
    out.extend_from_slice(instruction.opcode.text().as_bytes());
    out.push(b' ');
    decimal(out, instruction.sources.len() as u64);
    for register in instruction.sources.iter() {
        register.write(out);
        out.push(b' ');
    }
    let extra = instruction.extra.as_deref().filter(|_| format.version >= 6);
    if let Some(flag) = extra.and_then(|extra| extra.commit_group) {
        decimal(out, flag);
    }
    decimal(out, u64::from(instruction.width));
    if let Some(addresses) = &instruction.addresses {
        lane_addresses(out, addresses);
    }
    if let Some(access) = extra.and_then(|extra| extra.tensor.as_ref()) {
        tensor(out, access);
    }
    if format.version >= 4 {
        push_signed(out, instruction.immediate);
        out.push(b' ');
    }
    if format.version >= 6 {
        values(out, extra);
    }
    out.push(b'\n');
}

fn decimal(out: &mut Vec<u8>, value: u64) {
    push_decimal(out, value);
    out.push(b' ');
}

fn hex(out: &mut Vec<u8>, value: u64, width: usize) {
    out.extend_from_slice(b"0x");
    push_hex(out, value, width);
    out.push(b' ');
}

fn signed(out: &mut Vec<u8>, value: i64) {
    push_signed(out, value);
    out.push(b' ');
}

fn lane_addresses(out: &mut Vec<u8>, addresses: &Addresses) {
    match addresses {
        Addresses::List(list) => {
            out.extend_from_slice(b"0 ");
            list.iter().for_each(|address| hex(out, *address, 16));
        }
        Addresses::Stride { base, stride } => {
            out.extend_from_slice(b"1 ");
            hex(out, *base, 1);
            signed(out, i64::from(*stride));
        }
        Addresses::Deltas { base, deltas } => {
            out.extend_from_slice(b"2 ");
            hex(out, *base, 1);
            deltas.iter().for_each(|delta| signed(out, *delta));
        }
    }
}

fn tensor(out: &mut Vec<u8>, access: &TensorAccess) {
    hex(out, access.barrier, 1);
    match access.cta_mask {
        Some(mask) => {
            out.extend_from_slice(b"1 ");
            hex(out, mask, 1);
        }
        None => out.extend_from_slice(b"0 "),
    }
    decimal(out, access.bytes);
    decimal(out, access.out_of_bounds_bytes);
    match &access.addresses {
        TensorAddresses::List(list) => {
            out.extend_from_slice(b"0 ");
            decimal(out, list.len() as u64);
            list.iter().for_each(|address| hex(out, *address, 16));
        }
        TensorAddresses::Deltas { base, deltas } => {
            out.extend_from_slice(b"2 ");
            hex(out, *base, 1);
            decimal(out, deltas.len() as u64 + 1);
            deltas.iter().for_each(|delta| signed(out, *delta));
        }
    }
}

/// The end of a line of version 6.
fn values(out: &mut Vec<u8>, extra: Option<&Extra>) {
    if let Some(immediate) = extra.and_then(|extra| extra.second_immediate) {
        signed(out, immediate);
    }
    let values = extra.map_or(&[][..], |extra| &extra.values);
    if values.is_empty() {
        out.extend_from_slice(b"NoVal ");
        return;
    }
    out.extend_from_slice(b"Val ");
    for value in values {
        match value {
            RegisterValue::Same(value) => {
                out.extend_from_slice(b"1 ");
                hex(out, *value, 1);
            }
            RegisterValue::Lanes(lanes) => {
                out.extend_from_slice(b"32 ");
                lanes.iter().for_each(|value| hex(out, *value, 1));
            }
        }
    }
}
