//! Matches the operands of an instruction with those of a row.

use super::{Context, Fields, Immediate, Rm, UNBOUND};
use crate::asm::error::Reason;
use crate::asm::inst::Inst;
use crate::asm::operand::{Base, Index, Label, Mem, Operand};
use crate::asm::register::{Gpr, Mask, Width, Zmm};
use crate::asm::row::{Class, Encoding, Kind, Place, Row, Slot};

/// The number of bytes of `jmp` and `jcc` with an 8-bit displacement.
const SHORT_JUMP: i64 = 2;

/// Sets the fields of the operands. Fails if an operand does not fit.
pub(super) fn fill<'a>(
    fields: &mut Fields<'a>,
    row: &Row,
    inst: &'a Inst,
    context: &Context<'_>,
) -> Result<(), Reason> {
    *fields = Fields::NONE;
    if let Some(digit) = row.digit {
        fields.reg = digit;
        fields.rm = Rm::Register(0);
    }
    let slots = row.stated();
    let present = |operand: &&Operand| !matches!(operand, Operand::None);
    if inst.operands.iter().take_while(present).count() != slots.len() {
        return Err(Reason::Count);
    }
    for (n, (slot, operand)) in slots.iter().zip(&inst.operands).enumerate() {
        let placed = place(fields, row, inst.width, slot, operand, context);
        placed.map_err(|problem| match problem {
            Problem::Kind => Reason::Kind(n as u8),
            Problem::Field => Reason::Field(n as u8),
            Problem::Broadcast => Reason::Broadcast,
        })?;
    }
    Ok(())
}

/// Why an operand does not fit.
enum Problem {
    Kind,
    Field,
    Broadcast,
}

fn place<'a>(
    fields: &mut Fields<'a>,
    row: &Row,
    width: Width,
    slot: &Slot,
    operand: &'a Operand,
    context: &Context<'_>,
) -> Result<(), Problem> {
    match *operand {
        Operand::Gpr(Gpr(n)) if slot.class() == Some(Class::Gpr) => {
            let byte = slot.kind == Kind::Gpr8 || slot.kind == Kind::Gpr && width == Width::W8;
            fields.rex |= byte && n >= 4;
            register(fields, slot, n, 16)
        }
        Operand::Zmm(Zmm(n)) if slot.class() == Some(Class::Vector) => {
            let evex = row.encoding == Encoding::Evex;
            register(fields, slot, n, if evex { 32 } else { 16 })
        }
        Operand::Mask(Mask(n)) if slot.class() == Some(Class::Mask) => register(fields, slot, n, 8),
        Operand::Mem(_) if slot.allows_memory() => {
            let Operand::Mem(mem) = operand else {
                return Err(Problem::Kind);
            };
            fields.rm = Rm::Memory(mem);
            check_memory(row, slot, mem)
        }
        Operand::Imm(value) => number(fields, slot.kind, width, value),
        Operand::Cond(cond) if slot.kind == Kind::Cond => {
            fields.opcode = cond as u8;
            Ok(())
        }
        Operand::Label(label) => jump(fields, slot.kind, label, context),
        _ => Err(Problem::Kind),
    }
}

fn register(fields: &mut Fields<'_>, slot: &Slot, n: u8, limit: u8) -> Result<(), Problem> {
    if n >= limit {
        return Err(Problem::Field);
    }
    match slot.place {
        Place::Reg => fields.reg = n,
        Place::Vvvv => fields.vvvv = n,
        Place::Is4 => {
            fields.immediate = Immediate {
                value: i64::from(n) << 4,
                bytes: 1,
            }
        }
        Place::RegisterOrMemory | Place::Register => fields.rm = Rm::Register(n),
        Place::Opcode => {
            fields.opcode = n & 7;
            fields.opcode_high = n >> 3;
        }
        Place::Zero if n == 0 => {}
        Place::Zero | Place::Memory | Place::Vsib | Place::Field | Place::Implied => {
            return Err(Problem::Kind);
        }
    }
    Ok(())
}

