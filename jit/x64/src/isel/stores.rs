//! Stores.

use margay_ops::types::Kind;
use regalloc2::VReg;

use super::memory::Parts;
use super::prim::length;
use super::{Selector, Val};
use crate::asm::{Op, Width};
use crate::mach::{Action, Inst, Mem, NONE};

impl Selector<'_> {
    pub(super) fn stored_value(&mut self, parts: &Parts) {
        let (ty, bits) = (parts.ty, parts.bits());
        let Some(value) = &parts.value else {
            return;
        };
        if ty.lanes() == 1 {
            return match self.is_conditional(parts) {
                true => self.stored_in_loop(parts, value),
                false => self.stored_scalar(parts, value),
            };
        }
        if !self.has_masks() && (ty.kind() == Kind::B128 || !self.is_plain(parts)) {
            return self.stored_in_loop(parts, value);
        }
        if ty.kind() == Kind::B128 && bits < 128 {
            return self.stored_in_loop(parts, value);
        }
        if parts.is_contiguous() {
            return match bits {
                128 => self.stored_pairs(parts, value),
                _ => self.stored_contiguous(parts, value),
            };
        }
        if let Some(numbers) = self.few_lanes(parts) {
            return self.stored_lanes(parts, &numbers);
        }
        match self.indices(parts) {
            Some(indices) => {
                if parts.mask.is_none() && parts.offsets.is_none() {
                    let base = self.gpr(&parts.base);
                    let value = self.vir.args(self.inst)[0];
                    self.prefetch_rows(value, base, parts.access.stride);
                }
                for number in 0..ty.lanes() / indices.lanes {
                    let source = self.narrowed(value, bits, indices.lanes, number);
                    let mut inst = self.indexed_access(parts, &indices, number);
                    inst.src[0] = source;
                    self.push(inst);
                }
            }
            None => self.stored_in_loop(parts, value),
        }
    }

    /// Returns a piece of a value, truncated to `bits` bits.
    pub(super) fn narrowed(&mut self, value: &Val, bits: u32, lanes: u32, number: u32) -> VReg {
        let piece = self.piece(value, lanes, number);
        if piece.constant().is_some() && piece.bits != bits {
            let truncated = super::pieces::Piece { bits, ..piece };
            return self.reg(&truncated);
        }
        let reg = self.reg(&piece);
        self.resized(reg, piece.bits, bits, false, lanes)
    }

    fn stored_scalar(&mut self, parts: &Parts, value: &Val) {
        let (ty, bits) = (parts.ty, parts.bits());
        let mem = self.scalar_address(parts);
        let regs = self.regs_of(value);
        for number in 0..bits.div_ceil(64) {
            let width = bits.min(64);
            let mem = Mem {
                disp: mem.disp + 8 * number as i32,
                ..mem
            };
            let reg = regs[number as usize];
            let place = self.access_place(0, 1, width);
            let mut inst = match &parts.mask {
                Some(mask) if mask.bits != Some(1) => {
                    let mask = self.mask_reg(mask);
                    let reg = if ty.is_float() {
                        reg
                    } else {
                        self.vector_of_gpr(reg, width)
                    };
                    self.masked_store(width, 1, reg, mask, mem)
                }
                _ if ty.is_float() => {
                    let op = if width == 32 {
                        Op::VmovssStore
                    } else {
                        Op::VmovqStore
                    };
                    let mut inst = Inst::of(Action::Op(op), Width::L128);
                    inst.src[0] = reg;
                    inst.mem = mem;
                    inst
                }
                _ => Self::general_store(width, reg, mem),
            };
            inst.place = place;
            self.effect(inst);
        }
    }

    /// Returns the instruction that stores `lanes` elements of `bits` bits in the lanes of a mask.
    pub(super) fn masked_store(
        &mut self,
        bits: u32,
        lanes: u32,
        reg: VReg,
        mask: VReg,
        mem: Mem,
    ) -> Inst {
        if !self.has_masks() {
            return self.avx2_masked(bits, lanes, Some(reg), mask, mem);
        }
        let ops = [
            Op::Vmovdqu8Store,
            Op::Vmovdqu16Store,
            Op::Vmovdqu32Store,
            Op::Vmovdqu64Store,
        ];
        let mut inst = Inst::of(
            Action::Op(super::prim::for_width(&ops, bits)),
            length(bits, lanes),
        );
        inst.src[0] = reg;
        inst.mem = mem;
        inst.mask = mask;
        inst
    }

    fn stored_contiguous(&mut self, parts: &Parts, value: &Val) {
        let (ty, bits) = (parts.ty, parts.bits());
        let lanes = ty.lanes().min(self.width / ty.lane_bits());
        for number in 0..ty.lanes() / lanes {
            let mem = self.base(parts, (number * lanes * bits / 8) as i32);
            let reg = self.narrowed(value, bits, lanes, number);
            let mut inst = match self.access_mask(parts, bits, lanes, number) {
                Some(mask) => self.masked_store(bits, lanes, reg, mask, mem),
                None => {
                    let (_, op, len) = Self::moves(lanes * bits / 8);
                    let mut inst = Inst::of(Action::Op(op), len);
                    inst.src[0] = reg;
                    inst.mem = mem;
                    inst
                }
            };
            inst.place = self.access_place(number * lanes, lanes, bits);
            self.effect(inst);
        }
    }

    fn stored_pairs(&mut self, parts: &Parts, value: &Val) {
        let lanes = parts.ty.lanes().min(self.width / 128);
        let regs = match value.bits {
            Some(bits) => self.wide_constant(value.ty, bits),
            None => value.regs.clone(),
        };
        for number in 0..parts.ty.lanes() / lanes {
            let mem = self.base(parts, (number * lanes * 16) as i32);
            let mut inst = Inst::of(Action::Op(Op::Vmovdqu64Store), length(128, lanes));
            inst.src[0] = regs[number as usize];
            inst.mem = mem;
            inst.mask = self.pair_mask(parts, lanes, number).unwrap_or(NONE);
            inst.place = self.access_place(number * lanes, lanes, 128);
            self.effect(inst);
        }
    }
}
