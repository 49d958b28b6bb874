//! Removes integer operations that change nothing because bits of their operands are known to be zero, and replaces
//! results that are known to be zero by a constant.
//!
//! Compilers whose indices are signed (Numba, Julia) emit code that tests the sign of each index,
//! including indices that are computed from special registers. The ranges of special registers (PTX
//! ISA 10) show that the sign bits of these indices are zero. If the pass removes these tests, the
//! addresses are affine in the thread's index, and vector code can access whole vectors.
//!
//! The analysis visits each instruction once, in reverse postorder. All bits of block parameters count as unknown.

use margay_ops::mods::Half;
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::Kind;

use crate::analysis::Cfg;
use crate::entity::{Inst, SecondaryMap, Value};
use crate::function::{Function, ValueDef, payload_sreg};

/// For each value, a mask of the bits that are known to be zero. Values with more than 64 bits and vectors have no
/// known bits.
type Zeros = SecondaryMap<Value, u64>;

/// Removes the operations that change nothing, replaces results that are known to be zero by a constant, and returns
/// whether anything changed.
pub fn run(function: &mut Function) -> bool {
    let mut zeros = Zeros::default();
    let mut changed = false;
    for block in Cfg::new(function).rpo().to_vec() {
        let mut insts = std::mem::take(&mut function.layout.insts[block]);
        insts.retain(|&inst| {
            function.dfg.resolve_args(inst);
            let Some((result, bits)) = integer_result(function, inst) else {
                return true;
            };
            let known = known_zeros(function, &zeros, inst, bits);
            zeros[result] = known;
            if let Some(value) = unchanged(function, &zeros, inst) {
                function.dfg.values[result].def = ValueDef::Alias(value);
                changed = true;
                return false;
            }
            let data = &function.dfg.insts[inst];
            if known == mask(bits)
                && data.opcode != Opcode::Const
                && function.effects(inst).is_pure()
            {
                super::simplify::become_constant(function, inst, kind(function, result), 0);
                changed = true;
            }
            true
        });
        function.layout.insts[block] = insts;
    }
    if changed {
        crate::edit::resolve_aliases(function);
    }
    changed
}

fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

fn kind(function: &Function, value: Value) -> Kind {
    function.dfg.ty(value).kind()
}

/// Returns the number of bits of a scalar integer of 8 to 64 bits; `None` for other values.
fn integer_bits(function: &Function, value: Value) -> Option<u32> {
    let one = function.dfg.ty(value).lanes() == 1;
    match kind(function, value) {
        Kind::B8 | Kind::B16 | Kind::B32 | Kind::B64 if one => Some(kind(function, value).bits()),
        _ => None,
    }
}

/// If an instruction has exactly one result and this result is a scalar integer of 8 to 64 bits, returns the result and
/// its number of bits.
fn integer_result(function: &Function, inst: Inst) -> Option<(Value, u32)> {
    match function.dfg.results(inst) {
        &[result] => Some((result, integer_bits(function, result)?)),
        _ => None,
    }
}

/// Returns an upper bound of the values of a special register; `None` if no bound is known.
fn limit(register: SpecialReg) -> Option<u64> {
    use SpecialReg as R;
    Some(match register {
        R::TidX | R::TidY => 1023,
        R::TidZ => 63,
        R::NtidX | R::NtidY => 1024,
        R::NtidZ => 64,
        R::CtaidX | R::NctaidX => 0x7fff_ffff,
        R::CtaidY | R::CtaidZ | R::NctaidY | R::NctaidZ => 65_535,
        R::Laneid => 31,
        _ => return None,
    })
}

