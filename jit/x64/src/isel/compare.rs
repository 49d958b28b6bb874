//! Comparisons and selection in vector registers.

use margay_ops::mods::{BoolOp, CmpOp, Mode};
use margay_ops::types::OpType;
use regalloc2::VReg;
use smallvec::smallvec;

use super::Selector;
use super::map::{Out, Task};
use super::pieces::Piece;
use super::prim::Compare;

type S<'a> = Selector<'a>;

/// Returns the immediate operand of `vcmpps` for a comparison; the comparisons of unsigned integers order numbers.
pub(super) fn predicate(cmp: CmpOp) -> Option<u8> {
    Some(match cmp {
        CmpOp::Eq => 0x00,
        CmpOp::Lt | CmpOp::Lo => 0x11,
        CmpOp::Le | CmpOp::Ls => 0x12,
        CmpOp::Nan => 0x03,
        CmpOp::Neu => 0x04,
        CmpOp::Geu => 0x15,
        CmpOp::Gtu => 0x16,
        CmpOp::Num => 0x07,
        CmpOp::Equ => 0x08,
        CmpOp::Ltu => 0x19,
        CmpOp::Leu => 0x1a,
        CmpOp::Ne => 0x0c,
        CmpOp::Ge | CmpOp::Hs => 0x1d,
        CmpOp::Gt | CmpOp::Hi => 0x1e,
        CmpOp::None => return None,
    })
}

/// Returns a comparison of integers, and whether it is a comparison of signed numbers.
fn integer(cmp: CmpOp, signed: bool) -> Option<(Compare, bool)> {
    Some(match cmp {
        CmpOp::Eq => (Compare::Equal, signed),
        CmpOp::Ne => (Compare::NotEqual, signed),
        CmpOp::Lt => (Compare::Less, signed),
        CmpOp::Le => (Compare::LessOrEqual, signed),
        CmpOp::Gt => (Compare::Greater, signed),
        CmpOp::Ge => (Compare::GreaterOrEqual, signed),
        CmpOp::Lo => (Compare::Less, false),
        CmpOp::Ls => (Compare::LessOrEqual, false),
        CmpOp::Hi => (Compare::Greater, false),
        CmpOp::Hs => (Compare::GreaterOrEqual, false),
        _ => return None,
    })
}

/// Compares two operands as values of type `ty`.
fn compare(s: &mut S<'_>, t: &Task<'_>, ty: OpType, p: &[Piece]) -> Option<VReg> {
    if ty.elements() != 1 || ty.bits() < 8 {
        return None;
    }
    let cmp = t.desc.mods.cmp();
    if ty.is_integer() {
        let (how, signed) = integer(cmp, ty.is_signed())?;
        let a = s.reg(&p[0]);
        let b = s.rm(&p[1]);
        return Some(s.compare_int(how, signed, ty.bits(), t.lanes, a, b));
    }
    let predicate = predicate(cmp)?;
    let (a, b) = match ty {
        OpType::F32 => (s.single(t, &p[0]), s.single_rm(t, &p[1])),
        OpType::F64 => (s.reg(&p[0]), s.rm(&p[1])),
        OpType::F16 | OpType::BF16 if !t.desc.mods.ftz() => {
            let (a, b) = (s.widened(ty, t.lanes, &p[0]), s.widened(ty, t.lanes, &p[1]));
            return Some(s.compare_float(predicate, 32, t.lanes, a, b));
        }
        _ => return None,
    };
    Some(s.compare_float(predicate, ty.bits(), t.lanes, a, b))
}

/// Combines the outcome of a comparison with a predicate operand.
fn combined(s: &mut S<'_>, op: BoolOp, outcome: VReg, with: Option<&Piece>) -> Option<VReg> {
    if op == BoolOp::None {
        return Some(outcome);
    }
    let with = s.reg(with?);
    Some(match op {
        BoolOp::And => s.mask_and(outcome, with),
        BoolOp::Or => s.mask_or(outcome, with),
        _ => s.mask_xor(outcome, with),
    })
}

