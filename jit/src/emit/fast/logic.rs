//! Bitwise logic and shifts.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::mods::{BoolOp, Mode};
use margay_ops::types::{Class, OpType};

use crate::emit::{Lane, clif_type, memory};

/// Returns the Cranelift type of a logic operation. Predicates are bytes that contain 0 or 1.
fn width(ty: OpType) -> Option<Type> {
    match (ty.class(), ty.bits()) {
        (Class::Pred, _) => Some(types::I8),
        (_, 16) => Some(types::I16),
        (_, 32) => Some(types::I32),
        (_, 64) => Some(types::I64),
        _ => None,
    }
}

pub(super) fn operand(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    index: usize,
    ty: Type,
) -> Option<Value> {
    let bits = lane.arg(inst, index);
    let bits = lane.as_int(bits);
    (lane.b.func.dfg.value_type(bits) == ty).then_some(bits)
}

pub(super) fn define(lane: &mut Lane<'_, '_>, inst: Inst, bits: Value) -> Option<()> {
    let &value = lane.function.dfg.results(inst).first()?;
    let to = clif_type(lane.function.dfg.ty(value));
    let from = lane.b.func.dfg.value_type(bits);
    if to.bits() != from.bits() {
        return None;
    }
    let bits = if to.is_float() {
        lane.b.ins().bitcast(to, memory::host_cast(), bits)
    } else {
        bits
    };
    lane.set(value, bits);
    Some(())
}

macro_rules! binary {
    ($name:ident, $op:ident) => {
        pub(super) fn $name(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
            let ty = width(data.ty)?;
            let (a, b) = (operand(lane, inst, 0, ty)?, operand(lane, inst, 1, ty)?);
            let bits = lane.b.ins().$op(a, b);
            define(lane, inst, bits)
        }
    };
}

binary!(and, band);
binary!(or, bor);
binary!(xor, bxor);

pub(super) fn not(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = width(data.ty)?;
    let a = operand(lane, inst, 0, ty)?;
    let bits = match data.ty.class() {
        Class::Pred => lane.b.ins().bxor_imm_u(a, 1),
        _ => lane.b.ins().bnot(a),
    };
    define(lane, inst, bits)
}

/// Emits the computation of the bitwise function of `b` and `c` whose truth table is `table`: bit
/// `2b+c` of `table` is the result for `b` and `c`.
fn two(lane: &mut Lane<'_, '_>, table: u8, b: Value, c: Value) -> Value {
    let ins = |lane: &mut Lane<'_, '_>, bits: i64| lane.b.ins().iconst(types::I32, bits);
    match table {
        0x0 => ins(lane, 0),
        0x1 => {
            let any = lane.b.ins().bor(b, c);
            lane.b.ins().bnot(any)
        }
        0x2 => lane.b.ins().band_not(c, b),
        0x3 => lane.b.ins().bnot(b),
        0x4 => lane.b.ins().band_not(b, c),
        0x5 => lane.b.ins().bnot(c),
        0x6 => lane.b.ins().bxor(b, c),
        0x7 => {
            let both = lane.b.ins().band(b, c);
            lane.b.ins().bnot(both)
        }
        0x8 => lane.b.ins().band(b, c),
        0x9 => {
            let differ = lane.b.ins().bxor(b, c);
            lane.b.ins().bnot(differ)
        }
        0xa => c,
        0xb => lane.b.ins().bor_not(c, b),
        0xc => b,
        0xd => lane.b.ins().bor_not(b, c),
        0xe => lane.b.ins().bor(b, c),
        _ => ins(lane, -1),
    }
}

