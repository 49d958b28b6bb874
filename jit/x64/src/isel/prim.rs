//! Appends single machine instructions, and short sequences that compute one function of registers.

use regalloc2::{RegClass, VReg};

use super::Selector;
use crate::asm::{Op, Width};
use crate::mach::{Action, Inst, Mem, NONE};

/// A source: a register or memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rm {
    Reg(VReg),
    Mem(Mem),
}

impl From<VReg> for Rm {
    fn from(reg: VReg) -> Rm {
        Rm::Reg(reg)
    }
}

impl From<Mem> for Rm {
    fn from(mem: Mem) -> Rm {
        Rm::Mem(mem)
    }
}

/// Adds the last source to an instruction whose number of other sources is `index`.
fn with_source(mut inst: Inst, index: usize, source: Rm) -> Inst {
    match source {
        Rm::Reg(reg) => inst.src[index] = reg,
        Rm::Mem(mem) => inst.mem = mem,
    }
    inst
}

/// The ops of an operation for elements of 8, 16, 32 and 64 bits.
pub(crate) type ByWidth = [Op; 4];

/// Returns the op for elements of `bits` bits.
pub(crate) fn for_width(ops: &ByWidth, bits: u32) -> Op {
    ops[(bits / 8).trailing_zeros() as usize & 3]
}

pub(crate) const ADD: ByWidth = [Op::Vpaddb, Op::Vpaddw, Op::Vpaddd, Op::Vpaddq];
pub(crate) const SUB: ByWidth = [Op::Vpsubb, Op::Vpsubw, Op::Vpsubd, Op::Vpsubq];
pub(crate) const MIN_SIGNED: ByWidth = [Op::Vpminsb, Op::Vpminsw, Op::Vpminsd, Op::Vpminsq];
pub(crate) const MAX_SIGNED: ByWidth = [Op::Vpmaxsb, Op::Vpmaxsw, Op::Vpmaxsd, Op::Vpmaxsq];
pub(crate) const MIN_UNSIGNED: ByWidth = [Op::Vpminub, Op::Vpminuw, Op::Vpminud, Op::Vpminuq];
pub(crate) const MAX_UNSIGNED: ByWidth = [Op::Vpmaxub, Op::Vpmaxuw, Op::Vpmaxud, Op::Vpmaxuq];
pub(crate) const ABS: ByWidth = [Op::Vpabsb, Op::Vpabsw, Op::Vpabsd, Op::Vpabsq];
const BLEND: ByWidth = [Op::Vpblendmb, Op::Vpblendmw, Op::Vpblendmd, Op::Vpblendmq];
const COMPARE_SIGNED: ByWidth = [Op::Vpcmpb, Op::Vpcmpw, Op::Vpcmpd, Op::Vpcmpq];
const COMPARE_UNSIGNED: ByWidth = [Op::Vpcmpub, Op::Vpcmpuw, Op::Vpcmpud, Op::Vpcmpuq];
const TEST: ByWidth = [Op::Vptestmb, Op::Vptestmw, Op::Vptestmd, Op::Vptestmq];
const EXPAND_MASK: ByWidth = [Op::Vpmovm2b, Op::Vpmovm2w, Op::Vpmovm2d, Op::Vpmovm2q];
const SIGNS: ByWidth = [Op::Vpmovb2m, Op::Vpmovw2m, Op::Vpmovd2m, Op::Vpmovq2m];

/// The direction of a shift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shift {
    Left,
    Right,
    /// With copies of the sign bit.
    Arithmetic,
}

impl Shift {
    fn by_immediate(self) -> ByWidth {
        // There are no shifts of bytes.
        match self {
            Shift::Left => [Op::VpsllwImm, Op::VpsllwImm, Op::VpslldImm, Op::VpsllqImm],
            Shift::Right => [Op::VpsrlwImm, Op::VpsrlwImm, Op::VpsrldImm, Op::VpsrlqImm],
            Shift::Arithmetic => [Op::VpsrawImm, Op::VpsrawImm, Op::VpsradImm, Op::VpsraqImm],
        }
    }

