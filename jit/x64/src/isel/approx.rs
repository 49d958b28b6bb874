//! The approximate functions, and conversions of 16-bit formats: the operations of the reference functions, in vector
//! registers.

use margay_ops::meaning::approx::{Arithmetic, functions};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use regalloc2::VReg;
use smallvec::smallvec;

use super::Selector;
use super::float::Floats;
use super::map::{Out, Task};
use super::pieces::Piece;
use super::prim::{Compare, Rm, Shift, length};
use crate::asm::{Op, Rounding, Width};

/// Appends the operations of generic functions.
pub(super) struct Emit<'s, 'a> {
    pub(super) s: &'s mut Selector<'a>,
    pub(super) lanes: u32,
    /// Whether conversions to integers limit numbers that are too large.
    pub(super) limits: bool,
}

/// A value: a register, or a constant of 32 bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    Reg(VReg),
    Constant(u32),
}

impl Emit<'_, '_> {
    pub(super) fn reg(&mut self, x: Word) -> VReg {
        match x {
            Word::Reg(reg) => reg,
            Word::Constant(bits) => self.s.splat_constant(bits.into(), 32),
        }
    }

    fn rm(&mut self, x: Word) -> Rm {
        match x {
            Word::Reg(reg) => Rm::Reg(reg),
            Word::Constant(bits) => self.s.constant_rm(bits.into(), 32),
        }
    }

    fn len(&self) -> Width {
        length(32, self.lanes)
    }

    fn two(&mut self, op: Op, a: Word, b: Word) -> Word {
        let (a, b) = (self.reg(a), self.rm(b));
        let len = self.len();
        Word::Reg(self.s.v2(op, len, a, b))
    }

    /// As [`Emit::two`], for ops whose operands may be exchanged.
    fn both(&mut self, op: Op, a: Word, b: Word) -> Word {
        match a {
            Word::Constant(_) => self.two(op, b, a),
            Word::Reg(_) => self.two(op, a, b),
        }
    }
}

impl Arithmetic for Emit<'_, '_> {
    type Float = Word;
    type Int = Word;
    type Truth = VReg;

