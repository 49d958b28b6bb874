//! Gathers and scatters of elements of 32 and 64 bits, and accesses in loops over the lanes.

use margay_ops::types::{Kind, Type};
use regalloc2::{RegClass, VReg};

use super::lanes::bits_kind;
use super::memory::Parts;
use super::prim::{Shift, length};
use super::{Regs, Selector, Val};
use crate::asm::{Op, Width};
use crate::code::Cause;
use crate::mach::{Action, Inst, Mem};

/// The indices of a gather or scatter: a register for each piece, their width, and the scale.
pub(super) struct Indices {
    bits: u32,
    pub(super) lanes: u32,
    scale: u8,
    regs: Regs,
}

impl Selector<'_> {
    /// Returns the indices of an access whose elements have 32 or 64 bits.
    pub(super) fn indices(&mut self, parts: &Parts) -> Option<Indices> {
        let (bits, ty) = (parts.bits(), parts.ty);
        if !matches!(bits, 32 | 64) || !self.has_masks() {
            return None;
        }
        let widest = bits.max(ty.lane_bits());
        let stride = parts.access.stride;
        let Some(offsets) = &parts.offsets else {
            let lanes = ty.lanes().min(self.width / widest);
            let reach = stride.checked_mul(64)?;
            i32::try_from(reach).ok()?;
            let regs = (0..ty.lanes() / lanes)
                .map(|number| {
                    let filled = u64::from(lanes.max(4));
                    let first = u64::from(number * lanes);
                    let steps = (0..filled).map(|n| (stride as u64).wrapping_mul(first + n));
                    self.vector_constant(32, steps)
                })
                .collect();
            return Some(Indices {
                bits: 32,
                lanes,
                scale: 1,
                regs,
            });
        };
        let offset_bits = offsets.ty.lane_bits();
        let is_scale = matches!(stride, 1 | 2 | 4 | 8);
        let index_bits = if is_scale { offset_bits } else { 64 };
        let lanes = ty.lanes().min(self.width / widest.max(index_bits));
        let regs = (0..ty.lanes() / lanes)
            .map(|number| {
                let piece = self.piece(offsets, lanes, number);
                let reg = self.reg(&piece);
                if is_scale {
                    return reg;
                }
                let wide = self.resized(reg, offset_bits, 64, true, lanes);
                let factor = self.constant_rm(stride as u64, 64);
                match stride > 0 && stride.count_ones() == 1 {
                    true => self.shift(Shift::Left, 64, lanes, wide, stride.trailing_zeros()),
                    false => self.v2(Op::Vpmullq, length(64, lanes), wide, factor),
                }
            })
            .collect();
        Some(Indices {
            bits: index_bits,
            lanes,
            scale: if is_scale { stride as u8 } else { 1 },
            regs,
        })
    }

    pub(super) fn indexed_access(&mut self, parts: &Parts, indices: &Indices, number: u32) -> Inst {
        let (bits, lanes) = (parts.bits(), indices.lanes);
        let is_load = parts.value.is_none();
        let op = match (is_load, indices.bits, bits) {
            (true, 32, 32) => Op::Vpgatherdd,
            (true, 32, _) => Op::Vpgatherdq,
            (true, _, 32) => Op::Vpgatherqd,
            (true, ..) => Op::Vpgatherqq,
            (false, 32, 32) => Op::Vpscatterdd,
            (false, 32, _) => Op::Vpscatterdq,
            (false, _, 32) => Op::Vpscatterqd,
            (false, ..) => Op::Vpscatterqq,
        };
        let mask = match &parts.mask {
            Some(mask) => {
                let piece = self.piece(mask, lanes, number);
                self.reg(&piece)
            }
            None => self.mask_constant(u64::MAX >> (64 - lanes)),
        };
        let (base, displacement) = self.base_register(parts);
        let mut inst = Inst::of(Action::Op(op), length(bits.max(indices.bits), lanes));
        let index = indices.regs[number as usize];
        inst.mem = Selector::indexed(base, index, indices.scale, displacement);
        inst.mask = mask;
        inst.second = self.mach.vreg(RegClass::Vector);
        inst.place = self.access_place(number * lanes, lanes, bits);
        inst.has_effect = true;
        inst
    }

    pub(super) fn gathered(&mut self, parts: &Parts, indices: &Indices) -> Regs {
        let (ty, bits, lanes) = (parts.ty, parts.bits(), indices.lanes);
        let pieces: Regs = (0..ty.lanes() / lanes)
            .map(|number| {
                let mut inst = self.indexed_access(parts, indices, number);
                inst.tied = self.splat_constant(0, 64);
                let reg = self.result(RegClass::Float, inst);
                self.resized(reg, bits, ty.lane_bits(), parts.signed(), lanes)
            })
            .collect();
        self.joined(ty, lanes, &pieces)
    }

    /// Returns the bits of the lanes that access memory.
    fn lane_bits(&mut self, parts: &Parts) -> VReg {
        match &parts.mask {
            Some(mask) => {
                let mask = self.mask_reg(mask);
                self.gpr_of_mask(mask)
            }
            None => self.imm(u64::MAX >> (64 - parts.ty.lanes())),
        }
    }

    /// Returns the address of a lane, whose offset is in the scratch area at `offset`.
    fn loop_address(
        &mut self,
        parts: &Parts,
        (base, displacement): (VReg, i32),
        lane: VReg,
        offset: u32,
    ) -> Mem {
        let index = match &parts.offsets {
            None => lane,
            Some(offsets) => {
                let bits = offsets.ty.lane_bits();
                let at = self.lane_address(offset, bits / 8, lane);
                let word = self.load_general(bits, Mem::at(at, 0));
                self.sign_extended(word, bits, Width::W64)
            }
        };
        let stride = parts.access.stride;
        if matches!(stride, 1 | 2 | 4 | 8) {
            return Selector::indexed(base, index, stride as u8, displacement);
        }
        let factor = self.imm(stride as u64);
        let distance = self.g2(Op::Imul, Width::W64, index, factor);
        Selector::indexed(base, distance, 1, displacement)
    }

    /// Loads lanes one by one.
    pub(super) fn loaded_in_loop(&mut self, parts: &Parts) -> Regs {
        let (ty, bits) = (parts.ty, parts.bits());
        // Narrow elements of 128-bit lanes are extended in the loop.
        let extends = ty.kind() == Kind::B128 && bits < 128;
        let narrow = match extends || bits == ty.lane_bits() {
            true => ty,
            false => Type::vector(bits_kind(bits), ty.lanes()).expect("the lanes of a type"),
        };
        let start = 16 * ty.lanes();
        if let Some(offsets) = &parts.offsets {
            self.spill_value(offsets, 0);
        }
        self.clear(narrow, start);
        let base = self.base_register(parts);
        let lanes = self.lane_bits(parts);
        let body = self.lane_loop(lanes);
        let mem = self.loop_address(parts, base, body.lane, 0);
        for half in 0..bits.div_ceil(64) {
            let width = bits.min(64);
            let place = self.place(Cause::Loop {
                lane: 0,
                bytes: bits / 8,
                operand: Default::default(),
            });
            let (op, len) = match width {
                8 => (Op::Movzx8, Width::W32),
                16 => (Op::Movzx16, Width::W32),
                32 => (Op::Mov, Width::W32),
                _ => (Op::Mov, Width::W64),
            };
            let mut inst = Inst::of(Action::Op(op), len);
            inst.mem = Mem {
                disp: mem.disp + 8 * half as i32,
                ..mem
            };
            inst.place = place;
            inst.lane = body.lane;
            inst.has_effect = true;
            let word = self.result(RegClass::Int, inst);
            let at = self.lane_address(start, narrow.lane_bytes(), body.lane);
            if extends {
                let words = self.extended_scalar(word, bits, Type::B128, parts.signed());
                for (number, &word) in (0..).zip(&words) {
                    self.effect(Self::general_store(64, word, Mem::at(at, 8 * number)));
                }
            } else {
                self.effect(Self::general_store(
                    width,
                    word,
                    Mem::at(at, 8 * half as i32),
                ));
            }
        }
        self.end_loop(body.label, body.rest, body.exit);
        let regs = self.reload_value(narrow, start);
        if narrow == ty {
            return regs;
        }
        if ty.lanes() == 1 {
            return self.extended_scalar(regs[0], bits, ty, parts.signed());
        }
        let val = Val::new(narrow, regs);
        let lanes = ty.lanes().min(self.width / ty.lane_bits());
        (0..ty.lanes() / lanes)
            .map(|number| {
                let piece = self.piece(&val, lanes, number);
                let piece = self.reg(&piece);
                self.resized(piece, bits, ty.lane_bits(), parts.signed(), lanes)
            })
            .collect()
    }

    /// Stores lanes one by one.
    pub(super) fn stored_in_loop(&mut self, parts: &Parts, value: &Val) {
        let (ty, bits) = (parts.ty, parts.bits());
        let start = 16 * ty.lanes();
        if let Some(offsets) = &parts.offsets {
            self.spill_value(offsets, 0);
        }
        match (ty.kind(), value.bits) {
            (Kind::B128, Some(bits)) => {
                let regs = self.wide_constant(ty, bits);
                self.spill_value(&Val::new(ty, regs), start);
            }
            _ => self.spill_value(value, start),
        }
        let base = self.base_register(parts);
        let lanes = self.lane_bits(parts);
        let body = self.lane_loop(lanes);
        let mem = self.loop_address(parts, base, body.lane, 0);
        for half in 0..bits.div_ceil(64) {
            let width = bits.min(64);
            let at = self.lane_address(start, ty.lane_bytes(), body.lane);
            let word = self.load_general(width, Mem::at(at, 8 * half as i32));
            let mem = Mem {
                disp: mem.disp + 8 * half as i32,
                ..mem
            };
            let place = self.place(Cause::Loop {
                lane: 0,
                bytes: bits / 8,
                operand: Default::default(),
            });
            let mut inst = Self::general_store(width, word, mem);
            inst.place = place;
            inst.lane = body.lane;
            self.effect(inst);
        }
        self.end_loop(body.label, body.rest, body.exit);
    }
}
