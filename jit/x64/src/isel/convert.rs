//! Conversions in vector registers.

use margay_ops::mods::Rounding as Modifier;
use margay_ops::types::{Class, OpType};
use regalloc2::VReg;
use smallvec::smallvec;

use super::Selector;
use super::float::{Floats, rounding};
use super::halves::is_half;
use super::map::{Out, Task};
use super::pieces::Piece;
use super::prim::{MAX_SIGNED, MIN_SIGNED, MIN_UNSIGNED, length};
use crate::asm::{Op, Rounding};

type S<'a> = Selector<'a>;

fn out(reg: VReg) -> Option<Out> {
    Some(smallvec![reg])
}

/// Returns the number of bits of a type that is a single integer.
fn integer_bits(ty: OpType) -> Option<u32> {
    let known = ty.is_integer() && ty.elements() == 1 && matches!(ty.bits(), 8 | 16 | 32 | 64);
    known.then(|| ty.bits())
}

impl Selector<'_> {
    /// Extends or truncates integers.
    pub(super) fn resized(
        &mut self,
        x: VReg,
        from: u32,
        to: u32,
        signed: bool,
        lanes: u32,
    ) -> VReg {
        if from == to {
            return x;
        }
        if from < to {
            let op = match (from, to, signed) {
                (8, 16, false) => Op::Vpmovzxbw,
                (8, 32, false) => Op::Vpmovzxbd,
                (8, _, false) => Op::Vpmovzxbq,
                (16, 32, false) => Op::Vpmovzxwd,
                (16, _, false) => Op::Vpmovzxwq,
                (_, _, false) => Op::Vpmovzxdq,
                (8, 16, true) => Op::Vpmovsxbw,
                (8, 32, true) => Op::Vpmovsxbd,
                (8, _, true) => Op::Vpmovsxbq,
                (16, 32, true) => Op::Vpmovsxwd,
                (16, _, true) => Op::Vpmovsxwq,
                (_, _, true) => Op::Vpmovsxdq,
            };
            return self.v1(op, length(to, lanes), x);
        }
        if !self.has_masks() {
            return self.avx2_truncated(x, from, to, lanes);
        }
        let op = match (from, to) {
            (16, _) => Op::Vpmovwb,
            (32, 8) => Op::Vpmovdb,
            (32, _) => Op::Vpmovdw,
            (_, 8) => Op::Vpmovqb,
            (_, 16) => Op::Vpmovqw,
            _ => Op::Vpmovqd,
        };
        self.v1(op, length(from, lanes), x)
    }
}

pub(super) fn cvt(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let (to, from, mods) = (t.desc.ty, t.desc.src, t.desc.mods);
    if mods.relu() || mods.satfinite() || mods.rounding() == Modifier::Rs {
        return None;
    }
    if p.len() == 2 {
        return pair_of_halves(s, t, p);
    }
    match (integer_bits(to), integer_bits(from)) {
        (Some(to_bits), Some(from_bits)) => {
            let x = s.reg(&p[0]);
            let x = if mods.sat() {
                clamped(s, t, from_bits, x)
            } else {
                x
            };
            out(s.resized(x, from_bits, to_bits, from.is_signed(), t.lanes))
        }
        (None, Some(bits)) => from_integer(s, t, bits, p),
        (Some(bits), None) => to_integer(s, t, bits, p),
        (None, None) => between_floats(s, t, p),
    }
}

/// Limits integers of the source type to the range of the destination type.
fn clamped(s: &mut S<'_>, t: &Task<'_>, bits: u32, mut x: VReg) -> VReg {
    let (to, from) = (t.desc.ty, t.desc.src);
    let range = |ty: OpType| -> (i128, i128) {
        let bits = ty.bits();
        match ty.class() {
            Class::Signed => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            _ => (0, (1 << bits) - 1),
        }
    };
    let ((low, high), (least, greatest)) = (range(to), range(from));
    if high < greatest {
        let limit = s.splat_constant(high as u64, bits);
        let ops = if from.is_signed() {
            &MIN_SIGNED
        } else {
            &MIN_UNSIGNED
        };
        x = s.by_width(ops, bits, t.lanes, x, limit);
    }
    if low > least {
        let limit = s.splat_constant(low as u64, bits);
        x = s.by_width(&MAX_SIGNED, bits, t.lanes, x, limit);
    }
    x
}

