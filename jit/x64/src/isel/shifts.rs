//! Shifts in vector registers. The instructions limit amounts as PTX does.

use margay_ops::mods::Mode;
use margay_ops::ops::Opcode;
use regalloc2::VReg;
use smallvec::smallvec;

use super::Selector;
use super::int::Elements;
use super::map::{Out, Task};
use super::pieces::{Piece, Source};
use super::prim::{MIN_UNSIGNED, Shift};
use crate::asm::Op;

type S<'a> = Selector<'a>;

fn out(reg: VReg) -> Option<Out> {
    Some(smallvec![reg])
}

/// Returns an operand of 32 bits in elements as wide as those of the operation.
pub(super) fn amount(s: &mut S<'_>, e: Elements, piece: &Piece) -> VReg {
    if let Source::Constant(bits) = piece.source {
        return s.splat_constant(bits & 0xffff_ffff, e.bits);
    }
    let reg = s.reg(piece);
    s.resized(reg, piece.bits, e.bits, false, e.lanes)
}

pub(super) fn shift(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t).filter(|e| e.bits >= 16)?;
    let how = match (t.desc.opcode, e.signed) {
        (Opcode::Shl, _) => Shift::Left,
        (_, true) => Shift::Arithmetic,
        _ => Shift::Right,
    };
    let a = s.reg(&p[0]);
    if let Some(by) = p[1].constant() {
        let limit = if how == Shift::Arithmetic {
            e.bits - 1
        } else {
            e.bits
        };
        return out(match (by as u32).min(limit) {
            by if by == e.bits => s.splat_constant(0, e.bits),
            by => s.shift(how, e.bits, e.lanes, a, by),
        });
    }
    let by = if e.bits == 16 {
        // The upper half of the amount counts too.
        let (whole, limit) = (s.reg(&p[1]), s.splat_constant(16, 32));
        let limited = limited_words(s, e.lanes, whole, limit);
        s.resized(limited, 32, 16, false, e.lanes)
    } else {
        amount(s, e, &p[1])
    };
    out(s.shift_by(how, e.bits, e.lanes, a, by))
}

/// Returns the lesser of unsigned 32-bit integers, which may need two registers in a task with narrower elements.
fn limited_words(s: &mut S<'_>, lanes: u32, a: VReg, limit: VReg) -> VReg {
    s.by_width(&MIN_UNSIGNED, 32, lanes, a, limit)
}

pub(super) fn funnel(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t).filter(|e| e.bits == 32)?;
    let (a, b) = (s.reg(&p[0]), s.reg(&p[1]));
    let left = t.desc.mods.mode() == Mode::Left;
    let (main, other) = if left { (b, a) } else { (a, b) };
    let (how, back) = if left {
        (Shift::Left, Shift::Right)
    } else {
        (Shift::Right, Shift::Left)
    };
    if let Some(by) = p[2].constant() {
        let by = if t.desc.mods.flag() {
            by as u32 & 31
        } else {
            (by as u32).min(32)
        };
        return out(match by {
            0 => main,
            32 => other,
            _ if a == b && s.has_masks() => {
                let by = if left { by } else { 32 - by };
                s.v1i(Op::Vprold, e.len(), a, by.into())
            }
            _ => {
                let main = s.shift(how, 32, e.lanes, main, by);
                let other = s.shift(back, 32, e.lanes, other, 32 - by);
                s.v2(Op::Vpord, e.len(), main, other)
            }
        });
    }
    let by = s.reg(&p[2]);
    let limit = s.splat_constant(if t.desc.mods.flag() { 31 } else { 32 }, 32);
    let by = match t.desc.mods.flag() {
        true => s.v2(Op::Vpandd, e.len(), by, limit),
        false => s.v2(Op::Vpminud, e.len(), by, limit),
    };
    let width = s.splat_constant(32, 32);
    let rest = s.v2(Op::Vpsubd, e.len(), width, by);
    let main = s.shift_by(how, 32, e.lanes, main, by);
    let other = s.shift_by(back, 32, e.lanes, other, rest);
    out(s.v2(Op::Vpord, e.len(), main, other))
}
