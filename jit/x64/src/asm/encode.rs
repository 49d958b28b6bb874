//! Encodes one instruction: matches it with the rows of its operation, and writes the bytes of the row that fits.

mod bytes;
mod operands;

use super::error::{Error, Reason};
use super::features::Features;
use super::inst::Inst;
use super::operand::{Base, Label, Mem};
use super::register::{Mask, Rounding, Width};
use super::row::{Encoding, Row, flag};

/// What the encoding of an instruction depends on besides the instruction.
pub(super) struct Context<'a> {
    /// The features of the target.
    pub(super) features: Features,
    /// The position of the instruction.
    pub(super) position: u32,
    /// The positions of labels; [`UNBOUND`] for those whose position is not known.
    pub(super) labels: &'a [u32],
}

/// The position of a label that is not bound.
pub(super) const UNBOUND: u32 = u32::MAX;

/// What a 32-bit displacement is relative to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Label(Label),
    Base(Base),
}

/// The bytes of an instruction.
pub(super) struct Encoded {
    pub(super) bytes: [u8; 16],
    pub(super) len: usize,
    /// A displacement that is not known yet: its position within the instruction, and its target.
    pub(super) fixup: Option<(usize, Target)>,
}

/// What ModRM.rm encodes.
#[derive(Clone, Copy)]
enum Rm<'a> {
    None,
    Register(u8),
    Memory(&'a Mem),
}

/// The number behind the opcode.
#[derive(Clone, Copy)]
struct Immediate {
    value: i64,
    bytes: u8,
}

/// The fields of an encoding, taken from the operands.
struct Fields<'a> {
    reg: u8,
    vvvv: u8,
    rm: Rm<'a>,
    /// What is added to the opcode.
    opcode: u8,
    /// The fourth bit of a register whose other bits are in the opcode.
    opcode_high: u8,
    immediate: Immediate,
    label: Option<Label>,
    /// Whether an 8-bit register requires a REX prefix.
    rex: bool,
}

impl Fields<'_> {
    const NONE: Fields<'static> = Fields {
        reg: 0,
        vvvv: 0,
        rm: Rm::None,
        opcode: 0,
        opcode_high: 0,
        immediate: Immediate { value: 0, bytes: 0 },
        label: None,
        rex: false,
    };
}

/// Encodes an instruction.
pub(super) fn encode(inst: &Inst, context: &Context<'_>) -> Result<Encoded, Error> {
    let mut reason = Reason::Width;
    let mut fields = Fields::NONE;
    let rows = inst.op.rows();
    for (n, row) in rows.iter().enumerate() {
        match fill(&mut fields, row, inst, context) {
            Ok(()) => {
                let row = shortest(&mut fields, row, &rows[n + 1..], inst, context);
                return Ok(bytes::write(row, inst, &fields));
            }
            Err(other) if other.rank() >= reason.rank() => reason = other,
            Err(_) => {}
        }
    }
    Err(Error::Instruction {
        op: inst.op,
        width: inst.width,
        reason,
    })
}

/// Encodes an instruction as a row says.
#[cfg(test)]
pub(super) fn encode_as(row: &Row, inst: &Inst, context: &Context<'_>) -> Result<Encoded, Reason> {
    let mut fields = Fields::NONE;
    fill(&mut fields, row, inst, context)?;
    Ok(bytes::write(row, inst, &fields))
}

/// The row to use if `row` fits: that row, or one of `others` if it saves bytes. EVEX encodes in 8 bits some displacements
/// for which VEX requires 32 bits.
fn shortest<'a>(
    fields: &mut Fields<'a>,
    row: &'static Row,
    others: &'static [Row],
    inst: &'a Inst,
    context: &Context<'_>,
) -> &'static Row {
    if let (Encoding::Vex, Rm::Memory(mem)) = (row.encoding, fields.rm)
        && matches!(mem.base, Base::Gpr(_))
        && i8::try_from(mem.disp).is_err()
    {
        for other in others {
            let unit = other.displacement_unit(inst.width, false);
            let mut shorter = Fields::NONE;
            if bytes::compressed(mem.disp, unit).is_some()
                && fill(&mut shorter, other, inst, context).is_ok()
            {
                *fields = shorter;
                return other;
            }
        }
    }
    row
}

/// Sets the fields of an instruction in the encoding of a row. Fails if the row does not fit.
fn fill<'a>(
    fields: &mut Fields<'a>,
    row: &Row,
    inst: &'a Inst,
    context: &Context<'_>,
) -> Result<(), Reason> {
    if !row.widths.contains(inst.width) {
        return Err(Reason::Width);
    }
    check_mask(row, inst)?;
    operands::fill(fields, row, inst, context)?;
    check_rounding(row, inst, fields)?;
    if inst.lock && (row.flags & flag::LOCK == 0 || !matches!(fields.rm, Rm::Memory(_))) {
        return Err(Reason::Lock);
    }
    operands::check_gather(row, inst)?;
    let required = row.features(inst.width);
    if !context.features.contains(required) {
        return Err(Reason::Features(required));
    }
    Ok(())
}

fn check_mask(row: &Row, inst: &Inst) -> Result<(), Reason> {
    let masked = inst.mask != Mask::NONE;
    if masked && (!row.allows_mask() || inst.mask.0 > 7) || !masked && row.requires_mask() {
        return Err(Reason::Mask);
    }
    let to_memory = matches!(inst.operands[0], super::operand::Operand::Mem(_));
    if inst.zeroing && (!masked || row.flags & flag::ZERO == 0 || to_memory) {
        return Err(Reason::Zeroing);
    }
    Ok(())
}

fn check_rounding(row: &Row, inst: &Inst, fields: &Fields<'_>) -> Result<(), Reason> {
    let required = match inst.rounding {
        Rounding::Mxcsr => return Ok(()),
        Rounding::SuppressOnly => flag::SUPPRESS,
        _ => flag::ROUND,
    };
    let all_bits = inst.width == Width::L512 || row.widths.is_scalar();
    if row.flags & required == 0 || !all_bits || matches!(fields.rm, Rm::Memory(_)) {
        return Err(Reason::Rounding);
    }
    Ok(())
}