/// Converts integers to `f32`, `f64` or, if they have at most 16 bits, to a 16-bit format.
fn from_integer(s: &mut S<'_>, t: &Task<'_>, bits: u32, p: &[Piece]) -> Option<Out> {
    let (to, signed) = (t.desc.ty, t.desc.src.is_signed());
    let rounding = rounding(t.desc.mods.rounding())?;
    let x = s.reg(&p[0]);
    if is_half(to) {
        if bits > 16 || rounding != Rounding::Mxcsr || t.desc.mods.sat() {
            return None;
        }
        let word = s.resized(x, bits, 32, signed, t.lanes);
        let single = s.v1(Op::Vcvtdq2ps, length(32, t.lanes), word);
        return out(s.half_of_single(to, t.lanes, single, 0));
    }
    let f = match to {
        OpType::F32 => Floats {
            bits: 32,
            lanes: t.lanes,
        },
        OpType::F64 => Floats {
            bits: 64,
            lanes: t.lanes,
        },
        _ => return None,
    };
    let word = s.resized(x, bits, bits.max(32), signed, t.lanes);
    if !s.has_masks() {
        let is_exact = bits < 32 || (bits == 32 && f.bits == 64);
        if bits == 64 || (rounding != Rounding::Mxcsr && !is_exact) {
            return None;
        }
        if bits == 32 && !signed {
            let value = s.avx2_from_unsigned(f.bits, t.lanes, word);
            return out(if t.desc.mods.sat() {
                s.saturated(f, value)
            } else {
                value
            });
        }
    }
    let (op, wide) = match (bits, signed || bits < 32, f.bits) {
        (64, true, 32) => (Op::Vcvtqq2ps, 64),
        (64, false, 32) => (Op::Vcvtuqq2ps, 64),
        (64, true, _) => (Op::Vcvtqq2pd, 64),
        (64, false, _) => (Op::Vcvtuqq2pd, 64),
        (_, true, 32) => (Op::Vcvtdq2ps, 32),
        (_, false, 32) => (Op::Vcvtudq2ps, 32),
        // The result is exact, and the instructions do not round.
        (_, true, _) => (Op::Vcvtdq2pd, 64),
        (_, false, _) => (Op::Vcvtudq2pd, 64),
    };
    let is_exact = bits < 32 || (bits == 32 && f.bits == 64);
    let rounding = if is_exact { Rounding::Mxcsr } else { rounding };
    let value = s.rounded1(op, length(wide, t.lanes), word, rounding);
    out(if t.desc.mods.sat() {
        s.saturated(f, value)
    } else {
        value
    })
}

/// Returns the immediate operand of `vrndscaleps` for a rounding to an integral value.
fn integral(modifier: Modifier) -> Option<i64> {
    Some(match modifier {
        Modifier::Rni => 8,
        Modifier::Rmi => 9,
        Modifier::Rpi => 10,
        Modifier::Rzi => 11,
        _ => return None,
    })
}

/// The exponent field of 2^n as `f32` or `f64`.
fn power_of_two(bits: u32, n: u32) -> u64 {
    match bits {
        32 => u64::from(127 + n) << 23,
        _ => u64::from(1023 + n) << 52,
    }
}

/// Converts floating-point numbers to integers, limited to the range of the type.
fn to_integer(s: &mut S<'_>, t: &Task<'_>, bits: u32, p: &[Piece]) -> Option<Out> {
    let (from, lanes) = (t.desc.src, t.lanes);
    let mode = match t.desc.mods.rounding() {
        Modifier::None => 11,
        modifier => integral(modifier)?,
    };
    let (f, mut x) = match from {
        OpType::F32 => (Floats { bits: 32, lanes }, s.single(t, &p[0])),
        OpType::F64 => (Floats { bits: 64, lanes }, s.reg(&p[0])),
        OpType::F16 | OpType::BF16 => (Floats { bits: 32, lanes }, s.widened(from, lanes, &p[0])),
        _ => return None,
    };
    if mode != 11 {
        let op = if f.bits == 32 {
            Op::Vrndscaleps
        } else {
            Op::Vrndscalepd
        };
        x = s.v1i(op, length(f.bits, lanes), x, mode);
    }
    if bits == 64 && !s.has_masks() {
        return None;
    }
    let signed = t.desc.ty.is_signed();
    let converted = match (bits, signed) {
        (8 | 16, _) => small_integer(s, f, bits, signed, x),
        (_, true) => signed_integer(s, f, bits, x),
        (_, false) => unsigned_integer(s, f, bits, x),
    };
    // A NaN becomes 0, or the integer with only the top bit set.
    let nan = if f.bits == 32 && bits < 64 {
        0
    } else {
        1 << (bits - 1)
    };
    let is_right = match (bits, signed) {
        // What the instructions return for NaN: the top bit for signed results; for unsigned ones, `max` returns 0.
        (32 | 64, true) => nan != 0,
        (32, false) => nan == 0,
        _ => false,
    };
    if is_right {
        return out(converted);
    }
    let is_nan = s.compare_float(0x03, f.bits, lanes, x, x);
    let nan = s.splat_constant(nan, bits);
    out(s.select_lanes(is_nan, bits, lanes, nan, converted))
}