pub(super) fn lop3(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if data.mods.bool_op() != BoolOp::None || lane.function.dfg.results(inst).len() != 1 {
        return None;
    }
    let &table = lane.function.dfg.args(inst).get(3)?;
    let table = lane.function.dfg.constant(table)? as u8;
    let a = operand(lane, inst, 0, types::I32)?;
    let b = operand(lane, inst, 1, types::I32)?;
    let c = operand(lane, inst, 2, types::I32)?;
    // The index into the truth table is 4a+2b+c, so the upper four bits are the table of the function of `b` and `c`
    // for a = 1.
    let (set, clear) = (table >> 4, table & 15);
    let bits = if set == clear {
        two(lane, set, b, c)
    } else if set == clear ^ 15 {
        let base = two(lane, clear, b, c);
        lane.b.ins().bxor(a, base)
    } else {
        let (set, clear) = (two(lane, set, b, c), two(lane, clear, b, c));
        lane.b.ins().bitselect(a, set, clear)
    };
    define(lane, inst, bits)
}

/// Returns the shift amount as a 32-bit value and, if the amount is constant, whether it is less than the width.
fn amount(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    index: usize,
    bits: u32,
) -> Option<(Value, Option<bool>)> {
    let &value = lane.function.dfg.args(inst).get(index)?;
    let known = lane.function.dfg.constant(value).map(|n| (n as u32) < bits);
    let amount = operand(lane, inst, index, types::I32)?;
    Some((amount, known))
}

pub(super) fn shl(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = width(data.ty)?;
    let a = operand(lane, inst, 0, ty)?;
    let (by, known) = amount(lane, inst, 1, ty.bits())?;
    let bits = clamped(lane, ty, by, known, |lane| lane.b.ins().ishl(a, by));
    define(lane, inst, bits)
}

/// Emits the selection of a shift's result: the shifted value, or zero if the amount is at least the width.
fn clamped(
    lane: &mut Lane<'_, '_>,
    ty: Type,
    by: Value,
    known: Option<bool>,
    shift: impl FnOnce(&mut Lane<'_, '_>) -> Value,
) -> Value {
    match known {
        Some(true) => shift(lane),
        Some(false) => lane.b.ins().iconst(ty, 0),
        None => {
            let shifted = shift(lane);
            let zero = lane.b.ins().iconst(ty, 0);
            let all = lane.b.ins().icmp_imm_s(
                IntCC::UnsignedGreaterThanOrEqual,
                by,
                i64::from(ty.bits()),
            );
            lane.b.ins().select(all, zero, shifted)
        }
    }
}

pub(super) fn shr(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = width(data.ty)?;
    let a = operand(lane, inst, 0, ty)?;
    let (by, known) = amount(lane, inst, 1, ty.bits())?;
    let bits = if data.ty.is_signed() {
        let limit = lane.b.ins().iconst(types::I32, i64::from(ty.bits()) - 1);
        let by = if known == Some(true) {
            by
        } else {
            lane.b.ins().umin(by, limit)
        };
        lane.b.ins().sshr(a, by)
    } else {
        clamped(lane, ty, by, known, |lane| lane.b.ins().ushr(a, by))
    };
    define(lane, inst, bits)
}

pub(super) fn shf(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let low = operand(lane, inst, 0, types::I32)?;
    let high = operand(lane, inst, 1, types::I32)?;
    let by = operand(lane, inst, 2, types::I32)?;
    let by = if data.mods.flag() {
        lane.b.ins().band_imm_u(by, 31)
    } else {
        let limit = lane.b.ins().iconst(types::I32, 32);
        lane.b.ins().umin(by, limit)
    };
    let low = lane.b.ins().uextend(types::I64, low);
    let high = lane.b.ins().uextend(types::I64, high);
    let high = lane.b.ins().ishl_imm_u(high, 32);
    let both = lane.b.ins().bor(low, high);
    let bits = match data.mods.mode() {
        Mode::Left => {
            let moved = lane.b.ins().ishl(both, by);
            lane.b.ins().ushr_imm_u(moved, 32)
        }
        Mode::Right => lane.b.ins().ushr(both, by),
        _ => return None,
    };
    let bits = lane.b.ins().ireduce(types::I32, bits);
    define(lane, inst, bits)
}
