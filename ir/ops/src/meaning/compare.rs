//! The reference functions of the ops for comparison and selection: `setp`, `set`, `selp`, `slct`
//! and `testp`.
//!
//! If an operand is NaN, ordered comparisons are false, and unordered comparisons (`equ`, `ltu` ...) are true. `lo`,
//! `ls`, `hi` and `hs` compare their operands as unsigned integers, regardless of the type. Packed halves are compared
//! element by element: `setp` writes the result of the lower element to its first destination and the result of the
//! upper element to its second destination.

use super::bits::combine;
use super::soft::Format;
use super::{Bits, Desc, arg, element, float, int, mask, minmax};
use crate::mods::{CmpOp, Mode};
use crate::types::OpType;
use std::cmp::Ordering;

/// Returns the result of the comparison `cmp` for two operands whose order is `order`; `None` means
/// that an operand is NaN.
#[inline(always)]
fn holds(cmp: CmpOp, order: Option<Ordering>) -> bool {
    let Some(order) = order else {
        return matches!(
            cmp,
            CmpOp::Equ
                | CmpOp::Neu
                | CmpOp::Ltu
                | CmpOp::Leu
                | CmpOp::Gtu
                | CmpOp::Geu
                | CmpOp::Nan
        );
    };
    match cmp {
        CmpOp::Eq | CmpOp::Equ => order.is_eq(),
        CmpOp::Ne | CmpOp::Neu => order.is_ne(),
        CmpOp::Lt | CmpOp::Lo | CmpOp::Ltu => order.is_lt(),
        CmpOp::Le | CmpOp::Ls | CmpOp::Leu => order.is_le(),
        CmpOp::Gt | CmpOp::Hi | CmpOp::Gtu => order.is_gt(),
        CmpOp::Ge | CmpOp::Hs | CmpOp::Geu => order.is_ge(),
        CmpOp::Num => true,
        CmpOp::Nan | CmpOp::None => false,
    }
}

/// Compares integers.
#[inline(always)]
pub(super) fn integers(cmp: CmpOp, a: i128, b: i128) -> bool {
    holds(cmp, Some(a.cmp(&b)))
}

#[inline(always)]
fn compare_element(desc: &Desc, ty: OpType, a: Bits, b: Bits) -> bool {
    let cmp = desc.mods.cmp();
    if let Some(format) = Format::of(ty) {
        let (a, b) = (
            float::input(desc, &format, a),
            float::input(desc, &format, b),
        );
        return holds(cmp, float_order(&format, a, b));
    }
    let unsigned = matches!(cmp, CmpOp::Lo | CmpOp::Ls | CmpOp::Hi | CmpOp::Hs);
    let read = |bits: Bits| {
        if unsigned {
            (bits & mask(ty.element_bits())) as i128
        } else {
            int::value(ty, bits)
        }
    };
    integers(cmp, read(a), read(b))
}

#[inline(always)]
fn float_order(format: &Format, a: Bits, b: Bits) -> Option<Ordering> {
    if format.is_nan(a) || format.is_nan(b) {
        None
    } else if format.magnitude(a | b) == 0 {
        Some(Ordering::Equal)
    } else {
        Some(minmax::order_key(format, a).cmp(&minmax::order_key(format, b)))
    }
}

/// Compares the elements with the index `index` of the two operands. Returns the result of the
/// comparison and its complement, each combined with the predicate operand if there is one.
#[inline(always)]
fn outcomes(desc: &Desc, ty: OpType, args: &[Bits], index: u32) -> (bool, bool) {
    let operand = |i| element(ty, arg(args, i), index);
    let outcome = compare_element(desc, ty, operand(0), operand(1));
    let with = arg(args, 2) & 1 != 0;
    let op = desc.mods.bool_op();
    (combine(op, outcome, with), combine(op, !outcome, with))
}

/// Compares the operands and returns predicates: the result of the comparison and, if `out` has two
/// elements, a second predicate.
#[inline(always)]
pub fn setp(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let (first, complement) = outcomes(desc, desc.ty, args, 0);
    out[0] = first.into();
    if let Some(slot) = out.get_mut(1) {
        let packed = desc.ty.elements() == 2;
        *slot = if packed {
            outcomes(desc, desc.ty, args, 1).0
        } else {
            complement
        }
        .into();
    }
}

/// Compares the operands. The result is 0 if the comparison is false. If it is true, the result is 1.0 for
/// floating-point types and all ones for integer types. `ty` is the type of the result, and `src` is the type of the
/// operands.
pub fn set(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let source = if desc.src == OpType::None {
        desc.ty
    } else {
        desc.src
    };
    let lanes = source.elements().max(1);
    let lane_bits = desc.ty.bits() / lanes;
    let truth = Format::of(desc.ty).map_or(mask(lane_bits), |format| format.one());
    out[0] = (0..lanes).fold(0, |whole, i| {
        let bits = if outcomes(desc, source, args, i).0 {
            truth
        } else {
            0
        };
        whole | (bits & mask(lane_bits)) << (i * lane_bits)
    });
}

/// Returns the first operand if the third operand, a predicate, is true, and the second operand
/// otherwise.
#[inline(always)]
pub fn selp(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let chosen = if arg(args, 2) & 1 != 0 {
        arg(args, 0)
    } else {
        arg(args, 1)
    };
    out[0] = chosen & mask(desc.ty.bits());
}

/// Returns the first operand if the third operand (an `s32` or `f32`) is not negative, and the
/// second operand otherwise. -0 is not negative; for a NaN, the result is the second operand.
pub fn slct(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let c = arg(args, 2);
    let not_negative = match Format::of(desc.src) {
        Some(format) => {
            let c = float::input(desc, &format, c);
            float_order(&format, c, 0).is_some_and(Ordering::is_ge)
        }
        None => int::value(OpType::S32, c) >= 0,
    };
    out[0] = (if not_negative {
        arg(args, 0)
    } else {
        arg(args, 1)
    }) & mask(desc.ty.bits());
}

/// Returns whether a floating-point value has the property that the modifiers name, such as
/// infinite. A zero counts as normal.
pub fn testp(desc: &Desc, args: &[Bits], out: &mut [Bits]) {
    let Some(format) = Format::of(desc.ty) else {
        return;
    };
    let bits = arg(args, 0) & mask(format.width());
    let infinite = format.magnitude(bits) == format.infinity();
    let nan = format.is_nan(bits);
    let subnormal = format.is_subnormal(bits);
    out[0] = Bits::from(match desc.mods.mode() {
        Mode::Finite => !nan && !infinite,
        Mode::Infinite => infinite,
        Mode::Number => !nan,
        Mode::NotANumber => nan,
        Mode::Normal => !nan && !infinite && !subnormal,
        Mode::Subnormal => subnormal,
        _ => false,
    });
}