pub(super) fn signed_integer(s: &mut S<'_>, f: Floats, bits: u32, x: VReg) -> VReg {
    let lanes = f.lanes;
    let (op, wide) = match (f.bits, bits) {
        (32, 32) => (Op::Vcvttps2dq, 32),
        (32, _) => (Op::Vcvttps2qq, 64),
        (_, 32) => (Op::Vcvttpd2dq, 64),
        _ => (Op::Vcvttpd2qq, 64),
    };
    let converted = s.v1(op, length(wide, lanes), x);
    let limit = s.constant_rm(power_of_two(f.bits, bits - 1), f.bits);
    let above = s.compare_float(0x1d, f.bits, lanes, x, limit);
    let most = s.splat_constant((1 << (bits - 1)) - 1, bits);
    s.select_lanes(above, bits, lanes, most, converted)
}

fn unsigned_integer(s: &mut S<'_>, f: Floats, bits: u32, x: VReg) -> VReg {
    let lanes = f.lanes;
    let zero = s.splat_constant(0, f.bits);
    let op = if f.bits == 32 { Op::Vmaxps } else { Op::Vmaxpd };
    let floored = s.v2(op, length(f.bits, lanes), x, zero);
    if !s.has_masks() {
        return s.avx2_to_unsigned(f.bits, lanes, floored);
    }
    let (op, wide) = match (f.bits, bits) {
        (32, 32) => (Op::Vcvttps2udq, 32),
        (32, _) => (Op::Vcvttps2uqq, 64),
        (_, 32) => (Op::Vcvttpd2udq, 64),
        _ => (Op::Vcvttpd2uqq, 64),
    };
    s.v1(op, length(wide, lanes), floored)
}

