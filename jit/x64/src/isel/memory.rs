//! Accesses to memory: loads, and what loads and stores share.
//!
//! Adjacent lanes are accessed together, with a mask register if lanes do not access memory. Elements of 32 and 64 bits at
//! other addresses are gathered and scattered; other elements are accessed in a loop over the lanes. No instruction
//! accesses bytes that the function does not.

use margay_ops::types::{Kind, Type};
use margay_vir::data::{Access, Data};
use regalloc2::{RegClass, VReg};
use smallvec::SmallVec;

use super::prim::{Shift, length};
use super::{Regs, Selector, Val, one};
use crate::asm::{Op, Width};
use crate::code::Cause;
use crate::mach::{Action, Base, Inst, Mem, NONE};

/// The limit of displacements in instructions. They also contain the distance of a piece of a vector or of a half of an
/// element.
const FARTHEST: u32 = 1 << 30;

/// The parts of a memory instruction.
pub(super) struct Parts {
    pub(super) access: Access,
    /// The type of the values.
    pub(super) ty: Type,
    pub(super) base: Val,
    pub(super) offsets: Option<Val>,
    /// The stored values.
    pub(super) value: Option<Val>,
    pub(super) mask: Option<Val>,
}

impl Parts {
    /// The number of bits of an element in memory.
    pub(super) fn bits(&self) -> u32 {
        self.access.memory.bits()
    }

    pub(super) fn is_contiguous(&self) -> bool {
        self.offsets.is_none() && self.access.stride == i64::from(self.bits() / 8)
    }

    pub(super) fn signed(&self) -> bool {
        self.access.memory.is_signed()
    }
}