    fn by_lanes(self) -> ByWidth {
        match self {
            Shift::Left => [Op::Vpsllvw, Op::Vpsllvw, Op::Vpsllvd, Op::Vpsllvq],
            Shift::Right => [Op::Vpsrlvw, Op::Vpsrlvw, Op::Vpsrlvd, Op::Vpsrlvq],
            Shift::Arithmetic => [Op::Vpsravw, Op::Vpsravw, Op::Vpsravd, Op::Vpsravq],
        }
    }
}

/// A comparison; the discriminant is the immediate operand of the integer comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Compare {
    Equal = 0,
    Less = 1,
    LessOrEqual = 2,
    NotEqual = 4,
    GreaterOrEqual = 5,
    Greater = 6,
}

/// Returns the length of registers with `lanes` elements of `bits` bits.
pub(crate) fn length(bits: u32, lanes: u32) -> Width {
    match bits * lanes {
        ..=128 => Width::L128,
        256 => Width::L256,
        _ => Width::L512,
    }
}

impl Selector<'_> {
    /// An instruction with a vector result and one source.
    pub(crate) fn v1(&mut self, op: Op, len: Width, a: impl Into<Rm>) -> VReg {
        let inst = with_source(Inst::of(Action::Op(op), len), 0, a.into());
        self.result(RegClass::Float, inst)
    }

    /// An instruction with a vector result, one source and an immediate operand.
    pub(crate) fn v1i(&mut self, op: Op, len: Width, a: impl Into<Rm>, imm: i64) -> VReg {
        let mut inst = with_source(Inst::of(Action::Op(op), len), 0, a.into());
        inst.imm = Some(imm);
        self.result(RegClass::Float, inst)
    }

    /// An instruction with a vector result and two sources.
    pub(crate) fn v2(&mut self, op: Op, len: Width, a: VReg, b: impl Into<Rm>) -> VReg {
        let b = b.into();
        if !self.has_masks()
            && matches!(
                op,
                Op::Vpminsq | Op::Vpminuq | Op::Vpmaxsq | Op::Vpmaxuq | Op::Vpmullq
            )
        {
            let b = self.loaded(b);
            if let Some(result) = self.avx2_operation(op, len, a, b) {
                return result;
            }
        }
        let mut inst = with_source(Inst::of(Action::Op(op), len), 1, b);
        inst.src[0] = a;
        self.result(RegClass::Float, inst)
    }

    /// An instruction with a vector result, two sources and an immediate operand.
    pub(crate) fn v2i(&mut self, op: Op, len: Width, a: VReg, b: impl Into<Rm>, imm: i64) -> VReg {
        let mut inst = with_source(Inst::of(Action::Op(op), len), 1, b.into());
        inst.src[0] = a;
        inst.imm = Some(imm);
        self.result(RegClass::Float, inst)
    }

    /// An instruction with a vector result that overwrites its first source.
    pub(crate) fn v3(
        &mut self,
        op: Op,
        len: Width,
        tied: VReg,
        a: VReg,
        b: impl Into<Rm>,
        imm: impl Into<Option<i64>>,
    ) -> VReg {
        let mut inst = with_source(Inst::of(Action::Op(op), len), 1, b.into());
        inst.src[0] = a;
        inst.tied = tied;
        inst.imm = imm.into();
        self.result(RegClass::Float, inst)
    }

    /// An instruction with a mask as result and two vector sources.
    pub(crate) fn k2(
        &mut self,
        op: Op,
        len: Width,
        a: VReg,
        b: impl Into<Rm>,
        imm: impl Into<Option<i64>>,
    ) -> VReg {
        let mut inst = with_source(Inst::of(Action::Op(op), len), 1, b.into());
        inst.src[0] = a;
        inst.imm = imm.into();
        self.result(RegClass::Vector, inst)
    }

    /// An instruction with a mask as result and one source.
    pub(crate) fn k1(&mut self, op: Op, len: Width, a: VReg, imm: impl Into<Option<i64>>) -> VReg {
        let mut inst = with_source(Inst::of(Action::Op(op), len), 0, a.into());
        inst.imm = imm.into();
        self.result(RegClass::Vector, inst)
    }

    /// An instruction on masks.
    pub(crate) fn kk(&mut self, op: Op, a: VReg, b: VReg) -> VReg {
        self.k2(op, Width::W64, a, b, None)
    }

    /// Returns the mask in the bits of a general register.
    pub(crate) fn mask_of_gpr(&mut self, from: VReg) -> VReg {
        match self.has_masks() {
            true => self.k1(Op::KmovFromGpr, Width::W64, from, None),
            false => from,
        }
    }

    /// Returns the bits of a mask in a general register.
    pub(crate) fn gpr_of_mask(&mut self, mask: VReg) -> VReg {
        if mask.class() == RegClass::Int {
            return mask;
        }
        let mut inst = Inst::of(Action::Op(Op::KmovToGpr), Width::W64);
        inst.src[0] = mask;
        self.result(RegClass::Int, inst)
    }

    /// Returns a mask without the bits beyond `lanes` of a comparison of elements of `bits` bits, which does not change
    /// these bits if the elements do not fill a register.
    fn only_lanes(&mut self, mask: VReg, bits: u32, lanes: u32) -> VReg {
        if bits * lanes >= 128 {
            return mask;
        }
        let known = self.mask_constant((1 << lanes) - 1);
        self.kk(Op::Kand, mask, known)
    }

    /// Compares integers.
    pub(crate) fn compare_int(
        &mut self,
        how: Compare,
        signed: bool,
        bits: u32,
        lanes: u32,
        a: VReg,
        b: impl Into<Rm>,
    ) -> VReg {
        if !self.has_masks() {
            let b = self.loaded(b.into());
            return self.avx2_compare_int(how, signed, bits, lanes, a, b);
        }
        let ops = if signed {
            &COMPARE_SIGNED
        } else {
            &COMPARE_UNSIGNED
        };
        let mask = self.k2(for_width(ops, bits), length(bits, lanes), a, b, how as i64);
        self.only_lanes(mask, bits, lanes)
    }

    /// Compares floating-point numbers of 32 or 64 bits; `predicate` is the immediate operand of `vcmpps`.
    pub(crate) fn compare_float(
        &mut self,
        predicate: u8,
        bits: u32,
        lanes: u32,
        a: VReg,
        b: impl Into<Rm>,
    ) -> VReg {
        if !self.has_masks() {
            let b = self.loaded(b.into());
            return self.avx2_compare_float(predicate, bits, lanes, a, b);
        }
        let op = if bits == 32 { Op::Vcmpps } else { Op::Vcmppd };
        let mask = self.k2(op, length(bits, lanes), a, b, i64::from(predicate));
        self.only_lanes(mask, bits, lanes)
    }

    /// Returns in which lanes `a & b` is not zero.
    pub(crate) fn test(&mut self, bits: u32, lanes: u32, a: VReg, b: impl Into<Rm>) -> VReg {
        if !self.has_masks() {
            let b = self.loaded(b.into());
            return self.avx2_test(bits, lanes, a, b);
        }
        let mask = self.k2(for_width(&TEST, bits), length(bits, lanes), a, b, None);
        self.only_lanes(mask, bits, lanes)
    }

    /// Returns the sign bits of integers.
    pub(crate) fn signs(&mut self, bits: u32, lanes: u32, a: VReg) -> VReg {
        if !self.has_masks() {
            let zero = self.splat_constant(0, 64);
            return self.avx2_compare_int(Compare::Less, true, bits, lanes, a, zero);
        }
        let mask = self.k1(for_width(&SIGNS, bits), length(bits, lanes), a, None);
        self.only_lanes(mask, bits, lanes)
    }

    /// Returns the lanes of which class a floating-point number is; `classes` is the immediate operand of `vfpclassps`.
    pub(crate) fn classify(&mut self, classes: u8, bits: u32, lanes: u32, a: VReg) -> VReg {
        let op = if bits == 32 {
            Op::Vfpclassps
        } else {
            Op::Vfpclasspd
        };
        let mask = self.k1(op, length(bits, lanes), a, i64::from(classes));
        self.only_lanes(mask, bits, lanes)
    }

    /// Returns `a` in the lanes of the mask and `b` in others.
    pub(crate) fn select_lanes(
        &mut self,
        mask: VReg,
        bits: u32,
        lanes: u32,
        a: impl Into<Rm>,
        b: VReg,
    ) -> VReg {
        if !self.has_masks() {
            let a = self.loaded(a.into());
            return self.avx2_select(mask, bits, lanes, a, b);
        }
        let mut inst = with_source(
            Inst::of(Action::Op(for_width(&BLEND, bits)), length(bits, lanes)),
            1,
            a.into(),
        );
        inst.src[0] = b;
        inst.mask = mask;
        self.result(RegClass::Float, inst)
    }

    /// An instruction with two sources that computes in the lanes of the mask; other lanes are those of `old`, or zero.
    pub(crate) fn masked(
        &mut self,
        op: Op,
        len: Width,
        mask: VReg,
        old: Option<VReg>,
        a: VReg,
        b: impl Into<Rm>,
    ) -> VReg {
        let mut inst = with_source(Inst::of(Action::Op(op), len), 1, b.into());
        inst.src[0] = a;
        self.under(inst, mask, old)
    }

    /// As [`Selector::masked`], with one source.
    pub(crate) fn masked1(
        &mut self,
        op: Op,
        len: Width,
        mask: VReg,
        old: Option<VReg>,
        a: impl Into<Rm>,
    ) -> VReg {
        let inst = with_source(Inst::of(Action::Op(op), len), 0, a.into());
        self.under(inst, mask, old)
    }

    /// An instruction that computes in the lanes of the mask; other lanes are those of `old`, or zero.
    fn under(&mut self, mut inst: Inst, mask: VReg, old: Option<VReg>) -> VReg {
        inst.mask = mask;
        inst.tied = old.unwrap_or(NONE);
        inst.zeroing = old.is_none();
        self.result(RegClass::Float, inst)
    }

    /// Returns elements that are all ones in the lanes of the mask and zero in others.
    pub(crate) fn ones_in(&mut self, mask: VReg, bits: u32, lanes: u32) -> VReg {
        match self.has_masks() {
            true => self.v1(for_width(&EXPAND_MASK, bits), length(bits, lanes), mask),
            false => self.vector_mask(mask, bits, lanes),
        }
    }

    /// Shifts elements of 16 to 64 bits by a constant number of bits.
    pub(crate) fn shift(&mut self, how: Shift, bits: u32, lanes: u32, a: VReg, by: u32) -> VReg {
        if by == 0 {
            return a;
        }
        if !self.has_masks() && bits == 64 && how == Shift::Arithmetic {
            return self.shifted_with_sign(lanes, a, |s, x| {
                s.v1i(Op::VpsrlqImm, length(64, lanes), x, by.into())
            });
        }
        self.v1i(
            for_width(&how.by_immediate(), bits),
            length(bits, lanes),
            a,
            by.into(),
        )
    }

    /// Shifts elements of 16 to 64 bits by numbers of bits in elements of the same width, which may be too large.
    pub(crate) fn shift_by(
        &mut self,
        how: Shift,
        bits: u32,
        lanes: u32,
        a: VReg,
        by: impl Into<Rm>,
    ) -> VReg {
        if !self.has_masks() {
            let by = self.loaded(by.into());
            return match self.avx2_shift(how, bits, lanes, a, by) {
                Some(shifted) => shifted,
                None => self.v2(for_width(&how.by_lanes(), bits), length(bits, lanes), a, by),
            };
        }
        self.v2(for_width(&how.by_lanes(), bits), length(bits, lanes), a, by)
    }

    /// Applies an operation with ops for each width.
    pub(crate) fn by_width(
        &mut self,
        ops: &ByWidth,
        bits: u32,
        lanes: u32,
        a: VReg,
        b: impl Into<Rm>,
    ) -> VReg {
        self.v2(for_width(ops, bits), length(bits, lanes), a, b)
    }

    /// The bitwise function of three registers whose truth table is `table`, with `a` as the most significant input.
    pub(crate) fn ternary(
        &mut self,
        table: u8,
        len: Width,
        a: VReg,
        b: VReg,
        c: impl Into<Rm>,
    ) -> VReg {
        if !self.has_masks() {
            let c = self.loaded(c.into());
            return self.avx2_ternary(table, len, a, b, c);
        }
        self.v3(Op::Vpternlogd, len, a, b, c, i64::from(table))
    }
}