pub(super) fn setp(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let op = t.desc.mods.bool_op();
    let outcome = compare(s, t, t.desc.ty, p)?;
    let first = combined(s, op, outcome, p.get(2))?;
    if t.results.len() == 1 {
        return Some(smallvec![first]);
    }
    let complement = s.mask_not(outcome, t.lanes);
    let second = combined(s, op, complement, p.get(2))?;
    Some(smallvec![first, second])
}

pub(super) fn set(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let source = if t.desc.src == OpType::None {
        t.desc.ty
    } else {
        t.desc.src
    };
    let mut outcome = compare(s, t, source, p)?;
    if let (Some(bits), Some(_)) = (s.mask_elements(), p.get(2)) {
        // The masks that are operands have elements of another width than the compared values.
        outcome = s.vector_mask(outcome, bits, t.lanes);
    }
    let outcome = combined(s, t.desc.mods.bool_op(), outcome, p.get(2))?;
    let (ty, bits) = (t.desc.ty, t.desc.ty.bits());
    if ty.elements() != 1 || bits < 16 {
        return None;
    }
    if ty.is_integer() {
        return Some(smallvec![s.ones_in(outcome, bits, t.lanes)]);
    }
    let one = match ty {
        OpType::F32 => 0x3f80_0000,
        OpType::F16 => 0x3c00,
        OpType::BF16 => 0x3f80,
        _ => return None,
    };
    let (one, zero) = (s.splat_constant(one, bits), s.splat_constant(0, bits));
    Some(smallvec![s.select_lanes(outcome, bits, t.lanes, one, zero)])
}

pub(super) fn selp(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let bits = p[0].bits;
    let mask = s.reg(&p[2]);
    if bits == 1 {
        let (a, b) = (s.reg(&p[0]), s.reg(&p[1]));
        return Some(smallvec![s.mask_select(mask, a, b)]);
    }
    if let Some(chosen) = p[2].constant() {
        let chosen = if chosen & 1 != 0 { &p[0] } else { &p[1] };
        return Some(smallvec![s.reg(chosen)]);
    }
    let b = s.reg(&p[1]);
    let a = s.rm(&p[0]);
    Some(smallvec![s.select_lanes(mask, bits, t.lanes, a, b)])
}

pub(super) fn slct(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let zero = s.splat_constant(0, 32);
    let chosen = match t.desc.src {
        OpType::S32 => {
            let c = s.reg(&p[2]);
            s.compare_int(Compare::GreaterOrEqual, true, 32, t.lanes, c, zero)
        }
        OpType::F32 => {
            let c = s.single(t, &p[2]);
            s.compare_float(0x1d, 32, t.lanes, c, zero)
        }
        _ => return None,
    };
    let bits = p[0].bits;
    if bits == 1 {
        let (a, b) = (s.reg(&p[0]), s.reg(&p[1]));
        return Some(smallvec![s.mask_select(chosen, a, b)]);
    }
    let b = s.reg(&p[1]);
    let a = s.rm(&p[0]);
    Some(smallvec![s.select_lanes(chosen, bits, t.lanes, a, b)])
}

pub(super) fn testp(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    // The classes of `vfpclassps`: NaN, infinity, subnormal.
    const NAN: u8 = 0x81;
    const INFINITE: u8 = 0x18;
    const SUBNORMAL: u8 = 0x20;
    let (classes, inverted) = match t.desc.mods.mode() {
        Mode::Finite => (NAN | INFINITE, true),
        Mode::Infinite => (INFINITE, false),
        Mode::Number => (NAN, true),
        Mode::NotANumber => (NAN, false),
        Mode::Normal => (NAN | INFINITE | SUBNORMAL, true),
        Mode::Subnormal => (SUBNORMAL, false),
        _ => return None,
    };
    if !s.has_masks() {
        return None;
    }
    let bits = t.desc.ty.bits();
    let x = s.reg(&p[0]);
    let found = s.classify(classes, bits, t.lanes, x);
    Some(smallvec![if inverted {
        s.mask_not(found, t.lanes)
    } else {
        found
    }])
}