/// Returns a mask of the bits that are known to be zero in the result of `inst`, which has `bits` bits.
fn known_zeros(function: &Function, zeros: &Zeros, inst: Inst, bits: u32) -> u64 {
    let dfg = &function.dfg;
    let data = &dfg.insts[inst];
    let args = dfg.args(inst);
    let all = mask(bits);
    let up_to = |most: Option<u64>| match most {
        Some(0) => all,
        Some(most) => all & !(u64::MAX >> most.leading_zeros()),
        None => 0,
    };
    match data.opcode {
        Opcode::Const => return all & !data.payload(),
        Opcode::SReg => return up_to(payload_sreg(data.payload()).and_then(limit)),
        _ => {}
    }
    let plain = data.ty.is_integer() && data.ty.elements() == 1 && !data.mods.sat();
    let whole = data.ty.bits() == bits;
    let of = |index: usize| args.get(index).map_or(0, |&arg| zeros[arg]);
    let most = |index: usize| {
        let bits = integer_bits(function, *args.get(index)?)?;
        Some(mask(bits) & !of(index))
    };
    let amount = || {
        let amount = dfg.constant(*args.get(1)?)?;
        (amount < u64::from(bits)).then_some(amount as u32)
    };
    let sign = 1 << (bits - 1);
    let fits = |most: &u64| *most <= all;
    match (data.opcode, args.len()) {
        _ if !plain => 0,
        (Opcode::And, 2) if whole => of(0) | of(1),
        (Opcode::Or | Opcode::Xor, 2) if whole => of(0) & of(1),
        (Opcode::Selp, 3) if whole => of(0) & of(1),
        (Opcode::Shl, 2) if whole => {
            amount().map_or(0, |by| all & (of(0) << by | !(u64::MAX << by)))
        }
        (Opcode::Shr, 2) if whole => amount().map_or(0, |by| {
            let above = all & !(all >> by);
            match data.ty.is_signed() && of(0) & sign == 0 {
                true => of(0) >> by & !above,
                false => of(0) >> by | above,
            }
        }),
        (Opcode::Add, 2) if whole => {
            let sum = || most(0)?.checked_add(most(1)?).filter(fits);
            up_to(sum())
        }
        (Opcode::Mul, 2) => {
            let half = data.mods.half();
            let factor = mask(data.ty.bits()) >> u32::from(data.ty.is_signed());
            let in_range = |most: &u64| half != Half::Wide || *most <= factor;
            let factor = |index| most(index).filter(in_range);
            let product = || factor(0)?.checked_mul(factor(1)?).filter(fits);
            match half {
                Half::Hi => 0,
                _ => up_to(product()),
            }
        }
        (Opcode::Cvt, 1) if whole && data.src.is_integer() && data.src.elements() == 1 => {
            let from = data.src.bits();
            let Some(source) = integer_bits(function, args[0]) else {
                return 0;
            };
            if from > source || from == 0 || from > 64 {
                return 0;
            }
            let low = of(0) & mask(from);
            let extended = !data.src.is_signed() || low >> (from - 1) & 1 != 0;
            all & match extended {
                true => low | !mask(from),
                false => low,
            }
        }
        _ => 0,
    }
}

/// If the result of an operation is always equal to one of its operands, returns this operand.
fn unchanged(function: &Function, zeros: &Zeros, inst: Inst) -> Option<Value> {
    let dfg = &function.dfg;
    let data = &dfg.insts[inst];
    let &[a, b] = dfg.args(inst) else {
        return None;
    };
    let (result, bits) = integer_result(function, inst)?;
    if !data.ty.is_integer() || data.ty.elements() != 1 || data.ty.bits() != bits {
        return None;
    }
    let is_zero =
        |value: Value| integer_bits(function, value).is_some_and(|bits| zeros[value] == mask(bits));
    let keeps = |value: Value, by: Value| {
        let constant = dfg.constant(by)?;
        (mask(bits) & !constant & !zeros[value] == 0).then_some(value)
    };
    let same = match data.opcode {
        Opcode::And => keeps(a, b).or_else(|| keeps(b, a)),
        Opcode::Add | Opcode::Or | Opcode::Xor if is_zero(b) => Some(a),
        Opcode::Add | Opcode::Or | Opcode::Xor if is_zero(a) => Some(b),
        Opcode::Sub | Opcode::Shl | Opcode::Shr if is_zero(b) => Some(a),
        _ => None,
    };
    same.filter(|&value| dfg.ty(value) == dfg.ty(result))
}
