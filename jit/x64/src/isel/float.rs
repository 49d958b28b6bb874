//! Floating-point arithmetic in vector registers.
//!
//! `.ftz` flushes subnormal operands and results by instructions, because the processor's own flushing decides before
//! rounding, and PTX after it.

use margay_ops::mods::{Precision, Rounding as Modifier};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use regalloc2::{RegClass, VReg};
use smallvec::smallvec;

use super::Selector;
use super::map::{Out, Task};
use super::pieces::{Piece, Source};
use super::prim::{Rm, length};
use crate::asm::{Op, Rounding, Width};
use crate::mach::{Action, Inst};

type S<'a> = Selector<'a>;

/// The elements of a floating-point operation.
#[derive(Clone, Copy)]
pub(super) struct Floats {
    pub(super) bits: u32,
    pub(super) lanes: u32,
}

impl Floats {
    /// Returns the elements of an operation on `f32`, `f64` or pairs of `f32`.
    fn of(t: &Task<'_>) -> Option<Floats> {
        let ty = t.desc.ty;
        let known = matches!(ty, OpType::F32 | OpType::F64 | OpType::F32x2);
        // The reference functions of `f64` return NaN operands before they limit the result.
        let limits = ty == OpType::F64 && (t.desc.mods.sat() || t.desc.mods.relu());
        (known && !limits && matches!(t.desc.src, OpType::None)).then(|| Floats {
            bits: ty.element_bits(),
            lanes: t.lanes * ty.elements(),
        })
    }

    fn len(self) -> Width {
        length(self.bits, self.lanes)
    }

    /// Returns the one of two ops for `f32` and `f64`.
    fn op(self, single: Op, double: Op) -> Op {
        if self.bits == 32 { single } else { double }
    }

    pub(super) fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }

    fn infinity(self) -> u64 {
        if self.bits == 32 {
            0x7f80_0000
        } else {
            0x7ff0_0000_0000_0000
        }
    }

    fn one(self) -> u64 {
        if self.bits == 32 {
            0x3f80_0000
        } else {
            0x3ff0_0000_0000_0000
        }
    }

    fn nan(self) -> u64 {
        if self.bits == 32 {
            0x7fff_ffff
        } else {
            0xfff8_0000_0000_0000
        }
    }
}

/// Returns the rounding that an instruction must state; `None` if the modifier is no rounding to a precision.
pub(super) fn rounding(modifier: Modifier) -> Option<Rounding> {
    Some(match modifier {
        Modifier::None | Modifier::Rn => Rounding::Mxcsr,
        Modifier::Rz => Rounding::Zero,
        Modifier::Rm => Rounding::Down,
        Modifier::Rp => Rounding::Up,
        _ => return None,
    })
}

/// Returns the rounding of an operation; `None` if its instructions cannot state it, as in AVX2.
fn native_rounding(s: &S<'_>, t: &Task<'_>) -> Option<Rounding> {
    let rounding = rounding(t.desc.mods.rounding())?;
    (rounding == Rounding::Mxcsr || s.has_masks()).then_some(rounding)
}

fn is_subnormal(bits: u64) -> bool {
    bits & 0x7f80_0000 == 0 && bits & 0x007f_ffff != 0
}