    fn float(&mut self, value: f32) -> Word {
        Word::Constant(value.to_bits())
    }
    fn int(&mut self, value: i32) -> Word {
        Word::Constant(value as u32)
    }
    fn add(&mut self, a: Word, b: Word) -> Word {
        self.two(Op::Vaddps, a, b)
    }
    fn sub(&mut self, a: Word, b: Word) -> Word {
        self.two(Op::Vsubps, a, b)
    }
    fn mul(&mut self, a: Word, b: Word) -> Word {
        self.two(Op::Vmulps, a, b)
    }
    fn div(&mut self, a: Word, b: Word) -> Word {
        self.two(Op::Vdivps, a, b)
    }
    fn mul_add(&mut self, a: Word, b: Word, c: Word) -> Word {
        let (a, b, c) = (self.reg(a), self.reg(b), self.rm(c));
        let f = Floats {
            bits: 32,
            lanes: self.lanes,
        };
        Word::Reg(self.s.fused(f, a, b, c, Rounding::Mxcsr, true))
    }
    fn nearest(&mut self, a: Word) -> Word {
        let (a, len) = (self.reg(a), self.len());
        Word::Reg(self.s.v1i(Op::Vrndscaleps, len, a, 8))
    }
    fn to_int(&mut self, a: Word) -> Word {
        // The functions discard the results for NaN.
        let (a, len) = (self.reg(a), self.len());
        if self.limits {
            let f = Floats {
                bits: 32,
                lanes: self.lanes,
            };
            return Word::Reg(super::convert::signed_integer(self.s, f, 32, a));
        }
        Word::Reg(self.s.v1(Op::Vcvttps2dq, len, a))
    }
    fn to_float(&mut self, a: Word) -> Word {
        let (a, len) = (self.reg(a), self.len());
        Word::Reg(self.s.v1(Op::Vcvtdq2ps, len, a))
    }
    fn bits(&mut self, a: Word) -> Word {
        a
    }
    fn of_bits(&mut self, a: Word) -> Word {
        a
    }
    fn int_add(&mut self, a: Word, b: Word) -> Word {
        self.both(Op::Vpaddd, a, b)
    }
    fn int_sub(&mut self, a: Word, b: Word) -> Word {
        self.two(Op::Vpsubd, a, b)
    }
    fn and(&mut self, a: Word, b: Word) -> Word {
        self.both(Op::Vpandd, a, b)
    }
    fn xor(&mut self, a: Word, b: Word) -> Word {
        self.both(Op::Vpxord, a, b)
    }
    fn shift_left(&mut self, a: Word, count: u32) -> Word {
        let a = self.reg(a);
        Word::Reg(self.s.shift(Shift::Left, 32, self.lanes, a, count))
    }
    fn shift_right(&mut self, a: Word, count: u32) -> Word {
        let a = self.reg(a);
        Word::Reg(self.s.shift(Shift::Arithmetic, 32, self.lanes, a, count))
    }
    fn less(&mut self, a: Word, b: Word) -> VReg {
        if let (Word::Constant(_), Word::Reg(_)) = (a, b) {
            // a < b is b > a.
            let (b, a) = (self.reg(b), self.rm(a));
            return self.s.compare_float(0x1e, 32, self.lanes, b, a);
        }
        let (a, b) = (self.reg(a), self.rm(b));
        self.s.compare_float(0x11, 32, self.lanes, a, b)
    }
    fn is_nan(&mut self, a: Word) -> VReg {
        let a = self.reg(a);
        self.s.compare_float(0x03, 32, self.lanes, a, a)
    }
    fn is_zero(&mut self, a: Word) -> VReg {
        let a = self.reg(a);
        let zero = self.s.splat_constant(0, 32);
        self.s
            .compare_int(Compare::Equal, true, 32, self.lanes, a, zero)
    }
    fn select(&mut self, condition: VReg, a: Word, b: Word) -> Word {
        let b = self.reg(b);
        let a = self.rm(a);
        Word::Reg(self.s.select_lanes(condition, 32, self.lanes, a, b))
    }
}

/// Computes `sin`, `cos`, `lg2`, `ex2` or `tanh` of `f32` numbers.
pub(super) fn computed(
    s: &mut Selector<'_>,
    opcode: Opcode,
    lanes: u32,
    x: VReg,
    ftz: bool,
) -> VReg {
    let x = Word::Reg(x);
    let mut emit = Emit {
        s,
        lanes,
        // The reduction of large angles may leave a large number of quadrants.
        limits: matches!(opcode, Opcode::Sin | Opcode::Cos),
    };
    let value = match opcode {
        Opcode::Sin => functions::sin(&mut emit, x, ftz),
        Opcode::Cos => functions::cos(&mut emit, x, ftz),
        Opcode::Lg2 => functions::lg2(&mut emit, x, ftz),
        Opcode::Ex2 => functions::ex2(&mut emit, x, ftz),
        _ => functions::tanh(&mut emit, x),
    };
    emit.reg(value)
}

/// `sin`, `cos`, `lg2`, `ex2` and `tanh` of `f32` and of the 16-bit formats.
pub(super) fn function(s: &mut Selector<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    if super::halves::is_half(t.desc.ty) {
        return super::halves::function(s, t, p);
    }
    if t.desc.ty != OpType::F32 {
        return None;
    }
    let ftz = t.desc.mods.ftz();
    let x = s.single(t, &p[0]);
    let value = computed(s, t.desc.opcode, t.lanes, x, ftz);
    // The reference function flushes the result of every function too.
    let value = if ftz { s.flush(t.lanes, value) } else { value };
    Some(smallvec![value])
}
