//! Operations on `f16` and `bf16`: exact conversion to `f32`, the operation, and rounding to the format.
//!
//! `f32` has at least two digits more than twice those of the formats, so the second rounding of a sum or product gives
//! the result of a single one. Fused products of `f16` are first rounded to odd.

use margay_ops::meaning::approx::halves;
use margay_ops::mods::Rounding as Modifier;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use regalloc2::VReg;
use smallvec::{SmallVec, smallvec};

use super::Selector;
use super::approx::{Emit, Word};
use super::float::{Floats, chosen_of};
use super::map::{Out, Task};
use super::pieces::Piece;
use super::prim::{Shift, length};
use crate::asm::Op;

type S<'a> = Selector<'a>;

/// Returns whether the elements of a type are `f16` or `bf16`.
pub(super) fn is_half(ty: OpType) -> bool {
    matches!(
        ty,
        OpType::F16 | OpType::BF16 | OpType::F16x2 | OpType::BF16x2
    )
}

fn is_bfloat(ty: OpType) -> bool {
    matches!(ty, OpType::BF16 | OpType::BF16x2)
}

impl Selector<'_> {
    /// Returns a piece of `f16` or `bf16`, which are not packed, as `f32`.
    pub(super) fn widened(&mut self, ty: OpType, lanes: u32, piece: &Piece) -> VReg {
        let reg = self.reg(piece);
        self.single_of_half(ty, lanes, reg)
    }

    /// Converts 16-bit numbers in elements of 16 bits to `f32`.
    pub(super) fn single_of_half(&mut self, ty: OpType, lanes: u32, x: VReg) -> VReg {
        let len = length(32, lanes);
        if is_bfloat(ty) {
            let word = self.resized(x, 16, 32, false, lanes);
            return self.shift(Shift::Left, 32, lanes, word, 16);
        }
        self.v1(Op::Vcvtph2ps, len, x)
    }

    /// Rounds `f32` to 16-bit numbers in elements of 16 bits; a NaN becomes the canonical NaN.
    pub(super) fn half_of_single(&mut self, ty: OpType, lanes: u32, x: VReg, rounding: u8) -> VReg {
        if is_bfloat(ty) {
            let mut emit = Emit {
                s: self,
                lanes,
                limits: false,
            };
            let word = halves::bfloat_of_single(&mut emit, Word::Reg(x));
            let word = emit.reg(word);
            return self.resized(word, 32, 16, false, lanes);
        }
        let half = self.v1i(Op::Vcvtps2ph, length(32, lanes), x, rounding.into());
        let is_nan = self.compare_float(0x03, 32, lanes, x, x);
        let nan = self.splat_constant(0x7fff, 16);
        self.select_lanes(is_nan, 16, lanes, nan, half)
    }
}

/// Applies a function of `f32` numbers to numbers of a 16-bit format in `lanes` lanes of `p`, and rounds the results.
fn elementwise(
    s: &mut S<'_>,
    t: &Task<'_>,
    p: &[Piece],
    mut function: impl FnMut(&mut S<'_>, u32, &[VReg]) -> Option<VReg>,
) -> Option<Out> {
    let ty = t.desc.ty;
    let regs: SmallVec<[VReg; 4]> = p.iter().map(|piece| s.reg(piece)).collect();
    if ty.elements() == 2 {
        let mut of = |s: &mut S<'_>, high: bool| {
            let words: SmallVec<[VReg; 4]> = regs
                .iter()
                .map(|&reg| {
                    let part = if high {
                        s.shift(Shift::Right, 32, t.lanes, reg, 16)
                    } else {
                        reg
                    };
                    let half = s.resized(part, 32, 16, false, t.lanes);
                    s.single_of_half(ty, t.lanes, half)
                })
                .collect();
            let value = function(s, t.lanes, &words)?;
            let half = s.half_of_single(ty, t.lanes, value, 0);
            Some(s.resized(half, 16, 32, false, t.lanes))
        };
        let low = of(s, false)?;
        let high = of(s, true)?;
        let high = s.shift(Shift::Left, 32, t.lanes, high, 16);
        return Some(smallvec![s.v2(Op::Vpord, length(32, t.lanes), low, high)]);
    }
    let words: SmallVec<[VReg; 4]> = regs
        .iter()
        .map(|&reg| s.single_of_half(ty, t.lanes, reg))
        .collect();
    let value = function(s, t.lanes, &words)?;
    Some(smallvec![s.half_of_single(ty, t.lanes, value, 0)])
}

/// Returns whether the modifiers of an operation are those that this module supports.
fn is_supported(t: &Task<'_>) -> bool {
    let mods = t.desc.mods;
    matches!(mods.rounding(), Modifier::None | Modifier::Rn)
        && !mods.ftz()
        && !mods.oob()
        && t.desc.src == OpType::None
}

/// `add`, `sub`, `mul` and `fma`.
pub(super) fn arithmetic(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let is_bfloat = is_bfloat(t.desc.ty);
    let op = match t.desc.opcode {
        Opcode::Add => Op::Vaddps,
        Opcode::Sub => Op::Vsubps,
        Opcode::Mul => Op::Vmulps,
        Opcode::Fma if !is_bfloat => Op::Vfmadd213ps,
        _ => return None,
    };
    if !is_supported(t) {
        return None;
    }
    elementwise(s, t, p, |s, lanes, x| {
        let f = Floats { bits: 32, lanes };
        let value = if op == Op::Vfmadd213ps {
            let mut emit = Emit {
                s,
                lanes,
                limits: false,
            };
            let [x, y, z] = [x[0], x[1], x[2]].map(Word::Reg);
            let value = halves::fused_to_odd(&mut emit, x, y, z);
            emit.reg(value)
        } else {
            s.v2(op, length(32, lanes), x[0], x[1])
        };
        Some(s.finished(t, f, value))
    })
}

/// `min` and `max`.
pub(super) fn extreme(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    if !is_supported(t) || t.desc.mods.abs() {
        return None;
    }
    elementwise(s, t, p, |s, lanes, x| {
        let f = Floats { bits: 32, lanes };
        let chosen = x[1..].iter().fold(x[0], |chosen, &next| {
            chosen_of(s, t, f, (chosen, None), (next, None))
        });
        Some(chosen)
    })
}

/// `abs` and `neg`.
pub(super) fn sign(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    if t.desc.mods.ftz() {
        return None;
    }
    let (op, constant) = match t.desc.opcode {
        Opcode::Neg => (Op::Vpxord, 0x8000),
        _ => (Op::Vpandd, 0x7fff),
    };
    let (x, constant) = (s.reg(&p[0]), s.splat_constant(constant, 16));
    Some(smallvec![s.v2(op, p[0].len(), x, constant)])
}

/// `sin`, `cos`, `lg2`, `ex2` and `tanh`, whose other modifiers have no effect.
pub(super) fn function(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    if t.desc.mods.ftz() {
        return None;
    }
    elementwise(s, t, p, |s, lanes, x| {
        Some(super::approx::computed(
            s,
            t.desc.opcode,
            lanes,
            x[0],
            false,
        ))
    })
}