impl Selector<'_> {
    /// Returns a piece of `f32` without subnormal numbers if the operation has `.ftz`.
    pub(super) fn single(&mut self, t: &Task<'_>, piece: &Piece) -> VReg {
        match self.single_rm(t, piece) {
            Rm::Reg(reg) => reg,
            Rm::Mem(_) => self.reg(piece),
        }
    }

    /// As [`Selector::single`], but a constant may be in memory.
    pub(super) fn single_rm(&mut self, t: &Task<'_>, piece: &Piece) -> Rm {
        // `.ftz` has no effect on `f64`.
        if !t.desc.mods.ftz() || (piece.bits == 64 && t.desc.ty != OpType::F32x2) {
            return self.rm(piece);
        }
        if let Source::Constant(bits) = piece.source
            && piece.bits == 32
        {
            let flushed = if is_subnormal(bits) {
                bits & 0x8000_0000
            } else {
                bits
            };
            return self.constant_rm(flushed, 32);
        }
        let reg = self.reg(piece);
        self.flush(piece.lanes * piece.bits / 32, reg).into()
    }

    /// Replaces subnormal `f32` numbers by zeros of the same sign.
    pub(super) fn flush(&mut self, lanes: u32, x: VReg) -> VReg {
        if self.flushed.contains(&x) {
            return x;
        }
        if !self.has_masks() {
            let kept = self.avx2_flush(lanes, x);
            self.flushed.insert(kept);
            return kept;
        }
        let subnormal = self.classify(0x20, 32, lanes, x);
        let sign = self.constant_rm(0x8000_0000, 32);
        let kept = self.masked(Op::Vpandd, length(32, lanes), subnormal, Some(x), x, sign);
        self.flushed.insert(kept);
        kept
    }

    /// Clamps numbers to the range from 0 to 1; NaN and -0 become +0.
    pub(super) fn saturated(&mut self, f: Floats, x: VReg) -> VReg {
        // `vmaxps` returns its second operand if one is NaN or both are zero.
        let zero = self.splat_constant(0, f.bits);
        let floored = self.v2(f.op(Op::Vmaxps, Op::Vmaxpd), f.len(), x, zero);
        let one = self.constant_rm(f.one(), f.bits);
        let clamped = self.v2(f.op(Op::Vminps, Op::Vminpd), f.len(), floored, one);
        if self.flushed.contains(&x) {
            self.flushed.insert(clamped);
        }
        clamped
    }

    /// Performs the modifiers of the result of an operation.
    pub(super) fn finished(&mut self, t: &Task<'_>, f: Floats, x: VReg) -> VReg {
        let x = if t.desc.mods.ftz() && f.bits == 32 {
            self.flush(f.lanes, x)
        } else {
            x
        };
        if t.desc.mods.sat() {
            return self.saturated(f, x);
        }
        if !t.desc.mods.relu() {
            return x;
        }
        // A NaN stays a NaN.
        let zero = self.splat_constant(0, f.bits);
        let negative = self.compare_float(0x12, f.bits, f.lanes, x, zero);
        self.select_lanes(negative, f.bits, f.lanes, zero, x)
    }

    /// Appends an instruction that may state its rounding, which is possible for the widest registers only.
    fn rounded(&mut self, mut inst: Inst, rounding: Rounding, is_tied: Option<VReg>) -> VReg {
        if rounding != Rounding::Mxcsr {
            inst.len = Width::L512;
            inst.rounding = rounding;
        }
        if let Some(tied) = is_tied {
            inst.tied = tied;
        }
        self.result(RegClass::Float, inst)
    }

    /// As [`Selector::v1`], with a rounding.
    pub(super) fn rounded1(&mut self, op: Op, len: Width, a: VReg, rounding: Rounding) -> VReg {
        let mut inst = Inst::of(Action::Op(op), len);
        inst.src[0] = a;
        self.rounded(inst, rounding, None)
    }

    fn rounded2(&mut self, op: Op, len: Width, a: VReg, b: Rm, rounding: Rounding) -> VReg {
        if let (Rm::Mem(mem), Rounding::Mxcsr) = (b, rounding) {
            return self.v2(op, len, a, mem);
        }
        let b = self.loaded(b);
        let mut inst = Inst::of(Action::Op(op), len);
        inst.src = [a, b];
        self.rounded(inst, rounding, None)
    }

    /// Returns the register of a source; a constant in memory is broadcast.
    pub(super) fn loaded(&mut self, source: Rm) -> VReg {
        match source {
            Rm::Reg(reg) => reg,
            Rm::Mem(mem) => {
                let len = self.widest();
                let bits = self.pool.bits(mem.base);
                let op = if bits == 64 {
                    Op::Vpbroadcastq
                } else {
                    Op::Vpbroadcastd
                };
                self.v1(
                    op,
                    len,
                    crate::mach::Mem {
                        broadcast: false,
                        ..mem
                    },
                )
            }
        }
    }

    /// Computes `a * b + c`, rounded once.
    pub(super) fn fused(
        &mut self,
        f: Floats,
        a: VReg,
        b: VReg,
        c: Rm,
        rounding: Rounding,
        keeps: bool,
    ) -> VReg {
        let (op, tied, first, second) = match c {
            Rm::Reg(c) if !keeps => (f.op(Op::Vfmadd231ps, Op::Vfmadd231pd), c, a, b.into()),
            c => (f.op(Op::Vfmadd213ps, Op::Vfmadd213pd), a, b, c),
        };
        let mut inst = Inst::of(Action::Op(op), f.len());
        inst.src[0] = first;
        match second {
            Rm::Mem(mem) if rounding == Rounding::Mxcsr => inst.mem = mem,
            second => inst.src[1] = self.loaded(second),
        }
        self.rounded(inst, rounding, Some(tied))
    }
}

fn out(reg: VReg) -> Option<Out> {
    Some(smallvec![reg])
}