impl Selector<'_> {
    pub(super) fn parts(&mut self, has_offsets: bool, has_value: bool) -> Option<Parts> {
        let vir = self.vir;
        let data = vir.insts[self.inst];
        let (Data::Access(access), Some(ty)) = (data.data, data.ty) else {
            return None;
        };
        let mut vals = self.vals().into_iter();
        Some(Parts {
            access,
            ty,
            base: vals.next()?,
            offsets: if has_offsets { vals.next() } else { None },
            value: if has_value { vals.next() } else { None },
            mask: vals.next(),
        })
    }

    /// Returns the place of an access of `lanes` lanes from lane `first` on.
    pub(super) fn access_place(&mut self, first: u32, lanes: u32, bits: u32) -> u32 {
        self.place(Cause::Access {
            first,
            lanes,
            bytes: bits / 8,
            operand: Default::default(),
        })
    }

    pub(crate) fn load(&mut self) {
        if let Some(parts) = self.parts(false, false) {
            let regs = self.loaded_value(&parts);
            self.define(0, regs);
        }
    }

    pub(crate) fn gather(&mut self) {
        if let Some(parts) = self.parts(true, false) {
            let regs = self.loaded_value(&parts);
            self.define(0, regs);
        }
    }

    pub(crate) fn store(&mut self) {
        if let Some(parts) = self.parts(false, true) {
            self.stored_value(&parts);
        }
    }

    pub(crate) fn scatter(&mut self) {
        if let Some(parts) = self.parts(true, true) {
            self.stored_value(&parts);
        }
    }

    fn loaded_value(&mut self, parts: &Parts) -> Regs {
        let (ty, bits) = (parts.ty, parts.bits());
        if ty.lanes() == 1 {
            return match self.is_conditional(parts) {
                true => self.loaded_in_loop(parts),
                false => self.loaded_scalar(parts),
            };
        }
        if !self.has_masks() && (ty.kind() == Kind::B128 || !self.is_plain(parts)) {
            return self.loaded_in_loop(parts);
        }
        if ty.kind() == Kind::B128 && bits < 128 {
            return self.loaded_halves(parts);
        }
        if parts.is_contiguous() {
            return match bits {
                128 => self.loaded_pairs(parts),
                _ => self.loaded_contiguous(parts),
            };
        }
        if let Some(numbers) = self.few_lanes(parts) {
            return self.loaded_lanes(parts, &numbers);
        }
        match self.indices(parts) {
            Some(indices) => self.gathered(parts, &indices),
            None => self.loaded_in_loop(parts),
        }
    }

    /// Returns whether an AVX2 access with one lane depends on a predicate.
    pub(super) fn is_conditional(&self, parts: &Parts) -> bool {
        !self.has_masks() && parts.mask.as_ref().is_some_and(|mask| mask.bits != Some(1))
    }

    /// Returns whether AVX2 instructions access all lanes of a register together: the lanes are contiguous, and if there
    /// is a mask, the elements have 32 or 64 bits.
    pub(super) fn is_plain(&self, parts: &Parts) -> bool {
        let (bits, ty) = (parts.bits(), parts.ty);
        let lanes = ty.lanes().min(self.width / ty.lane_bits());
        let all = parts.mask.as_ref().is_none_or(|mask| mask.bits == Some(1));
        match all {
            true => parts.is_contiguous() && bits * lanes >= 32,
            false => parts.is_contiguous() && matches!(bits, 32 | 64),
        }
    }

    /// Returns an AVX2 access to the elements of the mask; stores have a value.
    pub(super) fn avx2_masked(
        &mut self,
        bits: u32,
        lanes: u32,
        value: Option<VReg>,
        mask: VReg,
        mem: Mem,
    ) -> Inst {
        let op = match (bits, value.is_some()) {
            (32, false) => Op::Vpmaskmovd,
            (32, true) => Op::VpmaskmovdStore,
            (_, false) => Op::Vpmaskmovq,
            _ => Op::VpmaskmovqStore,
        };
        let mut inst = Inst::of(Action::Op(op), length(bits, lanes));
        inst.src[0] = mask;
        inst.src[1] = value.unwrap_or(NONE);
        inst.mem = mem;
        inst
    }

    /// Loads narrow elements into lanes of 128 bits: as lanes of 64 bits, which are then extended in memory.
    fn loaded_halves(&mut self, parts: &Parts) -> Regs {
        let lanes = parts.ty.lanes();
        let narrow = Parts {
            ty: Type::vector(Kind::B64, lanes).expect("the lanes of a type"),
            base: parts.base.clone(),
            offsets: parts.offsets.clone(),
            value: None,
            mask: parts.mask.clone(),
            access: parts.access,
        };
        let low = self.loaded_value(&narrow);
        let chunk = lanes.min(self.width / 64);
        let mut pieces = Regs::new();
        for &low in &low {
            let high = match parts.signed() {
                true => self.shift(Shift::Arithmetic, 64, chunk, low, 63),
                false => self.splat_constant(0, 64),
            };
            // The lanes of the two halves alternate.
            for number in 0..(2 * chunk * 64).div_ceil(self.width) {
                let per = (2 * chunk).min(self.width / 64);
                let order = (0..u64::from(per.max(2)))
                    .map(|n| u64::from(number * per / 2) + n / 2 + (n % 2) * 8);
                let order: SmallVec<[u64; 8]> = order.collect();
                let len = length(64, per);
                let order = self.vector_constant(64, order.into_iter());
                pieces.push(self.alternated(len, order, low, high));
            }
        }
        pieces
    }

    /// Returns lanes of 64 bits of two registers; bit 3 of an index chooses the second.
    fn alternated(&mut self, len: Width, order: VReg, low: VReg, high: VReg) -> VReg {
        let _ = len;
        self.v3(Op::Vpermi2q, Width::L512, order, low, high, None)
    }

    /// Returns the base of an access, plus the access's displacement if instructions cannot encode it, and the
    /// displacement that they encode.
    pub(super) fn base_register(&mut self, parts: &Parts) -> (VReg, i32) {
        let base = self.gpr(&parts.base);
        let displacement = parts.access.displacement;
        match displacement.unsigned_abs() < FARTHEST {
            true => (base, displacement),
            false => {
                let displacement = self.imm(i64::from(displacement) as u64);
                (self.g2(Op::Add, Width::W64, base, displacement), 0)
            }
        }
    }

    /// Returns the base of an access plus `disp` as a memory operand.
    pub(super) fn base(&mut self, parts: &Parts, disp: i32) -> Mem {
        let vir = self.vir;
        let folded = super::address::of(vir, vir.args(self.inst)[0]);
        let displacement = parts.access.displacement;
        let whole = folded
            .disp
            .checked_add(displacement)
            .and_then(|sum| sum.checked_add(disp))
            .filter(|sum| sum.unsigned_abs() < FARTHEST);
        let (Some(disp), false) = (whole, parts.base.bits.is_some()) else {
            let (base, displacement) = self.base_register(parts);
            return Mem::at(Base::Reg(base), displacement + disp);
        };
        let base = self.val(folded.base);
        let mem = Mem::at(Base::Reg(self.gpr(&base)), disp);
        match folded.index {
            None => mem,
            Some((index, scale)) => {
                let index = self.val(index);
                Mem {
                    index: self.gpr(&index),
                    scale,
                    ..mem
                }
            }
        }
    }

    /// Returns the address of the only lane.
    pub(super) fn scalar_address(&mut self, parts: &Parts) -> Mem {
        let Some(offset) = &parts.offsets else {
            return self.base(parts, 0);
        };
        let (base, displacement) = self.base_register(parts);
        let offset_bits = offset.ty.lane_bits();
        let offset = self.gpr(offset);
        let offset = self.sign_extended(offset, offset_bits, Width::W64);
        let stride = self.imm(parts.access.stride as u64);
        let offset = self.g2(Op::Imul, Width::W64, offset, stride);
        Selector::indexed(base, offset, 1, displacement)
    }

    /// Returns whether the result of the instruction is used for all lanes of vectors only.
    pub(super) fn is_for_lanes(&self) -> bool {
        let uses = self.uses[self.vir.results(self.inst)[0]];
        uses.in_lanes && !uses.alone
    }

    /// Loads a floating-point number into all lanes of a register, the lowest of which is the scalar.
    fn loaded_for_lanes(&mut self, bits: u32, mem: Mem) -> Regs {
        let op = if bits == 32 {
            Op::Vbroadcastss
        } else {
            Op::Vbroadcastsd
        };
        let mut inst = Inst::of(Action::Op(op), self.widest());
        inst.mem = mem;
        inst.place = self.access_place(0, 1, bits);
        inst.has_effect = true;
        let reg = self.result(RegClass::Float, inst);
        self.parts.insert((reg, 0, bits), reg);
        one(reg)
    }

    fn loaded_scalar(&mut self, parts: &Parts) -> Regs {
        let (ty, bits) = (parts.ty, parts.bits());
        let mem = self.scalar_address(parts);
        if ty.is_float() && parts.mask.is_none() && self.is_for_lanes() {
            return self.loaded_for_lanes(bits, mem);
        }
        let count = bits.div_ceil(64);
        let words: Regs = (0..count)
            .map(|number| {
                let bits = bits.min(64);
                let mem = Mem {
                    disp: mem.disp + 8 * number as i32,
                    ..mem
                };
                match &parts.mask {
                    Some(mask) if mask.bits != Some(1) => {
                        let mask = self.mask_reg(mask);
                        let inst = self.masked_load(bits, 1, 0, mask, mem);
                        let reg = self.result(RegClass::Float, inst);
                        if ty.is_float() {
                            reg
                        } else {
                            self.gpr_of_vector(reg, bits)
                        }
                    }
                    _ => {
                        let place = self.access_place(0, 1, bits);
                        let mut inst = Inst::of(Action::Op(Op::Mov), Width::W64);
                        let class = match (ty.is_float(), bits) {
                            (true, 32) => {
                                (inst.action, inst.len) = (Action::Op(Op::VmovssLoad), Width::L128);
                                RegClass::Float
                            }
                            (true, _) => {
                                (inst.action, inst.len) = (Action::Op(Op::Vmovq), Width::L128);
                                RegClass::Float
                            }
                            (_, 8) => {
                                (inst.action, inst.len) = (Action::Op(Op::Movzx8), Width::W32);
                                RegClass::Int
                            }
                            (_, 16) => {
                                (inst.action, inst.len) = (Action::Op(Op::Movzx16), Width::W32);
                                RegClass::Int
                            }
                            (_, 32) => {
                                inst.len = Width::W32;
                                RegClass::Int
                            }
                            _ => RegClass::Int,
                        };
                        inst.mem = mem;
                        inst.place = place;
                        inst.has_effect = true;
                        self.result(class, inst)
                    }
                }
            })
            .collect();
        if ty.is_float() || bits == 128 {
            return words;
        }
        self.extended_scalar(words[0], bits, ty, parts.signed())
    }

    pub(super) fn extended_scalar(
        &mut self,
        word: VReg,
        bits: u32,
        ty: Type,
        signed: bool,
    ) -> Regs {
        let to = ty.lane_bits();
        if to == 128 {
            let low = if signed {
                self.sign_extended(word, bits, Width::W64)
            } else {
                word
            };
            let high = match signed {
                true => self.g2i(Op::Sar, Width::W64, low, 63),
                false => self.imm(0),
            };
            return [low, high].into_iter().collect();
        }
        if !signed || bits == to {
            return one(word);
        }
        let extended = self.sign_extended(word, bits, super::scalar::general(to));
        one(self.zero_extended(extended, to))
    }

    /// Returns the instruction that loads `lanes` elements of `bits` bits, from lane `first` on, in the lanes of a mask; other
    /// lanes are zero.
    pub(super) fn masked_load(
        &mut self,
        bits: u32,
        lanes: u32,
        first: u32,
        mask: VReg,
        mem: Mem,
    ) -> Inst {
        if !self.has_masks() {
            let mut inst = self.avx2_masked(bits, lanes, None, mask, mem);
            inst.place = self.access_place(first, lanes, bits);
            inst.has_effect = true;
            return inst;
        }
        let op = super::prim::for_width(
            &[Op::Vmovdqu8, Op::Vmovdqu16, Op::Vmovdqu32, Op::Vmovdqu64],
            bits,
        );
        let mut inst = Inst::of(Action::Op(op), length(bits, lanes));
        inst.mem = mem;
        inst.mask = mask;
        inst.zeroing = true;
        inst.place = self.access_place(first, lanes, bits);
        inst.has_effect = true;
        inst
    }

    /// Returns the lanes that access memory in piece `number` of `lanes` lanes; `None` if all do and they fill what a
    /// single instruction without a mask accesses.
    pub(super) fn access_mask(
        &mut self,
        parts: &Parts,
        bits: u32,
        lanes: u32,
        number: u32,
    ) -> Option<VReg> {
        match &parts.mask {
            Some(mask) if mask.bits.is_none_or(|bits| bits & 1 == 0) => {
                self.mask_bits = if self.has_masks() { 0 } else { bits };
                let piece = self.piece(mask, lanes, number);
                let mask = self.reg(&piece);
                self.mask_bits = 0;
                Some(mask)
            }
            _ if bits * lanes >= 32 => None,
            _ => Some(self.mask_constant((1 << lanes) - 1)),
        }
    }

    fn loaded_contiguous(&mut self, parts: &Parts) -> Regs {
        let (ty, bits) = (parts.ty, parts.bits());
        let lanes = ty.lanes().min(self.width / ty.lane_bits());
        (0..ty.lanes() / lanes)
            .map(|number| {
                let mem = self.base(parts, (number * lanes * bits / 8) as i32);
                let reg = match self.access_mask(parts, bits, lanes, number) {
                    Some(mask) => {
                        let inst = self.masked_load(bits, lanes, number * lanes, mask, mem);
                        self.result(RegClass::Float, inst)
                    }
                    None => {
                        let (op, _, len) = Self::moves(lanes * bits / 8);
                        let place = self.access_place(number * lanes, lanes, bits);
                        let mut inst = Inst::of(Action::Op(op), len);
                        inst.mem = mem;
                        inst.place = place;
                        inst.has_effect = true;
                        self.result(RegClass::Float, inst)
                    }
                };
                self.resized(reg, bits, ty.lane_bits(), parts.signed(), lanes)
            })
            .collect()
    }

    /// Returns the mask of the 64-bit halves of the 128-bit lanes of piece `number`.
    pub(super) fn pair_mask(&mut self, parts: &Parts, lanes: u32, number: u32) -> Option<VReg> {
        let mask = parts.mask.as_ref()?;
        let mask = self.mask_reg(mask);
        let bits = self.gpr_of_mask(mask);
        let moved = match number {
            0 => bits,
            _ => self.g2i(Op::Shr, Width::W64, bits, i64::from(number * lanes)),
        };
        let spread = self.imm(0x5555);
        let even = self.g3(Op::Pdep, Width::W64, moved, spread);
        let odd = self.g2i(Op::Shl, Width::W64, even, 1);
        let both = self.g2(Op::Or, Width::W64, even, odd);
        let both = self.g2i(Op::And, Width::W64, both, (1 << (2 * lanes)) - 1);
        Some(self.mask_of_gpr(both))
    }

    fn loaded_pairs(&mut self, parts: &Parts) -> Regs {
        let lanes = parts.ty.lanes().min(self.width / 128);
        (0..parts.ty.lanes() / lanes)
            .map(|number| {
                let mem = self.base(parts, (number * lanes * 16) as i32);
                let mut inst = Inst::of(Action::Op(Op::Vmovdqu64), length(128, lanes));
                inst.mem = mem;
                if let Some(mask) = self.pair_mask(parts, lanes, number) {
                    inst.mask = mask;
                    inst.zeroing = true;
                }
                inst.place = self.access_place(number * lanes, lanes, 128);
                inst.has_effect = true;
                self.result(RegClass::Float, inst)
            })
            .collect()
    }
}
