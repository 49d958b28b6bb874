//! Cuts values into pieces, and joins pieces to values.

use margay_ops::types::{Kind, Type};
use regalloc2::{RegClass, VReg};

use super::prim::{Rm, length};
use super::{Regs, Selector, Val, one};
use crate::asm::{Op, Width};
use crate::mach::{Action, Inst, Mem};

/// A piece of a value: some of its lanes, in one register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) source: Source,
    /// The number of bits of a lane; 1 for masks.
    pub(crate) bits: u32,
    pub(crate) lanes: u32,
}

/// Where a piece is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Reg(VReg),
    /// All lanes have these bits.
    Constant(u64),
}

impl Piece {
    /// Returns the bits of each lane of a constant.
    pub(crate) fn constant(&self) -> Option<u64> {
        match self.source {
            Source::Constant(bits) => Some(bits),
            Source::Reg(_) => None,
        }
    }

    /// Returns the length of the piece's register.
    pub(crate) fn len(&self) -> Width {
        length(self.bits, self.lanes)
    }
}

impl Selector<'_> {
    /// Returns the register that contains a piece.
    pub(crate) fn reg(&mut self, piece: &Piece) -> VReg {
        match piece.source {
            Source::Reg(reg) => reg,
            Source::Constant(bits) if piece.bits == 1 && self.mask_bits != 0 => {
                let all = if bits & 1 != 0 { u64::MAX } else { 0 };
                let mask = self.splat_constant(all, 64);
                let width = self.mask_bits;
                self.mask_widths.insert(mask, width);
                mask
            }
            Source::Constant(bits) if piece.bits == 1 => {
                let ones = u64::MAX >> (64 - piece.lanes);
                self.mask_constant(if bits & 1 != 0 { ones } else { 0 })
            }
            Source::Constant(bits) => self.splat_constant(bits, piece.bits),
        }
    }

    /// Returns a piece as the source of an instruction with elements of the piece's width. If the piece is a constant of
    /// 32 or 64 bits, the source is memory.
    pub(crate) fn rm(&mut self, piece: &Piece) -> Rm {
        match (piece.source, piece.bits) {
            (Source::Constant(bits), 32 | 64) => self.constant_rm(bits, piece.bits),
            _ => Rm::Reg(self.reg(piece)),
        }
    }

    /// Returns a constant as the source of an instruction with elements of `bits` bits, which must be 32 or 64.
    pub(crate) fn constant_rm(&mut self, value: u64, bits: u32) -> Rm {
        let value = super::consts::repeated(value, bits);
        if value == 0 || !self.has_masks() {
            return Rm::Reg(self.splat_constant(value, bits));
        }
        if let Some(&reg) = self.local.get(&(RegClass::Float, value)) {
            return Rm::Reg(reg);
        }
        let bytes = value.to_le_bytes();
        let mem = self.pool(&bytes[..bits as usize / 8]);
        Rm::Mem(Mem {
            broadcast: true,
            ..mem
        })
    }

    /// Returns the width of the elements of masks that are operands; `None` if they are in mask registers.
    pub(super) fn mask_elements(&self) -> Option<u32> {
        (self.mask_bits != 0).then_some(self.mask_bits)
    }

    /// Returns whether there are mask registers.
    pub(crate) fn has_masks(&self) -> bool {
        self.features.contains(crate::features::Features::AVX512)
    }

    /// Returns piece `number` of a value that is cut into pieces of `lanes` lanes. A scalar is the operand of all lanes.
    pub(crate) fn piece(&mut self, val: &Val, lanes: u32, number: u32) -> Piece {
        let bits = val.ty.lane_bits();
        let source = match val.bits {
            Some(bits) => Source::Constant(bits),
            None if val.is_scalar() => Source::Reg(self.scalar_in_lanes(val, lanes)),
            None if val.ty.kind() == Kind::Pred && self.mask_bits != 0 => {
                Source::Reg(self.expanded_mask(val.regs[0], lanes, number, self.mask_bits))
            }
            None if val.ty.kind() == Kind::Pred => {
                Source::Reg(self.mask_part(val.regs[0], val.ty.lanes(), lanes, number))
            }
            None => Source::Reg(self.part(&val.regs, bits * lanes, number)),
        };
        Piece {
            source,
            bits,
            lanes,
        }
    }

    /// Returns a scalar in a vector register, or a `pred` in a mask: in the lowest lane, or in all `lanes` lanes.
    fn scalar_in_lanes(&mut self, val: &Val, lanes: u32) -> VReg {
        let (reg, bits) = (val.regs[0], val.ty.lane_bits());
        if val.ty.kind() == Kind::Pred {
            return match self.mask_bits {
                0 => self.mask_of_pred(reg, lanes),
                bits => self.expanded_pred(reg, bits),
            };
        }
        if lanes == 1 {
            return match reg.class() {
                RegClass::Int => self.vector_of_gpr(reg, bits),
                _ => reg,
            };
        }
        let key = (reg, 0, bits);
        if let Some(&part) = self.parts.get(&key).or_else(|| self.local_parts.get(&key)) {
            return part;
        }
        let part = self.new_broadcast(val);
        self.local_parts.insert(key, part);
        part
    }

    /// Returns a mask of `lanes` lanes that are all equal to a `pred`.
    pub(crate) fn mask_of_pred(&mut self, pred: VReg, lanes: u32) -> VReg {
        let key = (pred, lanes, u32::MAX);
        if let Some(&part) = self.local_parts.get(&key) {
            return part;
        }
        let bits = match lanes {
            1 => pred,
            64 => self.g1(Op::Neg, Width::W64, pred),
            _ => {
                let all = self.g1(Op::Neg, Width::W64, pred);
                let ones = self.imm((1 << lanes) - 1);
                self.g2(Op::And, Width::W64, all, ones)
            }
        };
        let mask = self.mask_of_gpr(bits);
        self.local_parts.insert(key, mask);
        mask
    }

    /// Returns a vector register whose lowest element is a scalar integer.
    pub(crate) fn vector_of_gpr(&mut self, reg: VReg, bits: u32) -> VReg {
        let op = if bits == 64 {
            Op::VmovqFromGpr
        } else {
            Op::VmovdFromGpr
        };
        self.v1(op, Width::L128, reg)
    }

    /// Returns the zero-extended lowest element of a vector register.
    pub(crate) fn gpr_of_vector(&mut self, reg: VReg, bits: u32) -> VReg {
        let op = if bits == 64 {
            Op::VmovqToGpr
        } else {
            Op::VmovdToGpr
        };
        let mut inst = Inst::of(Action::Op(op), Width::L128);
        inst.src[0] = reg;
        let whole = self.result(RegClass::Int, inst);
        self.zero_extended(whole, bits)
    }

    /// Returns a register of the widest length all of whose elements are equal to a scalar.
    pub(crate) fn new_broadcast(&mut self, val: &Val) -> VReg {
        let len = self.widest();
        if !self.has_masks() {
            return self.avx2_broadcast(val);
        }
        let op = match (val.ty.kind(), val.ty.lane_bits()) {
            (Kind::F32, _) => Op::Vbroadcastss,
            (Kind::F64, _) => Op::Vbroadcastsd,
            (_, 8) => Op::VpbroadcastbFromGpr,
            (_, 16) => Op::VpbroadcastwFromGpr,
            (_, 32) => Op::VpbroadcastdFromGpr,
            _ => Op::VpbroadcastqFromGpr,
        };
        self.v1(op, len, val.regs[0])
    }

    /// Returns part `number` of registers that are cut into parts of `bits` bits.
    pub(crate) fn part(&mut self, regs: &[VReg], bits: u32, number: u32) -> VReg {
        let start = bits * number;
        let reg = regs[(start / self.width) as usize];
        let start = start % self.width;
        if start == 0 {
            return reg;
        }
        let key = (reg, bits, start);
        if let Some(&part) = self.parts.get(&key).or_else(|| self.local_parts.get(&key)) {
            return part;
        }
        let part = self.extracted(reg, bits, start);
        self.local_parts.insert(key, part);
        part
    }

    /// Returns `bits` bits of a register from bit `start` on, which is a multiple of `bits`.
    fn extracted(&mut self, reg: VReg, bits: u32, start: u32) -> VReg {
        if bits == 256 {
            return self.v1i(Op::Vextracti64x4, Width::L512, reg, 1);
        }
        let quarter = match (start / 128, self.width) {
            (0, _) => reg,
            (number, 512) => self.v1i(Op::Vextracti32x4, Width::L512, reg, number.into()),
            (number, _) => self.v1i(Op::Vextracti32x4, Width::L256, reg, number.into()),
        };
        match start % 128 {
            0 => quarter,
            64 => self.v1i(Op::Vpshufd, Width::L128, quarter, 0b1110),
            rest => self.v1i(Op::Vpsrldq, Width::L128, quarter, (rest / 8).into()),
        }
    }

    /// Returns the lanes from `number * lanes` on of a mask of `whole` lanes. Bits beyond `lanes` are undefined.
    pub(crate) fn mask_part(&mut self, mask: VReg, whole: u32, lanes: u32, number: u32) -> VReg {
        if whole == lanes {
            return mask;
        }
        let key = (mask, lanes, number);
        if let Some(&part) = self.parts.get(&key).or_else(|| self.local_parts.get(&key)) {
            return part;
        }
        if number == 0 {
            return mask;
        }
        let part = match mask.class() {
            RegClass::Int => self.g2i(Op::Shr, Width::W64, mask, i64::from(lanes * number)),
            _ => self.k1(Op::Kshiftr, Width::W64, mask, i64::from(lanes * number)),
        };
        self.local_parts.insert(key, part);
        part
    }

    /// Joins pieces of `lanes` lanes, which are in registers, to a value.
    pub(crate) fn joined(&mut self, ty: Type, lanes: u32, pieces: &[VReg]) -> Regs {
        if ty.lanes() == 1 {
            return self.scalar_of_lane(ty, pieces[0]);
        }
        if ty.kind() == Kind::Pred {
            return one(self.joined_masks(lanes, pieces));
        }
        let mut bits = ty.lane_bits() * lanes;
        let mut parts: Regs = pieces.into();
        while bits < self.width && parts.len() > 1 {
            parts = parts
                .chunks(2)
                .map(|pair| self.pair(bits, pair[0], pair[1]))
                .collect();
            bits *= 2;
        }
        parts
    }

    /// Returns the scalar that is in the lowest lane of a register.
    fn scalar_of_lane(&mut self, ty: Type, reg: VReg) -> Regs {
        one(match ty.kind() {
            Kind::F32 | Kind::F64 => reg,
            Kind::Pred if reg.class() == RegClass::Float => self.bits_of_mask(reg, 1),
            Kind::Pred => self.gpr_of_mask(reg),
            _ => self.gpr_of_vector(reg, ty.lane_bits()),
        })
    }

    /// Returns a register with the low `bits` bits of `low`, followed by those of `high`.
    fn pair(&mut self, bits: u32, low: VReg, high: VReg) -> VReg {
        let whole = match bits {
            8 => self.v2(Op::Vpunpcklbw, Width::L128, low, high),
            16 => self.v2(Op::Vpunpcklwd, Width::L128, low, high),
            32 => self.v2(Op::Vpunpckldq, Width::L128, low, high),
            64 => self.v2(Op::Vpunpcklqdq, Width::L128, low, high),
            128 => self.v2i(Op::Vinserti32x4, Width::L256, low, high, 1),
            _ => self.v2i(Op::Vinserti64x4, Width::L512, low, high, 1),
        };
        if bits >= 16 {
            self.parts.insert((whole, bits, bits), high);
        }
        whole
    }

    /// Joins masks of `lanes` lanes, whose other bits are zero.
    fn joined_masks(&mut self, lanes: u32, pieces: &[VReg]) -> VReg {
        if pieces[0].class() == RegClass::Float {
            return self.joined_bits(lanes, pieces);
        }
        let (mut size, mut parts): (u32, Regs) = (lanes, pieces.into());
        while parts.len() > 1 {
            let pairs: Vec<(VReg, VReg)> = parts.chunks(2).map(|pair| (pair[0], pair[1])).collect();
            parts = pairs
                .into_iter()
                .map(|(low, high)| self.mask_pair(size, low, high))
                .collect();
            size *= 2;
        }
        // The pieces are available without shifts wherever the mask is.
        for (number, &piece) in (0..).zip(pieces) {
            self.parts.insert((parts[0], lanes, number), piece);
        }
        parts[0]
    }

    /// Joins two masks of `size` lanes.
    pub(crate) fn mask_pair(&mut self, size: u32, low: VReg, high: VReg) -> VReg {
        if low.class() == RegClass::Int {
            let moved = self.g2i(Op::Shl, Width::W64, high, size.into());
            return self.g2(Op::Or, Width::W64, low, moved);
        }
        let whole = match size {
            8 => self.k2(Op::Kunpck, Width::W16, high, low, None),
            16 => self.k2(Op::Kunpck, Width::W32, high, low, None),
            32 => self.k2(Op::Kunpck, Width::W64, high, low, None),
            _ => {
                let high = self.k1(Op::Kshiftl, Width::W64, high, i64::from(size));
                self.kk(Op::Kor, low, high)
            }
        };
        self.parts.insert((whole, size, 1), high);
        whole
    }
}
