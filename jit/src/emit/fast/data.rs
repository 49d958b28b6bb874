//! Moves of bits between registers.

use cranelift_codegen::ir::dfg::DataFlowGraph;
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;

use crate::emit::{Lane, clif_type};

/// Copies the operand's bits to the result, which may be in a register of another class (integer or
/// floating-point).
pub(super) fn bitcast(lane: &mut Lane<'_, '_>, inst: Inst, _: &InstData) -> Option<()> {
    let bits = lane.arg(inst, 0);
    let &value = lane.function.dfg.results(inst).first()?;
    let to = clif_type(lane.function.dfg.ty(value));
    let from = lane.b.func.dfg.value_type(bits);
    if from.bits() != to.bits() {
        return None;
    }
    let flags = crate::emit::memory::host_cast();
    let cast = if from == to {
        bits
    } else {
        lane.b.ins().bitcast(to, flags, bits)
    };
    lane.set(value, cast);
    Some(())
}

/// Emits the concatenation of two or four operands to at most 64 bits, or of two operands to 128
/// bits.
pub(super) fn pack(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let count = lane.function.dfg.args(inst).len();
    let part = data.src.bits();
    let &value = lane.function.dfg.results(inst).first()?;
    let to = clif_type(lane.function.dfg.ty(value));
    if to.is_float() || !matches!(part, 8 | 16 | 32 | 64) || part * count as u32 != to.bits() {
        return None;
    }
    if part == 64 {
        let (low, high) = (lane.arg(inst, 0), lane.arg(inst, 1));
        let (low, high) = (lane.as_int(low), lane.as_int(high));
        let whole = lane.b.ins().iconcat(low, high);
        lane.set(value, whole);
        return Some(());
    }
    if to == types::I128 {
        return None;
    }
    let mut whole = None;
    for i in 0..count {
        let bits = lane.arg(inst, i);
        let bits = lane.as_int(bits);
        let from = lane.b.func.dfg.value_type(bits);
        if from.bits() != part {
            return None;
        }
        let wide = lane.b.ins().uextend(to, bits);
        let placed = lane.b.ins().ishl_imm_u(wide, i64::from(part) * i as i64);
        whole = Some(match whole {
            None => placed,
            Some(rest) => lane.b.ins().bor(rest, placed),
        });
    }
    lane.set(value, whole?);
    Some(())
}

/// Emits code that splits the operand into several results; the inverse of [`pack`].
pub(super) fn unpack(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let whole = lane.arg(inst, 0);
    let whole = lane.as_int(whole);
    let from = lane.b.func.dfg.value_type(whole);
    let part = data.ty.bits();
    let results = lane.function.dfg.results(inst).to_vec();
    let fits = results
        .iter()
        .all(|&v| clif_type(lane.function.dfg.ty(v)).bits() == part);
    if !fits || !matches!(part, 8 | 16 | 32 | 64) {
        return None;
    }
    if from == types::I128 && part == 64 {
        let (low, high) = match concatenated(&lane.b.func.dfg, whole) {
            Some(parts) => parts,
            None => lane.b.ins().isplit(whole),
        };
        for (&value, bits) in results.iter().zip([low, high]) {
            put(lane, value, bits);
        }
        return Some(());
    }
    if from == types::I128 || part * results.len() as u32 != from.bits() {
        return None;
    }
    for (i, &value) in results.iter().enumerate() {
        let moved = lane.b.ins().ushr_imm_u(whole, i64::from(part) * i as i64);
        let ty = cranelift_codegen::ir::Type::int(part as u16)?;
        let bits = lane.b.ins().ireduce(ty, moved);
        put(lane, value, bits);
    }
    Some(())
}

/// Returns the two halves of a value if an `iconcat` defines the value. The caller uses the halves instead of an
/// `isplit`, because the time that Cranelift needs for a chain of `iconcat` and `isplit` is quadratic in the chain's
/// length.
fn concatenated(dfg: &DataFlowGraph, whole: ir::Value) -> Option<(ir::Value, ir::Value)> {
    let inst = dfg.value_def(dfg.resolve_aliases(whole)).inst()?;
    match (dfg.insts[inst].opcode(), dfg.inst_args(inst)) {
        (ir::Opcode::Iconcat, &[low, high]) => Some((low, high)),
        _ => None,
    }
}

fn put(
    lane: &mut Lane<'_, '_>,
    value: margay_ir::entity::Value,
    bits: cranelift_codegen::ir::Value,
) {
    let to = clif_type(lane.function.dfg.ty(value));
    let flags = crate::emit::memory::host_cast();
    let bits = if to.is_float() {
        lane.b.ins().bitcast(to, flags, bits)
    } else {
        bits
    };
    lane.set(value, bits);
}