/// `add`, `sub`, `mul` and `div`.
pub(super) fn arithmetic(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    if super::halves::is_half(t.desc.ty) {
        return super::halves::arithmetic(s, t, p);
    }
    let f = Floats::of(t)?;
    let rounding = native_rounding(s, t)?;
    let (single, double) = match t.desc.opcode {
        Opcode::Add => (Op::Vaddps, Op::Vaddpd),
        Opcode::Sub => (Op::Vsubps, Op::Vsubpd),
        Opcode::Mul => (Op::Vmulps, Op::Vmulpd),
        _ => (Op::Vdivps, Op::Vdivpd),
    };
    let a = s.single(t, &p[0]);
    let mut b = s.single_rm(t, &p[1]);
    if p[1].bits != f.bits {
        b = s.single(t, &p[1]).into();
    }
    if t.desc.opcode == Opcode::Div && t.desc.mods.precision() == Precision::Approx {
        let b_reg = s.loaded(b);
        b = divisor(s, f, b_reg).into();
    }
    let value = s.rounded2(f.op(single, double), f.len(), a, b, rounding);
    out(s.finished(t, f, value))
}

/// Replaces divisors of an approximate division that are greater than 2^126 by infinities.
fn divisor(s: &mut S<'_>, f: Floats, b: VReg) -> VReg {
    if f.bits != 32 {
        return b;
    }
    let size = s.constant_rm(0x7fff_ffff, 32);
    let size = s.v2(Op::Vpandd, f.len(), b, size);
    let limit = s.constant_rm(0x7e80_0000, 32);
    let large = s.compare_float(0x1e, 32, f.lanes, size, limit);
    let (sign, infinity) = (
        s.splat_constant(f.sign(), 32),
        s.splat_constant(f.infinity(), 32),
    );
    // (b & sign) | infinity
    let endless = s.ternary(0xec, f.len(), b, infinity, sign);
    s.select_lanes(large, 32, f.lanes, endless, b)
}

pub(super) fn fma(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    if super::halves::is_half(t.desc.ty) {
        return super::halves::arithmetic(s, t, p);
    }
    let f = Floats::of(t)?;
    let rounding = native_rounding(s, t)?;
    let (a, b) = (s.single(t, &p[0]), s.single(t, &p[1]));
    let c = match p[2].bits == f.bits {
        true => s.single_rm(t, &p[2]),
        false => s.single(t, &p[2]).into(),
    };
    let value = s.fused(f, a, b, c, rounding, t.keeps_third);
    out(s.finished(t, f, value))
}

/// `sqrt` and `rcp`.
pub(super) fn root(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let f = Floats::of(t)?;
    let rounding = native_rounding(s, t)?;
    let is_approximate = t.desc.mods.precision() != Precision::None;
    let is_double_rcp = f.bits == 64 && is_approximate && t.desc.opcode != Opcode::Sqrt;
    if t.desc.ty.elements() != 1 || is_double_rcp {
        return None;
    }
    let a = s.single(t, &p[0]);
    let value = match t.desc.opcode {
        Opcode::Sqrt => square_root(s, f, a, rounding),
        Opcode::Rcp => reciprocal(s, f, a, rounding),
        _ if f.bits == 64 && t.desc.mods.ftz() => return None,
        _ => {
            let root = square_root(s, f, a, rounding);
            let root = s.finished(t, f, root);
            reciprocal(s, f, root, rounding)
        }
    };
    out(s.finished(t, f, value))
}

fn square_root(s: &mut S<'_>, f: Floats, a: VReg, rounding: Rounding) -> VReg {
    s.rounded1(f.op(Op::Vsqrtps, Op::Vsqrtpd), f.len(), a, rounding)
}

fn reciprocal(s: &mut S<'_>, f: Floats, a: VReg, rounding: Rounding) -> VReg {
    let one = s.splat_constant(f.one(), f.bits);
    s.rounded2(
        f.op(Op::Vdivps, Op::Vdivpd),
        f.len(),
        one,
        a.into(),
        rounding,
    )
}

/// `abs` and `neg`.
pub(super) fn sign(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    if super::halves::is_half(t.desc.ty) {
        return super::halves::sign(s, t, p);
    }
    let f = Floats::of(t)?;
    let a = s.single(t, &p[0]);
    out(changed_sign(s, t.desc.opcode, f, a))
}

