//! Integer division in vector registers.

use margay_ops::ops::Opcode;
use regalloc2::VReg;
use smallvec::smallvec;

use super::Selector;
use super::int::{Elements, low_product};
use super::map::{Out, Task};
use super::pieces::Piece;
use super::prim::{SUB, length};
use crate::asm::Op;

type S<'a> = Selector<'a>;

fn out(reg: VReg) -> Option<Out> {
    Some(smallvec![reg])
}

/// `div` and `rem` of 16 and 32 bits: the quotient of floating-point numbers with enough digits, truncated. It is exact,
/// because the distance of an inexact quotient to the next integer is at least one divisor'th.
pub(super) fn div(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t).filter(|e| matches!(e.bits, 16 | 32) && !t.desc.mods.sat())?;
    let (a, b) = (s.reg(&p[0]), s.reg(&p[1]));
    let quotient = if e.bits == 32 {
        word_quotient(s, e, a, b)?
    } else {
        half_quotient(s, e, a, b)
    };
    let whole = if t.desc.opcode == Opcode::Div {
        quotient
    } else {
        let product = low_product(s, e, quotient, b);
        s.by_width(&SUB, e.bits, e.lanes, a, product)
    };
    let ones = s.splat_constant(u64::MAX, 64);
    let divides = s.test(e.bits, e.lanes, b, b);
    out(s.select_lanes(divides, e.bits, e.lanes, whole, ones))
}

fn half_quotient(s: &mut S<'_>, e: Elements, a: VReg, b: VReg) -> VReg {
    let len = length(32, e.lanes);
    let single = |s: &mut S<'_>, x: VReg| {
        let word = s.resized(x, 16, 32, e.signed, e.lanes);
        s.v1(Op::Vcvtdq2ps, len, word)
    };
    let (a, b) = (single(s, a), single(s, b));
    let quotient = s.v2(Op::Vdivps, len, a, b);
    let whole = s.v1(Op::Vcvttps2dq, len, quotient);
    s.resized(whole, 32, 16, false, e.lanes)
}

fn word_quotient(s: &mut S<'_>, e: Elements, a: VReg, b: VReg) -> Option<VReg> {
    let len = length(64, e.lanes);
    if !e.signed && !s.has_masks() {
        let [a, b] = [a, b].map(|x| s.avx2_from_unsigned(64, e.lanes, x));
        let quotient = s.v2(Op::Vdivpd, len, a, b);
        return Some(s.avx2_to_unsigned(64, e.lanes, quotient));
    }
    let (from, to) = match e.signed {
        true => (Op::Vcvtdq2pd, Op::Vcvttpd2dq),
        false => (Op::Vcvtudq2pd, Op::Vcvttpd2udq),
    };
    let (a, b) = (s.v1(from, len, a), s.v1(from, len, b));
    let quotient = s.v2(Op::Vdivpd, len, a, b);
    Some(s.v1(to, len, quotient))
}