/// Converts to integers of 8 and 16 bits: limits the numbers, which is exact, and converts to 32 bits.
fn small_integer(s: &mut S<'_>, f: Floats, bits: u32, signed: bool, x: VReg) -> VReg {
    let (low, high) = match signed {
        true => (-(1i32 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    };
    let number = |value: i32| match f.bits {
        32 => u64::from((value as f32).to_bits()),
        _ => f64::from(value).to_bits(),
    };
    let len = length(f.bits, f.lanes);
    let (max, min, convert) = match f.bits {
        32 => (Op::Vmaxps, Op::Vminps, Op::Vcvttps2dq),
        _ => (Op::Vmaxpd, Op::Vminpd, Op::Vcvttpd2dq),
    };
    let low = s.constant_rm(number(low), f.bits);
    let x = s.v2(max, len, x, low);
    let high = s.constant_rm(number(high), f.bits);
    let x = s.v2(min, len, x, high);
    let word = s.v1(convert, len, x);
    s.resized(word, 32, bits, false, f.lanes)
}

/// Returns the immediate operand of `vcvtps2ph` for a rounding.
fn half_rounding(modifier: Modifier) -> Option<u8> {
    Some(match modifier {
        Modifier::Rn => 0,
        Modifier::Rm => 1,
        Modifier::Rp => 2,
        Modifier::Rz => 3,
        _ => return None,
    })
}

fn between_floats(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let (to, from, lanes) = (t.desc.ty, t.desc.src, t.lanes);
    let modifier = t.desc.mods.rounding();
    let single = Floats { bits: 32, lanes };
    let double = Floats { bits: 64, lanes };
    let value = match (from, to) {
        (OpType::F32, OpType::F32) | (OpType::F64, OpType::F64) => {
            let f = if to == OpType::F32 { single } else { double };
            let x = s.single(t, &p[0]);
            let x = match modifier {
                Modifier::None => x,
                modifier => {
                    let op = if f.bits == 32 {
                        Op::Vrndscaleps
                    } else {
                        Op::Vrndscalepd
                    };
                    s.v1i(op, length(f.bits, lanes), x, integral(modifier)?)
                }
            };
            return out(s.finished(t, f, x));
        }
        (OpType::F32, OpType::F64) if modifier == Modifier::None => {
            let x = s.single(t, &p[0]);
            let x = s.v1(Op::Vcvtps2pd, length(64, lanes), x);
            return out(if t.desc.mods.sat() {
                s.saturated(double, x)
            } else {
                x
            });
        }
        (OpType::F64, OpType::F32) => {
            let x = s.reg(&p[0]);
            let rounding = rounding(modifier)?;
            if rounding != Rounding::Mxcsr && !s.has_masks() {
                return None;
            }
            let x = s.rounded1(Op::Vcvtpd2ps, length(64, lanes), x, rounding);
            return out(s.finished(t, single, x));
        }
        (OpType::F16 | OpType::BF16, OpType::F32) => {
            if !matches!(modifier, Modifier::None | Modifier::Rn) {
                return None;
            }
            let x = s.widened(from, lanes, &p[0]);
            return out(s.finished(t, single, x));
        }
        (OpType::F32, OpType::F16 | OpType::BF16) if !t.desc.mods.sat() => {
            let x = s.single(t, &p[0]);
            half(s, t, lanes, x)?
        }
        _ => return None,
    };
    out(value)
}

fn half(s: &mut S<'_>, t: &Task<'_>, lanes: u32, x: VReg) -> Option<VReg> {
    let rounding = half_rounding(t.desc.mods.rounding())?;
    let is_bfloat = matches!(t.desc.ty, OpType::BF16 | OpType::BF16x2);
    if is_bfloat && rounding != 0 {
        return None;
    }
    Some(s.half_of_single(t.desc.ty, lanes, x, rounding))
}

/// Rounds two `f32` numbers to a pair of 16-bit numbers; the first number becomes the upper half.
fn pair_of_halves(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    if !matches!(t.desc.ty, OpType::F16x2 | OpType::BF16x2)
        || t.desc.src != OpType::F32
        || t.desc.mods.sat()
    {
        return None;
    }
    let mut words = [0, 1].map(|n| s.single(t, &p[n]));
    for word in &mut words {
        let half = half(s, t, t.lanes, *word)?;
        *word = s.resized(half, 16, 32, false, t.lanes);
    }
    let high = s.shift(super::prim::Shift::Left, 32, t.lanes, words[0], 16);
    out(s.v2(Op::Vpord, length(32, t.lanes), high, words[1]))
}

/// `bitcast` of integers and floating-point numbers of one width.
pub(super) fn bitcast(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let same = p[0].bits == t.results[0].lane_bits();
    same.then(|| smallvec![s.reg(&p[0])])
}

/// `pack` of two integers into one with twice the width.
pub(super) fn pack(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let (whole, part) = (t.results[0].lane_bits(), p.first()?.bits);
    if whole > 64 || part < 8 || whole != part * p.len() as u32 || part * 2 > 64 {
        return None;
    }
    let op = if whole == 64 { Op::Vporq } else { Op::Vpord };
    let mut packed = None;
    for (number, piece) in (0..).zip(p) {
        let reg = s.reg(piece);
        let wide = s.resized(reg, part, whole, false, t.lanes);
        let moved = s.shift(
            super::prim::Shift::Left,
            whole,
            t.lanes,
            wide,
            part * number,
        );
        packed = Some(match packed {
            None => moved,
            Some(packed) => s.v2(op, length(whole, t.lanes), packed, moved),
        });
    }
    packed.map(|reg| smallvec![reg])
}

/// `unpack` of an integer into parts.
pub(super) fn unpack(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let (whole, part) = (p[0].bits, t.results[0].lane_bits());
    if whole > 64 || part < 8 || whole != part * t.results.len() as u32 {
        return None;
    }
    let reg = s.reg(&p[0]);
    let parts = (0..t.results.len() as u32).map(|number| {
        let moved = s.shift(
            super::prim::Shift::Right,
            whole,
            t.lanes,
            reg,
            part * number,
        );
        s.resized(moved, whole, part, false, t.lanes)
    });
    Some(parts.collect())
}