/// Clears or inverts the signs of numbers.
pub(super) fn changed_sign(s: &mut S<'_>, opcode: Opcode, f: Floats, a: VReg) -> VReg {
    let (op, constant) = match (opcode, f.bits) {
        (Opcode::Neg, 64) => (Op::Vpxorq, f.sign()),
        (Opcode::Neg, _) => (Op::Vpxord, f.sign()),
        (_, 64) => (Op::Vpandq, f.sign() - 1),
        _ => (Op::Vpandd, f.sign() - 1),
    };
    let constant = s.constant_rm(constant, f.bits);
    let changed = s.v2(op, f.len(), a, constant);
    if s.flushed.contains(&a) {
        s.flushed.insert(changed);
    }
    changed
}

pub(super) fn copysign(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let f = Floats::of(t)?;
    let (sign_of, size_of) = (s.reg(&p[0]), s.reg(&p[1]));
    let sign = s.splat_constant(f.sign(), f.bits);
    out(super::int::select_bits(s, f.len(), sign, sign_of, size_of))
}

/// `min` and `max`.
pub(super) fn extreme(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    if super::halves::is_half(t.desc.ty) {
        return super::halves::extreme(s, t, p);
    }
    let f = Floats::of(t)?;
    let mut operands = Vec::with_capacity(p.len());
    for piece in p {
        let reg = s.single(t, piece);
        let reg = match t.desc.mods.abs() {
            true => changed_sign(s, Opcode::Abs, f, reg),
            false => reg,
        };
        let known = piece.constant().filter(|_| piece.bits == f.bits);
        operands.push((reg, known));
    }
    let mut chosen = operands[0];
    for &next in &operands[1..] {
        chosen = (chosen_of(s, t, f, chosen, next), None);
    }
    out(chosen.0)
}

/// An operand and, if it is a constant, its bits.
type Known = (VReg, Option<u64>);

pub(super) fn chosen_of(s: &mut S<'_>, t: &Task<'_>, f: Floats, a: Known, b: Known) -> VReg {
    let is_min = t.desc.opcode == Opcode::Min;
    let ((a, _), (b, known_b)) = match (a, b) {
        // The order of the operands matters for NaN and zeros only.
        ((_, Some(_)), (_, None)) => (b, a),
        both => both,
    };
    let sign = t.desc.mods.xorsign_abs().then(|| {
        let differ = s.v2(f.op(Op::Vpxord, Op::Vpxorq), f.len(), a, b);
        let constant = s.constant_rm(f.sign(), f.bits);
        s.v2(f.op(Op::Vpandd, Op::Vpandq), f.len(), differ, constant)
    });
    let (a, b) = match sign {
        None => (a, b),
        Some(_) => (
            changed_sign(s, Opcode::Abs, f, a),
            changed_sign(s, Opcode::Abs, f, b),
        ),
    };
    let op = if is_min {
        f.op(Op::Vminps, Op::Vminpd)
    } else {
        f.op(Op::Vmaxps, Op::Vmaxpd)
    };
    // The instruction returns its second operand if an operand is NaN or both are zero.
    let mut chosen = s.v2(op, f.len(), a, b);
    let is_number = |bits: u64| bits & (f.sign() - 1) <= f.infinity();
    if !known_b.is_some_and(is_number) {
        let unordered = s.compare_float(0x03, f.bits, f.lanes, b, b);
        chosen = s.select_lanes(unordered, f.bits, f.lanes, a, chosen);
    }
    if known_b.is_none_or(|bits| bits & (f.sign() - 1) == 0) && sign.is_none() {
        let equal = s.compare_float(0x00, f.bits, f.lanes, a, b);
        let op = if is_min {
            f.op(Op::Vpord, Op::Vporq)
        } else {
            f.op(Op::Vpandd, Op::Vpandq)
        };
        let merged = s.v2(op, f.len(), a, b);
        chosen = s.select_lanes(equal, f.bits, f.lanes, merged, chosen);
    }
    if let Some(sign) = sign {
        chosen = s.v2(f.op(Op::Vpord, Op::Vporq), f.len(), chosen, sign);
    }
    let is_nan = match t.desc.mods.nan() {
        true => Some(s.compare_float(0x03, f.bits, f.lanes, a, b)),
        // The sign of two NaNs is not part of the result, unless the next operand is combined with it.
        false if sign.is_some() => Some(s.compare_float(0x03, f.bits, f.lanes, chosen, chosen)),
        false => None,
    };
    if let Some(is_nan) = is_nan {
        let nan = s.splat_constant(f.nan(), f.bits);
        chosen = s.select_lanes(is_nan, f.bits, f.lanes, nan, chosen);
    }
    chosen
}
