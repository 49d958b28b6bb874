//! Compression and expansion of lanes.

use margay_ops::types::{Kind, Type};
use margay_vir::ops::Op as VirOp;
use regalloc2::{RegClass, VReg};

use super::prim::{for_width, length};
use super::{Regs, Selector, Val, one};
use crate::asm::{Op, Width};
use crate::features::Features;
use crate::mach::{Base, Mem};

impl Selector<'_> {
    pub(crate) fn compress(&mut self) {
        self.compress_or_expand(VirOp::Compress);
    }

    pub(crate) fn expand(&mut self) {
        self.compress_or_expand(VirOp::Expand);
    }

    fn compress_or_expand(&mut self, op: VirOp) {
        let (vals, ty) = (self.vals(), self.result_types()[0]);
        let regs = match ty.kind() {
            _ if ty.lanes() == 1 => self.kept_if(&vals[0], &vals[1]),
            Kind::Pred if !self.has_masks() => {
                let (val, mask) = (self.mask_reg(&vals[0]), self.mask_reg(&vals[1]));
                let op = if op == VirOp::Compress {
                    Op::Pext
                } else {
                    Op::Pdep
                };
                one(self.g3(op, Width::W64, val, mask))
            }
            _ if !self.has_masks() => self.moved_in_memory(op, ty, &vals[0], &vals[1]),
            Kind::Pred => {
                let words = Type::vector(Kind::B32, ty.lanes()).expect("the lanes of a type");
                let val = self.words_of_mask(&vals[0], words);
                let regs = self.moved(op, words, &val, &vals[1]);
                self.mask_of_words(words, &regs)
            }
            Kind::B128 => self.moved_wide(op, ty, &vals[0], &vals[1]),
            _ => self.moved(op, ty, &vals[0], &vals[1]),
        };
        self.define(0, regs);
    }

    /// Returns a scalar if a predicate is true, and zero otherwise.
    fn kept_if(&mut self, val: &Val, pred: &Val) -> Regs {
        let pred = self.gpr(pred);
        let regs = self.regs_of(val);
        regs.into_iter()
            .map(|reg| match reg.class() {
                RegClass::Int => {
                    let all = self.g1(Op::Neg, Width::W64, pred);
                    self.g2(Op::And, Width::W64, all, reg)
                }
                _ => {
                    let wide = match self.has_masks() {
                        true => {
                            let mask = self.mask_of_pred(pred, 1);
                            self.ones_in(mask, 64, 1)
                        }
                        false => self.expanded_pred(pred, 64),
                    };
                    self.v2(Op::Vpandd, Width::L128, wide, reg)
                }
            })
            .collect()
    }

    /// Compresses or expands lanes of 8 to 64 bits: each register separately, through memory if there are several.
    fn moved(&mut self, op: VirOp, ty: Type, val: &Val, mask: &Val) -> Regs {
        let bits = ty.lane_bits();
        let direct = bits >= 32 || self.features.contains(Features::VBMI2);
        let wide = if direct { bits } else { 32 };
        let chunk = ty.lanes().min(self.width / wide);
        let count = ty.lanes() / chunk;
        let ops: [Op; 4] = match op {
            VirOp::Compress => [
                Op::Vpcompressb,
                Op::Vpcompressw,
                Op::Vpcompressd,
                Op::Vpcompressq,
            ],
            _ => [Op::Vpexpandb, Op::Vpexpandw, Op::Vpexpandd, Op::Vpexpandq],
        };
        let op_of = for_width(&ops, wide);
        let len = length(wide, chunk);
        let bytes = wide / 8;
        let size = ty.lanes() * bytes;
        let masks: Regs = (0..count)
            .map(|number| {
                let piece = self.piece(mask, chunk, number);
                self.reg(&piece)
            })
            .collect();
        let sources: Regs = (0..count)
            .map(|number| {
                let piece = self.piece(val, chunk, number);
                let piece = self.reg(&piece);
                self.resized(piece, bits, wide, false, chunk)
            })
            .collect();
        let pieces: Regs = if count == 1 {
            one(self.masked1(op_of, len, masks[0], None, sources[0]))
        } else if op == VirOp::Compress {
            self.compressed_in_memory(op_of, len, size, bytes, &masks, &sources)
        } else {
            self.expanded_from_memory(op_of, len, size, bytes, &masks, &sources)
        };
        if wide == bits {
            return pieces;
        }
        let narrow: Regs = pieces
            .iter()
            .map(|&reg| self.resized(reg, wide, bits, false, chunk))
            .collect();
        self.joined(ty, chunk, &narrow)
    }

    /// Returns the offset in bytes behind the lanes of a mask, from the offset before them.
    fn behind(&mut self, offset: Option<VReg>, mask: VReg, lanes: u32, bytes: u32) -> VReg {
        let bits = self.gpr_of_mask(mask);
        let known = match lanes {
            64 => bits,
            _ => {
                let ones = self.imm((1 << lanes) - 1);
                self.g2(Op::And, Width::W64, bits, ones)
            }
        };
        let count = self.g_of(Op::Popcnt, Width::W64, known);
        let size = match bytes {
            1 => count,
            _ => self.g2i(Op::Shl, Width::W64, count, bytes.trailing_zeros().into()),
        };
        match offset {
            None => size,
            Some(offset) => self.g2(Op::Add, Width::W64, offset, size),
        }
    }

    fn compressed_in_memory(
        &mut self,
        op: Op,
        len: Width,
        size: u32,
        bytes: u32,
        masks: &[VReg],
        sources: &[VReg],
    ) -> Regs {
        let lanes = len.bytes() / bytes;
        // A register that is stored at an offset may end behind the vector.
        self.reserve(size + len.bytes());
        let zero = self.splat_constant(0, 64);
        let step = len.bytes();
        for number in 0..size / step {
            self.store_vector(Op::Vmovdqu64Store, len, zero, scratch(number * step));
        }
        let base = self.address_of(scratch(0));
        let mut offset = None;
        for (&mask, &source) in masks.iter().zip(sources) {
            let packed = self.masked1(op, len, mask, None, source);
            let mem = match offset {
                None => scratch(0),
                Some(offset) => Selector::indexed(base, offset, 1, 0),
            };
            self.store_vector(Op::Vmovdqu64Store, len, packed, mem);
            offset = Some(self.behind(offset, mask, lanes, bytes));
        }
        (0..size / step)
            .map(|number| self.load_vector(Op::Vmovdqu64, len, scratch(number * step)))
            .collect()
    }

    fn expanded_from_memory(
        &mut self,
        op: Op,
        len: Width,
        size: u32,
        bytes: u32,
        masks: &[VReg],
        sources: &[VReg],
    ) -> Regs {
        let lanes = len.bytes() / bytes;
        self.reserve(size + len.bytes());
        for (number, &source) in (0..).zip(sources) {
            let mem = scratch(number * len.bytes());
            self.store_vector(Op::Vmovdqu64Store, len, source, mem);
        }
        let base = self.address_of(scratch(0));
        let mut offset = None;
        let mut regs = Regs::new();
        for &mask in masks {
            let mem = match offset {
                None => scratch(0),
                Some(offset) => Selector::indexed(base, offset, 1, 0),
            };
            let loaded = self.load_vector(Op::Vmovdqu64, len, mem);
            regs.push(self.masked1(op, len, mask, None, loaded));
            offset = Some(self.behind(offset, mask, lanes, bytes));
        }
        regs
    }

    /// Compresses or expands lanes of 128 bits as pairs of lanes of 64 bits.
    fn moved_wide(&mut self, op: VirOp, ty: Type, val: &Val, mask: &Val) -> Regs {
        // Each bit of the mask becomes two.
        let mask = self.mask_reg(mask);
        let bits = self.gpr_of_mask(mask);
        let spread = self.imm(0x5555_5555_5555_5555);
        let even = self.g3(Op::Pdep, Width::W64, bits, spread);
        let odd = self.g2i(Op::Shl, Width::W64, even, 1);
        let both = self.g2(Op::Or, Width::W64, even, odd);
        if ty.lanes() <= 32 {
            let words = Type::vector(Kind::B64, 2 * ty.lanes()).expect("at most 64 lanes");
            let pairs = Val::new(words, self.regs_of(val));
            let pairs_mask = Val::new(
                Type::vector(Kind::Pred, 2 * ty.lanes()).expect("at most 64 lanes"),
                one(self.mask_of_gpr(both)),
            );
            return self.moved(op, words, &pairs, &pairs_mask);
        }
        let upper = self.g2i(Op::Shr, Width::W64, bits, 32);
        let even = self.g3(Op::Pdep, Width::W64, upper, spread);
        let odd = self.g2i(Op::Shl, Width::W64, even, 1);
        let upper = self.g2(Op::Or, Width::W64, even, odd);
        let lanes = self.width / 64;
        let masks: Regs = [both, upper]
            .into_iter()
            .flat_map(|bits| {
                let whole = self.mask_of_gpr(bits);
                (0..64 / lanes)
                    .map(|number| self.mask_part(whole, 64, lanes, number))
                    .collect::<Regs>()
            })
            .collect();
        let sources = self.regs_of(val);
        let len = self.widest();
        match op {
            VirOp::Compress => self.compressed_in_memory(
                Op::Vpcompressq,
                len,
                16 * ty.lanes(),
                8,
                &masks,
                &sources,
            ),
            _ => {
                self.expanded_from_memory(Op::Vpexpandq, len, 16 * ty.lanes(), 8, &masks, &sources)
            }
        }
    }

    /// Compresses or expands lanes one by one, in memory.
    fn moved_in_memory(&mut self, op: VirOp, ty: Type, val: &Val, mask: &Val) -> Regs {
        let bytes = ty.lane_bytes();
        let size = bytes * ty.lanes();
        let (source, result, number) = (0, size, 2 * size);
        self.reserve(number + 8);
        let bits = self.mask_reg(mask);
        match (ty.kind(), val.bits) {
            (Kind::B128, Some(bits)) => {
                let regs = self.wide_constant(ty, bits);
                self.spill_value(&Val::new(ty, regs), source);
            }
            _ => self.spill_value(val, source),
        }
        self.clear(ty, result);
        let zero = self.imm(0);
        let counter = scratch(number);
        self.effect(Self::general_store(64, zero, counter));
        let body = self.lane_loop(bits);
        let next = self.load_general(64, counter);
        let (from, to) = match op {
            VirOp::Compress => (body.lane, next),
            _ => (next, body.lane),
        };
        let (from, to) = (
            self.lane_address(source, bytes, from),
            self.lane_address(result, bytes, to),
        );
        for half in 0..bytes.div_ceil(8) {
            let word = self.load_general((8 * bytes).min(64), Mem::at(from, 8 * half as i32));
            self.effect(Self::general_store(
                (8 * bytes).min(64),
                word,
                Mem::at(to, 8 * half as i32),
            ));
        }
        let next = self.g2i(Op::Add, Width::W64, next, 1);
        self.effect(Self::general_store(64, next, counter));
        self.end_loop(body.label, body.rest, body.exit);
        self.reload_value(ty, result)
    }
}

/// Returns a place in the scratch area.
fn scratch(offset: u32) -> Mem {
    Mem::at(Base::Scratch, offset as i32)
}