fn check_memory(row: &Row, slot: &Slot, mem: &Mem) -> Result<(), Problem> {
    if mem.broadcast && !row.allows_broadcast() {
        return Err(Problem::Broadcast);
    }
    let base = match mem.base {
        Base::None => true,
        Base::Gpr(Gpr(n)) => n < 16,
        Base::Label(_) | Base::Constant(_) | Base::Symbol(_) => mem.index == Index::None,
    };
    let registers = if row.encoding == Encoding::Evex {
        32
    } else {
        16
    };
    let index = match mem.index {
        Index::None => slot.place != Place::Vsib,
        Index::Gpr(n, _) => slot.place != Place::Vsib && n.0 < 16 && n != Gpr::RSP,
        Index::Zmm(n, _) => slot.place == Place::Vsib && n.0 < registers,
    };
    if base && index {
        Ok(())
    } else {
        Err(Problem::Field)
    }
}

/// The value of a number's low `bits`, extended with their sign, if the number has no other bits than copies of its sign
/// or zeros above them.
fn extended(value: i64, bits: u32) -> Option<i64> {
    let shift = 64 - bits;
    let signed = value << shift >> shift;
    let fits = signed == value || shift > 0 && value >> bits == 0;
    fits.then_some(signed)
}

fn number(fields: &mut Fields<'_>, kind: Kind, width: Width, value: i64) -> Result<(), Problem> {
    let bits = width.bytes() * 8;
    let (value, bytes) = match kind {
        Kind::Imm8 => (extended(value, 8), 1),
        Kind::Imm4 => (extended(value, 8).filter(|x| (0..16).contains(x)), 1),
        Kind::One => (Some(value).filter(|&x| x == 1), 0),
        Kind::ImmSigned8 => {
            let value = extended(value, bits).filter(|&x| i8::try_from(x).is_ok());
            (value, 1)
        }
        Kind::ImmWidth => {
            let value = extended(value, bits).filter(|&x| i32::try_from(x).is_ok());
            (value, width.bytes().min(4) as u8)
        }
        Kind::ImmUnsigned32 => (Some(value).filter(|&x| u32::try_from(x).is_ok()), 4),
        Kind::Imm64 => (Some(value), 8),
        _ => return Err(Problem::Kind),
    };
    let value = value.ok_or(Problem::Field)?;
    fields.immediate = Immediate { value, bytes };
    Ok(())
}

fn jump(
    fields: &mut Fields<'_>,
    kind: Kind,
    label: Label,
    context: &Context<'_>,
) -> Result<(), Problem> {
    match kind {
        Kind::Label8 => {
            let position = context.labels.get(label.0 as usize);
            let position = position.filter(|&&x| x != UNBOUND).ok_or(Problem::Field)?;
            let distance = i64::from(*position) - i64::from(context.position) - SHORT_JUMP;
            i8::try_from(distance).map_err(|_| Problem::Field)?;
            fields.immediate = Immediate {
                value: distance,
                bytes: 1,
            };
        }
        Kind::Label32 => fields.label = Some(label),
        _ => return Err(Problem::Kind),
    }
    Ok(())
}

/// Checks that the registers of a gather differ from each other.
pub(super) fn check_gather(row: &Row, inst: &Inst) -> Result<(), Reason> {
    let [Operand::Zmm(to), Operand::Mem(mem), mask, _] = &inst.operands else {
        return Ok(());
    };
    if row.slots()[1].place != Place::Vsib {
        return Ok(());
    }
    let Index::Zmm(index, _) = mem.index else {
        return Ok(());
    };
    let overlap = match *mask {
        Operand::Zmm(mask) => mask == index || mask == *to,
        _ => false,
    };
    if overlap || index == *to {
        return Err(Reason::Overlap);
    }
    Ok(())
}
